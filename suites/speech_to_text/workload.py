"""Batched transcription of speech with a known text. README.md is the method."""

from __future__ import annotations

import gc
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import ctranslate2
from faster_whisper import BatchedInferencePipeline
from speech_audio import read_folder, synthesize
from speech_model import ARCHITECTURES, build_random_model, load_model
from speech_passes import Decoding, transcribe, word_error_rate

from rentbench.core.errors import DependencyMissingError, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from speech_audio import Recording
    from speech_passes import Pass

    from rentbench.harness.context import Case, Context

_WINDOW_SECONDS = 30


@dataclass(kw_only=True)
class _Repeat:
    """What the cases of one repeat share; one model is loaded at a time.

    Attributes:
        compute_types: In force, by the one that was asked for.
        error_rates: Of the words, by case.
        short: Cases in which random weights did not decode the fixed number of tokens.
    """

    recordings: Sequence[Recording]
    model_folder: Path
    random_weights: bool
    pipeline: BatchedInferencePipeline | None = None
    loaded: str | None = None
    compute_types: dict[str, str] = field(default_factory=dict)
    error_rates: dict[str, float] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)

    def pipeline_for(self, compute_type: str, context: Context) -> BatchedInferencePipeline:
        """Return the model in a compute type, loaded now if it is not yet."""
        if self.pipeline is None or self.loaded != compute_type:
            self.pipeline = None
            gc.collect()  # the other model's memory goes before this one's comes
            model = load_model(self.model_folder, device=context.device, compute_type=compute_type)
            self.pipeline, self.loaded = BatchedInferencePipeline(model), compute_type
            self.compute_types[compute_type] = model.model.compute_type
            if model.model.device != context.device:
                message = f"ctranslate2 computes on {model.model.device}, not on {context.device}"
                context.fail(ErrorKind.NO_GPU, message)
        return self.pipeline


_repeat: _Repeat | None = None


def prepare(context: Context) -> None:
    """Make or find the speech and the model."""
    global _repeat
    settings = context.settings
    data, weights = str(settings["data"]), str(settings["weights"])
    with context.phase("load"):
        recordings = _recordings(data, context)
        random_weights = weights == "random"
        folder = context.scratch / "model" if random_weights else Path(weights)
        if random_weights:
            build_random_model(ARCHITECTURES[str(settings["architecture"])], folder, seed=context.seed)
        elif not (folder / "model.bin").is_file():
            message = f"there is no CTranslate2 model (model.bin) in {weights}"
            hint = "weights is random, or a folder made by ct2-transformers-converter"
            context.fail(ErrorKind.MODEL_ACCESS, message, hint)
    _repeat = _Repeat(recordings=recordings, model_folder=folder, random_weights=random_weights)
    synthetic = data == "espeak-ng"
    context.describe(
        weights={
            "kind": "random" if random_weights else "pretrained",
            "repository": str(settings["architecture"]) if random_weights else folder.name,
            "revision": None,
        },
        data={
            "kind": "synthetic" if synthetic else "dataset",
            "name": data if synthetic else Path(data).name,
            "revision": None,
            "seed": context.seed if synthetic else None,
        },
    )


def run(case: Case, context: Context) -> None:
    """Measure one case."""
    if _repeat is None:
        prepare(context)
    assert _repeat is not None  # noqa: S101  prepare() sees to it
    batch_size, compute_type = int(case["batch_size"]), str(case["compute_type"])
    name = f"{compute_type}, batch {batch_size}"
    supported = ctranslate2.get_supported_compute_types(context.device)
    if compute_type not in supported:
        context.skip(f"ctranslate2 has no {compute_type} on this device, only {', '.join(sorted(supported))}")
    with context.phase("load"):
        pipeline = _repeat.pipeline_for(compute_type, context)
    in_force = _repeat.compute_types[compute_type]
    if in_force != compute_type:
        context.fail(ErrorKind.UNSUPPORTED_DTYPE, f"asked for {compute_type}, ctranslate2 took {in_force}")
    decoding = Decoding(
        language=str(context.settings["language"]),
        beam_size=int(context.settings["beam_size"]),
        tokens=int(context.settings["random_tokens"]) if _repeat.random_weights else None,
    )
    recordings = _repeat.recordings
    voice_detection = bool(context.settings["voice_detection"])

    def pass_over(recordings: Sequence[Recording]) -> Pass:
        return transcribe(
            pipeline,
            recordings,
            batch_size=batch_size,
            voice_detection=voice_detection,
            decoding=decoding,
        )

    with context.phase("warm_up"):
        # As much as one full batch needs, pauses included, and a second one that is not full.
        seconds = _WINDOW_SECONDS * batch_size * float(context.settings["warm_up_batches"])
        pass_over([recording.first(seconds) for recording in recordings[:1]])
    with context.phase("measure"):
        passes = [pass_over(recordings) for _ in range(int(context.settings["passes"]))]
    memory = context.reading().memory_used_bytes
    _judge(passes, name, decoding, context)
    _record(passes, memory, context)


def finish(context: Context) -> None:
    """Report what holds for the repeat as a whole."""
    if _repeat is None or not _repeat.compute_types:
        return
    changed = {asked: found for asked, found in _repeat.compute_types.items() if asked != found}
    context.check(
        "compute_type",
        not changed,
        "; ".join(f"asked for {asked}, in force {found}" for asked, found in _repeat.compute_types.items()),
        severity="hard",
        value=", ".join(_repeat.compute_types.values()),
        limit=", ".join(_repeat.compute_types),
    )
    if _repeat.random_weights:
        detail = "random weights: the word error rate is not meaningful"
        context.check("text_recognized", None, detail, severity="hard")
        detail = f"{'; '.join(_repeat.short) or 'none'} decoded another number of tokens than was fixed"
        context.check("work_fixed", not _repeat.short, detail, severity="hard")
        return
    limit = float(context.settings["word_error_limit"])
    worst = max(_repeat.error_rates.values(), default=None)
    if worst is not None:
        context.check(
            "text_recognized",
            worst <= limit,
            f"at most {worst:.1%} of the words were wrong, {limit:.0%} are allowed",
            severity="hard",
            value=worst,
            limit=limit,
            unit="ratio",
        )


def _recordings(data: str, context: Context) -> Sequence[Recording]:
    if data != "espeak-ng":
        return read_folder(Path(data))
    try:
        return [synthesize(float(context.settings["audio_minutes"]) * 60, seed=context.seed)]
    except DependencyMissingError as error:
        context.fail(ErrorKind.DEPENDENCY_MISSING, error.message, error.hint)


def _judge(passes: Sequence[Pass], name: str, decoding: Decoding, context: Context) -> None:
    """Fail a case that recognised nothing, and keep what `finish` tells of the others."""
    assert _repeat is not None  # noqa: S101
    if not all(one.windows for one in passes):
        message = "no segment came out: voice detection found no speech, or the model wrote no text"
        context.fail(
            ErrorKind.WRONG_RESULT, message, "listen to the recordings, or set voice_detection=false"
        )
    if decoding.tokens is not None:
        if any(one.tokens != one.windows * decoding.tokens for one in passes):
            _repeat.short.append(name)
        return
    with context.phase("evaluate"):
        spoken = [recording.text for recording in _repeat.recordings]
        _repeat.error_rates[name] = max(word_error_rate(spoken, one.texts) for one in passes)
    context.record("word_error_rate", _repeat.error_rates[name])


def _record(passes: Sequence[Pass], memory: int | None, context: Context) -> None:
    assert _repeat is not None  # noqa: S101
    audio = sum(recording.seconds for recording in _repeat.recordings)
    seconds = [one.seconds for one in passes]
    context.record("real_time_factor", audio / statistics.median(seconds), samples=seconds, samples_unit="s")
    preparations = [one.preparation_seconds for one in passes]
    context.record("preparation_time", statistics.median(preparations), samples=preparations)
    context.record("audio_hours", audio * len(passes) / 3600)
    context.record("windows", passes[0].windows)
    context.record("tokens_per_window", passes[0].tokens / passes[0].windows)
    if memory is not None:
        context.record("memory_used", memory)
