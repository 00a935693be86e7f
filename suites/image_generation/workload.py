"""Images from an SDXL pipeline, eager and compiled. README.md is the method."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from diffusers.utils import logging
from image_architectures import ARCHITECTURES
from image_checks import examine
from image_compile import compile_unet, no_recompilation, unsupported_reason
from image_pipeline import build_random_pipeline, load_pipeline

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rentbench.harness.context import Case, Context

_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_FEWEST_CALLS = 2
_PROMPTS = (
    "a wooden boat on a calm lake in the morning, mountains in the background",
    "a red brick house with a green door, light snow on the roof",
    "a bowl of fruit on a kitchen table, soft light from a window",
    "an old steam locomotive crossing a stone bridge over a river",
)


def prepare(context: Context) -> None:
    """Say what the images are made from."""
    logging.set_verbosity_error()
    weights = str(context.settings["weights"])
    random_weights = weights == "random"
    if not random_weights and not (Path(weights) / "model_index.json").is_file():
        message = f"there is no pipeline of diffusers (model_index.json) in {weights}"
        context.fail(ErrorKind.MODEL_ACCESS, message, "weights is random, or the folder of an SDXL pipeline")
    context.describe(
        weights={
            "kind": "random" if random_weights else "pretrained",
            "repository": str(context.settings["architecture"]) if random_weights else Path(weights).name,
            "revision": None,
        },
        data={"kind": "synthetic", "name": "4 prompts", "revision": None, "seed": context.seed},
    )


def run(case: Case, context: Context) -> None:
    """Measure one case."""
    mode, batch = str(case["mode"]), int(case["batch"])
    settings = context.settings
    _skip_unsupported(mode, context)
    with context.phase("load"):
        pipeline = _load(context)
    if mode == "compile":
        compile_unet(pipeline, str(settings["compile_backend"]))
    generate = _generator(pipeline, batch, context)
    short = int(settings["warm_up_steps"])
    with context.phase("compile" if mode == "compile" else "warm_up"):
        generate(short)
    images: list[NDArray[Any]] = []
    steps, calls = int(settings["steps"]), max(_FEWEST_CALLS, int(settings["images"]) // batch)
    with no_recompilation(mode):
        with context.phase("warm_up"):
            generate(short)
        with context.phase("measure"):
            seconds = context.timer.time_calls(lambda: images.append(generate(steps)), iterations=calls)
    _examine(images, context)
    context.record(
        "seconds_per_image",
        statistics.median(seconds) / batch,
        samples=[one / batch for one in seconds],
    )
    context.record("images_per_second", batch / statistics.median(seconds))


def _skip_unsupported(mode: str, context: Context) -> None:
    capability = torch.cuda.get_device_capability() if context.device == "cuda" else None
    if context.settings["dtype"] == "bfloat16" and capability is not None and capability < (8, 0):
        found = "{}.{}".format(*capability)
        context.skip(f"bfloat16 needs compute capability 8.0 or higher, found {found}: it is emulated there")
    if mode == "compile":
        backend = str(context.settings["compile_backend"])
        reason = unsupported_reason(backend, context.device, capability)
        if reason is not None:
            context.skip(reason)


def _load(context: Context) -> Any:  # noqa: ANN401
    settings = context.settings
    dtype, weights = _TYPES[str(settings["dtype"])], str(settings["weights"])
    if weights == "random":
        architecture = ARCHITECTURES[str(settings["architecture"])]
        pipeline = build_random_pipeline(architecture, device=context.device, dtype=dtype)
    else:
        pipeline = load_pipeline(Path(weights), device=context.device, dtype=dtype)
    pipeline.set_progress_bar_config(disable=True)
    if pipeline.device.type != context.device:
        context.fail(ErrorKind.NO_GPU, f"the pipeline is on {pipeline.device.type}, not on {context.device}")
    return pipeline


def _generator(pipeline: Any, batch: int, context: Context) -> Callable[[int], NDArray[Any]]:  # noqa: ANN401
    """Return a call that makes a batch of images in that many steps and returns it in the host's memory.

    Every call starts from the same noise.
    """
    settings = context.settings
    prompts = [_PROMPTS[number % len(_PROMPTS)] for number in range(batch)]
    size = int(settings["size"])

    def generate(steps: int) -> NDArray[Any]:
        images: NDArray[Any] = pipeline(
            prompt=prompts,
            height=size,
            width=size,
            num_inference_steps=steps,
            guidance_scale=float(settings["guidance_scale"]),
            generator=torch.Generator(context.device).manual_seed(context.seed),
            output_type="np",
        ).images
        return images

    return generate


def _examine(images: list[NDArray[Any]], context: Context) -> None:
    with context.phase("evaluate"):
        found = [examine(batch) for batch in images]
    wrong = next((one.fault for one in found if one.fault), None)
    if wrong:
        detail = wrong
    else:
        first = found[0]
        detail = f"mean value {first.mean:.3f}, flattest image deviates by {first.deviation:.3f} (0 to 1)"
    context.check("images_sane", wrong is None, detail, severity="hard")
    if wrong:
        context.fail(
            ErrorKind.WRONG_RESULT, wrong, "with float16 weights a VAE needs force_upcast in its config"
        )
