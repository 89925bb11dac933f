"""The list of mutants that may survive, and the result that is read from cosmic-ray."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import HERE
from tests.mutants.__main__ import Mutant, print_report, read_explained, read_mutants

RULE = "lifecycle/rules/decide.py"


def test_each_explained_mutant_changes_a_line_of_the_program() -> None:
    """An explanation of a line that has changed must be removed."""
    for file, before, after in read_explained():
        assert before in {line.strip() for line in (HERE / file).read_text().splitlines()}
        assert before != after


def dumped(outcome: str | None, output: str = "1 passed", worker: str = "normal") -> str:
    """Return a line of cosmic-ray's dump for a mutant with this outcome."""
    diff = f"--- a/{RULE}\n+++ b/{RULE}\n@@ -1 +1 @@\n     x\n-    if a and b:\n+    if a or b:\n"
    result = {
        "worker_outcome": worker,
        "test_outcome": outcome,
        "output": output,
        "diff": None if outcome is None else diff,
    }
    return json.dumps([{"mutations": [{"module_path": RULE}]}, result])


def test_tested_mutants_are_read_from_the_dump() -> None:
    """A mutant has its changed line; mutants that were left out or not tested are not read."""
    untested = json.dumps([{"mutations": [{"module_path": RULE}]}, None])
    left_out = dumped(None, worker="skipped")
    dump = "\n".join([dumped("killed"), untested, left_out, dumped("killed", "timeout")])
    line = (RULE, "if a and b:", "if a or b:")
    assert list(read_mutants(dump)) == [Mutant(*line, "killed"), Mutant(*line, "timeout")]


@pytest.mark.parametrize(("survivors", "code"), [(5, 0), (6, 1)])
def test_report_fails_if_more_than_five_percent_survive(survivors: int, code: int) -> None:
    """Of 100 mutants, 5 may survive without an explanation."""
    mutants = [
        Mutant(RULE, str(n), "x", "survived" if n < survivors else "killed") for n in range(100)
    ]
    assert print_report(mutants) == code


def test_explained_survivor_is_not_counted() -> None:
    """A mutant that is explained may survive."""
    known = next(iter(read_explained()))
    assert print_report([Mutant(*known, "survived")]) == 0
