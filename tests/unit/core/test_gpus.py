"""Names of GPUs: folders by what the driver says, models only where the table is sure."""

import pytest

from rentbench.core.gpus import canonical, gpu_folder

MIB = 2**20


def gpus(*names: str, mig_profile: str | None = None) -> list[dict]:
    return [{"name": name, "mig_profile": mig_profile} for name in names]


@pytest.mark.parametrize(
    ("hosts", "folder"),
    [
        ([], "cpu"),
        (gpus("NVIDIA H200"), "nvidia-h200"),
        (gpus(*["NVIDIA H200"] * 8), "nvidia-h200-x8"),
        (gpus("NVIDIA GeForce RTX 4090"), "nvidia-geforce-rtx-4090"),
        (gpus("NVIDIA H100 80GB HBM3", mig_profile="1g.10gb"), "nvidia-h100-80gb-hbm3-mig-1g-10gb"),
        (gpus("NVIDIA H100 MIG 1g.10gb", mig_profile="1g.10gb"), "nvidia-h100-mig-1g-10gb"),
        (gpus("Tesla T4", "NVIDIA L4", "Tesla T4"), "mixed-nvidia-l4-x1-tesla-t4-x2"),
        (gpus("../../etc/passwd"), "etc-passwd"),
        (gpus("///"), "unnamed"),
        (gpus("CPU"), "gpu-cpu"),
        (gpus("unknown"), "gpu-unknown"),
    ],
)
def test_folders(hosts: list[dict], folder: str) -> None:
    assert gpu_folder(hosts) == folder


def test_folders_of_any_host_are_short() -> None:
    assert len(gpu_folder(gpus(*(f"NVIDIA model {number}" for number in range(64))))) < 100
    assert len(gpu_folder(gpus("x" * 256))) < 100


@pytest.mark.parametrize(
    ("name", "mebibytes", "key"),
    [
        ("NVIDIA H200", 143771, "h200-sxm-141gb"),
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm-80gb"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm-80gb"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090-24gb"),
        (" nvidia h200 ", 143771, "h200-sxm-141gb"),
        ("NVIDIA H200", None, "h200-sxm-141gb"),
        ("NVIDIA H200 NVL", 143771, "h200-nvl-141gb"),
        ("A100-SXM4-40GB", 40960, "a100-sxm-40gb"),
        ("NVIDIA GeForce RTX 3080", 10240, "rtx-3080-10gb"),
        ("NVIDIA GeForce RTX 3080", 12288, "rtx-3080-12gb"),
    ],
)
def test_models_of_the_table(name: str, mebibytes: int | None, key: str) -> None:
    model = canonical(name, None if mebibytes is None else mebibytes * MIB)
    assert model is not None
    assert model.key == key


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [("NVIDIA GeForce RTX 4090", 49140), ("NVIDIA H200", 71000), ("NVIDIA H300", 143771), ("", 1)],
)
def test_nothing_near_is_taken_for_it(name: str, mebibytes: int) -> None:
    assert canonical(name, mebibytes * MIB) is None


def test_a_name_of_two_cards_needs_the_memory() -> None:
    assert canonical("NVIDIA GeForce RTX 3080", None) is None
