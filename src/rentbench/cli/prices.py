"""`rentbench prices`: read prices, show today's, and show a GPU's over time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rentbench.cli.console import print_json, print_line
from rentbench.core.errors import ExitCode, UsageError
from rentbench.core.gpus import all_gpus, gpu_by_key
from rentbench.core.problems import listing, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rentbench.pricing.history import History
    from rentbench.pricing.offers import Tier
    from rentbench.pricing.sources import Source

__all__ = ["register"]

_SOURCES = ("gpuhunt", "skypilot", "runcrate", "lambda")
_TIERS: tuple[Tier, ...] = ("on-demand", "spot", "reserved")

PricesFolder = Annotated[
    Path, typer.Option("--prices", metavar="DIR", help="Where the snapshots are kept.", file_okay=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_FOLDER = Path("results/prices")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help="Prices of GPUs and API models: read, keep, show.", no_args_is_help=True)
    group.command(name="update")(update_prices)
    group.command(name="show")(show_prices)
    group.command(name="history")(show_history)
    group.command(name="export")(export_snapshot)
    app.add_typer(group, name="prices")


def update_prices(
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Read only this source ({', '.join(_SOURCES)}); may be repeated."),
    ] = None,
    contract: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Read your own prices from a TOML or CSV file; may be repeated."),
    ] = None,
    prices: PricesFolder = _FOLDER,
    as_json: AsJson = False,
) -> None:
    """Read prices from their sources and keep them as snapshots; what was kept before stays as it is.

    Without options all sources are read that this computer can read: gpuhunt where it is installed,
    SkyPilot's catalogues where they are, Runcrate (with RUNCRATE_API_KEY, all of it), Lambda with
    LAMBDA_API_KEY.

    Exit codes: 0 all read, 4 some, 3 none.
    """
    from rentbench.cli.prices_display import age, outcome_data, print_outcome
    from rentbench.pricing.update import newest_of_each, update

    outcomes = []
    for outcome in update(_sources(source or (), contract or ()), prices):
        outcomes.append(outcome)
        if not as_json:
            print_outcome(outcome)
    newest = newest_of_each(prices)
    good = sum(outcome.result in ("kept", "unchanged") for outcome in outcomes)
    if as_json:
        print_json({"outcomes": [outcome_data(outcome) for outcome in outcomes], "newest": newest})
    elif good < len(outcomes):
        # A hint for all: without a network every source has the same one.
        for hint in dict.fromkeys(outcome.error.hint for outcome in outcomes if outcome.error):
            if hint:
                print_line(f"hint: {hint}", error=True)
        ages = [f"{name} {age(moment)}" for name, moment in sorted(newest.items())]
        print_line(f"kept so far: {listing(ages, limit=40) or 'nothing'}", error=True)
    raise typer.Exit(ExitCode.OK if good == len(outcomes) else ExitCode.PARTIAL if good else ExitCode.FAILED)


def show_prices(
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Only this GPU, by its key in the table; may be repeated."),
    ] = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Only this provider's offers.")] = None,
    tier: Annotated[str, typer.Option(metavar="TIER", help=", ".join(_TIERS))] = "on-demand",
    prices: PricesFolder = _FOLDER,
    as_json: AsJson = False,
) -> None:
    """Show the cheapest offer of each GPU in the newest snapshots, and the API models' prices."""
    from rentbench.cli.prices_display import print_quotes, quote_data
    from rentbench.pricing.today import api_prices, gpu_prices

    chosen = next((one for one in _TIERS if one == tier), None)
    if chosen is None:
        msg = f"there is no tier {show(tier)}"
        raise UsageError(msg, hint=f"tiers: {', '.join(_TIERS)}")
    histories = _histories(prices, newest_chains=True)
    quotes = gpu_prices(histories, tier=chosen, provider=provider)
    for key in gpu or ():
        _require_gpu(key)
    wanted = {key: quotes[key] for key in gpu or quotes if key in quotes}
    models = {} if gpu or provider else api_prices(histories, tokens="input")
    if as_json:
        print_json(
            {
                "gpus": [quote_data(key, quote) for key, quote in wanted.items()],
                "models": [quote_data(None, quote) for quote in models.values()],
                "not_offered": [key for key in gpu or () if key not in quotes],
            }
        )
        return
    print_quotes(wanted, models.values())
    for key in gpu or ():
        if key not in quotes:
            print_line(f"{key}: not offered in any snapshot")


def show_history(
    gpu: Annotated[str, typer.Argument(metavar="GPU", help="The GPU's key in the table.")],
    prices: PricesFolder = _FOLDER,
    as_json: AsJson = False,
) -> None:
    """Show what a GPU cost over time, on demand: the cheapest offer of each snapshot."""
    from rentbench.cli.prices_display import point_data, print_points
    from rentbench.pricing.today import price_series

    _require_gpu(gpu)
    points = price_series(_histories(prices), gpu)
    if as_json:
        print_json([point_data(point) for point in points])
    else:
        print_points(points)


def export_snapshot(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The source's name.")],
    prices: PricesFolder = _FOLDER,
) -> None:
    """Print the newest snapshot of a source as a document of kind `prices`."""
    histories = {history.source: history for history in _histories(prices, newest_chains=True)}
    snapshot = histories[source].latest if source in histories else None
    if snapshot is None:
        msg = f"there is no snapshot of {show(source)} in {prices}"
        raise UsageError(msg, hint=f"sources: {listing(histories, limit=40) or 'none'}")
    print_json(snapshot.as_document())


def _sources(names: Sequence[str], contracts: Sequence[Path]) -> list[Source]:
    """Return the sources that are asked for; without any name, all that can be read here."""
    from rentbench.pricing.sources.contracts import ContractsSource
    from rentbench.pricing.sources.gpuhunt_catalogs import GpuhuntSource
    from rentbench.pricing.sources.lambda_cloud import LambdaSource
    from rentbench.pricing.sources.runcrate import API_URL, MODELS_URL, RuncrateSource
    from rentbench.pricing.sources.skypilot import SkypilotSource

    unknown = [name for name in names if name not in _SOURCES]
    if unknown:
        msg = f"there is no source {show(unknown[0])}"
        raise UsageError(msg, hint=f"sources: {', '.join(_SOURCES)}")
    every = not names and not contracts
    lambda_key = os.environ.get("LAMBDA_API_KEY")
    if "lambda" in names and not lambda_key:
        msg = "Lambda's prices need an API key"
        raise UsageError(msg, hint="set LAMBDA_API_KEY")
    sources: list[Source] = []
    if every or "gpuhunt" in names:
        sources.append(GpuhuntSource())
    if "skypilot" in names or (every and (Path.home() / ".sky" / "catalogs").is_dir()):
        sources.append(SkypilotSource())
    if every or "runcrate" in names:
        sources.append(
            RuncrateSource(
                api_key=os.environ.get("RUNCRATE_API_KEY"),
                api_url=os.environ.get("RUNCRATE_API_URL", API_URL),
                models_url=os.environ.get("RUNCRATE_MODELS_URL", MODELS_URL),
            )
        )
    if lambda_key and (every or "lambda" in names):
        sources.append(LambdaSource(api_key=lambda_key))
    return [*sources, *(ContractsSource(path=path) for path in contracts)]


def _histories(folder: Path, *, newest_chains: bool = False) -> list[History]:
    from rentbench.pricing.store import load_all

    histories = load_all(folder, newest_chains=newest_chains)
    for history in histories:
        for problem in history.problems:
            print_line(f"warning: {problem}", style="yellow", error=True)
    if not any(history.days for history in histories):
        msg = f"there are no prices in {folder}"
        raise UsageError(msg, hint="read them: rentbench prices update")
    return histories


def _require_gpu(key: str) -> None:
    if gpu_by_key(key) is None:
        near = [gpu.key for gpu in all_gpus() if key.casefold() in gpu.key]
        msg = f"the table of GPUs has no key {show(key)}"
        raise UsageError(msg, hint=f"keys with that in them: {listing(near)}" if near else None)
