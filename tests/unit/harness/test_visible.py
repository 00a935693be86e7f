"""Which GPUs CUDA sees, by the rules of its documentation."""

from __future__ import annotations

import pytest

from rentbench.harness.probe.visible import Identity, Visible, visible_gpus

PLAIN = [Identity(uuid=f"GPU-{number}{number}-aa") for number in range(3)]
CUT = Identity(uuid="GPU-99-aa", mig_mode=True, mig_uuids=["MIG-1-x", "MIG-2-x"])


def indices(gpus: list[Identity], chosen: str | None) -> list[tuple[int, int | None]]:
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    return [(seen.index, seen.mig) for seen in visible_gpus(gpus, environment)]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [0, 1, 2]), ("0,1,2", [0, 1, 2]), ("2,0", [2, 0]), ("1", [1]), ("", []), ("-1", []),
        ("0,-1,1", [0]), ("0,7,1", [0]), ("NoDevFiles", []), ("1,1", []), (" 1 , 0 ", [1, 0]),
        ("GPU-22-aa", [2]), ("GPU-1", [1]), ("GPU-", []), ("GPU-77", []), ("MIG-1-x", []),
    ],
)  # fmt: skip
def test_whole_gpus(chosen: str | None, expected: list[int]) -> None:
    assert indices(PLAIN, chosen) == [(index, None) for index in expected]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [(1, 0)]),
        ("1", [(1, 0)]),
        ("0", [(0, None)]),
        ("MIG-2-x", [(1, 1)]),
        ("MIG-", []),
        ("MIG-1-x,MIG-2-x", [(1, 0)]),
    ],
)
def test_of_a_gpu_that_is_cut_up_one_slice_is_seen(
    chosen: str | None, expected: list[tuple[int, int | None]]
) -> None:
    assert indices([PLAIN[0], CUT], chosen) == expected


def test_mig_mode_without_a_device_hides_the_gpu() -> None:
    assert visible_gpus([Identity(uuid="GPU-1", mig_mode=True)], {}) == []


def test_a_gpu_without_a_uuid_can_still_be_numbered() -> None:
    assert visible_gpus([Identity(uuid=None)], {"CUDA_VISIBLE_DEVICES": "0"}) == [Visible(index=0)]
