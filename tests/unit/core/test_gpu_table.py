"""The table of GPUs: sound in itself, and with an answer to every name that catalogues use."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core import gpus as gpus_module
from rentbench.core.gpus import all_gpus, canonical, gpu_by_key, identify

NAMES: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parents[2] / "fixtures" / "prices" / "skypilot_names.toml").read_text(encoding="utf-8")
)["names"]
TABLE = tomllib.loads(Path(gpus_module.__file__).with_name("gpus.toml").read_text(encoding="utf-8"))


def test_keys_are_unique_and_safe_in_paths() -> None:
    keys = [gpu.key for gpu in all_gpus()]
    assert len(keys) == len(set(keys)) == len(TABLE["gpu"])
    assert all(re.fullmatch(r"[a-z0-9-]+", key) for key in keys)


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.key)
def test_an_entry_is_sound(gpu) -> None:
    assert gpu.form_factor in ("sxm", "pcie", "nvl", "superchip")
    assert re.fullmatch(r"\d+\.\d", gpu.compute_capability)
    assert str(gpu.memory_gb) in gpu.title
    assert 100 < gpu.bandwidth_gb_s < 10_000
    assert gpu.source
    # bf16 in hardware begins with Ampere.
    assert gpu.bf16_dense_tflops is None or float(gpu.compute_capability) >= 8
    assert all(re.fullmatch(r"[a-z0-9]+", model) for model in gpu.models)


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.key)
def test_each_driver_name_finds_its_entry(gpu) -> None:
    """With the memory as NVML reads it: in MiB, a little less than nominal or more."""
    for name in gpu.names:
        for memory in (gpu.memory_gb * 1e9, gpu.memory_gb * 2**30, gpu.memory_gb * 2**30 * 0.96):
            assert canonical(name, int(memory)) == gpu
            assert canonical(name.removeprefix("NVIDIA "), int(memory)) == gpu
            assert identify(name, memory_gb=memory / 1e9).gpu == gpu


@pytest.mark.parametrize("name", NAMES)
def test_names_of_skypilots_catalogues(name: str) -> None:
    found = identify(name)
    if len(NAMES[name]) == 1:
        assert found.gpu is not None
        assert found.gpu.key == NAMES[name][0]
    elif NAMES[name]:
        assert found.gpu is None
        assert set(found.reason.removeprefix("can be ").split(" or ")) == set(NAMES[name])
        for key in NAMES[name]:
            gpu = gpu_by_key(key)
            assert gpu is not None
            assert key in found.reason
    else:
        assert found.on_purpose


def test_names_of_gpuhunt() -> None:
    constraints = pytest.importorskip("gpuhunt._internal.constraints")
    unanswered = []
    for accelerator in constraints.KNOWN_ACCELERATORS:
        found = identify(accelerator.name, memory_gb=accelerator.memory or None)
        if not (found.gpu or found.on_purpose or found.reason.startswith("can be ")):
            unanswered.append((accelerator.name, accelerator.memory))
        if found.gpu and getattr(accelerator, "compute_capability", None):
            major, minor = accelerator.compute_capability
            # gpuhunt has B300 and GB300 as 10.0; NVIDIA's list has 10.3.
            assert found.gpu.compute_capability == f"{major}.{minor}" or "b300" in found.gpu.key
    assert unanswered == []


@pytest.mark.parametrize(
    ("name", "memory_gb", "provider", "offer", "key"),
    [
        ("H100", 80, "aws", "p5.48xlarge", "h100-sxm-80gb"),
        ("H100", 80, "azure", "Standard_ND96isr_H100_v5", "h100-sxm-80gb"),
        ("H100", None, "azure", "Standard_NC40ads_H100_v5", "h100-nvl-94gb"),
        ("H100", 80, "runpod", "NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("H100", 80, "runpod", "NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("H100", 85.5, "vast", "1x-H100_SXM-32-65536", "h100-sxm-80gb"),
        ("H100", 100.5, "vast", "1x-H100_NVL-32-65536", "h100-nvl-94gb"),
        ("A100", 40, "lambda", "gpu_1x_a100", "a100-pcie-40gb"),
        ("A100", 40, "lambda", "gpu_8x_a100", "a100-sxm-40gb"),
        ("A100", 80, "lambda", "gpu_8x_a100_80gb_sxm4", "a100-sxm-80gb"),
        ("A100 (80 GB PCIe)", None, None, None, "a100-pcie-80gb"),
        ("A100 PCIe", 80, "runpod", "1x_A100-80GB_SECURE", "a100-pcie-80gb"),
        ("RTX_4070S_Ti", 17, None, None, "rtx-4070-ti-super-16gb"),
        ("RTX_3060_Ti", 8.6, None, None, "rtx-3060-ti-8gb"),
        ("B200 (180 GB SXM6)", None, None, None, "b200-sxm-180gb"),
        ("H100NVL", 94, None, None, "h100-nvl-94gb"),
        ("A800PCIE", 80, None, None, "a800-pcie-80gb"),
        ("H100SXM5", 80, None, None, "h100-sxm-80gb"),
        ("Tesla_V100", 17.2, "gcp", "n1-standard-8", "v100-sxm-16gb"),
    ],
)
def test_memory_form_factor_and_machine_type_decide(name, memory_gb, provider, offer, key) -> None:
    found = identify(name, memory_gb=memory_gb, provider=provider, offer=offer)
    assert found.gpu is not None, found.reason
    assert found.gpu.key == key


@pytest.mark.parametrize(
    ("name", "memory_gb", "reason"),
    [
        ("RTX4090", 51.5, "not with 51.5 GB"),
        ("RTX 4090", 48, "not with 48 GB"),
        ("H100", 80, "can be h100-sxm-80gb or h100-pcie-80gb"),
        ("A100", None, "can be"),
        ("H101", None, "no such model"),
        ("NVIDIA H100 MIG 1g.10gb", 10, "no such model"),
        ("MIG 1g.24gb", 24, "no such model"),
        ("GRID V100DX-16Q", 16, "no such model"),
        ("", None, "no such model"),
    ],
)
def test_what_is_not_sure_is_not_guessed(name: str, memory_gb: float | None, reason: str) -> None:
    found = identify(name, memory_gb=memory_gb)
    assert found.gpu is None
    assert not found.on_purpose
    assert reason in found.reason


def test_machine_types_name_entries_that_are_there() -> None:
    assert {machine["gpu"] for machine in TABLE["machine"]} <= {gpu.key for gpu in all_gpus()}


@given(
    name=st.text(max_size=60), memory_gb=st.none() | st.floats(0, 1e6), offer=st.none() | st.text(max_size=30)
)
def test_any_text_has_an_answer(name: str, memory_gb: float | None, offer: str | None) -> None:
    found = identify(name, memory_gb=memory_gb, provider="vast", offer=offer)
    assert (found.gpu is None) == bool(found.reason)
