"""The links of each card under load: PCIe to the host, and to the other cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from preflight_compute import Timed, cards, on_card
from preflight_findings import Finding

from rentbench.harness.nvml import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.harness.context import Context

__all__ = ["LinkUse", "PeerCopies", "link_findings", "pcie_bytes_per_second", "time_peers", "time_transfers"]

Tensor: TypeAlias = Any  # torch is not installed where types are checked

_WARM_UP = 5
# Bytes a second of one lane in one direction after line coding, by PCIe generation (PCI-SIG).
_LANE_BYTES_PER_SECOND = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 / 8 * 128 / 130,
    4: 16e9 / 8 * 128 / 130,
    5: 32e9 / 8 * 128 / 130,
    6: 64e9 / 8 * 236 / 256,
}


@dataclass(frozen=True, kw_only=True)
class LinkUse:
    """One card's PCIe link while data crossed it.

    Attributes:
        card: CUDA's number.
        to_device: Times of the copies from page-locked host memory.
        to_host: Times of the copies back.
        generation: Read while copies ran; None where the driver does not say.
        width: Lanes, likewise.
    """

    card: int
    to_device: Timed
    to_host: Timed
    generation: int | None
    width: int | None


@dataclass(frozen=True, kw_only=True)
class PeerCopies:
    """Copies between each two cards.

    Attributes:
        direct: Ordered pairs (from, to) where one card can reach the other's memory.
        pairs: How many ordered pairs there are.
        slowest: Times of the slowest pair.
        route: That pair.
        wrong: Pairs whose copy arrived damaged.
    """

    direct: int
    pairs: int
    slowest: Timed
    route: tuple[int, int]
    wrong: Sequence[tuple[int, int]]


def pcie_bytes_per_second(generation: int, width: int) -> float | None:
    """Return what a PCIe link carries at most in one direction, or None for an unknown generation."""
    lane = _LANE_BYTES_PER_SECOND.get(generation)
    return None if lane is None else lane * width


def time_transfers(context: Context, size_bytes: int, iterations: int) -> list[LinkUse]:
    """Copy between page-locked host memory and each card, and read the link's state meanwhile."""
    sensors = Reader()
    try:
        return [_time_link(context, card, sensors, size_bytes, iterations) for card in cards(context)]
    finally:
        sensors.close()


def time_peers(context: Context, size_bytes: int, iterations: int) -> PeerCopies:
    """Copy between each two cards, in both directions, and compare what arrives."""
    routes = [(a, b) for a in cards(context) for b in cards(context) if a != b]
    timed: dict[tuple[int, int], Timed] = {}
    for origin, target in routes:
        source = torch.randn(size_bytes // 4, device=f"cuda:{origin}")
        arrived = torch.full_like(source, float("nan"), device=f"cuda:{target}")
        with on_card(context, origin) as (_, timer):

            def copy(arrived: Tensor = arrived, source: Tensor = source) -> None:
                arrived.copy_(source, non_blocking=True)

            timer.time_calls(copy, iterations=_WARM_UP)
            seconds = timer.time_calls(copy, iterations=iterations)
        right = bool(torch.equal(arrived.cpu(), source.cpu()))
        timed[origin, target] = Timed(card=origin, seconds=seconds, right=right)
    route = max(timed, key=lambda pair: timed[pair].median)
    return PeerCopies(
        direct=sum(torch.cuda.can_device_access_peer(target, origin) for origin, target in routes),
        pairs=len(routes),
        slowest=timed[route],
        route=route,
        wrong=[pair for pair, times in timed.items() if not times.right],
    )


def link_findings(
    links: Sequence[LinkUse], gpus: Sequence[Mapping[str, Any]], size_bytes: int, minimum_percent: float
) -> list[Finding]:
    """Return the checks of the PCIe links.

    Args:
        links: As measured.
        gpus: As in the measurement schema, in CUDA's order.
        size_bytes: Of one copy.
        minimum_percent: Least share of what the link can carry at its best.
    """
    return [_state_finding(links, gpus), _speed_finding(links, gpus, size_bytes, minimum_percent)]


def _state_finding(links: Sequence[LinkUse], gpus: Sequence[Mapping[str, Any]]) -> Finding:
    states, slow = [], False
    for link, gpu in zip(links, gpus, strict=False):
        best = gpu["pcie_generation_max"], gpu["pcie_width_max"]
        if link.generation is None or link.width is None or None in best:
            continue
        slow = slow or link.generation < best[0] or link.width < best[1]
        states.append(f"GPU {link.card} generation {link.generation} × {link.width} of {best[0]} × {best[1]}")
    if not states:
        return Finding(name="pcie_link", passed=None, detail="the driver does not tell the state of the link")
    return Finding(name="pcie_link", passed=not slow, detail=f"under load: {'; '.join(states)}")


def _speed_finding(
    links: Sequence[LinkUse], gpus: Sequence[Mapping[str, Any]], size_bytes: int, minimum_percent: float
) -> Finding:
    shares = []
    for link, gpu in zip(links, gpus, strict=False):
        generation, width = gpu["pcie_generation_max"], gpu["pcie_width_max"]
        best = None if None in (generation, width) else pcie_bytes_per_second(generation, width)
        if best is not None:
            rate = size_bytes / max(link.to_device.median, link.to_host.median)
            shares.append((100 * rate / best, link.card, rate, best))
    if not shares:
        detail = "what the link can carry is not known"
        return Finding(name="pcie_bandwidth", passed=None, detail=detail)
    share, card, rate, best = min(shares)
    return Finding(
        name="pcie_bandwidth",
        passed=share >= minimum_percent,
        detail=f"GPU {card}: {rate / 1e9:.1f} GB/s in the slower direction, of {best / 1e9:.1f} GB/s",
        value=round(share, 1),
        limit=minimum_percent,
        unit="%",
    )


def _time_link(context: Context, card: int, sensors: Reader, size_bytes: int, iterations: int) -> LinkUse:
    with on_card(context, card) as (device, timer):
        source = torch.randn(size_bytes // 4, device=device)
        host = torch.empty(size_bytes // 4, pin_memory=True)
        arrived = torch.full_like(source, float("nan"))

        def to_host() -> None:
            host.copy_(source, non_blocking=True)

        def to_device() -> None:
            arrived.copy_(host, non_blocking=True)

        timer.time_calls(to_host, iterations=_WARM_UP)
        down = timer.time_calls(to_host, iterations=iterations)
        timer.time_calls(to_device, iterations=_WARM_UP)
        begun = 0
        state: tuple[int | None, int | None] = None, None

        def look_at_the_last() -> None:
            # All other copies are queued by then: the link is in use, and has left its idle state.
            nonlocal begun, state
            begun += 1
            sensor = sensors.sensors[card] if card < len(sensors.sensors) else None
            if begun == iterations and sensor is not None:
                state = sensor.pcie_generation()[0], sensor.pcie_width()[0]

        up = timer.time_calls(to_device, iterations=iterations, before_each=look_at_the_last)
        right = bool(torch.equal(arrived, source))
    return LinkUse(
        card=card,
        to_device=Timed(card=card, seconds=up, right=right),
        to_host=Timed(card=card, seconds=down, right=right),
        generation=state[0],
        width=state[1],
    )
