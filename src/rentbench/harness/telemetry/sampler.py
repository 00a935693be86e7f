"""The sampling process: about once a second it asks each GPU and writes one line.

The file is JSON lines: the header, then `{"gpus": n, "problem": …}` once the driver answers, for each sample
`{"t": …, "gpus": [[…], null, …]}` with the header's columns, `{"gap": …}` where a reading begins to fail, and
`{"end": …}`. Each GPU has a thread of its own, so that one that hangs takes no other with it: its readings
are null then, and an answer that comes too late is thrown away, never shown as new.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any, Final

from rentbench.core.ids import utc_now
from rentbench.harness.nvml import Reader
from rentbench.harness.telemetry.foreign import count_foreign, unreliable_because

if TYPE_CHECKING:
    from rentbench.harness.nvml import Sensor

__all__ = ["COLUMNS", "sample"]

COLUMNS: Final = (
    "power_watts",
    "power_kind",
    "temperature_celsius",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "utilization_percent",
    "memory_used_bytes",
    "energy_millijoules",
    "throttle_bits",
    "foreign_processes",
    "pcie_generation",
    "pcie_width",
)
_PATIENCE: Final = 0.8  # of an interval, for all GPUs to answer
_OPENING_STEP_SECONDS: Final = 0.05

Row = list[Any]
Reasons = dict[str, str]


class _Gpu(threading.Thread):
    """Asks one GPU when told to."""

    def __init__(self, index: int, sensor: Sensor, ours: int, answers: queue.SimpleQueue[Any]) -> None:
        super().__init__(daemon=True, name=f"GPU {index}")
        self.index = index
        self.requests: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.busy = False
        self._sensor = sensor
        self._ours = ours
        self._answers = answers
        self._pids_unreliable = unreliable_because()

    def run(self) -> None:
        while True:
            tick = self.requests.get()
            self._answers.put((self.index, tick, *self._read()))

    def _read(self) -> tuple[Row, Reasons]:
        sensor = self._sensor
        power, kind, power_reason = sensor.power()
        readings = {
            "power_watts": (power, power_reason),
            "power_kind": (kind, None),
            "temperature_celsius": sensor.temperature(),
            "clock_sm_mhz": sensor.clock_sm(),
            "clock_memory_mhz": sensor.clock_memory(),
            "utilization_percent": sensor.utilization(),
            "memory_used_bytes": sensor.memory_used(),
            "energy_millijoules": sensor.energy(),
            "throttle_bits": sensor.throttle_bits(),
            "foreign_processes": self._foreign(),
            "pcie_generation": sensor.pcie_generation(),
            "pcie_width": sensor.pcie_width(),
        }
        row = [readings[column][0] for column in COLUMNS]
        return row, {column: reason for column, (_, reason) in readings.items() if reason}

    def _foreign(self) -> tuple[int | None, str | None]:
        if self._pids_unreliable:
            return None, self._pids_unreliable
        pids, reason = self._sensor.processes()
        if pids is None:
            return None, reason
        if 0 in pids:
            return None, "the driver hides process ids"
        return count_foreign(pids, self._ours), None


class _Stop:
    """Tells when to end: SIGTERM, SIGINT, the end of standard input, or another parent than at the start."""

    def __init__(self) -> None:
        self.why: str | None = None
        self._parent = os.getppid()
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _: object) -> None:
        self.why = signal.Signals(number).name

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as it is time to end."""
        ready, _, _ = select.select([self._woken, 0], [], [], max(0.0, seconds))
        if 0 in ready and not os.read(0, 4096):
            self.why = self.why or "standard input ended"
        if os.getppid() != self._parent:
            self.why = self.why or "the parent ended"


class _Sampler:
    def __init__(self, file: IO[str], interval: float, ours: int) -> None:
        self._file = file
        self._interval = interval
        self._ours = ours
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._gpus: list[_Gpu | None] = []
        self._gaps: dict[tuple[int, str], str] = {}
        self._tick = 0

    def write(self, **line: object) -> None:
        self._file.write(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n")
        self._file.flush()

    def open(self, stop: _Stop) -> bool:
        """Start the driver's library; return whether there is a GPU to sample."""
        readers: list[Reader] = []
        opening = threading.Thread(target=lambda: readers.append(Reader()), daemon=True)
        opening.start()
        while opening.is_alive() and not stop.why:
            stop.wait(_OPENING_STEP_SECONDS)
        if not readers:
            self.write(gpus=0, problem="NVML did not answer before the end")
            return False
        reader = readers[0]
        self.write(gpus=reader.count, problem=reader.reason)
        for index, sensor in enumerate(reader.sensors):
            if sensor is None:
                self._gpus.append(None)
                self._note_gaps(index, {"": "the driver cannot open the GPU"})
                continue
            gpu = _Gpu(index, sensor, self._ours, self._answers)
            self._gpus.append(gpu)
            gpu.start()
        return bool(self._gpus)

    def sample(self) -> None:
        """Ask all GPUs and write what they answer in time."""
        self._tick += 1
        begun = time.monotonic()
        for gpu in self._gpus:
            if gpu and not gpu.busy:
                gpu.busy = True
                gpu.requests.put(self._tick)
        rows: list[Row | None] = [None] * len(self._gpus)
        waiting = {gpu.index for gpu in self._gpus if gpu}
        deadline = begun + _PATIENCE * self._interval
        while waiting:
            try:
                index, tick, row, reasons = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            answered = self._gpus[index]
            if answered:
                answered.busy = False
            if tick == self._tick:
                rows[index] = row
                waiting.discard(index)
                self._note_gaps(index, reasons)
        for index in waiting:
            self._note_gaps(index, {"": "NVML gave no answer in time"})
        self.write(t=round(begun, 4), gpus=rows)

    def _note_gaps(self, index: int, reasons: Reasons) -> None:
        """Write why readings fail, once for each reason."""
        for column, reason in reasons.items():
            if self._gaps.get((index, column)) != reason:
                self._gaps[index, column] = reason
                self.write(gap=index, column=column, reason=reason)

    def run(self, stop: _Stop) -> None:
        self.write(
            telemetry=1,
            started=utc_now(),
            monotonic=round(time.monotonic(), 4),
            interval=self._interval,
            columns=COLUMNS,
        )
        if self.open(stop):
            due = time.monotonic()
            while not stop.why:
                self.sample()
                due += self._interval
                if (late := time.monotonic() - due) > 0:
                    due += self._interval * (1 + late // self._interval)  # the beat goes on; no catching up
                while not stop.why and (left := due - time.monotonic()) > 0:
                    stop.wait(left)
            self.sample()
        self.write(end=round(time.monotonic(), 4), why=stop.why or "there is no GPU to sample")


def sample(file: IO[str], *, interval_seconds: float) -> None:
    """Sample until SIGTERM, SIGINT, the end of standard input or of the parent; then end this process.

    Args:
        file: To write to.
        interval_seconds: Between two samples.
    """
    with contextlib.suppress(OSError):  # the disk is full: what is written stays
        _Sampler(file, interval_seconds, os.getppid()).run(_Stop())
        file.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread whose call into the driver never returns must not keep the process
