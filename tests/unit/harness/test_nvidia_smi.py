"""nvidia-smi's XML, CSV and lists: drivers of all ages, every way to say nothing, and hostile input."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.probe.nvidia_smi import (
    mig_names,
    number,
    parse_csv,
    parse_query,
    scrub,
    text,
)
from rentbench.harness.probe.safe_xml import XmlError, parse_xml
from rentbench.harness.throttle import reasons_from_bits

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nvidia_smi"
SILENT = [
    "N/A", "[N/A]", "[Not Supported]", "Not Supported", "[Unknown Error]", "Unknown Error", "ERR!", "", "  ",
    "Requested functionality has been deprecated", "[Requested functionality has been deprecated]",
    "[Requested", "GPU is lost", "GPU requires reset", "Insufficient Permissions", "No Permission",
    "Function Not Found", "Not available in WDDM driver model", "[Not Found]", "Unknown", "n/a",
]  # fmt: skip


def read(name: str) -> str:
    return (FIXTURES / name).read_text()


@pytest.mark.parametrize("silence", SILENT)
def test_ways_to_say_nothing(silence: str) -> None:
    assert text(silence) is None
    assert number(silence, "W") is None


@pytest.mark.parametrize(
    ("printed", "unit", "value"),
    [
        ("631.95 W", "W", 631.95), ("100 %", "%", 100), ("81559 MiB", "B", 81559 << 20),
        ("345 MHz", "MHz", 345), ("204642816 us", "us", 204642816), ("16x", "x", 16), ("-8 C", "C", -8),
        ("5", "", 5), ("2 GiB", "B", 2 << 30), ("1 GHz", "MHz", None), ("631.95", "W", None),
        ("12 MB", "B", None), ("0x10", "", None), ("1e5", "", None), ("٣ W", "W", None), (None, "W", None),
    ],
)  # fmt: skip
def test_numbers_with_their_unit(printed: str | None, unit: str, value: float | None) -> None:
    assert number(printed, unit) == value


def test_a_new_driver() -> None:
    inventory = parse_query(
        read("h200-580.xml"), capabilities={"GPU-11111111-2222-3333-4444-555555555555": "9.0"}
    )
    gpu = inventory.gpus[0]
    assert (inventory.driver_version, inventory.cuda_driver_version, inventory.problem) == (
        "580.159.04",
        "13.0",
        None,
    )
    assert (gpu.serial, gpu.pci_bus_id) == ("1650522003820", "0000:00:06.0")
    assert gpu.values == {
        "name": "NVIDIA H200",
        "memory_total_bytes": 143771 << 20,
        "memory_usable_bytes": 143155 << 20,
        "memory_used_before_bytes": 0,
        "compute_capability": "9.0",
        "vbios": "96.00.CC.00.0D",
        "power_limit_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "power_limit_max_watts": 700.0,
        "clock_max_sm_mhz": 1980.0,
        "clock_max_memory_mhz": 3201.0,
        "ecc_enabled": True,
        "ecc_uncorrected_errors": 6,
        "remapped_rows": {"correctable": 0, "uncorrectable": 1, "pending": True, "failed": False},
        "persistence_mode": True,
        "mig_mode": False,
        "vgpu": False,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }


def test_a_driver_with_the_old_names() -> None:
    gpu = parse_query(read("t4-515.xml")).gpus[0]
    assert gpu.values["power_limit_watts"] == 60.0
    assert gpu.values["power_limit_default_watts"] == 70.0
    assert gpu.values["ecc_uncorrected_errors"] == 7
    assert gpu.values["pcie_width"] == 8
    assert gpu.values["persistence_mode"] is False
    assert gpu.values["vgpu"] is False
    assert not {"remapped_rows", "mig_mode", "compute_capability"} & set(gpu.values)


def test_a_card_that_says_nothing_has_no_values_and_no_zeros() -> None:
    gpu = parse_query(read("silent-418.xml")).gpus[0]
    assert gpu.values == {"name": "GeForce GTX 1070 Ti"}


def test_mig_devices_get_their_names_from_the_list() -> None:
    gpu = parse_query(read("a100-mig-535.xml"), mig=mig_names(read("mig-list.txt"))).gpus[0]
    assert gpu.values["mig_mode"] is True
    assert [part.profile for part in gpu.mig] == ["3g.40gb", "1g.10gb"]
    assert [part.memory["memory_total_bytes"] for part in gpu.mig] == [40448 << 20, 9984 << 20]
    assert gpu.mig[1].uuid == "MIG-00000000-0000-0000-0000-000000000002"
    assert [part.profile for part in parse_query(read("a100-mig-535.xml")).gpus[0].mig] == [None, None]


def test_throttle_bits() -> None:
    assert reasons_from_bits(0x1) == frozenset()  # idle is no throttle
    assert reasons_from_bits(0x1FF) == {
        "power_cap", "thermal_software", "thermal_hardware", "power_brake", "hardware_slowdown", "sync_boost",
        "application_clocks", "display_clocks",
    }  # fmt: skip
    assert reasons_from_bits(1 << 40) == frozenset()


def test_csv_rows() -> None:
    first, second = parse_csv(read("query.csv"))
    assert number(first["power.draw"], "W") == 631.95
    assert number(first["utilization.gpu"], "%") == 100
    assert number(first["memory.total"], "B") == 81559 << 20
    assert number(first["clocks_event_reasons_counters.sw_power_cap"], "us") == 204642816
    assert first["clocks_event_reasons.sw_power_cap"] == "Active"
    assert (first["hostname"], first["power.management"], second["utilization.gpu"]) == (None, None, None)
    assert parse_csv("") == []
    assert parse_csv("a, b\n1\n") == []


def test_what_names_a_board_or_a_person_is_scrubbed() -> None:
    clean = scrub(read("h200-580.xml"))
    for secret in (
        "1650522003820",
        "GPU-11111111",
        "0x9b8f4813893499eb",
        "7654321098765",
        "alice",
        "hunter2",
    ):
        assert secret not in clean
    assert parse_query(clean).gpus[0].values["name"] == "NVIDIA H200"


BOMB = """<?xml version="1.0"?>
<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<nvidia_smi_log><gpu id="0"><product_name>&b;</product_name></gpu></nvidia_smi_log>"""
FILE = """<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>
<nvidia_smi_log><gpu id="0"><product_name>&f;</product_name></gpu></nvidia_smi_log>"""


@pytest.mark.parametrize(
    "hostile",
    [
        BOMB,
        FILE,
        "",
        "no xml",
        "<a>",
        "<a>" * 100 + "</a>" * 100,
        "<a/><b/>",
        "<nvidia_smi_log>\x00</nvidia_smi_log>",
    ],
)
def test_hostile_xml_is_a_problem_and_no_end(hostile: str) -> None:
    with pytest.raises(XmlError):
        parse_xml(hostile)
    assert "no XML that can be read" in (parse_query(hostile).problem or "")


def test_the_doctype_that_names_a_file_is_normal() -> None:
    assert parse_xml('<!DOCTYPE x SYSTEM "nvsmi_device_v13.dtd"><x>1</x>').text == "1"


@given(st.text(max_size=300))
def test_any_text_is_survived(anything: str) -> None:
    parse_query(anything)
    parse_query(f"<nvidia_smi_log><gpu><x>{anything}</x></gpu></nvidia_smi_log>")
    parse_csv(anything)
    mig_names(anything)
    scrub(anything)
