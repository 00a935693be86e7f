"""Speech to text on the CPU: real speech from espeak-ng, a real Whisper with random weights."""

from __future__ import annotations

import shutil
import wave
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("faster_whisper")
pytest.importorskip("jiwer")

import speech_audio
import speech_model
import torch
from faster_whisper import BatchedInferencePipeline
from faster_whisper.tokenizer import Tokenizer
from speech_passes import Decoding, transcribe, word_error_rate
from speech_sentences import SENTENCES
from transformers import WhisperForConditionalGeneration

from rentbench.core.errors import DependencyMissingError, ErrorKind, UsageError
from rentbench.harness.context import CaseFailed, CaseSkipped
from support.suites import Recorded, load_workload

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")

CASE = {"compute_type": "float32", "batch_size": 2}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper") / "model"
    speech_model.build_random_model(speech_model.ARCHITECTURES["tiny-random"], folder, seed=1)
    return folder


@pytest.fixture(scope="module")
def pipeline(model_folder: Path) -> Any:
    model = speech_model.load_model(model_folder, device="cpu", compute_type="float32")
    return BatchedInferencePipeline(model)


@pytest.fixture(scope="module")
def speech() -> speech_audio.Recording:
    return speech_audio.synthesize(65, seed=3)


def write_wav(path: Path, samples: Any, rate: int = 16_000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.asarray(samples) * 32767).astype("<i2").tobytes())


def run(recorded: Recorded, case: dict[str, Any] = CASE) -> ModuleType:
    module = load_workload("speech_to_text")
    module.prepare(recorded.context)
    recorded.context.enter(0)
    module.run(case, recorded.context)
    recorded.context.enter(None)
    module.finish(recorded.context)
    return module


def test_speech_is_as_long_as_asked_and_its_text_is_known(speech: speech_audio.Recording) -> None:
    assert 65 <= speech.seconds < 65 + 6  # up to the end of a sentence
    assert speech.samples.dtype == np.float32
    assert 0.1 < np.abs(speech.samples).max() <= 1
    again, other = speech_audio.synthesize(5, seed=3), speech_audio.synthesize(5, seed=4)
    assert speech.text.startswith(again.text)
    assert not speech.text.startswith(other.text)
    assert any(again.text.startswith(sentence) for sentence in SENTENCES)
    assert speech.first(2).seconds == 2


def test_missing_espeak_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DependencyMissingError, match="espeak-ng") as caught:
        speech_audio.synthesize(1, seed=1)
    assert "install" in str(caught.value.hint)
    recorded = Recorded("speech_to_text", tmp_path)
    with pytest.raises(CaseFailed) as failed:
        load_workload("speech_to_text").prepare(recorded.context)
    assert failed.value.kind == ErrorKind.DEPENDENCY_MISSING


def test_a_folder_of_recordings_is_read_with_its_texts(tmp_path: Path) -> None:
    write_wav(tmp_path / "b.wav", np.sin(np.arange(8000) / 10) / 2, rate=8000)
    write_wav(tmp_path / "a.wav", np.zeros(16_000))
    (tmp_path / "a.txt").write_text("\ufeffNothing.\n")
    (tmp_path / "b.txt").write_text("A tone.")
    first, second = speech_audio.read_folder(tmp_path)
    assert (first.name, first.text, first.seconds) == ("a", "Nothing.", 1.0)
    assert (second.name, second.text) == ("b", "A tone.")
    assert second.seconds == pytest.approx(1.0, abs=0.01)  # resampled


@pytest.mark.parametrize("fault", ["no folder", "empty", "no text", "blank text", "no sound"])
def test_unusable_recordings_are_named(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "recordings"
    if fault != "no folder":
        folder.mkdir()
    if fault not in {"no folder", "empty"}:
        write_wav(folder / "a.wav", np.zeros(1600))
        if fault != "no text":
            (folder / "a.txt").write_text(" \n" if fault == "blank text" else "Words.")
    if fault == "no sound":
        (folder / "a.wav").write_bytes(b"not a recording")
    with pytest.raises(UsageError, match=r"no recordings|a\.wav"):
        speech_audio.read_folder(folder)


def test_the_architecture_is_that_of_large_v3_turbo() -> None:
    with torch.device("meta"):
        config = speech_model.whisper_config(speech_model.ARCHITECTURES["large-v3-turbo"])
        model = WhisperForConditionalGeneration(config)
    assert sum(one.numel() for one in model.parameters()) == 808_878_080


def test_token_ids_are_those_of_whisper(pipeline: Any) -> None:
    model = pipeline.model
    assert model.model.is_multilingual
    tokens = Tokenizer(model.hf_tokenizer, multilingual=True, task="transcribe", language="en")
    assert tokens.sot_sequence == [50258, 50259, 50360]
    assert (tokens.eot, tokens.no_timestamps, tokens.timestamp_begin) == (50257, 50364, 50365)
    assert model.hf_tokenizer.get_vocab_size() == 51866
    assert model.hf_tokenizer.token_to_id("<|30.00|>") == 51865


@pytest.mark.parametrize(("tokens", "beam_size"), [(4, 1), (10, 5), (100, 2), (224, 1)])
def test_random_weights_decode_a_fixed_number_of_tokens(
    pipeline: Any, speech: speech_audio.Recording, tokens: int, beam_size: int
) -> None:
    done = transcribe(
        pipeline,
        [speech],
        batch_size=2,
        voice_detection=True,
        decoding=Decoding(language="en", beam_size=beam_size, tokens=tokens),
    )
    assert done.windows == 3
    assert done.tokens == 3 * tokens
    assert len(done.texts) == 1
    assert 0 < done.preparation_seconds < done.seconds


def test_without_voice_detection_recordings_are_cut_every_thirty_seconds(
    pipeline: Any, speech: speech_audio.Recording
) -> None:
    done = transcribe(
        pipeline,
        [speech, speech.first(30)],
        batch_size=8,
        voice_detection=False,
        decoding=Decoding(language="en", beam_size=1, tokens=5),
    )
    assert done.windows == 3 + 1
    assert len(done.texts) == 2


@pytest.mark.parametrize(
    ("spoken", "recognized", "expected"),
    [
        ("The boat, at last.", "the boat at last", 0.0),
        ("one two three four", "one two five four", 0.25),
        ("one two", "one two three", 0.5),
        ("a well-known road", "a well known road", 0.0),
        ("one two", "", 1.0),
    ],
)
def test_word_errors_are_counted_without_case_and_punctuation(
    spoken: str, recognized: str, expected: float
) -> None:
    assert word_error_rate([spoken], [recognized]) == pytest.approx(expected)


def test_speed_follows_from_audio_and_time(tmp_path: Path) -> None:
    recorded = Recorded("speech_to_text", tmp_path, audio_minutes=0.2, passes=3)
    run(recorded)
    values, seconds = recorded.values, recorded.samples["real_time_factor"]
    audio = values["audio_hours"] * 3600 / 3
    assert audio >= 12
    assert len(seconds) == 3
    assert values["real_time_factor"] == pytest.approx(audio / sorted(seconds)[1])
    assert values["tokens_per_window"] == recorded.context.settings["random_tokens"]
    assert "word_error_rate" not in values
    assert "memory_used" not in values  # a CPU has no such reading, and missing is not 0
    assert recorded.checks["compute_type"]["value"] == "float32"
    assert recorded.checks["work_fixed"]["outcome"] == "passed"
    assert recorded.checks["text_recognized"]["outcome"] == "not_checked"
    assert "not meaningful" in recorded.checks["text_recognized"]["detail"]


def test_a_model_from_a_folder_is_judged_by_its_text(tmp_path: Path, model_folder: Path) -> None:
    recorded = Recorded("speech_to_text", tmp_path, audio_minutes=0.1, passes=1, weights=str(model_folder))
    run(recorded)
    assert recorded.values["word_error_rate"] > 0.5
    assert recorded.checks["text_recognized"]["outcome"] == "failed"
    assert recorded.checks["text_recognized"]["severity"] == "hard"
    assert "work_fixed" not in recorded.checks
    weights = next(event["weights"] for event in recorded.events if event["event"] == "describe")
    assert weights == {"kind": "pretrained", "repository": "model", "revision": None}


def test_a_type_that_the_device_lacks_is_skipped_with_the_reason(tmp_path: Path) -> None:
    recorded = Recorded("speech_to_text", tmp_path, audio_minutes=0.1)
    with pytest.raises(CaseSkipped, match=r"no float16 on this device, only .*float32"):
        run(recorded, CASE | {"compute_type": "float16"})


def test_silence_is_a_failure_and_no_speed(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    write_wav(folder / "a.wav", np.zeros(5 * 16_000))
    (folder / "a.txt").write_text("Something was said.")
    recorded = Recorded("speech_to_text", tmp_path, data=str(folder))
    with pytest.raises(CaseFailed, match="no segment") as caught:
        run(recorded)
    assert caught.value.kind == ErrorKind.WRONG_RESULT
    assert recorded.values == {}


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    recorded = Recorded("speech_to_text", tmp_path, audio_minutes=0.1, weights=str(tmp_path))
    with pytest.raises(CaseFailed, match=r"model\.bin") as caught:
        run(recorded)
    assert caught.value.kind == ErrorKind.MODEL_ACCESS
