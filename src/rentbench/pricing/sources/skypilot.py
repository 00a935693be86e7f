"""SkyPilot's catalogues, as SkyPilot keeps them on this computer: `~/.sky/catalogs/v8/<cloud>/vms.csv`.

Only the files are read, so SkyPilot itself need not be imported (it is large and starts a server). They
are as old as their files say; `sky gpus list` fetches newer ones. Traps of these files:

- Prices are for the whole machine, at every cloud. Blank and 0.00 mean that there is none.
- RunPod's `SizeInMiB` is in GB. Vast's is that of all GPUs together; others give one GPU's.
- Vast's machine types name the form factor that its accelerator names lack (`1x-H100_NVL-32-65536` is an
  `H100`).
"""

from __future__ import annotations

import csv
import io
import re
from ast import literal_eval
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rentbench.core.errors import RentbenchError, UnusableInputError, UsageError
from rentbench.core.files import read_bytes
from rentbench.pricing.http import SourceError
from rentbench.pricing.listings import Listing, gpus_of, provider_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rentbench.pricing.offers import Tier
    from rentbench.pricing.snapshots import Snapshot

__all__ = ["SkypilotSource"]

_COLUMNS = {"InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region"}
_FORM_FACTOR = re.compile(r"\b(SXM|PCIe|NVL)\b", re.IGNORECASE)
_MIB = 2**20 / 1e9  # in GB
_SMALLEST_MIB = 1024  # below, a size can only be in GB


@dataclass(frozen=True, kw_only=True)
class SkypilotSource:
    """Reads SkyPilot's catalogues.

    Attributes:
        catalogs: Their folder; SkyPilot's own by default.
    """

    catalogs: Path | None = None

    name = "skypilot"

    def read(self) -> Iterable[Snapshot | RentbenchError]:
        """Yield a snapshot a cloud.

        Raises:
            SourceError: There are no catalogues here.
        """
        root = self.catalogs or Path.home() / ".sky" / "catalogs"
        versions = sorted(root.glob("v*"), key=lambda folder: int(re.sub(r"\D", "", folder.name) or 0))
        files = sorted(versions[-1].glob("*/vms.csv")) if versions else []
        if not files:
            msg = f"no catalogues of SkyPilot in {root}"
            raise SourceError(msg, hint="install SkyPilot, and fetch them: sky gpus list")
        for path in files:
            try:
                moment = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
                text = read_bytes(path).decode("utf-8-sig")
                yield read_catalogue(
                    text,
                    cloud=path.parent.name,
                    version=versions[-1].name,
                    retrieved_at=moment.replace("+00:00", "Z"),
                )
            except UnicodeDecodeError:
                yield UnusableInputError(f"{path} is no UTF-8 text")
            except csv.Error as error:
                yield UnusableInputError(f"{path} cannot be read as CSV: {error}")
            except (OSError, RentbenchError) as error:
                yield error if isinstance(error, RentbenchError) else UnusableInputError(f"{path}: {error}")


def read_catalogue(text: str, *, cloud: str, version: str | None, retrieved_at: str) -> Snapshot:
    """Return the snapshot that a cloud's `vms.csv` holds.

    Raises:
        UnusableInputError: It has other columns.
    """
    reader = csv.DictReader(io.StringIO(text))
    if not set(reader.fieldnames or ()) >= _COLUMNS:
        lacking = ", ".join(sorted(_COLUMNS - set(reader.fieldnames or ())))
        msg = f"SkyPilot's catalogue of {cloud} lacks {lacking}"
        raise UnusableInputError(msg)
    listing = Listing(
        source=f"skypilot-{provider_name(cloud)}", source_version=version, retrieved_at=retrieved_at
    )
    for row in reader:
        offer = row["InstanceType"] or "(no name)"
        name, memory_gb = _gpu(row, cloud)
        tiers: tuple[tuple[Tier, str], ...] = (("on-demand", row["Price"]), ("spot", row["SpotPrice"]))
        for tier, amount in tiers:
            is_machine = listing.add_machine(
                provider=cloud,
                offer=offer,
                region=row["Region"],
                tier=tier,
                amount=amount,
                gpu_count=row["AcceleratorCount"],
                gpu_name=name,
                gpu_memory_gb=memory_gb,
            )
            if not is_machine:
                break  # told once is enough
    return listing.snapshot()


def _gpu(row: Mapping[str, str], cloud: str) -> tuple[str, float | None]:
    """Return a row's GPU by the name that says most, and the memory of one."""
    name = row["AcceleratorName"]
    info = _info(row.get("GpuInfo") or "")
    size = info.get("SizeInMiB") if isinstance(info, dict) else None
    memory_gb = None
    if isinstance(size, int | float) and size > 0:
        memory_gb = float(size) if size < _SMALLEST_MIB else size * _MIB
    if cloud == "vast":
        # 1x-RTX_4070S_Ti-32-65536 is called RTX4070 in the column beside it.
        parts = row["InstanceType"].split("-")
        name = parts[1] if len(parts) == 4 else name
        try:
            memory_gb = memory_gb and memory_gb / (gpus_of(row["AcceleratorCount"]) or 1)
        except UsageError:
            memory_gb = None
    elif cloud == "runpod" and (said := _FORM_FACTOR.search(str(info.get("Name")))):
        name = f"{name} {said[0]}"  # the column itself names it for some cards only
    return name, memory_gb


def _info(text: str) -> dict[str, object]:
    """Return name and memory size from the column GpuInfo, which holds a Python literal."""
    try:
        gpu = literal_eval(text)["Gpus"][0]
        return {"Name": gpu.get("Name"), **gpu.get("MemoryInfo", {})}
    except (
        ValueError,
        SyntaxError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        RecursionError,
        MemoryError,
    ):
        return {}
