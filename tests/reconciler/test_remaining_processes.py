"""wfctl reads the names of remaining processes from the record of a job's end."""

from __future__ import annotations

import pytest

from projections.words.remaining_processes import join_process_names
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


@pytest.mark.parametrize(
    ("count", "more"),
    [(3, ""), (4, " and 1 more"), (19, " and 16 more"), (20, " and at least 17 more")],
)
def test_number_of_processes_is_a_minimum_if_the_record_is_full(count: int, more: str) -> None:
    """A record names at most 20 processes, so a full record may omit further processes."""
    jobs = [[f"process {n} (sleep)" for n in range(count)]]
    first = "process 0 (sleep), process 1 (sleep), process 2 (sleep)"
    assert join_process_names(jobs) == first + more


def test_number_of_processes_of_several_jobs_is_exact() -> None:
    """The limit is for each job, so 30 processes of three jobs are all named in the records."""
    jobs = [[f"process {job}{n} (sleep)" for n in range(10)] for job in range(3)]
    assert join_process_names(jobs).endswith(" and 27 more")
