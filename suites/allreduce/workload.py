"""All-reduce over the GPUs of a machine. README.md is the method."""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from rentbench.core.errors import ErrorKind
from rentbench.harness.ranks.collectives import algorithm_bandwidth, bus_bandwidth, mean_over_ranks
from rentbench.harness.ranks.group import RankGroup

if TYPE_CHECKING:
    from rentbench.harness.context import Case, Context

_SCRIPT = Path(__file__).with_name("allreduce_rank.py")
# Where the bandwidth is expected to have reached its end.
_LARGE_BYTES = 8 * 2**20
_VARIANTS: dict[str, dict[str, str]] = {
    "default": {},
    "p2p_sys": {"NCCL_P2P_LEVEL": "SYS"},
    "no_p2p": {"NCCL_P2P_DISABLE": "1"},
}


class _Repeat:
    """The ranks, which the cases of one number and variant share, and what they have measured."""

    def __init__(self) -> None:
        self.group: RankGroup | None = None
        self.members: tuple[int, str] | None = None
        self.bandwidths: dict[int, float] = {}

    def ranks(self, ranks: int, variant: str, context: Context) -> RankGroup:
        """Return the ranks for a case; those of other cases are ended."""
        if self.group is None or self.members != (ranks, variant):
            self.close()
            nvls = {"NCCL_NVLS_ENABLE": "1" if context.settings["nvls"] else "0"}
            self.group = RankGroup(
                context,
                _SCRIPT,
                ranks=ranks,
                collective_timeout_seconds=0.8 * float(context.settings["case_timeout_seconds"]),
                environment={**nvls, **_VARIANTS[variant]},
            )
            self.members, self.bandwidths = (ranks, variant), {}
        return self.group

    def close(self) -> None:
        """End the ranks."""
        if self.group is not None:
            self.group.close()
            self.group = None


_repeat = _Repeat()


def prepare(context: Context) -> None:
    """Begin a repeat."""
    for variables in _VARIANTS.values():
        for name in variables:  # a variant is what its name says, whatever the environment holds
            os.environ.pop(name, None)
    context.describe(data={"kind": "synthetic", "name": "small integers", "revision": None, "seed": None})


def run(case: Case, context: Context) -> None:
    """Measure one message size."""
    if set(case) != {"ranks", "variant", "bytes"}:
        context.fail(ErrorKind.USAGE, "a case has the parameters ranks, variant, bytes")
    ranks, variant, size = int(case["ranks"]), str(case["variant"]), int(case["bytes"])
    if size % 4:
        context.fail(ErrorKind.USAGE, f"bytes must be a multiple of 4, not {size}")
    if context.device == "cpu" and variant != "default":
        context.skip("on a CPU there is no direct access between GPUs to choose")
    settings = context.settings
    job = {"bytes": size} | {
        name: settings[name] for name in ("warm_up_samples", "samples", "sample_seconds")
    }
    group = _repeat.ranks(ranks, variant, context)
    try:
        answers = group.ask(job, timeout_seconds=float(settings["case_timeout_seconds"]), context=context)
    except BaseException:
        _repeat.close()
        raise
    wrong = sum(answer["wrong"] for answer in answers)
    context.check(
        "results_right",
        wrong == 0,
        f"{wrong} of {ranks * size // 4} sums are wrong (ranks={ranks}, variant={variant}, bytes={size})",
        severity="hard",
        value=wrong,
        limit=0,
        unit="elements",
    )
    if wrong:
        context.fail(ErrorKind.WRONG_RESULT, f"{wrong} of {ranks * size // 4} elements have a wrong sum")
    _record([answer["seconds"] for answer in answers], size, ranks, context)


def finish(context: Context) -> None:  # noqa: ARG001 - the harness passes it
    """End the ranks."""
    _repeat.close()


def _record(of_ranks: list[list[float]], size: int, ranks: int, context: Context) -> None:
    """Record what one message size has come to.

    Args:
        of_ranks: Seconds of an all-reduce, by rank and sample.
        size: Bytes of the message.
        ranks: How many there are.
        context: Of the case.
    """
    seconds = mean_over_ranks(of_ranks)
    median = statistics.median(seconds)
    bandwidth = bus_bandwidth(size, median, ranks)
    context.record("bus_bandwidth", bandwidth, samples=seconds, samples_unit="s")
    context.record("algorithm_bandwidth", algorithm_bandwidth(size, median))
    context.record("time", median * 1e6)
    _repeat.bandwidths[size] = bandwidth
    large = [value for key, value in _repeat.bandwidths.items() if _LARGE_BYTES <= key <= size]
    if len(large) > 1:
        context.record("flatness", min(large) / max(large))
