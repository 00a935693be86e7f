"""gpuhunt: published catalogues of nine providers, and four providers that answer without a key.

gpuhunt's prices are for the whole machine, in USD. What it calls a GPU lacks the form factor for some
providers; the machine type's name has it for others. Each provider is a source of its own, so that one
that fails costs no other one its prices. `GPUHUNT_CATALOG_DIR` (a folder of CSV files) and
`GPUHUNT_CATALOG_URL` work as gpuhunt documents.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rentbench.core.errors import DependencyMissingError, RentbenchError
from rentbench.core.ids import utc_now
from rentbench.pricing.http import CHECK_NETWORK, SourceError
from rentbench.pricing.listings import Listing, provider_name
from rentbench.pricing.offers import Stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType

    from rentbench.pricing.snapshots import Snapshot

__all__ = ["OFFLINE", "ONLINE", "GpuhuntSource"]

OFFLINE = ("aws", "azure", "cloudrift", "gcp", "lambdalabs", "nebius", "oci", "runpod", "verda")
# Those that can be asked without a key, by the class that asks.
ONLINE = {
    "daytona": "DaytonaProvider",
    "lium": "LiumProvider",
    "vastai": "VastAIProvider",
    "vultr": "VultrProvider",
}
_TIMEOUT_S = 30.0


class _Published(Protocol):
    """gpuhunt's `ProviderCatalog`."""

    version: str


@dataclass(frozen=True, kw_only=True)
class GpuhuntSource:
    """Reads what gpuhunt knows.

    Attributes:
        providers: Which providers, by gpuhunt's names; all of them by default.
        now: Says the time.
    """

    providers: tuple[str, ...] = (*OFFLINE, *ONLINE)
    now: Callable[[], str] = utc_now

    name = "gpuhunt"

    def read(self) -> Iterable[Snapshot | RentbenchError]:
        """Yield a snapshot a provider.

        Raises:
            DependencyMissingError: gpuhunt is not installed.
        """
        try:
            # Through its own modules: the package's shortcuts read every provider before the first one
            # answers.
            catalogs = importlib.import_module("gpuhunt._internal.catalog")
        except ImportError as error:
            msg = "gpuhunt is not installed, and reads most providers' prices"
            raise DependencyMissingError(msg, hint="pip install 'rentbench[prices]'") from error
        for provider in self.providers:
            try:
                with _limited_waiting():
                    yield self._read(catalogs, provider)
            # Each provider's code raises what it likes, requests' errors and KeyError among them.
            except Exception as error:  # noqa: BLE001
                yield _told(error, provider)

    def _read(self, catalogs: ModuleType, provider: str) -> Snapshot:
        state: str | None = None
        catalog = catalogs.Catalog(balance_resources=False, auto_reload=False)
        if provider in ONLINE:
            module = importlib.import_module(f"gpuhunt.providers.{provider}")
            catalog.add_provider(getattr(module, ONLINE[provider]).from_env())
            moment = self.now()
        else:
            loaded, moment = self._published(catalogs, provider)
            if loaded is not None:
                catalog.catalog[provider], catalog.loaded_at, state = loaded, 0.0, loaded.version
        listing = Listing(
            source=f"gpuhunt-{provider_name(provider)}",
            source_version=state or f"gpuhunt {version('gpuhunt')}",
            retrieved_at=moment,
        )
        for item in catalog.query(provider=provider, min_gpu_count=1):
            # A marketplace's offers are single machines that come and go: its machine types are what lasts.
            single = provider in ("vastai", "lium")
            listing.add_machine(
                provider=provider,
                offer=f"{item.gpu_count}x-{item.gpu_name}" if single else item.instance_name,
                region=item.location,
                tier="spot" if item.spot else "on-demand",
                amount=item.price,
                gpu_count=item.gpu_count,
                gpu_name=item.gpu_name,
                gpu_memory_gb=item.gpu_memory,
                stock=Stock.IN_STOCK if provider in ONLINE else Stock.NOT_TOLD,
            )
        return listing.snapshot()

    def _published(self, catalogs: ModuleType, provider: str) -> tuple[_Published | None, str]:
        """Return a published catalogue (None: gpuhunt reads it from a folder itself) and when it was made."""
        folder = os.environ.get("GPUHUNT_CATALOG_DIR")
        if folder is not None:
            seconds = (Path(folder) / f"{provider}.csv").stat().st_mtime
            made = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
            return None, made.replace("+00:00", "Z")
        # One provider's catalogue: `Catalog.load` would fetch all nine, for each of them.
        base_url, fetcher = catalogs._get_base_url(), catalogs.Catalog(auto_reload=False)
        loaded: _Published = fetcher._load_provider(base_url, provider, None)
        day = re.match(r"(\d{4})(\d\d)(\d\d)", loaded.version)
        return loaded, f"{'-'.join(day.groups())}T00:00:00Z" if day else self.now()


def _told(error: Exception, provider: str) -> SourceError:
    """Return a provider's failure in our words: urllib's and requests' own are long, and all are OSErrors."""
    answered = getattr(error, "code", None) is not None or getattr(error, "response", None) is not None
    if isinstance(error, OSError) and not answered and not isinstance(error, FileNotFoundError):
        return SourceError(f"{provider} cannot be reached", hint=CHECK_NETWORK)
    return SourceError(f"{provider} cannot be read: {str(error) or type(error).__name__}")


@contextmanager
def _limited_waiting() -> Iterator[None]:
    """Limit how long a connection may say nothing: gpuhunt loads catalogues without a limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
