"""What a change can reach, and the faults that show whether it does."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.quick.faults import planted
from tests.quick.reach import modules_of, nearest, shared_names, steps_from

IMPORTERS = {
    "service.root.root": {"service.files.workflow_files", "tests.service.support"},
    "service.files.workflow_files": {"cli.note"},
    "cli.note": {"tests.cli.test_note"},
    "tests.service.support": {"tests.service.test_sync", "tests.service.test_all"},
}


class Imports:
    """A graph of a few modules."""

    @property
    def modules(self) -> set[str]:
        """The name of every module."""
        return {*IMPORTERS, *(one for found in IMPORTERS.values() for one in found)}

    def find_modules_that_directly_import(self, module: str) -> set[str]:
        """Return the modules that import this one."""
        return IMPORTERS.get(module, set())


def test_the_nearest_tests_are_the_first() -> None:
    """By the imports on the way, and by name."""
    steps = steps_from({"service.root.root"}, Imports())
    assert nearest(steps) == [
        "tests/service/test_all.py",
        "tests/service/test_sync.py",
        "tests/cli/test_note.py",
    ]


def test_a_test_of_the_same_name_is_near_without_an_import() -> None:
    """It comes before those far away by imports; without a name in common it does not count."""
    known = {"tests.machines.test_inspection", "tests.cli.test_note", "tests.history.test_blame"}
    shared = shared_names({"service.machines.inspection"}, known)
    assert nearest({"service.machines.inspection": 0, "tests.cli.test_note": 3}, shared) == [
        "tests/machines/test_inspection.py",
        "tests/cli/test_note.py",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("service/root/root.py", {"service.root.root"}),
        ("service/root/query.sql", {"service.root.root"}),
        ("docs/cli.md", set()),
        ("Makefile", set()),
        ("service/gone.py", set()),
    ],
)
def test_a_file_is_its_module_or_belongs_to_those_beside_it(path: str, expected: set[str]) -> None:
    """What is no part of a package reaches nothing."""
    assert modules_of([path], Imports().modules) == expected


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_fault_is_a_program_that_computes_something_else(seed: int) -> None:
    """In one line; the rest stays as it is."""
    path = Path(__file__).with_name("reach.py")
    text = path.read_text()
    found = planted(text, random.Random(seed))
    assert found is not None
    changed, line, _ = found
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    before, after = text.splitlines(), changed.splitlines()
    assert before[: line - 1] == after[: line - 1]
