"""Signals as a wish to stop: counted, put back, and left alone where they were ignored before."""

from __future__ import annotations

import os
import signal

import pytest

from rentbench.driver.interrupts import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_counted_and_its_handler_is_put_back(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), number)
            assert interrupts.count == 1
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_hang_up_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.count == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
