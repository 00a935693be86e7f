from __future__ import annotations

import pytest

from rentbench.core.errors import UnusableInputError
from rentbench.report.format import byte_count, day, duration, interval, moment, number, quantity, scalar

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0.0, "0"),
        (0, "0"),
        (718.46, "718.5"),
        (4123.4, "4,123"),
        (1234567.8, "1,234,568"),
        (8192, "8,192"),
        (0.012346, "0.01235"),
        (1.0, "1.000"),
        (999.96, "1,000"),
        (-13.6, "−13.60"),
        (-5, "−5"),
        (1.5e-9, f"1.500{NBSP}×{NBSP}10⁻⁹"),
        (2.5e18, f"2.500{NBSP}×{NBSP}10¹⁸"),
    ],
)
def test_numbers_have_four_significant_digits_and_separated_thousands(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (678.4, "TFLOPS", f"678.4{NBSP}TFLOPS"),
        (0.00001089, "s", f"10.89{NBSP}µs"),
        (0.25, "s", f"250.0{NBSP}ms"),
        (12.5, "s", f"12.50{NBSP}s"),
        (1.5 * 1024**3, "bytes", f"1.500{NBSP}GiB"),
        (315.0, "x real time", f"315.0{NBSP}× real time"),
        (0.5, "ratio", "0.5000"),
        (None, "W", "—"),
    ],
)
def test_quantities_carry_their_unit(value, unit, text):
    assert quantity(value, unit) == text


def test_both_bounds_of_an_interval_have_the_same_decimals():
    assert interval((99.872, 101.3)).replace("\u2060", "") == "99.9–101.3"
    assert interval((-1.5, 2.25)) == "−1.500 to 2.250"
    assert interval((0.0, 0.0)).replace("\u2060", "") == "0–0"
    assert interval(None) == "—"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (0, "0 bytes"), (512, "512 bytes"), (1024, "1.000 KiB"), (143_771 * 1024**2, "140.4 GiB")],
)
def test_sizes_are_in_binary_multiples(value, text):
    assert byte_count(value).replace(NBSP, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (0.0, "0 s"),
        (4.21, "4.210 s"),
        (192, "3 min 12 s"),
        (7500, "2 h 05 min"),
        (59.999, "60.00 s"),
    ],
)
def test_spans_of_time_have_two_units_at_most(seconds, text):
    assert duration(seconds).replace(NBSP, " ") == text


def test_times_are_utc_and_never_guessed():
    assert day("2026-01-01T00:00:00Z") == "2026-01-01"
    assert moment("2026-01-01T23:59:59.999Z") == "2026-01-01 23:59:59 UTC"
    assert (day(None), moment(None)) == ("—", "—")
    with pytest.raises(UnusableInputError):
        day("2026-01-01")


def test_parameter_values():
    assert [scalar(value) for value in (True, False, None, 8192, 0.5, "bf16")] == [
        "yes", "no", "—", "8,192", "0.5000", "bf16",
    ]  # fmt: skip
