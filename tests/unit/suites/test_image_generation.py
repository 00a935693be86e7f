"""Image generation on the CPU: real diffusers, a tiny SDXL with random weights."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("transformers")

import image_compile
import image_pipeline
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from image_architectures import ARCHITECTURES
from image_checks import examine
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from rentbench.core.errors import ErrorKind
from rentbench.harness.context import CaseFailed, CaseSkipped
from support.suites import Recorded, load_workload, manifest

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def pipeline() -> Any:
    torch.manual_seed(1)
    return image_pipeline.build_random_pipeline(
        ARCHITECTURES["tiny-random"], device="cpu", dtype=torch.float32
    )


def run(recorded: Recorded, **case: Any) -> ModuleType:
    module = load_workload("image_generation")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    module.run(case, recorded.context)
    return module


def test_the_architecture_is_that_of_sdxl() -> None:
    sdxl = ARCHITECTURES["sdxl"]
    with torch.device("meta"):
        parts = {
            "unet": UNet2DConditionModel(**sdxl.unet),
            "vae": AutoencoderKL(**sdxl.vae),
            "text_encoder": CLIPTextModel(CLIPTextConfig(**sdxl.text_encoder)),
            "text_encoder_2": CLIPTextModelWithProjection(CLIPTextConfig(**sdxl.text_encoder_2)),
        }
    counts = {name: sum(one.numel() for one in part.parameters()) for name, part in parts.items()}
    assert counts == {  # as the files of stabilityai/stable-diffusion-xl-base-1.0 hold
        "unet": 2_567_463_684,
        "vae": 83_653_863,
        "text_encoder": 123_060_480,
        "text_encoder_2": 694_659_840,
    }
    assert parts["vae"].config.force_upcast


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_are_made_in_their_type_and_the_default_is_left_alone(dtype: torch.dtype) -> None:
    before = torch.get_default_dtype()
    made = image_pipeline.build_random_pipeline(ARCHITECTURES["tiny-random"], device="cpu", dtype=dtype)
    assert torch.get_default_dtype() == before
    assert {one.dtype for one in made.unet.parameters()} == {dtype}
    assert {one.dtype for one in made.text_encoder_2.parameters()} == {dtype}
    made.set_progress_bar_config(disable=True)
    images = made(prompt=["a"], height=32, width=32, num_inference_steps=1, output_type="np").images
    assert examine(images).fault is None  # in float16 through the VAE in float32


def test_tokenizers_have_clips_ids(pipeline: Any) -> None:
    ids = pipeline.tokenizer("a boat", padding="max_length", max_length=77).input_ids
    assert (ids[0], ids[-1], len(ids)) == (49406, 49407, 77)
    assert pipeline.tokenizer_2("a boat", padding="max_length", max_length=77).input_ids[-1] == 0
    assert len(pipeline.tokenizer) == 49408


def test_a_saved_pipeline_gives_the_same_images(pipeline: Any, tmp_path: Path) -> None:
    pipeline.set_progress_bar_config(disable=True)
    pipeline.save_pretrained(tmp_path / "saved")
    loaded = image_pipeline.load_pipeline(tmp_path / "saved", device="cpu", dtype=torch.float32)
    assert image_pipeline.count_parameters(loaded) == image_pipeline.count_parameters(pipeline)
    images = [
        one(
            prompt=["a"],
            height=32,
            width=32,
            num_inference_steps=1,
            generator=torch.Generator().manual_seed(1),
            output_type="np",
        ).images
        for one in (pipeline, loaded)
    ]
    np.testing.assert_allclose(images[0], images[1], atol=1e-5)


def noise(count: int = 2) -> Any:
    return np.random.default_rng(1).random((count, 8, 8, 3))


def test_noise_is_a_sane_image() -> None:
    found = examine(noise())
    assert found.fault is None
    assert found.mean == pytest.approx(0.5, abs=0.1)
    assert found.deviation == pytest.approx(0.29, abs=0.05)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
        (0.0, "black"),
        (0.02, "black"),
        (0.5, "constant"),
        (1.0, "constant"),
    ],
)
def test_bad_images_are_named(fault: float, words: str) -> None:
    images = noise()
    images[1] = fault
    assert "image 1" in str(examine(images).fault)
    assert words in str(examine(images).fault)


def test_two_values_are_no_image() -> None:
    images = noise(1)
    images[0] = np.round(images[0])
    assert "constant" in str(examine(images).fault)


def test_rates_follow_from_the_times(tmp_path: Path) -> None:
    recorded = Recorded("image_generation", tmp_path, images=6)
    run(recorded, mode="eager", batch=2)
    samples, values = recorded.samples["seconds_per_image"], recorded.values
    assert len(samples) == 3
    assert values["seconds_per_image"] == pytest.approx(float(np.median(samples)))
    assert values["images_per_second"] == pytest.approx(1 / values["seconds_per_image"])
    assert recorded.checks["images_sane"]["outcome"] == "passed"
    assert recorded.checks["images_sane"]["severity"] == "hard"


def test_compiling_is_a_phase_of_its_own(tmp_path: Path) -> None:
    recorded = Recorded("image_generation", tmp_path, images=1)
    run(recorded, mode="compile", batch=1)
    phases = [event["phase"] for event in recorded.events if event["event"] == "phase"]
    assert phases == ["load", "compile", "warm_up", "measure", "evaluate"]


def test_compiling_again_while_times_are_taken_is_an_error() -> None:
    doubled = torch.compile(lambda value: value * 2, backend="eager", dynamic=False)
    doubled(torch.ones(2))
    with image_compile.no_recompilation("compile"):
        doubled(torch.ones(2))
        with pytest.raises(RuntimeError, match="recompile"):
            doubled(torch.ones(3))
    with image_compile.no_recompilation("eager"):
        doubled(torch.ones(4))


def test_images_that_are_not_finite_fail_the_case(tmp_path: Path, pipeline: Any) -> None:
    pipeline.save_pretrained(tmp_path / "broken")
    broken = image_pipeline.load_pipeline(tmp_path / "broken", device="cpu", dtype=torch.float32)
    with torch.no_grad():
        broken.vae.decoder.conv_out.bias.fill_(float("nan"))
    broken.save_pretrained(tmp_path / "broken")
    recorded = Recorded("image_generation", tmp_path, weights=str(tmp_path / "broken"))
    with pytest.raises(CaseFailed, match="not finite") as caught:
        run(recorded, mode="eager", batch=1)
    assert caught.value.kind == ErrorKind.WRONG_RESULT
    assert recorded.checks["images_sane"]["outcome"] == "failed"
    assert recorded.values == {}


def test_a_missing_pipeline_is_named(tmp_path: Path) -> None:
    recorded = Recorded("image_generation", tmp_path, weights=str(tmp_path))
    with pytest.raises(CaseFailed, match=r"model_index\.json") as caught:
        run(recorded, mode="eager", batch=1)
    assert caught.value.kind == ErrorKind.MODEL_ACCESS


def test_without_a_compiler_compile_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    recorded = Recorded("image_generation", tmp_path, compile_backend="inductor")
    with pytest.raises(CaseSkipped, match=r"needs a compiler.*g\+\+"):
        run(recorded, mode="compile", batch=1)


@pytest.mark.parametrize(
    ("device", "variable", "name"), [("cpu", "CXX", "g++"), ("cuda", "CC", "gcc"), ("cuda", "CC", "own")]
)
def test_what_compiling_needs_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, variable: str, name: str
) -> None:
    include = tmp_path / "include"
    include.mkdir()
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(include))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(variable, raising=False)
    if name == "own":
        monkeypatch.setenv(variable, f"{name} -O2")
    capability = (9, 0) if device == "cuda" else None
    assert "compiler" in str(image_compile.unsupported_reason("inductor", device, capability))
    (tmp_path / name).symlink_to(sys.executable)
    assert "headers" in str(image_compile.unsupported_reason("inductor", device, capability))
    (include / "Python.h").touch()
    assert image_compile.unsupported_reason("inductor", device, capability) is None


def test_triton_has_nothing_for_volta() -> None:
    assert "found 7.0" in str(image_compile.unsupported_reason("inductor", "cuda", (7, 0)))
    assert image_compile.unsupported_reason("eager", "cuda", (7, 0)) is None


def test_standard_is_the_published_method() -> None:
    preset = manifest("image_generation").presets["standard"]
    settings = preset.settings
    assert (settings["size"], settings["steps"], settings["architecture"]) == (1024, 30, "sdxl")
    cases = {(case["mode"], case["batch"]) for case in manifest("image_generation").cases("standard")}
    assert cases == {("eager", 1), ("eager", 4), ("compile", 1), ("compile", 4)}
