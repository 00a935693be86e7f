"""The images for GPUs, as far as they can be tried without one; skipped where they are not built."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.core.manifests import ImageManifest, load_images, load_suites
from rentbench.core.scan import validate_paths
from rentbench.driver.engine import Engine, find_image
from rentbench.driver.images.builds import local_reference
from rentbench.driver.images.facts import ImageFacts, inspect_image
from rentbench.driver.images.locks import read_lock
from support import fatbins

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.docker, pytest.mark.big_image, pytest.mark.slow]

IMAGES = load_images()
PYTHON = "/opt/venv/bin/python"
PACKAGES = "/opt/venv/lib/python3.11/site-packages"
RENTBENCH = [sys.executable, "-c", "from rentbench.cli.main import main; main()"]
CONFINED = (
    *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"),
    *("--tmpfs", "/tmp:exec", "--user", "12345:54321"),
)

# Made by nvcc as one library for every architecture, so that each source file has them all.
MADE_FOR_ALL = 0.9

COMPILED = """
import os, torch

def product(x, y):
    return torch.relu(x @ y).sum(dim=1) + torch.sin(x).mean(dim=1)

x, y = torch.randn(64, 64), torch.randn(64, 64)
compiled = torch.compile(product, fullgraph=True)
torch.testing.assert_close(compiled(x, y), product(x, y))
built = [name for _, _, names in os.walk(os.environ["TORCHINDUCTOR_CACHE_DIR"]) for name in names]
print("compiled", os.getuid(), any(name.endswith(".so") for name in built))
"""


# For each image that its manifest says is for GPUs, each suite that it carries.
CARRIED = [
    (name, suite) for name, manifest in IMAGES.items() if manifest.needs_gpu for suite in manifest.suites
]


@pytest.fixture(params=[name for name, manifest in IMAGES.items() if manifest.needs_gpu])
def manifest(request: pytest.FixtureRequest) -> ImageManifest:
    """Each image for GPUs."""
    return IMAGES[request.param]


@pytest.fixture
def image(docker_engine: Engine, manifest: ImageManifest) -> ImageFacts:
    """What is known of an image that is built."""
    return built(docker_engine, manifest.name)


def built(engine: Engine, name: str) -> ImageFacts:
    """Return what is known of an image that was built from the files as they are."""
    remedy = f"several GB, so no test builds it: rentbench image build {name}"
    if find_image(engine, local_reference(name)) is None:
        pytest.skip(f"the image {name} is not here; {remedy}")
    facts = inspect_image(engine, name)
    if not facts.matches_tree:
        pytest.skip(f"the image {name} was built from other files; {remedy}")
    return facts


def python_in(
    image: ImageFacts, arguments: Sequence[str], *, options: Sequence[str] = (), script: str = ""
) -> str:
    """Return what the image's Python prints."""
    command = ["docker", "run", "--rm", "--interactive", *options, "--entrypoint", PYTHON, image.reference]
    done = subprocess.run(
        [*command, *arguments], input=script, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def gpu_code(image: ImageFacts, *libraries: str) -> dict[str, dict[str, float]]:
    """Return, by library, the architectures that it holds code for."""
    script = Path(fatbins.__file__).read_text()
    found = json.loads(python_in(image, ["-", *(f"{PACKAGES}/{name}" for name in libraries)], script=script))
    return {name: found[f"{PACKAGES}/{name}"] for name in libraries}


def runs_on(capability: str, architectures: set[str]) -> bool:
    """Say whether machine code for one of the architectures runs on a GPU: same major, no later minor."""
    major, minor = capability.split(".")
    return any(f"sm_{major}{older}" in architectures for older in range(int(minor) + 1))


def test_torch_is_compiled_for_what_the_manifest_says(manifest: ImageManifest, image: ImageFacts) -> None:
    (shares,) = gpu_code(image, "torch/lib/libtorch_cuda.so").values()
    made_for = {name for name, share in shares.items() if share > MADE_FOR_ALL}
    # What torch says of itself: the file was read rightly.
    flags = python_in(image, ["-c", "import torch; print(torch._C._cuda_getArchFlags())"])
    assert made_for == {flag for flag in flags.split() if flag.startswith("sm_")}
    left_out = [name for name in manifest.compute_capabilities if not runs_on(name, made_for)]
    assert left_out == []


def test_volta_has_machine_code_in_torch_cublas_and_cudnn(docker_engine: Engine) -> None:
    libraries = (
        "torch/lib/libtorch_cuda.so",
        "nvidia/cublas/lib/libcublas.so.12",
        "nvidia/cublas/lib/libcublasLt.so.12",
        "nvidia/cudnn/lib/libcudnn_ops.so.9",
        "nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9",
        "nvidia/nccl/lib/libnccl.so.2",
    )
    found = gpu_code(built(docker_engine, "torch-volta"), *libraries)
    assert {name: "sm_70" in shares for name, shares in found.items()} == dict.fromkeys(libraries, True)


def test_the_image_says_what_it_is(manifest: ImageManifest, image: ImageFacts) -> None:
    assert image.environment["RENTBENCH_RECIPE_ID"] == image.recipe_id
    assert image.environment["NVIDIA_REQUIRE_CUDA"] == f"cuda>={manifest.cuda_min}"
    said = python_in(image, ["-c", "import torch; print(torch.__version__, torch.version.cuda)"]).split()
    locked = {wheel.name: wheel.version for wheel in read_lock(manifest.folder / "requirements.lock")}
    (runtime,) = (version for name, version in locked.items() if name.startswith("nvidia-cuda-runtime"))
    cuda = ".".join(runtime.split(".")[:2])
    assert said == [f"{locked['torch'].partition('+')[0]}+cu{cuda.replace('.', '')}", cuda]


@pytest.mark.parametrize(("name", "suite"), CARRIED)
def test_every_suite_runs_confined_as_the_driver_does_it(
    docker_engine: Engine, name: str, suite: str, tmp_path: Path
) -> None:
    image = built(docker_engine, name)
    done = subprocess.run(
        [
            *(*RENTBENCH, "run", suite, "--preset", "smoke", "--repeats", "1", "--gpus", "none", "--json"),
            *("--image", local_reference(name), "--user", "12345:54321", "--results", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    folder = Path(run["folder"])
    record = json.loads((folder / "run.json").read_text())
    assert record["container"]["user"] == "12345:54321"
    assert record["container"]["read_only_root"]
    assert record["container"]["capabilities_dropped"] == ["ALL"]
    needs_network = load_suites()[suite].needs.network
    assert record["container"]["network"] == ("bridge" if needs_network else "none")
    measurement = json.loads((folder / "measurement.json").read_text())
    assert measurement["recipe_id"] == image.recipe_id
    assert measurement["runner"] == "container"
    assert [str(report) for report in validate_paths([tmp_path]) if not report.valid] == []


def test_torch_compile_works_read_only_as_any_user(docker_engine: Engine) -> None:
    printed = python_in(built(docker_engine, "torch"), ["-"], options=CONFINED, script=COMPILED)
    assert printed.strip() == "compiled 12345 True"
