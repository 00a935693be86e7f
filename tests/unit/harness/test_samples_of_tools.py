"""The parsers over real outputs of other people's machines, where those are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rentbench.harness.failures.classify import classify
from rentbench.harness.privacy import redact
from rentbench.harness.probe import nvidia_smi
from rentbench.harness.probe.inventory import FIELDS
from rentbench.harness.probe.topology import TopologyError, parse_topology, summary

SAMPLES = Path(os.environ.get("RENTBENCH_SHARED", Path(__file__).parents[4] / "shared")) / "samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples in {SAMPLES}")


def files(folder: str) -> list[Path]:
    return sorted((SAMPLES / folder).iterdir()) if SAMPLES.is_dir() else []


def section(capture: str, command: str) -> str:
    """Return what a whole capture holds of one command's output."""
    return capture.split(f"# $ {command}", 1)[1].split("####\n", 1)[1].split("\n\n\n####")[0]


@pytest.mark.parametrize("file", files("nvidia-smi-xml"), ids=lambda file: file.stem)
def test_xml(file: Path) -> None:
    inventory = nvidia_smi.parse_query(file.read_text())
    assert len(inventory.gpus) == 1
    gpu = inventory.gpus[0]
    assert gpu.values["name"] not in {"", "unknown"}
    assert set(gpu.values) <= set(FIELDS)
    assert gpu.values["memory_total_bytes"] > 1 << 30
    assert gpu.values.get("power_limit_watts") != 0
    assert gpu.uuid is not None
    assert gpu.uuid not in redact(nvidia_smi.scrub(file.read_text()))


def test_xml_of_particular_machines() -> None:
    gpus = {file.stem: nvidia_smi.parse_query(file.read_text()).gpus[0] for file in files("nvidia-smi-xml")}
    mig = gpus["a100-sxm4-v12"]
    assert (mig.values["mig_mode"], len(mig.mig)) == (True, 4)
    assert mig.mig[0].memory["memory_total_bytes"] == 19968 << 20
    assert "power_limit_watts" not in gpus["gtx-1070-ti"].values
    assert gpus["tesla-t4"].values["power_limit_watts"] == 70.0
    assert gpus["rtx-3080-v12"].values["power_limit_watts"] == 336.0
    assert gpus["rtx-3080-v12"].values["power_limit_default_watts"] == 320.0
    assert gpus["h200-580.159.04"].values["memory_usable_bytes"] == (143771 - 616) << 20
    assert gpus["rtx-4000-sff-ada-v13"].values["pcie_generation"] == 1


@pytest.mark.parametrize(
    ("file", "count", "word"),
    [
        ("1xH200_ansi.txt", 1, "single"),
        ("2gpu_NV2_spaces.txt", 2, "NVLink"),
        ("2gpu_PHB_spaces.txt", 2, "PHB"),
        ("8x4090_NICs_SYS__go-gpuallocator-17.txt", 8, "SYS"),
        ("8xA100_NV12_spaces.txt", 8, "NVLink"),
    ],
)
def test_topologies(file: str, count: int, word: str) -> None:
    matrix = parse_topology((SAMPLES / "topo" / file).read_text())
    assert (len(matrix), summary(matrix)) == (count, word)


@pytest.mark.parametrize("file", files("nvidia-smi"), ids=lambda file: file.stem)
def test_whole_captures(file: Path) -> None:
    capture = file.read_text()
    topology = section(capture, "nvidia-smi topo -m")
    if "windows" in file.name:
        with pytest.raises(TopologyError, match="Option -m is missing its value"):
            parse_topology(topology)
    else:
        assert parse_topology(topology) == [["X"]]
    row = nvidia_smi.parse_csv(section(capture, "nvidia-smi --query-gpu"))[0]
    assert nvidia_smi.number(row["memory.total"], "B")
    assert nvidia_smi.number(row["power.draw"], "W")
    assert row["power.management"] is None
    assert row["clocks_event_reasons.sw_power_cap"] in {"Active", "Not Active"}
    assert nvidia_smi.number(row["clocks_event_reasons_counters.sw_power_cap"], "us") is not None
    busy = nvidia_smi.number(row["utilization.gpu"], "%")
    assert (busy is None) == ("mig" in file.name)
    profiles = [profile for profile, _ in nvidia_smi.mig_names(section(capture, "nvidia-smi -L"))[0]]
    assert profiles == (["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"] if "mig" in file.name else [])


def test_a_kernel_log_with_a_hanging_gpu() -> None:
    log = (SAMPLES / "gpud" / "dmesg-with-xid-119.log").read_text()
    error = classify(log, returncode=1)
    assert error["kind"] == "host_fault"
    for identifier in ("509665ad", "1650124014249"):
        assert identifier not in repr(error)
    assert "PCI:0000:9b:00" in (error["log_tail"] or "")
