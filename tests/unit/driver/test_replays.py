"""A log told again after a broken connection: nothing twice, and nothing lost, as long as it is whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rentbench.driver.replays import Heard

LOG = b"".join(f"line {number}\n".encode() for number in range(1000))


def heard(content: bytes, step: int) -> Heard:
    known = Heard()
    for start in range(0, len(content), step):
        known.add(content[start : start + step])
    return known


def replayed(known: Heard, log: bytes, step: int) -> bytes:
    replay = known.replay()
    return b"".join(replay.fresh(log[start : start + step]) for start in range(0, len(log), step))


@settings(deadline=None)  # the machine may be busy
@given(known=st.integers(0, len(LOG)), steps=st.tuples(st.integers(1, 5000), st.integers(1, 5000)))
def test_only_what_was_not_heard_comes_however_it_is_cut(known: int, steps: tuple[int, int]) -> None:
    assert replayed(heard(LOG[:known], steps[0]), LOG, steps[1]) == LOG[known:]


@settings(deadline=None)  # the machine may be busy
@given(step=st.integers(1, 5000))
def test_of_a_log_that_lost_its_start_everything_comes_after_a_note(step: int) -> None:
    left = LOG[4321:]
    assert replayed(heard(LOG[:8000], 100), left, step) == Heard.NOTE + left


def test_a_second_break_goes_on_from_the_first() -> None:
    known = heard(LOG[:3000], 100)
    known.add(replayed(known, LOG[:6000], 700))
    assert replayed(known, LOG, 700) == LOG[6000:]
