"""Formulas: their texts, their inverses, how they scale, and what they refuse."""

import re
from decimal import Decimal
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.core.errors import UsageError
from rentbench.pricing import bills, break_even, costs, job_costs, scaling
from rentbench.pricing.figures import Figure, all_figures, compute
from rentbench.pricing.numbers import exact, rounded

CLOSE = Decimal("1e-24")

amounts = st.decimals(min_value="1e-6", max_value="1e6", places=8).filter(bool)
counts = st.integers(min_value=1, max_value=64)

RATES = {
    costs.usd_per_million_tokens: "tokens_per_second",
    costs.usd_per_billion_tokens: "tokens_per_second",
    costs.usd_per_million_passages: "passages_per_second",
    costs.usd_per_thousand_images: "images_per_second",
    costs.usd_per_audio_hour: "real_time_factor",
}
INVERSES = [
    (costs.usd_per_million_tokens, costs.million_tokens_per_usd, "tokens_per_second", 1),
    (costs.usd_per_thousand_images, costs.images_per_usd, "images_per_second", 1000),
    (costs.usd_per_audio_hour, costs.audio_hours_per_usd, "real_time_factor", 1),
]


def close(one: Decimal, other: Decimal) -> bool:
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


@given(rate=amounts, price=amounts, factor=counts)
@pytest.mark.parametrize("formula", RATES, ids=lambda formula: formula.__name__)
def test_money_per_work_grows_with_the_price_and_falls_with_the_rate(formula, rate, price, factor) -> None:
    rate_name = RATES[formula]
    value = formula(**{rate_name: rate}, usd_per_hour=price)
    assert close(formula(**{rate_name: rate}, usd_per_hour=price * factor), value * factor)
    assert close(formula(**{rate_name: rate * factor}, usd_per_hour=price), value / factor)


@given(rate=amounts, price=amounts)
@pytest.mark.parametrize(("money", "work", "rate_name", "unit"), INVERSES, ids=lambda _: "")
def test_work_per_money_is_the_inverse(money, work, rate_name, unit, rate, price) -> None:
    arguments = {rate_name: rate, "usd_per_hour": price}
    assert close(money(**arguments) * work(**arguments), Decimal(unit))


@given(value=amounts, before=amounts, now=amounts)
def test_todays_figure_goes_back_and_forth(value: Decimal, before: Decimal, now: Decimal) -> None:
    for per in ("money_per_work", "work_per_money"):
        there = costs.today(
            run_day_value=value, run_day_usd_per_gpu_hour=before, today_usd_per_gpu_hour=now, per=per
        )
        back = costs.today(
            run_day_value=there, run_day_usd_per_gpu_hour=now, today_usd_per_gpu_hour=before, per=per
        )
        assert close(back, value)
        assert (there > value) == (
            now > before if per == "money_per_work" else now < before
        ) or there == value


@given(rate=amounts, price=amounts, now=amounts)
def test_todays_figure_is_the_figure_at_todays_price(rate: Decimal, price: Decimal, now: Decimal) -> None:
    for formula, per in (
        (costs.usd_per_million_tokens, "money_per_work"),
        (costs.million_tokens_per_usd, "work_per_money"),
    ):
        moved = costs.today(
            run_day_value=formula(tokens_per_second=rate, usd_per_hour=price),
            run_day_usd_per_gpu_hour=price,
            today_usd_per_gpu_hour=now,
            per=per,
        )
        assert close(moved, formula(tokens_per_second=rate, usd_per_hour=now))


@given(fixed=amounts, gpu=amounts, api=amounts)
def test_lines_cross_at_the_break_even(fixed: Decimal, gpu: Decimal, api: Decimal) -> None:
    tokens = break_even.break_even_tokens(
        fixed_usd=fixed, gpu_usd_per_million_tokens=gpu, api_usd_per_million_tokens=api
    )
    assert (tokens is None) == (api <= gpu)
    if tokens is None or tokens >= Decimal("1e17"):
        return
    for share, cheaper in ((Decimal("0.9"), "api"), (Decimal("1.1"), "gpu")):
        on_gpu = break_even.gpu_cost_usd(
            tokens=tokens * share, fixed_usd=fixed, gpu_usd_per_million_tokens=gpu
        )
        at_api = break_even.api_cost_usd(tokens=tokens * share, api_usd_per_million_tokens=api)
        assert ("gpu" if on_gpu < at_api else "api") == cheaper


@given(price=amounts, gpus=counts)
def test_shares_of_a_machine_add_up(price: Decimal, gpus: int) -> None:
    one = bills.share_usd_per_hour(usd_per_machine_hour=price, gpus_used=1, gpus=gpus)
    assert one == bills.usd_per_gpu_hour(usd_per_machine_hour=price, gpus=gpus)
    assert close(bills.usd_per_machine_hour(usd_per_gpu_hour=one, gpus=gpus), price)
    assert bills.share_usd_per_hour(usd_per_machine_hour=price, gpus_used=gpus, gpus=gpus) == price


@given(needed=counts, per_machine=counts)
def test_whole_machines_are_rented(needed: int, per_machine: int) -> None:
    rented = bills.rented_gpus(gpus_needed=needed, gpus_per_machine=per_machine)
    assert rented % per_machine == 0
    assert needed <= rented < needed + per_machine


@given(one=amounts, several=amounts)
def test_exposed_communication_is_a_share(one: Decimal, several: Decimal) -> None:
    share = scaling.exposed_communication(one_gpu_step_seconds=one, step_seconds=several)
    assert share < 1
    assert (share > 0) == (several > one)


def test_both_shares_of_communication_for_a_published_run() -> None:
    """4x RTX A6000, 124M, fp32 gradients, bus bandwidth 4.3 GB/s; about 170 ms were told."""
    algorithm = Decimal("4.3") / (Decimal(2) * 3 / 4)
    assert scaling.bus_bandwidth_gb_s(algorithm_bandwidth_gb_s=algorithm, ranks=4) == pytest.approx(
        Decimal("4.3")
    )
    share = scaling.communication_time(
        sent_bytes=124_439_808 * 4, algorithm_bandwidth_gb_s=algorithm, step_seconds=0.25395
    )
    assert share * Decimal("0.25395") == pytest.approx(Decimal("0.1736"), abs=Decimal("0.0001"))
    exposed = scaling.exposed_communication(
        one_gpu_step_seconds=8192 / 64912, step_seconds=8 * 1024 * 4 / 129032
    )
    assert exposed == pytest.approx(Decimal("0.503"), abs=Decimal("0.001"))


@pytest.mark.parametrize("figure", all_figures().values(), ids=lambda figure: figure.name)
def test_the_text_is_the_formula(figure: Figure) -> None:
    words = figure.choices.get("per", ("",))
    named = [name for name in figure.arguments if name not in figure.choices]
    numbers = {name: Decimal(value) for value, name in enumerate(named, 2)}
    for word in words:
        arguments = numbers | ({"per": word} if word else {})
        text = figure.formula
        if word:
            text = next(part for part in text.split(", ") if part.endswith(f" for {word}"))
            text = text.removesuffix(f" for {word}")
        value = figure.function(**arguments)
        assert value is not None
        assert abs(evaluated(text, numbers) / value - 1) < (Decimal("1e-12") if "(" in text else CLOSE)


def evaluated(text: str, numbers: dict[str, Decimal]) -> Decimal:
    """Compute a formula's text: names, numbers, the four operations, brackets, `ceil`, `exp` and `sqrt`."""
    text = text.translate(str.maketrans("×÷−", "*/-"))
    text = re.sub(r"(?<![\w.])(\d[\de.]*)", r"Decimal('\1')", text)
    functions = {"Decimal": Decimal, "ceil": ceil, "exp": Decimal.exp, "sqrt": Decimal.sqrt}
    return Decimal(eval(text, functions | {"__builtins__": {}}, dict(numbers)))


@pytest.mark.parametrize("figure", all_figures().values(), ids=lambda figure: figure.name)
def test_every_figure_refuses_what_is_no_amount(figure: Figure) -> None:
    good = {name: "4" for name in figure.arguments if name not in figure.choices}
    good |= {name: words[0] for name, words in figure.choices.items()}
    compute(figure.name, good)
    for name in set(figure.arguments) - set(figure.choices):
        for bad in ("-1", "nan", "inf", "", "4 USD", "1e400", "--"):
            with pytest.raises(UsageError, match=" is "):
                compute(figure.name, good | {name: bad})


@pytest.mark.parametrize(
    "name", ["usd_per_million_tokens", "training_cost_usd", "today", "break_even_tokens", "usd_per_gpu_hour"]
)
def test_zero_is_a_missing_value(name: str) -> None:
    figure = all_figures()[name]
    good = {key: figure.choices.get(key, ("4",))[0] for key in figure.arguments}
    for key in set(figure.arguments) - set(figure.choices):
        with pytest.raises(UsageError, match=f"{key} is"):
            compute(name, good | {key: "0"})


@pytest.mark.parametrize(
    "value", [True, None, "", "1_0", "１", float("nan"), float("inf"), [], 1e-30, 10**30]
)
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(UsageError, match="price is"):
        exact("price", value)  # type: ignore[arg-type]


def test_a_float_is_the_decimal_that_stands_in_the_document() -> None:
    assert exact("price", 2.64) == Decimal("2.64")
    assert exact("price", 0.1) + exact("price", 0.2) == Decimal("0.3")


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        ("0.0665", 3, "0.066"),
        ("0.0675", 3, "0.068"),
        ("2.5", 0, "2"),
        ("2e38", 2, "2" + "0" * 38 + ".00"),  # more digits than decimals hold by default
    ],
)
def test_halves_go_to_the_even_figure(value: str, decimals: int, text: str) -> None:
    assert str(rounded(Decimal(value), decimals)) == text


def test_more_gpus_than_the_machine_has() -> None:
    with pytest.raises(UsageError, match="of a machine with 4"):
        bills.share_usd_per_hour(usd_per_machine_hour=1, gpus_used=5, gpus=4)


def test_one_rank_sends_nothing() -> None:
    with pytest.raises(UsageError, match="ranks is 1"):
        scaling.bus_bandwidth_gb_s(algorithm_bandwidth_gb_s=1, ranks=1)


def test_an_interrupted_job_costs_more_and_best_saves_are_best() -> None:
    job = {"work_hours": 100, "save_seconds": 20, "restart_seconds": 300, "interruptions_per_hour": 0.1}
    best = job_costs.best_checkpoint_seconds(save_seconds=20, interruptions_per_hour=0.1)
    assert 1150 < best < 1250

    def cost(interval: Decimal) -> Decimal:
        return job_costs.interruptible_cost_usd(**job, interval_seconds=interval, usd_per_hour=1)

    assert 100 < cost(best) < 110
    assert cost(best) < min(cost(best / 2), cost(best * 2))
    assert job_costs.on_demand_cost_usd(work_hours=100, usd_per_hour="2.5") == 250  # type: ignore[arg-type]


@pytest.mark.parametrize("interval", [10**5, 10**7])  # 10^41 hours, and more than a float holds
def test_a_job_that_never_ends_is_told(interval: int) -> None:
    with pytest.raises(UsageError, match="cannot be expected to end"):
        job_costs.interruptible_cost_usd(
            work_hours=10,
            interval_seconds=interval,
            save_seconds=1,
            restart_seconds=1,
            interruptions_per_hour=100,
            usd_per_hour=1,
        )
