"""PCIe links, from made-up times and states."""

from __future__ import annotations

import pytest

from support.suites import gpu

pytest.importorskip("torch")

from preflight_compute import Timed
from preflight_links import LinkUse, link_findings, pcie_bytes_per_second

SIZE = 256 * 2**20


def link(
    gigabytes_per_second: float, generation: int | None = 5, width: int | None = 16, card: int = 0
) -> LinkUse:
    timed = Timed(card=card, seconds=[SIZE / gigabytes_per_second / 1e9] * 5, right=True)
    faster = Timed(card=card, seconds=[one / 1.1 for one in timed.seconds], right=True)
    return LinkUse(card=card, to_device=faster, to_host=timed, generation=generation, width=width)


@pytest.mark.parametrize(
    ("generation", "width", "gigabytes"),
    [(1, 16, 4), (3, 16, 15.75), (4, 8, 15.75), (4, 16, 31.5), (5, 16, 63.0), (6, 16, 118)],
)
def test_what_a_link_can_carry(generation: int, width: int, gigabytes: float) -> None:
    rate = pcie_bytes_per_second(generation, width)
    assert rate is not None
    assert rate / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_an_unknown_generation_is_not_guessed() -> None:
    assert pcie_bytes_per_second(9, 16) is None


def judge(*links: LinkUse, **card: object) -> tuple[bool | None, bool | None]:
    state, speed = link_findings(links, [gpu(**card) for _ in links], SIZE, 60)
    return state.passed, speed.passed


def test_a_good_link_passes() -> None:
    assert judge(link(55)) == (True, True)


def test_a_link_below_its_best_is_a_warning() -> None:
    assert judge(link(12, generation=3)) == (False, False)
    assert judge(link(28, width=8)) == (False, False)


def test_the_slower_direction_and_the_slowest_card_count() -> None:
    _, speed = link_findings([link(55), link(30, card=1)], [gpu(), gpu()], SIZE, 60)
    assert speed.passed is False
    assert speed.detail.startswith("GPU 1: 30.0 GB/s")


def test_what_the_driver_does_not_tell_is_not_checked() -> None:
    assert judge(link(55, generation=None)) == (None, True)
    assert judge(link(55), pcie_generation_max=None) == (None, None)
    assert judge(link(55), pcie_generation_max=9, pcie_width_max=16)[1] is None
