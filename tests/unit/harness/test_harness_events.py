from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.workers.events import EventReader, EventWriter
from rentbench.harness.workers.job import Job, receive_job, send_job

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
EVENTS = st.lists(
    st.dictionaries(st.text(max_size=5).filter(lambda key: key not in {"event", "at"}), JSON), max_size=5
)


def written(*events: dict[str, Any]) -> bytes:
    reader, writer = os.pipe()
    received = bytearray()

    def read() -> None:
        while data := os.read(reader, 65536):
            received.extend(data)

    thread = threading.Thread(target=read, daemon=True)  # a test that ends early must not hang the whole run
    thread.start()
    try:
        emit = EventWriter(writer)
        for event in events:
            emit(event)
    finally:
        os.close(writer)
        thread.join()
        os.close(reader)
    return bytes(received)


@given(EVENTS, st.lists(st.integers(1, 40)))
def test_events_come_out_as_they_went_in_whatever_the_pieces(
    contents: list[dict[str, Any]], sizes: list[int]
) -> None:
    events = [{"event": "told", **content} for content in contents]
    data, reader, found = written(*events), EventReader(), []
    for size in [*sizes, max(1, len(data))]:
        found += reader.feed(data[:size])
        data = data[size:]
    assert [{key: value for key, value in event.items() if key != "at"} for event in found] == events
    assert reader.unreadable == 0


def test_a_line_that_was_cut_short_costs_only_itself() -> None:
    reader = EventReader()
    first, second = written({"event": "one"}), written({"event": "two"})
    found = reader.feed(first[:-8] + second)
    assert [event["event"] for event in found] == ["two"]
    assert reader.unreadable == 1


@pytest.mark.parametrize(
    "line", [b"garbage", b"[1]", b'{"no": "event"}', b'{"event": 7}', b"\xff\xfe", b"nan"]
)
def test_what_is_no_event_is_counted_and_passed_over(line: bytes) -> None:
    reader = EventReader()
    assert reader.feed(line + b"\n") == []
    assert reader.unreadable == 1


def test_an_event_larger_than_the_pipe_arrives_whole() -> None:
    samples = [index / 7 for index in range(50_000)]
    (event,) = EventReader().feed(written({"event": "record", "samples": samples}))
    assert event["samples"] == samples


def test_what_json_cannot_say_is_refused_before_it_is_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        written({"event": "record", "value": float("nan")})


def test_a_job_arrives_as_it_was_sent() -> None:
    job = Job(
        suite_folder="/suites/gemm",
        metrics=["speed"],
        packages=[],
        cases=[[4, {"size": 1024, "dtype": "bf16", "cold": True}]],  # type: ignore[list-item]
        device="cpu",
        preset="smoke",
        settings={"note": "ä" * 100_000},
        seed=2**53 - 1,
        repeat=0,
        scratch="/tmp/x",
        host={"gpus": []},
    )
    assert receive_job(send_job(job)) == job
