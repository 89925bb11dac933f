"""The tests that a change can affect, and planted faults that check the selection."""

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


def test_nearest_tests_come_first() -> None:
    """The distance depends on the number of imports and on the names."""
    steps = steps_from({"service.root.root"}, Imports())
    assert nearest(steps) == [
        "tests/service/test_all.py",
        "tests/service/test_sync.py",
        "tests/cli/test_note.py",
    ]


def test_test_with_a_shared_name_is_near_without_an_import() -> None:
    """It precedes distant tests, but a test without a shared name is not selected."""
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
    """A file outside all packages affects nothing."""
    assert modules_of([path], Imports().modules) == expected


@pytest.mark.parametrize("seed", range(20))
def test_planted_fault_changes_one_line_of_the_program(seed: int) -> None:
    """The changed program has another syntax tree, and all earlier lines are unchanged."""
    path = Path(__file__).with_name("reach.py")
    text = path.read_text()
    found = planted(text, random.Random(seed))
    assert found is not None
    changed, line, _ = found
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    before, after = text.splitlines(), changed.splitlines()
    assert before[: line - 1] == after[: line - 1]
