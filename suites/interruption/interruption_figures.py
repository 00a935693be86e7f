"""What the events of two lives say: times between moments, in seconds of the machine's monotonic clock."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Schedule", "Timeline"]

_Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """At which steps what happens.

    Attributes:
        warm_up: The last step of the warm-up.
        first_save: The step after which checkpoints are on; the steps up to it are the baseline.
        last_measured: The last step that is measured with checkpoints on; it ends with a save.
        kill: The step after which the signal is sent.
    """

    warm_up: int
    first_save: int
    last_measured: int
    kill: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Schedule:
        """Return the schedule that the suite's settings make."""
        interval, warm_up = int(settings["interval_steps"]), int(settings["warm_up_steps"])
        first_save = interval * math.ceil((warm_up + int(settings["baseline_steps"])) / interval)
        last_measured = first_save + interval * int(settings["measured_saves"])
        kill = last_measured + max(1, round(interval * float(settings["kill_fraction"])))
        return cls(warm_up=warm_up, first_save=first_save, last_measured=last_measured, kill=kill)


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A training process that was interrupted, and the one that took its place.

    Attributes:
        first: Events of the one that was interrupted.
        second: Events of the one that went on.
        signalled: When the signal was sent.
        ended: When the first process had ended.
        restarted: When the second process was started.
        schedule: At which steps what was to happen.
    """

    first: Sequence[_Event]
    second: Sequence[_Event]
    signalled: float
    ended: float
    restarted: float
    schedule: Schedule

    @property
    def saves(self) -> list[float]:
        """Seconds that each measured save stopped the loop for; not the first one, which allocates memory."""
        return [
            event["end"] - event["begin"]
            for event in _of(self.first, "saved")
            if self.schedule.first_save < event["step"] <= self.schedule.last_measured
        ]

    @property
    def first_saves(self) -> list[float]:
        """Seconds of the first save, as a list of one."""
        saved = _of(self.first, "saved")
        return [event["end"] - event["begin"] for event in saved if event["step"] == self.schedule.first_save]

    @property
    def uploads(self) -> list[float]:
        """Seconds of each complete upload of the first process."""
        return [event["end"] - event["begin"] for event in _of(self.first, "uploaded") if not event["error"]]

    @property
    def upload_errors(self) -> list[str]:
        """Why uploads failed, without those that were given up for a newer checkpoint."""
        errors = (event["error"] for event in _of(self.first, "uploaded") if event["error"])
        return [error for error in errors if error != "given up"]

    @property
    def checkpoint_bytes(self) -> int:
        """Size of a checkpoint."""
        return int(_of(self.first, "saved")[0]["size_bytes"])

    @property
    def baseline_steps(self) -> list[float]:
        """Seconds of each step without checkpoints."""
        return self._steps(self.schedule.warm_up, self.schedule.first_save)

    @property
    def overhead_percent(self) -> float:
        """Longer time of a step with checkpoints on, saves included, at the interval that was run.

        Both means go from the end of one step to the end of another, so that nothing in between is left out.
        """
        ends = {event["step"]: event["end"] for event in _of(self.first, "step")}
        saved = {event["step"]: event["end"] for event in _of(self.first, "saved")}
        begin, middle, end = self.schedule.warm_up, self.schedule.first_save, self.schedule.last_measured
        off = (ends[middle] - ends[begin]) / (middle - begin)
        on = (saved[end] - saved[middle]) / (end - middle)
        return float(on / off - 1) * 100

    @property
    def slowdown_percent(self) -> float:
        """Longer time of a median step beside the uploads, without the saves."""
        on = statistics.median(self._steps(self.schedule.first_save, self.schedule.last_measured))
        return (on / statistics.median(self.baseline_steps) - 1) * 100

    @property
    def restored_step(self) -> int | None:
        """Step that the second process went on from; None where it began anew."""
        restored = _of(self.second, "restored")
        return int(restored[0]["step"]) if restored else None

    @property
    def restore_seconds(self) -> float:
        """Seconds to find, check and load the checkpoint."""
        restored = _of(self.second, "restored")[0]
        return float(restored["end"] - restored["begin"])

    @property
    def restart_seconds(self) -> float:
        """Seconds from the second process's start to the end of its first step."""
        return float(_of(self.second, "step")[0]["end"] - self.restarted)

    @property
    def stop_seconds(self) -> float:
        """Seconds from the signal to the end of the process."""
        return self.ended - self.signalled

    @property
    def last_step(self) -> int:
        """The last step of the first process."""
        return int(_of(self.first, "step")[-1]["step"])

    @property
    def lost_steps(self) -> int:
        """Steps that the second process had to repeat."""
        return self.last_step - (self.restored_step or 0)

    @property
    def lost_seconds(self) -> float:
        """Seconds of the first process after the last step that was kept: they bought nothing."""
        kept = self.restored_step or 0
        ends = {event["step"]: float(event["end"]) for event in _of(self.first, "step")}
        return self.ended - ends[kept]

    @property
    def peak_bytes(self) -> int | None:
        """The most GPU memory that either process held; None on a CPU."""
        peaks = [event["peak_bytes"] for event in _of([*self.first, *self.second], "step")]
        return max((peak for peak in peaks if peak is not None), default=None)

    def differing(self, uninterrupted: dict[int, str]) -> list[int]:
        """Return the steps whose loss is not bit for bit that of an uninterrupted run."""
        steps = _of([*self.first, *self.second], "step")
        return sorted({event["step"] for event in steps if uninterrupted[event["step"]] != event["loss"]})

    def contradicting(self) -> list[int]:
        """Return the repeated steps whose loss was another one the first time."""
        first = {event["step"]: event["loss"] for event in _of(self.first, "step")}
        repeated = [event for event in _of(self.second, "step") if event["step"] in first]
        return [event["step"] for event in repeated if first[event["step"]] != event["loss"]]

    def _steps(self, after: int, up_to: int) -> list[float]:
        steps = _of(self.first, "step")
        return [event["end"] - event["begin"] for event in steps if after < event["step"] <= up_to]


def _of(events: Sequence[_Event], name: str) -> list[_Event]:
    return [event for event in events if event["event"] == name]
