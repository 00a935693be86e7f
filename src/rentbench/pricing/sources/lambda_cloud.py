"""Lambda Cloud: `GET /instance-types`, in cents an hour for the machine, with the regions that have it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rentbench.core.errors import UsageError
from rentbench.core.ids import utc_now
from rentbench.pricing.http import SourceError, get_json
from rentbench.pricing.listings import Listing
from rentbench.pricing.numbers import exact
from rentbench.pricing.offers import Stock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from decimal import Decimal

    from rentbench.pricing.snapshots import Snapshot

__all__ = ["API_URL", "LambdaSource"]

API_URL = "https://cloud.lambda.ai/api/v1"


@dataclass(frozen=True, kw_only=True)
class LambdaSource:
    """Reads Lambda's prices and stock.

    Attributes:
        api_key: Bearer key.
        api_url: Where the service answers.
        sleep: Waits between tries.
        now: Says the time.
    """

    api_key: str
    api_url: str = API_URL
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], str] = utc_now

    name = "lambda"

    def read(self) -> Iterable[Snapshot]:
        """Yield the one snapshot.

        Raises:
            SourceError: It cannot be read.
        """
        answer = get_json(
            f"{self.api_url}/instance-types",
            name="Lambda's instance types",
            headers={"Authorization": f"Bearer {self.api_key}"},
            sleep=self.sleep,
        )
        yield read_instance_types(answer, retrieved_at=self.now())


def read_instance_types(answer: object, *, retrieved_at: str) -> Snapshot:
    """Return the snapshot that an answer of `GET /instance-types` holds.

    A type with capacity is one offer a region; one without is a single offer that is out of stock.

    Raises:
        SourceError: It has another form.
    """
    listing = Listing(source="lambda", source_version=None, retrieved_at=retrieved_at)
    try:
        for entry in answer["data"].values():  # type: ignore[index]
            kind = entry["instance_type"]
            regions = [region["name"] for region in entry["regions_with_capacity_available"]]
            for region in regions or [None]:
                listing.add_machine(
                    provider="lambda",
                    offer=kind["name"],
                    region=region,
                    amount=_dollars(kind["price_cents_per_hour"]),
                    gpu_count=kind["specs"]["gpus"],
                    gpu_name=kind["gpu_description"],
                    stock=Stock.IN_STOCK if regions else Stock.OUT_OF_STOCK,
                )
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"Lambda's instance types came in a form that is not known: {error!r}"
        raise SourceError(msg, hint="rentbench may be too old for the service") from error
    return listing.snapshot()


def _dollars(cents: object) -> Decimal | None:
    try:
        return exact("price in cents", cents) / 100  # type: ignore[arg-type]
    except UsageError:
        return None
