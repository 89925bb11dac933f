"""docs/run/recovery-matrix.md explains each verdict, and matrix.md has each cell of the matrix."""

from __future__ import annotations

import re

import pytest

from reconciler.verdict.table import FOREIGN_ROWS, OWN_ROWS, Situation
from tests.cli.support import HERE
from tests.crash import table
from tests.crash.cells import EVERY, FEW, POSSIBLE, Backend, Cell, Target, When

MATRIX = table.PAGE.read_text(encoding="utf-8")
PAGE = (HERE / "docs" / "run" / "recovery-matrix.md").read_text(encoding="utf-8")


def test_every_possible_cell_was_tested() -> None:
    """The page shows each cell with its verdicts, actions and executions."""
    rows = table.kept(MATRIX)
    assert set(rows) == set(POSSIBLE)
    assert [row for row in rows.values() if "not struck" in row] == []
    assert {len(row.split(" | ")) for row in rows.values()} == {4}


def test_command_runs_once_unless_it_was_killed() -> None:
    """The last column of the page has the number of executions that the matrix expects."""
    for cell, row in table.kept(MATRIX).items():
        expected = "2 in 2 attempts" if cell.ends_the_command else "1"
        assert row.rpartition(" | ")[2] == expected, cell


def test_page_is_as_the_tool_writes_it() -> None:
    """The page equals the output of the tool, so nobody edited the table manually."""
    assert table.written(MATRIX, {}) == MATRIX


def test_new_row_replaces_only_its_own_cell() -> None:
    """A new row replaces the row of its own cell, and the other cells keep their rows."""
    cell = Cell(Backend.SHELL, When.RUNNING, Target.MONITOR)
    after = table.kept(table.written(MATRIX, {cell: "wrapper | `1 A` | wait | 1"}))
    assert after.pop(cell) == "wrapper | `1 A` | wait | 1"
    assert after == {c: row for c, row in table.kept(MATRIX).items() if c != cell}


@pytest.mark.parametrize("backend", Backend)
def test_every_pair_of_victim_and_moment_is_in_the_matrix(backend: Backend) -> None:
    """Each pair was tested, or is listed with the reason why it is impossible."""
    mine = [cell for cell in EVERY if cell.backend is backend]
    assert len(mine) == (3 * 6 if backend.is_far else 7 * 8)
    assert all(cell in POSSIBLE or cell.impossible for cell in mine)


def test_selection_covers_each_victim_and_each_moment() -> None:
    """The cells of `make test` include every victim, moment and backend."""
    near = {cell.target for cell in EVERY if not cell.backend.is_far}
    assert near < {cell.target for cell in FEW} < set(Target)
    assert {cell.when for cell in FEW} == set(When)
    assert {cell.backend for cell in FEW} == set(Backend)


def test_every_verdict_is_explained() -> None:
    """Each verdict has a line on the page, and the page names no other verdict."""
    explained = PAGE.partition("## What each verdict means")[2].partition("## Damaged")[0]
    lines = [line for line in explained.splitlines() if line.startswith("| `")]
    told = {name for line in lines for name in re.findall(r"`([A-Z_]+)`", line)}
    assert told == set(Situation) - {Situation.SESSION_ALIVE, Situation.STALE}
    assert {name for (_, name, _), _, _ in OWN_ROWS} <= told


def test_every_verdict_of_an_imported_attempt_is_explained() -> None:
    """The page explains each verdict with its row number, and no other verdict."""
    given = {(str(row), name) for (row, name, _), _, _ in FOREIGN_ROWS}
    explained = PAGE.partition("## An attempt that was imported")[2].partition("## A log")[0]
    assert set(re.findall(r"\| (\d+) \| `([A-Z_]+)` \|", explained)) == given


def test_page_states_the_number_of_cells() -> None:
    """The page states the correct number of cells and names each moment."""
    section = " ".join(PAGE.partition("## The kill matrix")[2].split())
    assert f"All {len(POSSIBLE)} cells" in section
    assert [when for when in When if when not in section] == []
