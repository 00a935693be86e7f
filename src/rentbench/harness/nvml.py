"""Readings from NVIDIA's management library (NVML), through nvidia-ml-py, which is imported on use only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.probe.visible import Identity, visible_gpus
from rentbench.harness.throttle import reasons_from_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GpuReading", "Nvml", "NvmlUnavailableError", "Reader", "Sensor"]

Device = Any
"""NVML's opaque handle of a GPU or of a MIG device."""
Number = tuple[int | None, str | None]
"""(value, None) or (None, reason)."""

# nvml.h. The binding has names for them, but an old one not for all.
CLOCK_SM: Final = 1
CLOCK_MEMORY: Final = 2
_TEMPERATURE_GPU: Final = 0
_FIELD_POWER_INSTANT: Final = 186
_ARCHITECTURE_TURING: Final = 6

# The words of nvidia-smi where the binding has others, so that one pattern finds both.
_WORDS: Final = {
    12: "NVML library not found (no NVIDIA driver here)",
    18: "Driver/library version mismatch",
}


class NvmlUnavailableError(Exception):
    """NVML cannot be used here; the message says why."""


class Nvml:
    """The library, opened. A question brings an answer or a reason, and never raises.

    Raises:
        NvmlUnavailableError: It is not installed, or does not start.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            msg = "nvidia-ml-py is not installed"
            raise NvmlUnavailableError(msg) from error
        self._library = pynvml
        _, reason = self.ask("nvmlInit")
        if reason:
            msg = f"Failed to initialize NVML: {reason}"
            raise NvmlUnavailableError(msg)

    def ask(self, function: str, *arguments: Any, **options: Any) -> tuple[Any, str | None]:  # noqa: ANN401
        """Return (what the binding's function returns, None), or (None, the reason)."""
        try:
            return getattr(self._library, function)(*arguments, **options), None
        except self._library.NVMLError as error:
            return None, _WORDS.get(error.value, str(error))
        except (AttributeError, UnicodeDecodeError) as error:
            # A binding or a driver of another age: a function is missing, or a name is no UTF-8.
            return None, f"{type(error).__name__}: {error}"

    def devices(self) -> tuple[list[tuple[Device | None, str | None]], str | None]:
        """Return (handle, reason for None) of each GPU in PCI order, and why they cannot be counted."""
        count, reason = self.ask("nvmlDeviceGetCount")
        return [self.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count or 0)], reason

    def memory(self, device: Device) -> tuple[Any, str | None]:
        """Return `total`, `used` and `free` bytes, and since driver 510 `reserved`."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        if version is not None:
            memory, _ = self.ask("nvmlDeviceGetMemoryInfo", device, version=version)
            if memory is not None:
                return memory, None
        return self.ask("nvmlDeviceGetMemoryInfo", device)

    def mig_mode(self, device: Device) -> bool:
        """Tell whether the GPU is cut into MIG devices; False where it cannot be."""
        modes, _ = self.ask("nvmlDeviceGetMigMode", device)
        return bool(modes and modes[0])

    def mig_devices(self, device: Device) -> list[Device]:
        """Return the handles of a GPU's MIG devices, in the driver's order."""
        most, _ = self.ask("nvmlDeviceGetMaxMigDeviceCount", device)
        found = [
            self.ask("nvmlDeviceGetMigDeviceHandleByIndex", device, index)[0] for index in range(most or 0)
        ]
        return [handle for handle in found if handle is not None]

    def close(self) -> None:
        """Let the library go."""
        self.ask("nvmlShutdown")


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """One reading of one GPU; None where the driver does not say.

    Attributes:
        power_kind: What `power_watts` is: `instant`, or `average` (over the last second).
        throttle: Reasons in the schema's words (`power_cap`, …), without the idle flag.
    """

    power_watts: float | None = None
    power_kind: str | None = None
    temperature_celsius: float | None = None
    clock_sm_mhz: float | None = None
    clock_memory_mhz: float | None = None
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    throttle: frozenset[str] | None = None


class Sensor:
    """What can be read of one GPU while it works; every reading is (value, None) or (None, reason)."""

    def __init__(self, nvml: Nvml, gpu: Device, memory: Device) -> None:
        self._nvml = nvml
        self._gpu = gpu
        self._memory = memory  # the GPU again, or the MIG device whose memory the run has
        architecture, _ = nvml.ask("nvmlDeviceGetArchitecture", gpu)
        capability, _ = nvml.ask("nvmlDeviceGetCudaComputeCapability", gpu)
        # `nvidia-smi --help-query-gpu`: power.draw is the power at this moment up to Turing, and the average
        # over the last second since Ampere; on GA100 (8.0) the help contradicts itself.
        self._plain_power_kind: str | None = None
        if architecture is not None and tuple(capability or ()) != (8, 0):
            self._plain_power_kind = "instant" if architecture <= _ARCHITECTURE_TURING else "average"

    def power(self) -> tuple[float | None, str | None, str | None]:
        """Return (watts, kind, reason): the board's power at this moment where the driver can tell it."""
        fields, _ = self._nvml.ask("nvmlDeviceGetFieldValues", self._gpu, [_FIELD_POWER_INSTANT])
        if fields and fields[0].nvmlReturn == 0:
            return fields[0].value.uiVal / 1000, "instant", None
        milliwatts, reason = self._nvml.ask("nvmlDeviceGetPowerUsage", self._gpu)
        if milliwatts is None:
            return None, None, reason
        return milliwatts / 1000, self._plain_power_kind, None

    def temperature(self) -> Number:
        """Return the GPU's temperature, °C."""
        return self._nvml.ask("nvmlDeviceGetTemperature", self._gpu, _TEMPERATURE_GPU)

    def clock_sm(self) -> Number:
        """Return the clock of the multiprocessors, MHz."""
        return self._nvml.ask("nvmlDeviceGetClockInfo", self._gpu, CLOCK_SM)

    def clock_memory(self) -> Number:
        """Return the memory's clock, MHz."""
        return self._nvml.ask("nvmlDeviceGetClockInfo", self._gpu, CLOCK_MEMORY)

    def utilization(self) -> Number:
        """Return in how much of the driver's last sample period a kernel ran, percent."""
        rates, reason = self._nvml.ask("nvmlDeviceGetUtilizationRates", self._gpu)
        return (None if rates is None else rates.gpu), reason

    def memory_used(self) -> Number:
        """Return the memory in use, bytes; without the driver's own where it tells the two apart."""
        memory, reason = self._nvml.memory(self._memory)
        return (None if memory is None else int(memory.used)), reason

    def throttle_bits(self) -> Number:
        """Return NVML's mask of clock event reasons ("throttle reasons" before driver 535)."""
        bits, reason = self._nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", self._gpu)
        if bits is None:
            bits, _ = self._nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._gpu)
        return bits, (reason if bits is None else None)

    def energy(self) -> Number:
        """Return the energy used since the driver was loaded, millijoules."""
        return self._nvml.ask("nvmlDeviceGetTotalEnergyConsumption", self._gpu)

    def pcie_generation(self) -> Number:
        """Return the PCIe generation that the link runs at now."""
        return self._nvml.ask("nvmlDeviceGetCurrPcieLinkGeneration", self._gpu)

    def pcie_width(self) -> Number:
        """Return how many PCIe lanes the link uses now."""
        return self._nvml.ask("nvmlDeviceGetCurrPcieLinkWidth", self._gpu)

    def processes(self) -> tuple[set[int] | None, str | None]:
        """Return the ids of the processes on the GPU, as the driver gives them."""
        compute, reason = self._nvml.ask("nvmlDeviceGetComputeRunningProcesses", self._gpu)
        if compute is None:
            return None, reason
        graphics, _ = self._nvml.ask("nvmlDeviceGetGraphicsRunningProcesses", self._gpu)
        return {process.pid for process in [*compute, *(graphics or [])]}, None

    def reading(self) -> GpuReading:
        """Return one reading of what changes under load."""
        power, power_kind, _ = self.power()
        bits, _ = self.throttle_bits()
        return GpuReading(
            power_watts=power,
            power_kind=power_kind,
            temperature_celsius=self.temperature()[0],
            clock_sm_mhz=self.clock_sm()[0],
            clock_memory_mhz=self.clock_memory()[0],
            utilization_percent=self.utilization()[0],
            memory_used_bytes=self.memory_used()[0],
            throttle=None if bits is None else reasons_from_bits(bits),
        )


class Reader:
    """Reads GPUs beside running kernels, without a CUDA call. Never raises.

    Attributes:
        reason: Why nothing can be read; None when it can.
        sensors: Those of the GPUs that CUDA sees, in CUDA's order; None for one that the driver cannot open.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.reason: str | None = None
        self.sensors: list[Sensor | None] = []
        try:
            self._nvml: Nvml | None = Nvml()
        except NvmlUnavailableError as error:
            self._nvml = None
            self.reason = str(error)
            return
        devices, self.reason = self._nvml.devices()
        self.sensors = _visible_sensors(self._nvml, [device for device, _ in devices], environment)
        if not self.sensors and self.reason is None:
            self.reason = "CUDA_VISIBLE_DEVICES hides all GPUs" if devices else "the driver lists no GPU"

    @property
    def count(self) -> int:
        """How many GPUs there are to read."""
        return len(self.sensors)

    def reading(self, index: int = 0) -> GpuReading:
        """Return what the GPU (CUDA's number) says now; all None where it says nothing."""
        sensor = self.sensors[index] if 0 <= index < len(self.sensors) else None
        return sensor.reading() if sensor else GpuReading()

    def close(self) -> None:
        """Let the library go."""
        if self._nvml:
            self._nvml.close()
        self.sensors = []


def _visible_sensors(
    nvml: Nvml, devices: list[Device | None], environment: Mapping[str, str]
) -> list[Sensor | None]:
    identities: list[Identity] = []
    slices: list[list[Device]] = []
    for device in devices:
        cut = device is not None and nvml.mig_mode(device)
        parts = nvml.mig_devices(device) if cut else []
        slices.append(parts)
        identities.append(
            Identity(
                uuid=None if device is None else nvml.ask("nvmlDeviceGetUUID", device)[0],
                mig_mode=cut,
                mig_uuids=[nvml.ask("nvmlDeviceGetUUID", part)[0] for part in parts],
            )
        )
    sensors: list[Sensor | None] = []
    for seen in visible_gpus(identities, environment):
        device = devices[seen.index]
        memory = device if seen.mig is None else slices[seen.index][seen.mig]
        sensors.append(None if device is None else Sensor(nvml, device, memory))
    return sensors
