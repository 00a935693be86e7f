"""Transcribing recordings once: what it took, and what came out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jiwer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper import BatchedInferencePipeline
    from speech_audio import Recording

__all__ = ["Decoding", "Pass", "transcribe", "word_error_rate"]

_NORMALIZED = jiwer.Compose(
    [
        jiwer.ToLowerCase(),
        jiwer.SubstituteRegexes({r"[-–—]": " "}),
        jiwer.RemovePunctuation(),
        jiwer.RemoveMultipleSpaces(),
        jiwer.Strip(),
        jiwer.ReduceToListOfListOfWords(),
    ]
)
_PROMPT_TOKENS = 4  # start, language, task, no times


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the text of a window is searched.

    Attributes:
        language: Code of the spoken language; it is not detected, so that every run does the same.
        beam_size: Width of the beam search; 1 is greedy.
        tokens: Exactly so many a window, for a model that never ends by itself; None leaves it to the model.
    """

    language: str
    beam_size: int
    tokens: int | None


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One transcription of all recordings.

    Attributes:
        seconds: From the first call until the last segment was there.
        preparation_seconds: The part of it before the first batch went to the model: voice detection and
            spectrograms, both on the CPU.
        windows: Stretches of at most 30 s that the model saw.
        tokens: Text tokens that it decoded.
        texts: One of each recording.
    """

    seconds: float
    preparation_seconds: float
    windows: int
    tokens: int
    texts: tuple[str, ...]


def transcribe(
    pipeline: BatchedInferencePipeline,
    recordings: Sequence[Recording],
    *,
    batch_size: int,
    voice_detection: bool,
    decoding: Decoding,
) -> Pass:
    """Transcribe every recording, one after the other, and read all segments.

    faster-whisper's own `transcribe` returns after voice detection and spectrograms; the model works when
    segments are read.

    Args:
        pipeline: Of the model.
        recordings: To transcribe.
        batch_size: Windows that the model sees at once.
        voice_detection: Whether pauses are cut out first; without it recordings are cut every 30 s.
        decoding: How the text is searched.
    """
    # CTranslate2 ends at half of the limit, which counts the prompt, as OpenAI's implementation does.
    limit = None if decoding.tokens is None else 2 * decoding.tokens - _PROMPT_TOKENS
    windows = tokens = 0
    preparation = 0.0
    texts = []
    begin = time.perf_counter()
    for recording in recordings:
        call = time.perf_counter()
        segments, _ = pipeline.transcribe(
            recording.samples,
            language=decoding.language,
            beam_size=decoding.beam_size,
            batch_size=batch_size,
            max_new_tokens=limit,
            vad_filter=voice_detection,
            clip_timestamps=None if voice_detection else _windows(recording.seconds),
        )
        preparation += time.perf_counter() - call
        found = list(segments)
        windows += len({segment.seek for segment in found})
        tokens += sum(len(segment.tokens) for segment in found)
        texts.append("".join(segment.text for segment in found))
    return Pass(
        seconds=time.perf_counter() - begin,
        preparation_seconds=preparation,
        windows=windows,
        tokens=tokens,
        texts=tuple(texts),
    )


def word_error_rate(spoken: Sequence[str], recognized: Sequence[str]) -> float:
    """Return (substituted + deleted + inserted words) ÷ spoken words, without case and punctuation."""
    return float(
        jiwer.wer(
            list(spoken),
            list(recognized),
            reference_transform=_NORMALIZED,
            hypothesis_transform=_NORMALIZED,
        )
    )


def _windows(seconds: float, length: float = 30.0) -> list[dict[str, float]]:
    starts = [length * number for number in range(int(-(-seconds // length)))]
    return [{"start": start, "end": min(start + length, seconds)} for start in starts]
