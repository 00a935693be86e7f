"""`rentbench cost`: a figure with unit and formula, and clear words for what cannot be computed."""

import json
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    ("arguments", "value", "unit"),
    [
        (
            ["usd_per_million_tokens", "tokens_per_second=42", "usd_per_hour=0.735"],
            4.861,
            "USD per 1M tokens",
        ),
        (["training_cost_usd", "train_seconds=210", "usd_per_hour=1.14"], 0.0665, "USD"),
        (
            [
                "today",
                "run_day_value=2.82",
                "run_day_usd_per_gpu_hour=0.66",
                "today_usd_per_gpu_hour=0.57",
                "per=money_per_work",
            ],
            2.4355,
            "as run_day_value",
        ),
    ],
)
def test_a_figure_as_json(rentbench: Callable, arguments: list[str], value: float, unit: str) -> None:
    outcome = rentbench("cost", *arguments, "--json")
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    assert list(answer) == ["value", "unit", "formula"]
    assert answer["value"] == pytest.approx(value, rel=1e-4)
    assert answer["unit"] == unit


def test_a_figure_for_people(rentbench: Callable) -> None:
    outcome = rentbench(
        "cost", "training_cost_usd", "train_seconds=210", "usd_per_hour=1.14", "--decimals", 3
    )
    assert outcome.out == "0.066 USD\n= train_seconds × usd_per_hour ÷ 3600\n"


def test_no_break_even_is_told(rentbench: Callable) -> None:
    prices = ("fixed_usd=1", "gpu_usd_per_million_tokens=2", "api_usd_per_million_tokens=1")
    outcome = rentbench("cost", "break_even_tokens", *prices, "--json")
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    assert answer["value"] is None
    assert "never" in answer["note"]
    assert rentbench("cost", "break_even_tokens", *prices).out.startswith("no value: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["usd_per_parsec"], "usd_per_parsec"),
        (["training_cost_usd"], "lacks train_seconds, usd_per_hour"),
        (
            ["training_cost_usd", "train_seconds=1", "usd_per_hour=0"],
            "usd_per_hour must be greater than zero",
        ),
        (["training_cost_usd", "train_seconds=1", "usd_per_hour=-2"], "usd_per_hour is"),
        (["training_cost_usd", "train_seconds=1", "usd_per_day=2"], "no argument"),
        (["training_cost_usd", "train_seconds=1", "train_seconds=2"], "twice"),
        (["training_cost_usd", "1", "2"], "no KEY=VALUE"),
        (
            ["today", "run_day_value=1", "run_day_usd_per_gpu_hour=1", "today_usd_per_gpu_hour=1", "per=x"],
            "per is",
        ),
    ],
)
def test_what_cannot_be_computed(rentbench: Callable, arguments: list[str], told: str) -> None:
    outcome = rentbench("cost", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert told in outcome.err


def test_all_figures_are_listed(rentbench: Callable) -> None:
    assert "usd_per_billion_tokens" in rentbench("cost").out
    listed = json.loads(rentbench("cost", "--json").out)
    assert listed["today"]["arguments"][-1] == "per"
