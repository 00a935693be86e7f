"""What tests of prices share."""

from collections.abc import Iterator

import pytest

from support.price_server import PriceServer, price_server


@pytest.fixture
def server() -> Iterator[PriceServer]:
    """Run a server that speaks the providers' price interfaces."""
    with price_server() as state:
        yield state
