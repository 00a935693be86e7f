"""Power, temperature, clocks and memory of the GPUs while a run lasts, by a process of its own.

`process` starts and ends it, `sampler` is what it does, `summary` reads what it wrote.
"""

from rentbench.harness.telemetry.process import TelemetryProcess
from rentbench.harness.telemetry.summary import TelemetrySummary, summarize

__all__ = ["TelemetryProcess", "TelemetrySummary", "summarize"]
