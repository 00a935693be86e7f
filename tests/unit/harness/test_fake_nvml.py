"""The fake NVML speaks the real ABI: nvidia-ml-py reads it."""

import json
import subprocess
import sys

from support.fake_nvml import FakeNvml

READ = """
import json, sys, pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
memory = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
fields = pynvml.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_POWER_INSTANT])
processes = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)
print(json.dumps({
    "name": pynvml.nvmlDeviceGetName(gpu),
    "bus": pynvml.nvmlDeviceGetPciInfo(gpu).busId,
    "memory": [memory.total, memory.reserved, memory.used],
    "power": [fields[0].nvmlReturn, fields[0].value.uiVal],
    "pids": [process.pid for process in processes],
    "capability": pynvml.nvmlDeviceGetCudaComputeCapability(gpu),
}, default=lambda value: value.decode()))
"""


def test_nvidia_ml_py_reads_the_fake_library(fake_nvml: FakeNvml) -> None:
    fake_nvml.gpu(compute_pids="12,345")
    finished = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert json.loads(finished.stdout) == {
        "name": "NVIDIA H200",
        "bus": "00000000:00:00.0",
        "memory": [143771 << 20, 616 << 20, 0],
        "power": [0, 132430],
        "pids": [12, 345],
        "capability": [9, 0],
    }


def test_a_fault_is_answered_as_nvml_does(fake_nvml: FakeNvml) -> None:
    fake_nvml.fault("nvmlInitWithFlags", "LIB_RM_VERSION_MISMATCH")
    finished = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=False)
    assert "NVMLError_LibRmVersionMismatch" in finished.stderr
