"""For each error in the table: cause it, and run each command that its message suggests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.frame.exit_codes import NEEDS_PERSON
from tests.advice import elsewhere, log_rows, machine_rows, outer_rows, plan_rows, stage_rows
from tests.advice.advice import Advice, advised, fault, said
from tests.advice.table import ROWS, Row
from tests.cli.support import HERE

#: The modules whose functions fill the table of errors.
_SOURCES = (log_rows, machine_rows, outer_rows, plan_rows, stage_rows)
pytestmark = pytest.mark.forged


def _marked() -> Iterator[object]:
    assert all(_SOURCES)
    for one in ROWS:
        marks = [pytest.mark.slow] if one.slow else []
        yield pytest.param(one, id=one.id, marks=marks)


@pytest.mark.parametrize("row", list(_marked()))
def test_suggested_commands_of_each_error_work(row: Row, tmp_path: Path) -> None:
    """The error has its documented codes and suggests commands that work."""
    answer = row.bring(tmp_path / "first")
    assert (answer.code, answer.error["code"]) == (row.exit, row.code), answer
    message = said(answer)
    assert row.cause in message.partition("`wfctl")[0], message
    commands = advised(answer)
    assert commands or (row.names and row.names in message), message
    assert row.names in message
    wrong = {one.line: _taken(row, one, tmp_path, n) for n, one in enumerate(commands)}
    assert not {line: why for line, why in wrong.items() if why}, message


def _taken(row: Row, advice: Advice, folder: Path, number: int) -> str:
    """Run the first suggestion in the root of the error, and each other one in a new root."""
    root = folder / "first/root"
    if number:
        root = folder / f"again-{number}/root"
        row.bring(root.parent)
    for beginning, done_first in row.first.items():
        if advice.line.startswith(beginning):
            done_first(root)
    return fault(advice, root, row.given, person_named=row.exit == NEEDS_PERSON)


def test_every_documented_error_code_has_a_row() -> None:
    """Each documented error code is in the table, or in a list with a reason."""
    page = (HERE / "docs/use/errors.md").read_text("utf-8")
    codes = set(re.findall(r"^- `(\w+)`: ", page, re.MULTILINE))
    assert codes - {one.code for one in ROWS} == set(elsewhere.CODES)
    files = re.findall(r"tests/\S+?\.py", " ".join(elsewhere.CODES.values()))
    assert all((HERE / file).exists() for file in files)
