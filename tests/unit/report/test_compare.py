from __future__ import annotations

import pytest

from fixtures.report import synthetic
from rentbench.report.compare import group, labels, within_noise
from rentbench.report.flatten import flatten
from rentbench.report.model import Figure, Sources


def result(number, gpus, cases=None, root=None, run=None, **members):
    cases = [synthetic.case({"op": "copy"}, [bandwidth(100.0)])] if cases is None else cases
    document = synthetic.measurement(number, "gemm", gpus, cases, **members)
    return flatten(
        document, run, Sources(root=root, folder="x", measurement="measurement.json", run=None, run_note=None)
    )


def bandwidth(value):
    return synthetic.measured("bandwidth", "GB/s", "higher", [value])


def figure(*values):
    item = synthetic.measured("bandwidth", "GB/s", "higher", list(values))
    item.pop("samples")
    item["ci95"] = tuple(item["ci95"]) if item["ci95"] else None
    return Figure(**item | {"values": tuple(item["values"])})


H200 = synthetic.gpu(synthetic.H200)
A100 = synthetic.gpu(synthetic.A100)


@pytest.mark.parametrize(
    "members",
    [
        {"preset": "full"},
        {"runner": "process", "recipe_id": None},
        {"suite": {"name": "gemm", "version": "0.9.0"}},
        {"weights": {"kind": "random", "repository": None, "revision": None}},
        {"parameters": {"seed": 42, "repeats": 3, "settings": {"seconds": 5}}},
    ],
)
def test_unlike_runs_are_in_groups_of_their_own(members):
    groups = group([result(1, [H200]), result(2, [A100], **members)])
    assert [len(item.current) for item in groups] == [1, 1]
    assert groups[0].current[0].id == synthetic.identifier(1)  # the published method in an image speaks first


@pytest.mark.parametrize(
    "gpus", [[A100, A100], [A100 | {"mig_mode": True, "mig_profile": "1g.10gb"}], [A100 | {"vgpu": True}], []]
)
def test_unlike_devices_are_in_groups_of_their_own(gpus):
    assert len(group([result(1, [H200]), result(2, gpus)])) == 2


def test_like_runs_on_two_devices_share_a_group():
    (only,) = group([result(1, [H200]), result(2, [A100])])
    assert [item.device.title for item in only.current] == ["A100 SXM 80 GB", "H200 SXM 141 GB"]


def test_the_newest_run_with_figures_stands_for_a_device():
    failed = result(3, [H200], cases=[], status="failed", error=synthetic.error("crashed", "gone"))
    (only,) = group([failed, result(2, [H200]), result(1, [H200])])  # newest first
    assert [item.id for item in only.current] == [synthetic.identifier(2)]
    assert {item.id for item in only.older} == {synthetic.identifier(1), synthetic.identifier(3)}


def test_an_invalid_run_never_stands_for_a_device():
    hard = [synthetic.check("gpu_used", "failed", "the GPU was idle", "hard")]
    (only,) = group([result(2, [H200], validity=hard)])
    assert not only.current
    assert len(only.without_figures) == 1


def test_smoke_runs_come_last_and_are_labelled():
    smoke = result(1, [], preset="smoke", runner="process", recipe_id=None)
    groups = group([smoke, result(2, [H200])])
    assert [item.likeness.is_demo for item in groups] == [False, True]
    assert [word for word, _ in labels(smoke)] == ["Demo run", "Outside an image"]


def test_overlapping_intervals_are_within_noise():
    assert within_noise(figure(100, 101, 102), figure(101, 102, 103))
    assert not within_noise(figure(100, 100.1, 100.2), figure(103, 103.1, 103.2))


def test_single_runs_differ_from_ten_per_cent_on():
    assert within_noise(figure(100), figure(109))
    assert not within_noise(figure(100), figure(112))


def test_two_cpus_are_two_devices_and_mixed_gpus_are_named():
    first, mixed = result(1, []), result(2, [H200, A100])
    assert first.device.key == "cpu-intel-r-xeon-r-platinum-8480"
    assert mixed.device.title == "H200 SXM 141 GB + A100 SXM 80 GB"
    assert mixed.device.count == 2


@pytest.mark.parametrize(
    ("status", "severity", "verdict"),
    [
        ("ok", None, "pass"),
        ("ok", "soft", "warn"),
        ("partial", None, "warn"),
        ("failed", None, "fail"),
        ("invalid", None, "fail"),
        ("invalid", "hard", "fail"),
        ("skipped", None, "skipped"),
    ],
)
def test_a_run_without_usable_figures_is_never_called_a_pass(status, severity, verdict):
    checks = [synthetic.check("sane", "failed", "it is not", severity)] if severity else []
    assert result(1, [H200], status=status, validity=checks).verdict == verdict
