"""Selection of the tests that a change can affect, and insertion of faults that check it."""

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
    """An import graph of a few modules, in place of the real graph."""

    @property
    def modules(self) -> set[str]:
        """The names of all modules in the graph."""
        return {*IMPORTERS, *(one for found in IMPORTERS.values() for one in found)}

    def find_modules_that_directly_import(self, module: str) -> set[str]:
        """Return the modules that import the given module."""
        return IMPORTERS.get(module, set())


def test_nearest_tests_come_first() -> None:
    """Test files are sorted by their distance in imports, and then by name."""
    steps = steps_from({"service.root.root"}, Imports())
    assert nearest(steps) == [
        "tests/service/test_all.py",
        "tests/service/test_sync.py",
        "tests/cli/test_note.py",
    ]


def test_test_with_a_shared_name_is_near_without_an_import() -> None:
    """A test that shares names with the changed module is selected before distant tests."""
    known = {"tests.machines.test_inspection", "tests.cli.test_note", "tests.history.test_blame"}
    shared = shared_names({"extensions.machines.service.inspection"}, known)
    assert nearest(
        {"extensions.machines.service.inspection": 0, "tests.cli.test_note": 3}, shared
    ) == [
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
def test_changed_file_maps_to_its_module_or_folder(path: str, expected: set[str]) -> None:
    """A Python file maps to its module, and another file in a package to the folder's modules."""
    assert modules_of([path], Imports().modules) == expected


@pytest.mark.parametrize("seed", range(20))
def test_planted_fault_changes_one_line_of_the_program(seed: int) -> None:
    """The inserted fault changes the meaning of the program, but no line before the fault."""
    path = Path(__file__).with_name("reach.py")
    text = path.read_text()
    found = planted(text, random.Random(seed))
    assert found is not None
    changed, line, _ = found
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    before, after = text.splitlines(), changed.splitlines()
    assert before[: line - 1] == after[: line - 1]
