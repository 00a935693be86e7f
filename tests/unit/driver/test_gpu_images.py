"""What the files of the images for GPUs tell; what the images hold is for the tests marked big_image."""

from __future__ import annotations

import re
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

from rentbench.core.manifests import load_images, load_suites
from rentbench.driver.images.locks import read_lock
from support.fatbins import architectures

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

IMAGES = load_images()
GPU_IMAGES = [name for name, manifest in IMAGES.items() if manifest.needs_gpu]

# What may differ between the Dockerfiles of two images, besides comments. Any other repair belongs in all.
OWN_LINES = (
    r"apt-get .* install .* python3 python3-pip-whl\b.*",
    r"g\+\+ libpython3-dev >/dev/null; \\",
    r"NVIDIA_VISIBLE_DEVICES=.*",
    r"TRITON_CACHE_DIR=.*",
    r'(LABEL )?(org\.opencontainers\.image\.(title|licenses)|rentbench\.image)=".*" \\',
)


def locked(name: str) -> dict[str, str]:
    return {wheel.name: wheel.version for wheel in read_lock(IMAGES[name].folder / "requirements.lock")}


def shared_lines(name: str) -> list[str]:
    """Return an image's Dockerfile without comments and without what is its own."""
    lines = (line.strip() for line in (IMAGES[name].folder / "Dockerfile").read_text().splitlines())
    own = re.compile("|".join(OWN_LINES))
    return [line for line in lines if line and not line.startswith("#") and not own.fullmatch(line)]


@pytest.mark.parametrize("name", IMAGES)
def test_all_dockerfiles_take_the_same_steps(name: str) -> None:
    assert shared_lines(name) == shared_lines("cpu")


@pytest.mark.parametrize("name", IMAGES)
def test_its_suites_are_there_and_it_names_itself(name: str) -> None:
    assert set(IMAGES[name].suites) <= set(load_suites())
    text = (IMAGES[name].folder / "Dockerfile").read_text()
    assert f'rentbench.image="{name}"' in text
    assert f'image.title="rentbench {name}"' in text


@pytest.mark.parametrize("name", GPU_IMAGES)
def test_a_driver_that_is_too_old_is_refused_at_the_start(name: str) -> None:
    text = (IMAGES[name].folder / "Dockerfile").read_text()
    assert f'NVIDIA_REQUIRE_CUDA="cuda>={IMAGES[name].cuda_min}"' in text
    assert "NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility" in text


def test_an_image_without_gpus_asks_for_none() -> None:
    assert "NVIDIA" not in (IMAGES["cpu"].folder / "Dockerfile").read_text()


@pytest.mark.parametrize("suite", load_suites())
def test_each_compute_capability_has_one_image_of_a_suite(suite: str) -> None:
    images = [IMAGES[name] for name in GPU_IMAGES if suite in IMAGES[name].suites]
    found = [capability for image in images for capability in image.compute_capabilities]
    assert sorted(found) == sorted(set(found))


def test_volta_has_an_image_of_its_own() -> None:
    assert IMAGES["torch-volta"].compute_capabilities == ("7.0",)


def test_volta_is_held_to_the_last_releases_that_know_it() -> None:
    versions = locked("torch-volta")
    assert versions["torch"] == "2.8.0"
    assert versions["nvidia-cudnn-cu12"] == "9.10.2.21"
    assert versions["triton"] == "3.4.0"
    assert not [name for name in versions if name.endswith("-cu13")]


def test_finetune_is_held_to_the_releases_of_the_published_tables() -> None:
    versions = locked("finetune")
    assert versions["torch"].startswith("2.8.")
    assert versions["transformers"].startswith("4.57.")
    assert versions["peft"].startswith("0.17.")
    assert versions["nvidia-cuda-runtime-cu12"].startswith("12.8.")


def test_speech_has_the_cublas_that_ctranslate2_loads_by_name() -> None:
    versions = locked("speech")
    assert versions["nvidia-cublas-cu12"].startswith("12.")
    assert versions["torch"] == locked("embeddings")["torch"]
    assert " espeak-ng " in (IMAGES["speech"].folder / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["torch", "diffusion"])
def test_torch_takes_every_library_from_one_release_of_cuda(name: str) -> None:
    versions = locked(name)
    assert versions["torch"] == "2.14.1"
    release = ("nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-nvjitlink", "nvidia-nvtx", "cuda-toolkit")
    assert {name: versions[name].rpartition(".")[0][:4] for name in release} == dict.fromkeys(release, "13.0")


def fatbin(*entries: tuple[int, int]) -> bytes:
    """Return a container of GPU code with entries of a kind (1 PTX, 2 machine code) and an architecture."""
    body = b"".join(
        struct.pack("<HHIQIIHHI", kind, 0x101, 64, 16, 0, 0, 0, 0, number) + bytes(32 + 16)
        for kind, number in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(folder: Path, content: Iterable[int], section: str = ".nv_fatbin") -> str:
    """Compile a library with these bytes in a section."""
    source, target = folder / "code.c", folder / "lib.so"
    text = ",".join(str(byte) for byte in content)
    source.write_text(
        f'__attribute__((section("{section}"), used, aligned(8))) static const char code[] = {{{text}}};'
    )
    subprocess.run(["gcc", "-shared", "-o", target, source], check=True)
    return str(target)


def test_architectures_are_read_out_of_a_library(tmp_path: Path) -> None:
    content = fatbin((2, 70), (2, 80), (1, 90)) + bytes(24) + fatbin((2, 80))
    assert architectures(library(tmp_path, content)) == {"compute_90": 0.5, "sm_70": 0.5, "sm_80": 1.0}


def test_a_library_without_gpu_code_has_no_architectures_but_says_so(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        architectures(library(tmp_path, b"x", section=".other"))


@pytest.mark.parametrize("change", [(0, 1), (16, 9), (44, 7)])
def test_another_layout_is_an_error(tmp_path: Path, change: tuple[int, int]) -> None:
    content = bytearray(fatbin((2, 70)))
    content[change[0]] = change[1]  # the magic, the kind, the architecture
    with pytest.raises(AssertionError):
        architectures(library(tmp_path, content))
