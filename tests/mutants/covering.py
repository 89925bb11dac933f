"""Run the tests that execute the changed line of a mutant: ``python -m tests.mutants.covering``.

cosmic-ray runs this command in a clone in which it has changed one line. The exit code is 0 if all
tests pass, so that the mutant survives.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.mutants.__main__ import COVERAGE

#: Tests of a line for which no test is recorded, by the first folder of the line. The table of
#: verdicts has an example of each row, so nothing is recorded for it.
UNRECORDED = {
    "lifecycle": ["tests/lifecycle", "tests/exploration"],
    "reconciler": [f"tests/reconciler/test_{kind}verdict.py" for kind in ("", "foreign_", "task_")],
}
#: Folders with tests that call the rules directly, so they are fast and come first.
_DIRECT = ("tests.lifecycle.", "tests.exploration.")
#: Maximum number of tests for one mutant, and the time in seconds after which no test starts.
_MOST, _SECONDS = 400, 300
_CHANGED = re.compile(r"^\+\+\+ b/(?P<file>.+)$|^@@ -(?P<line>\d+)", re.MULTILINE)


class WithoutBytecode:
    """Keeps Python from caching a mutated module, which the next mutant would then import."""

    def pytest_configure(self) -> None:
        """Write no compiled modules."""
        sys.dont_write_bytecode = True


def find_changed_lines() -> list[tuple[str, int]]:
    """Return the path and the number of each line in the clone that differs from the commit."""
    diff = subprocess.run(["git", "diff", "-U0"], capture_output=True, text=True, check=True).stdout
    lines, file = [], ""
    for found in _CHANGED.finditer(diff):
        file = found["file"] or file
        if found["line"]:
            lines.append((file, int(found["line"])))
    return lines


def find_tests(data: CoverageData, lines: Iterable[tuple[str, int]]) -> list[str]:
    """Return the ids of the tests that execute one of these lines, the fastest first.

    Of equally fast tests, those that execute the fewest lines come first.
    """
    size: Counter[str] = Counter()
    chosen: set[str] = set()
    for path in data.measured_files():
        for number, tests in data.contexts_by_lineno(path).items():
            size.update(tests)
            if any(path.endswith(f"/{file}") and number == line for file, line in lines):
                chosen.update(test for test in tests if test.startswith("tests."))
    order = sorted(chosen, key=lambda test: (not test.startswith(_DIRECT), size[test], test))
    return [_find_id(test) for test in order]


def _find_id(context: str) -> str:
    """Return the id of a test that coverage names like ``tests.folder.test_file.test_name``."""
    parts = context.split(".")
    file = next(number for number, part in enumerate(parts) if part.startswith("test_"))
    return "::".join([str(Path(*parts[: file + 1])) + ".py", *parts[file + 1 :]])


def main() -> int:
    """Run the tests of the changed line; return the exit code of pytest."""
    data = CoverageData(os.environ[COVERAGE])
    data.read()
    lines = find_changed_lines()
    tests = find_tests(data, lines)[:_MOST] or UNRECORDED[lines[0][0].partition("/")[0]]
    options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", "60"]
    options += ["--until", str(time.time() + _SECONDS)]
    return int(pytest.main([*options, *tests], plugins=[WithoutBytecode()]))


if __name__ == "__main__":
    sys.exit(main())
