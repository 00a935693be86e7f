"""Whose processes are on the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rentbench.harness.telemetry.foreign import count_foreign, unreliable_because

if TYPE_CHECKING:
    from pathlib import Path


def processes(root: Path, parents: dict[int, int]) -> Path:
    for pid, parent in parents.items():
        folder = root / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a name) with) brackets) S {parent} 1 1 0\n")
    return root


def test_descendants_are_ours_and_the_rest_is_not(tmp_path: Path) -> None:
    proc = processes(tmp_path, {10: 1, 20: 10, 30: 20, 40: 1, 50: 40})
    assert count_foreign({10, 20, 30}, 10, proc) == 0
    assert count_foreign({30, 40, 50}, 10, proc) == 2


def test_a_process_that_has_ended_counts_as_none(tmp_path: Path) -> None:
    assert count_foreign({99}, 10, processes(tmp_path, {10: 1})) == 0


def test_as_process_1_of_a_container_all_below_are_ours(tmp_path: Path) -> None:
    assert count_foreign({20}, 1, processes(tmp_path, {1: 0, 10: 1, 20: 10})) == 0


def test_ids_mean_nothing_in_a_namespace_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    link = tmp_path / "self" / "ns" / "pid"
    link.symlink_to("pid:[4026531836]")
    assert unreliable_because(tmp_path) is None
    link.unlink()
    link.symlink_to("pid:[4026532761]")
    assert "process ids of its own" in (unreliable_because(tmp_path) or "")
    link.unlink()
    assert "cannot be read" in (unreliable_because(tmp_path) or "")
