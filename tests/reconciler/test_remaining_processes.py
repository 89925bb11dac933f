"""wfctl reads the names of remaining processes from the record of a job's end."""

from __future__ import annotations

import pytest

from reconciler.records.remaining_processes import parse_remaining_processes


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("bash", "bash"),
        ("x) (y", "x) (y"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\x0bb", "a\\x0bb"),
        ("a\u2028b", "a\\u2028b"),
    ],
)
def test_each_process_is_named(name: str, shown: str) -> None:
    """A process is not hidden by invisible characters in its name, which appear escaped."""
    record = f"used 1\nprocess 12 ({name})\nprocess 12 ({name})\n"
    assert parse_remaining_processes(record) == (f"process 12 ({shown})",)


@pytest.mark.parametrize("line", ["process (bash)", "process 1 bash", f"process 1 ({'x' * 99})"])
def test_other_lines_name_no_process(line: str) -> None:
    """A line in another form is ignored."""
    assert parse_remaining_processes(f"{line}\n") == ()
