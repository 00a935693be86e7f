"""Matrices of `nvidia-smi topo -m`: escape codes, network cards, blanks or tabs, and none at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.probe.topology import TopologyError, parse_topology, summary

FIXTURES = Path(__file__).parents[2] / "fixtures" / "topology"


@pytest.mark.parametrize(
    ("file", "matrix", "word"),
    [
        ("ansi-1.txt", [["X"]], "single"),
        ("spaces-phb-2.txt", [["X", "PHB"], ["PHB", "X"]], "PHB"),
        ("nics-mixed-3.txt", [["X", "NV4", "NV4"], ["NV4", "X", "SYS"], ["NV4", "SYS", "X"]], "mixed"),
        ("old-soc-2.txt", [["X", "SYS"], ["SYS", "X"]], "SYS"),
    ],
)
def test_matrices(file: str, matrix: list[list[str]], word: str) -> None:
    found = parse_topology((FIXTURES / file).read_text())
    assert found == matrix
    assert summary(found) == word


def test_links_of_different_strength_are_still_nvlink() -> None:
    assert summary([["X", "NV1", "NV2"], ["NV1", "X", "NV2"], ["NV2", "NV2", "X"]]) == "NVLink"
    assert summary([["X", "C2C"], ["C2C", "X"]]) == "C2C"


@pytest.mark.parametrize(
    "output",
    [
        (FIXTURES / "windows.txt").read_text(),
        "",
        "\tGPU0\tGPU1\nGPU0\t X \tNV4\n",
        "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tXYZ\t X \n",
        "\tGPU0\tGPU1\nGPU0\t X \t X \nGPU1\tNV4\t X \n",
        "\tGPU0\tGPU1\nGPU0\tNV4\t X \nGPU1\tNV4\t X \n",
        "\tGPU0\nGPU0\n",
    ],
)
def test_what_is_no_matrix_is_refused_with_what_was_said(output: str) -> None:
    with pytest.raises(TopologyError, match="nvidia-smi topo -m"):
        parse_topology(output)


@given(st.text(alphabet=st.sampled_from("GPU01 \t\nXNVSYCPU"), max_size=200))
def test_any_text_is_a_square_matrix_or_refused(anything: str) -> None:
    try:
        matrix = parse_topology(anything)
    except TopologyError:
        return
    assert all(len(row) == len(matrix) for row in matrix)
