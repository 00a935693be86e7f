"""Which rank failed first, and of what: the others fail because of it, and often say so louder."""

from __future__ import annotations

import math
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rentbench.core.errors import ErrorKind
from rentbench.harness.failures.classify import classify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["RankEnd", "first_failure", "hung", "unexplained"]

# What a rank says that has waited for another one in vain, and one whose peer is gone.
_WAITED: Final = re.compile(r"Timed out waiting|Watchdog caught|Timeout\(ms\)=")
_PEER_GONE: Final = re.compile(
    r"Connection (?:closed|reset) by (?:peer|remote)|Connection was likely closed|Broken pipe|Socket closed"
    r"|ncclRemoteError|recvValue failed|Failed to recv, got 0 bytes"
)
# How faulthandler begins a stack.
_STACK: Final = "(most recent call first):"
# In a line of a stack: File "/folders/file.py", line 1 in function.
_PATH: Final = re.compile(r'(?<=File ")[^"]*/')


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """What is known about a rank's end.

    Attributes:
        rank: Its number.
        error: What it told itself, in the schema's form; None where it died without a word.
        told_at: When it told that (`time.monotonic`).
        code: Its exit code as `subprocess` gives it; None where torchrun did not see it fail.
        log_tail: The last it printed.
    """

    rank: int
    error: dict[str, Any] | None = None
    told_at: float = math.inf
    code: int | None = None
    log_tail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it failed by itself; torchrun ends the others with SIGTERM."""
        return self.error is not None or self.code not in {None, 0, -signal.SIGTERM}

    def describe(self) -> dict[str, Any]:
        """Return its error as the schema holds it; of a death without a word, by log and exit code."""
        if self.error is not None:
            return self.error
        return {**classify(self.log_tail, returncode=self.code)}


def first_failure(
    ends: Iterable[RankEnd], *, count: int, shm_too_small: bool = False
) -> dict[str, Any] | None:
    """Return the error of the rank that failed first, with the rank's number in its message.

    A rank that only tells of a peer that is gone comes after the one that is gone, which may have died
    without a word.

    Args:
        ends: Of the ranks.
        count: How many ranks there were.
        shm_too_small: Whether `/dev/shm` is smaller than NCCL may need: a bus error then means that.
    """
    failed = [(end, end.describe()) for end in ends if end.failed]
    if not failed:
        return None
    end, error = min(failed, key=lambda found: (_distance(found[1]), found[0].told_at, found[0].rank))
    if shm_too_small and end.error is None and end.code == -signal.SIGBUS:
        error = {
            **error,
            "kind": str(ErrorKind.SHM_TOO_SMALL),
            "hint": "give the container more shared memory: --shm-size=16g, or --ipc=host",
        }
    message = f"rank {end.rank} of {count}: {error['message']}"
    return {**error, "message": message[:4096], "log_tail": error["log_tail"] or end.log_tail or None}


def hung(logs: Mapping[int, str], timeout_seconds: float) -> dict[str, Any]:
    """Return the error of ranks that did not end in time, with the place where each of them is.

    Args:
        logs: By rank, what it has printed last, ending with its stack where it could still print that.
        timeout_seconds: The limit.
    """
    stacks = {rank: log.rpartition(_STACK)[2].strip() if _STACK in log else "" for rank, log in logs.items()}
    places = []
    for rank, stack in stacks.items():
        line = stack.splitlines()[0].strip() if stack else "gave no answer"
        places.append(f"rank {rank}: {_PATH.sub('', line)}")
    waited = any(_WAITED.search(log) for log in logs.values())
    return {
        "kind": str(ErrorKind.NCCL_TIMEOUT if waited else ErrorKind.TIMEOUT),
        "message": f"{len(logs)} ranks did not end within {timeout_seconds:g} s; {'; '.join(places)}",
        "hint": "the log shows where each rank was; the limit is the setting case_timeout_seconds",
        "phase": None,
        "memory_allocated_bytes": None,
        "log_tail": "\n".join(f"rank {rank}:\n{stack}" for rank, stack in stacks.items()),
    }


def unexplained(text: str | None) -> dict[str, Any]:
    """Return the error of a group that ended although no rank is known to have failed."""
    found = {**classify(text or "", returncode=1)}
    message = "torchrun failed" if text else "torchrun and its ranks were ended by others, or lost"
    return {**found, "message": f"{message}: {found['message']}"}


def _distance(error: Mapping[str, Any]) -> int:
    """Return how far an error is from the cause: 0 may be it, 1 waited for it, 2 lost its peer."""
    text = f"{error['message']}\n{error['log_tail'] or ''}"
    return 2 if _PEER_GONE.search(text) else 1 if _WAITED.search(text) else 0
