"""Runcrate: machine types, and API models per million tokens.

The service documents `GET /api/v1/instances/types`. `/api/gpu-pricing`, which needs no key, `GET /v1/models`
and `/api/models/catalog` are named without their form: their rows are read under the documented names, and
what has others is refused with its reason, not guessed. Nothing here has run against the live service.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rentbench.core.errors import RentbenchError, UsageError
from rentbench.core.ids import utc_now
from rentbench.pricing.http import SourceError, get_json
from rentbench.pricing.listings import Listing, gpus_of
from rentbench.pricing.numbers import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rentbench.pricing.offers import Per
    from rentbench.pricing.snapshots import Snapshot

__all__ = ["API_URL", "MODELS_URL", "RuncrateSource"]

API_URL = "https://www.runcrate.ai"
MODELS_URL = "https://api.runcrate.ai"


@dataclass(frozen=True, kw_only=True)
class RuncrateSource:
    """Reads Runcrate's prices.

    Attributes:
        api_key: Bearer key; None reads what needs none.
        api_url: Where the service answers.
        models_url: Where its models answer.
        sleep: Waits between tries.
        now: Says the time.
    """

    api_key: str | None
    api_url: str = API_URL
    models_url: str = MODELS_URL
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], str] = utc_now

    name = "runcrate"

    def read(self) -> Iterable[Snapshot | RentbenchError]:
        """Yield machine types and models, each by itself."""
        for read in (self._machines, self._models):
            try:
                yield read()
            except RentbenchError as error:
                yield error

    def _machines(self) -> Snapshot:
        path = "/api/v1/instances/types" if self.api_key else "/api/gpu-pricing"
        rows = self._rows(self.api_url + path, "Runcrate's machine types")
        listing = Listing(source="runcrate", source_version=None, retrieved_at=self.now())
        units = _units(rows)
        for row in rows:
            kind = row.get("gpu_type")
            offer = str(row.get("id") or f"{row.get('gpu_count') or 1}x-{kind}")
            if "hourly_rate" not in row:
                listing.refuse("lacks hourly_rate", offer)
            elif str(kind).upper() == "CPU":
                listing.refuse("the machine has no GPU", offer)
            elif (per := units(row)) is None:
                listing.refuse("nothing says whether the rate is for the machine or for one GPU", offer)
            else:
                listing.add_machine(
                    provider="runcrate",
                    offer=offer,
                    region=row.get("region"),
                    amount=row["hourly_rate"],
                    per=per,
                    gpu_count=row.get("gpu_count", 1),
                    gpu_name=kind,
                )
        return listing.snapshot()

    def _models(self) -> Snapshot:
        """Read the models' prices: from their own API, else from the list that the website shows."""
        try:
            listed = self._priced_models(f"{self.models_url}/v1/models")
        except RentbenchError as error:
            try:
                return self._priced_models(f"{self.api_url}/api/models/catalog")
            except RentbenchError:
                raise error from None
        return listed if listed.offers else self._priced_models(f"{self.api_url}/api/models/catalog")

    def _priced_models(self, url: str) -> Snapshot:
        rows = self._rows(url, "Runcrate's models")
        listing = Listing(source="runcrate-models", source_version=None, retrieved_at=self.now())
        for row in rows:
            model, pricing = str(row.get("id") or ""), row.get("pricing")
            if not model or not isinstance(pricing, dict):
                listing.refuse("lacks id or pricing", model or "(no id)")
                continue
            for tokens in ("input", "output"):
                if tokens in pricing:
                    listing.add_model(provider="runcrate", model=model, tokens=tokens, amount=pricing[tokens])
        return listing.snapshot()

    def _rows(self, url: str, name: str) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        answer = get_json(url, name=name, headers=headers, sleep=self.sleep)
        rows = answer.get("data") if isinstance(answer, dict) else answer
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            msg = f"{name} came in a form that is not known"
            raise SourceError(msg, hint="rentbench may be too old for the service")
        return rows


def _units(rows: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], Per | None]:
    """Return a function that says what a row's rate is for.

    The documentation does not say it, so the listing has to: where one card is listed with several counts
    in one region, the rates either grow with the count (the machine's) or stay (one GPU's). One answer
    for all rows; where rows contradict each other or none can tell, only machines with one GPU have a
    price.
    """
    groups: dict[tuple[Any, Any], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        try:
            count, rate = gpus_of(row.get("gpu_count", 1)), float(exact("rate", row.get("hourly_rate") or 0))
        except UsageError:
            continue
        if count and rate > 0:
            groups[row.get("gpu_type"), row.get("region")].append((count, rate))
    answers: set[Per] = set()
    for rates in groups.values():
        (least, low), (most, high) = min(rates), max(rates)
        if most > least:
            growth = (high / low - 1) / (most / least - 1)
            if growth > 0.5:
                answers.add("machine-hour")
            elif growth < 0.25:
                answers.add("gpu-hour")
    answer = answers.pop() if len(answers) == 1 else None
    return lambda row: "machine-hour" if row.get("gpu_count", 1) in (1, 1.0, "1") else answer
