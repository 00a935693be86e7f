"""The interruption suite: its figures from events, its manifest, its places, and a whole case on the CPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from interruption_figures import Schedule, Timeline
from interruption_model import SIZES, Decoder
from interruption_places import checkpoint_places, s3_arguments

from rentbench.core.errors import ErrorKind
from rentbench.harness.outcomes import CaseFailed
from support.suites import SUITES, Recorded, load_workload, manifest

if TYPE_CHECKING:
    from pathlib import Path

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which "
    "1.00 GiB is free. Of the allocated memory 3.00 GiB is allocated by PyTorch, and 0 bytes is reserved"
)
FOLDER = SUITES / "interruption"


def step(number: int, begin: float, end: float, loss: str = "0x1p0") -> dict[str, Any]:
    return {"event": "step", "step": number, "loss": loss, "begin": begin, "end": end, "peak_bytes": None}


def saved(number: int, begin: float, end: float) -> dict[str, Any]:
    return {"event": "saved", "step": number, "begin": begin, "end": end, "size_bytes": 1000}


def uploaded(number: int, begin: float, end: float, error: str | None = None) -> dict[str, Any]:
    return {"event": "uploaded", "step": number, "begin": begin, "end": end, "error": error}


def timeline(**changes: Any) -> Timeline:
    """A second a step; steps 1 and 2 warm up, 3 and 4 are the baseline; saves after 4, 6, 8; killed after 9.

    The first save takes 3 s, the others 0.5 s; with checkpoints on a step takes 1.1 s.
    """
    first = [step(number, number - 1.0, float(number), f"loss {number}") for number in (1, 2, 3, 4)]
    first.append(saved(4, 4.0, 7.0))
    now = 7.0
    for number in (5, 6, 7, 8, 9):
        first.append(step(number, now, now + 1.1, f"loss {number}"))
        now += 1.1
        if number % 2 == 0:
            first.append(saved(number, now, now + 0.5))
            first.append(uploaded(number, now + 0.5, now + 2.5))
            now += 0.5
    second = [
        {"event": "restored", "step": 8, "begin": 104.0, "end": 104.75},
        step(9, 105.0, 106.5, "loss 9"),
        step(10, 106.5, 107.5, "loss 10"),
    ]
    usual = {
        "first": first,
        "second": second,
        "signalled": now,
        "ended": now + 0.25,
        "restarted": 100.0,
        "schedule": Schedule(warm_up=2, first_save=4, last_measured=8, kill=9),
    }
    return Timeline(**{**usual, **changes})


def test_times_follow_from_events() -> None:
    made = timeline()
    assert made.first_saves == [3.0]
    assert made.saves == pytest.approx([0.5, 0.5])
    assert made.uploads == pytest.approx([2.0, 2.0])
    assert made.baseline_steps == [1.0, 1.0]
    assert made.checkpoint_bytes == 1000
    # Four steps of 1.1 s and two saves of 0.5 s in 5.4 s: 1.35 s a step
    assert made.overhead_percent == pytest.approx(35)
    assert made.slowdown_percent == pytest.approx(10)
    assert made.stop_seconds == pytest.approx(0.25)
    assert made.restored_step == 8
    assert made.restore_seconds == pytest.approx(0.75)
    assert made.restart_seconds == pytest.approx(6.5)
    assert made.lost_steps == 1
    # Step 8 ended at 7 + 4 · 1.1 + 0.5 = 11.9; then a save, step 9, and the end
    assert made.lost_seconds == pytest.approx(0.5 + 1.1 + 0.25)
    assert made.peak_bytes is None


def test_the_first_save_falls_on_a_multiple_of_the_interval() -> None:
    usual = manifest("interruption").presets["standard"].settings
    made = Schedule.of({**usual, "warm_up_steps": 5, "baseline_steps": 20, "interval_steps": 20})
    assert made == Schedule(warm_up=5, first_save=40, last_measured=80, kill=90)


def test_an_upload_that_was_given_up_is_no_error() -> None:
    made = timeline()
    first = [*made.first, uploaded(9, 20, 21, "given up"), uploaded(10, 21, 22, "AccessDenied")]
    changed = timeline(first=first)
    assert changed.upload_errors == ["AccessDenied"]
    assert len(changed.uploads) == 2


def test_losses_are_compared_bit_by_bit() -> None:
    right = {number: f"loss {number}" for number in range(1, 11)}
    assert timeline().differing(right) == []
    assert timeline().differing({**right, 10: "another"}) == [10]
    assert timeline().contradicting() == []
    second = [
        event | {"loss": "another"} if event["event"] == "step" else event for event in timeline().second
    ]
    assert timeline(second=second).contradicting() == [9]


def test_a_job_that_began_anew_has_no_restored_step() -> None:
    assert timeline(second=[step(1, 101.0, 102.0)]).restored_step is None


@pytest.mark.parametrize(("size", "parameters"), [("124M", 124_439_808), ("355M", 354_823_168)])
def test_parameters_are_counted_exactly(size: str, parameters: int) -> None:
    assert SIZES[size].parameters == parameters


def test_the_model_has_as_many_parameters_as_its_size_says() -> None:
    model = Decoder(SIZES["tiny"])
    assert sum(parameter.numel() for parameter in model.parameters()) == SIZES["tiny"].parameters


def test_the_manifest_agrees_with_the_code() -> None:
    suite = manifest("interruption")
    code = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    declared = {name for name, parameter in suite.parameters.items() if parameter.kind == "setting"}
    assert set(re.findall(r'settings\["(\w+)"\]', code)) == declared
    for preset in suite.presets.values():
        assert set(preset.settings) == declared
    for name in suite.metrics:
        assert f'"{name}"' in code, name
    assert set(suite.parameters["size"].choices or ()) == set(SIZES)
    assert suite.headline is not None
    for preset in ("standard", "full"):
        assert sum(suite.headline.case.items() <= case.items() for case in suite.cases(preset)) == 1


def settings(**changes: str) -> dict[str, str]:
    return {"s3_bucket": "b", "s3_endpoint": "", "s3_region": "", **changes}


def test_s3_is_used_where_a_bucket_is_named() -> None:
    assert s3_arguments(settings(s3_bucket=""), prefix="p") is None
    made = s3_arguments(settings(s3_endpoint="https://s3.example.com:9000", s3_region="eu"), prefix="p")
    assert made == {
        "bucket": "b",
        "prefix": "p",
        "endpoint_url": "https://s3.example.com:9000",
        "region": "eu",
    }


@pytest.mark.parametrize("bucket", ["no such / bucket!", "ü", "s3://bucket", "b\n", "x" * 256])
def test_what_cannot_be_a_bucket_is_refused_before_anything_runs(bucket: str, tmp_path: Path) -> None:
    recorded = Recorded("interruption", tmp_path, s3_bucket=bucket)
    with pytest.raises(CaseFailed, match="no name of a bucket") as raised:
        load_workload("interruption").prepare(recorded.context)
    assert raised.value.kind == ErrorKind.USAGE


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        ("https://key:secret@s3.example.com", "credentials"),
        ("https://s3.example.com/?X-Amz-Signature=1", "credentials"),
        ("s3.example.com", "no address"),
        ("https://key:secret", "no address"),
        ("https://[secret", "no address"),
    ],
)
def test_credentials_do_not_belong_into_settings(endpoint: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        s3_arguments(settings(s3_endpoint=endpoint), prefix="p")
    recorded = Recorded("interruption", tmp_path, s3_bucket="b", s3_endpoint=endpoint)
    with pytest.raises(CaseFailed) as raised:
        load_workload("interruption").prepare(recorded.context)
    assert raised.value.kind == ErrorKind.USAGE
    assert "secret" not in raised.value.message


def test_places_are_empty_afterwards(tmp_path: Path) -> None:
    recorded = Recorded("interruption", tmp_path)
    with checkpoint_places(recorded.context, "tiny") as places:
        assert places["s3"] is None
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_told_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "tiny", type("Size", (), {"checkpoint_bytes": 10**18})())
    recorded = Recorded("interruption", tmp_path)
    with pytest.raises(CaseFailed) as raised, checkpoint_places(recorded.context, "tiny"):
        pass
    assert raised.value.kind == ErrorKind.DISK_FULL
    # In MB, so that a small disk is not told as "0.0 needed, 0.0 free".
    assert re.search(r"need [\d,.]+ MB, [\d,.]+ MB are free", raised.value.message)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    recorded = Recorded("interruption", tmp_path, local_folder=str(tmp_path / "none"))
    with pytest.raises(CaseFailed) as raised, checkpoint_places(recorded.context, "tiny"):
        pass
    assert raised.value.kind == ErrorKind.USAGE


def measured(tmp_path: Path, name: str, **changes: Any) -> Recorded:
    """Run a case on the CPU; without the run that is not interrupted, which the smoke test has."""
    recorded = Recorded("interruption", tmp_path, **changes)
    recorded.context.repeat = 1
    workload = load_workload("interruption")
    workload.prepare(recorded.context)
    recorded.context.enter(0)
    workload.run({"size": "tiny", "signal": name}, recorded.context)
    return recorded


def test_a_kill_loses_work_and_no_checkpoint(tmp_path: Path) -> None:
    recorded = measured(tmp_path, "SIGKILL")
    values = recorded.values
    assert values["lost_steps"] >= 10
    assert values["restart_seconds"] > values["restore_seconds"] > 0
    assert len(recorded.samples["save_seconds"]) == 2
    assert "stop_seconds" not in values
    assert {check["outcome"] for check in recorded.checks.values()} == {"passed"}
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("trainer-")] == []


def test_a_job_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text(f"raise RuntimeError({OUT_OF_MEMORY!r})")
    with pytest.raises(CaseFailed) as raised:
        measured(tmp_path, "SIGTERM")
    assert raised.value.kind == ErrorKind.OOM
    assert raised.value.memory_allocated_bytes == 3 << 30
    assert "ended early, with exit code 1: raise RuntimeError('CUDA out of memory" in raised.value.message


def test_a_job_that_says_nothing_is_ended(tmp_path: Path) -> None:
    with pytest.raises(CaseFailed) as raised:
        measured(tmp_path, "SIGTERM", limit_seconds=0.05)
    assert raised.value.kind == ErrorKind.TIMEOUT
