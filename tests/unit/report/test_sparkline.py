from __future__ import annotations

import random
import re

from fixtures.report import synthetic
from rentbench.report.sparkline import HEIGHT, WIDTH, sparklines


def gpu(power, offsets=None):
    made = synthetic.telemetry(700.0, len(power), random.Random(1))["gpus"][0]
    made["series"]["power_watts"] = power
    made["offsets_seconds"] = offsets or [float(n) for n in range(len(power))]
    return made


def points(path):
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_a_series_fills_its_box_and_says_its_range():
    line = sparklines(gpu([100.0, 700.0, 400.0]))[0]
    assert line.label.replace("\u00a0", " ") == "Power over 2.000 s: 100.0 W to 700.0 W, mean 400.0 W"
    assert points(line.path) == [(3.0, HEIGHT - 3.0), (WIDTH / 2, 3.0), (WIDTH - 3.0, HEIGHT / 2)]


def test_a_gap_lifts_the_pen():
    assert sparklines(gpu([1.0, None, 2.0, 3.0]))[0].path.count("M") == 2


def test_one_reading_and_a_flat_series_are_drawn():
    assert sparklines(gpu([5.0]))[0].path == f"M{WIDTH / 2:.1f} {HEIGHT / 2:.1f}h0.01"
    assert len(points(sparklines(gpu([5.0, 5.0]))[0].path)) == 2


def test_nothing_read_is_no_drawing():
    line = sparklines(gpu([None, None]))[0]
    assert (line.path, line.label) == ("", "Power: not read")


def test_thinning_keeps_every_peak():
    power = [100.0] * 5000
    power[1234] = 900.0
    line = sparklines(gpu(power))[0]
    assert min(y for _, y in points(line.path)) == 3.0
    assert len(points(line.path)) < 700
    assert line.high.startswith("900.0")
