"""Memory operations: the bytes that count, and the proof that they were moved."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gemm_transfers import BYTES_PER_BYTE, Transfer  # noqa: E402


def test_a_copy_counts_each_byte_twice_and_the_triad_three_times() -> None:
    assert Transfer("device_copy", 4, "cpu").bytes_moved == 2 * 4 * 2**20
    assert Transfer("device_triad", 4, "cpu").bytes_moved == 3 * 4 * 2**20
    assert BYTES_PER_BYTE["host_to_device"] == BYTES_PER_BYTE["device_to_host"] == 1


@pytest.mark.parametrize("operation", ["device_copy", "device_triad"])
def test_what_was_moved_is_right(operation: str) -> None:
    transfer = Transfer(operation, 1, "cpu")
    assert not transfer.is_right()  # nothing has been moved
    transfer.move()
    assert transfer.is_right()
    transfer._target[-1] += 1e-3
    assert not transfer.is_right()


def test_the_triad_is_a_plus_three_b() -> None:
    transfer = Transfer("device_triad", 1, "cpu")
    transfer.move()
    expected = transfer._source + 3 * transfer._other
    assert torch.allclose(transfer._target, expected, rtol=1e-5, atol=1e-5)
