"""Speech whose text is known: spoken by espeak-ng, or recordings from a folder."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from faster_whisper import decode_audio
from speech_sentences import SENTENCES

from rentbench.core.errors import DependencyMissingError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SAMPLE_RATE", "Recording", "read_folder", "synthesize"]

SAMPLE_RATE = 16_000  # what Whisper takes
_PROGRAM = "espeak-ng"
_VOICE = "en-us"
_WORDS_A_MINUTE = 160
_PAUSE_SECONDS = 0.35
_SENTENCE_TIMEOUT = 30.0


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Speech and what is said in it.

    Attributes:
        samples: One channel, float32 from -1 to 1, `SAMPLE_RATE` a second.
        text: As spoken, with punctuation.
    """

    name: str
    samples: NDArray[np.float32]
    text: str

    @property
    def seconds(self) -> float:
        """Return how long it is."""
        return len(self.samples) / SAMPLE_RATE

    def first(self, seconds: float) -> Recording:
        """Return its beginning; the text does not fit any more and is left out."""
        return Recording(name=self.name, samples=self.samples[: int(seconds * SAMPLE_RATE)], text="")


def synthesize(seconds: float, *, seed: int) -> Recording:
    """Return speech of at least that length: all sentences in ever new order, with a pause after each.

    Args:
        seconds: Length; the last sentence is spoken to its end.
        seed: Of the order.

    Raises:
        DependencyMissingError: espeak-ng is not installed.
    """
    sentences = list(SENTENCES)
    pause = np.zeros(int(_PAUSE_SECONDS * SAMPLE_RATE), dtype=np.float32)
    spoken: dict[str, NDArray[np.float32]] = {}
    order = random.Random(seed)  # noqa: S311 (an order, no secret)
    pieces: list[NDArray[np.float32]] = []
    said: list[str] = []
    left = seconds * SAMPLE_RATE
    while left > 0:
        if len(said) % len(sentences) == 0:
            order.shuffle(sentences)
        sentence = sentences[len(said) % len(sentences)]
        if sentence not in spoken:
            spoken[sentence] = _speak(sentence)
        pieces += [spoken[sentence], pause]
        said.append(sentence)
        left -= len(spoken[sentence]) + len(pause)
    return Recording(name=_PROGRAM, samples=np.concatenate(pieces), text=" ".join(said))


def read_folder(folder: Path) -> Sequence[Recording]:
    """Return the recordings of a folder, by name: every NAME.wav with its NAME.txt (UTF-8).

    Raises:
        UsageError: No such folder, no recording in it, one without text, or one that cannot be read.
    """
    hint = "data is a folder with NAME.wav and NAME.txt for each recording, or espeak-ng"
    paths = sorted(folder.glob("*.wav")) if folder.is_dir() else []
    if not paths:
        msg = f"there are no recordings (*.wav) in {folder}"
        raise UsageError(msg, hint=hint)
    return [_read(path, hint) for path in paths]


def _read(path: Path, hint: str) -> Recording:
    try:
        text = path.with_suffix(".txt").read_text(encoding="utf-8-sig").strip()
        samples = decode_audio(str(path), sampling_rate=SAMPLE_RATE)
    except (OSError, ValueError) as error:  # PyAV's errors are both, by kind
        msg = f"{path.name} or its text cannot be read: {error}"
        raise UsageError(msg, hint=hint) from error
    if not text or not len(samples):
        msg = f"{path.name} or its text is empty"
        raise UsageError(msg, hint=hint)
    return Recording(name=path.stem, samples=samples, text=text)


def _speak(sentence: str) -> NDArray[np.float32]:
    if shutil.which(_PROGRAM) is None:
        msg = f"{_PROGRAM}, which speaks the text, is not installed"
        hint = f"install Debian's package {_PROGRAM}, take the image `speech`, or give recordings as data"
        raise DependencyMissingError(msg, hint=hint)
    command = [_PROGRAM, "-v", _VOICE, "-s", str(_WORDS_A_MINUTE), "--stdout", sentence]
    wav = subprocess.run(command, capture_output=True, check=True, timeout=_SENTENCE_TIMEOUT).stdout
    samples: NDArray[np.float32] = decode_audio(io.BytesIO(wav), sampling_rate=SAMPLE_RATE)
    return samples
