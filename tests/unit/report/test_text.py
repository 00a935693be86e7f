from __future__ import annotations

import csv
import io

import markdown
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.report.templating import environment, markdown_text
from rentbench.report.text import clean, safe_cell, shorten


def test_control_and_direction_characters_become_visible():
    assert clean("a\x07b\x1b[31m\u202ec\u2066\ud800") == "a\ufffdb\ufffd[31m\ufffdc\ufffd\ufffd"
    assert clean("line\r\nnext\ttab, ümläut 日本 ×") == "line\nnext\ttab, ümläut 日本 ×"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "|cmd", "%1", "\n=1"])
def test_a_cell_is_never_a_formula(text):
    assert safe_cell(text).startswith("'")


def test_a_plain_cell_stays_as_it_is():
    assert safe_cell("NVIDIA H200") == "NVIDIA H200"


@given(st.text())
def test_cells_survive_csv_and_start_with_no_formula(text):
    buffer = io.StringIO()
    csv.writer(buffer).writerow([safe_cell(text), "end"])
    (row,) = list(csv.reader(io.StringIO(buffer.getvalue(), newline="")))
    assert row[1] == "end"
    assert not row[0].lstrip().startswith(("=", "+", "-", "@", "|", "%"))


def test_shortened_text_is_one_line():
    assert shorten("a\nb", 10) == "a b"
    assert shorten("x" * 50, 10) == "x" * 9 + "…"


@given(st.text(max_size=60))
def test_markdown_takes_nothing_in_plain_text_for_markup(text):
    rendered = markdown.markdown(f"## {markdown_text(text)}", extensions=["attr_list", "tables", "toc"])
    inner = rendered.removeprefix("<h2").removesuffix("</h2>").partition(">")[2]
    assert "<" not in inner


def test_templates_escape_and_clean_what_they_show():
    shown = environment().from_string("{{ a }}").render(a="<b>\x00\u202e&")
    assert shown == "&lt;b&gt;\ufffd\ufffd&amp;"
