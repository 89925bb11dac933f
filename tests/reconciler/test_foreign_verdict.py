"""The verdicts on attempts that a person launched or that were imported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.attempt.observations import ObservedJob, RemoteAnswer
from reconciler.evidence.evidence import Evidence, ForeignLaunch
from reconciler.host.scheduler_jobs import Queue
from reconciler.verdict.table import FOREIGN_ROWS, Action, derive_verdict
from tests.reconciler.support import ABSENT, IN_PLACE, JOB, own, seen

HELD = replace(JOB, lock_held=True)
GOOD = replace(JOB, exit_code=0, tag=True)
COPY = ("c" * 40,)
SILENT = Queue(1, None, "socket timed out")


def by_hand(*, on_a_cluster: bool = False, why: str | None = None, **changes: Any) -> Evidence:
    """Return evidence of an attempt that a person launched, with the given changes."""
    return seen(foreign_launch=ForeignLaunch(on_a_cluster, why), **changes)


def ended(code: int, **changes: Any) -> Evidence:
    """Return evidence of such an attempt with both marker files."""
    return by_hand(**{"exit_marker": own(code), "done_marker": own(code), **changes})


def worked(job: ObservedJob = JOB, **changes: Any) -> Evidence:
    """Return evidence of such an attempt with one job in DPDispatcher's folder."""
    return by_hand(**{"jobs": (job,), "copies": COPY, "recovery_file": True, **changes})


ROWS: list[tuple[int, str, Action, Evidence]] = [
    (20, "ELSEWHERE", Action.UNKNOWN, by_hand(root_now="/copied", session=True)),
    (21, "SESSION_ALIVE", Action.WAIT, by_hand(session=True, monitor_alive=True)),
    (21, "MONITORED", Action.WAIT, worked(HELD, monitor_alive=True)),
    (26, "ORPHAN_RUNNING", Action.ATTACH, worked(HELD)),
    (26, "RUNS_UNWATCHED", Action.WAIT, worked(HELD, recovery_file=False)),
    (26, "RUNS_UNWATCHED", Action.WAIT, worked(HELD, session=None)),
    (26, "RUNS_UNWATCHED", Action.WAIT, worked(HELD, in_vain=True)),
    (23, "OUTPUT_MISSING", Action.FAILED, ended(0, outputs=(IN_PLACE, ABSENT))),
    (22, "SUCCEEDED", Action.SUCCEEDED, ended(0, outputs=(IN_PLACE,))),
    (22, "SUCCEEDED", Action.SUCCEEDED, ended(0, outputs=())),
    (25, "UNKNOWN", Action.UNKNOWN, worked(scheduler="Slurm", queue=SILENT)),
    (27, "FINISHED_NOT_COLLECTED", Action.UNKNOWN, worked(GOOD, in_vain=True)),
    (27, "FINISHED_NOT_COLLECTED", Action.ATTACH, worked(GOOD)),
    (27, "FINISHED_NOT_COLLECTED", Action.ATTACH, worked(GOOD, exit_marker=own(1))),
    (23, "TASK_FAILED", Action.FAILED, ended(3)),
    (28, "TASK_FAILED", Action.FAILED, worked(replace(JOB, failed_flag=True))),
    (9, "VANISHED", Action.UNKNOWN, worked(scheduler="Slurm", queue=Queue(1, ()))),
    (28, "JOB_LOST", Action.FAILED, worked(scheduler="Slurm", looked_twice=True)),
    (28, "JOB_LOST", Action.FAILED, worked()),
    (25, "UNKNOWN", Action.UNKNOWN, by_hand(session=None)),
    (25, "UNKNOWN", Action.UNKNOWN, by_hand(on_a_cluster=True)),
    (25, "UNKNOWN", Action.UNKNOWN, by_hand(why="run.log names no folder")),
    (24, "STALE", Action.FAILED, by_hand()),
    (24, "STALE", Action.FAILED, by_hand(exit_marker=own(0), outputs=(IN_PLACE,))),
    (24, "STALE", Action.FAILED, by_hand(done_marker=own(0), outputs=(IN_PLACE,))),
    (24, "STALE", Action.FAILED, worked(GOOD, copies=())),
]


@pytest.mark.parametrize(("row", "name", "action", "evidence"), ROWS)
def test_evidence_of_a_launch_by_hand_leads_to_its_row(
    row: int, name: str, action: Action, evidence: Evidence
) -> None:
    """Each example of evidence gets the number, the name and the action of its row."""
    found = derive_verdict(evidence)
    assert (found.row, found.name, found.action) == (row, name, action)
    assert found.stop == ()


def test_every_row_has_an_example() -> None:
    """Each row of the table decides at least one example."""
    assert {(what[0], str(what[1]), what[2]) for what, _, _ in FOREIGN_ROWS} == {
        one[:3] for one in ROWS
    }


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (ended(3), "the wrapper script ended with exit code 3"),
        (ended(0), "exit code 0, but stage-1/out.txt is missing"),
        (by_hand(on_a_cluster=True), "a job may still be running on the cluster. Check there"),
        (by_hand(why="run.log is missing"), "may still be running (run.log is missing). Check"),
        (by_hand(on_a_cluster=True), "`wfctl stage compute stage-1` or `wfctl stage fail stage-1"),
    ],
)
def test_reason_contains_the_values_of_the_attempt(evidence: Evidence, text: str) -> None:
    """The reason contains the exit code, the missing outputs and the stage."""
    assert text in derive_verdict(evidence).reason


def test_results_that_a_job_never_downloads_are_not_awaited() -> None:
    """A failed collection with missing files is not repeated: the job has no end to wait for."""
    evidence = worked(GOOD, exit_marker=own(1), done_marker=own(1), backward_missing=("out.txt",))
    assert (derive_verdict(evidence).row, derive_verdict(evidence).name) == (23, "TASK_FAILED")


def test_remote_machine_without_an_answer_leaves_the_end_unknown() -> None:
    """If the machine of the jobs does not answer, wfctl does not know how they ended."""
    far = RemoteAnswer(1, error="connection refused")
    assert derive_verdict(worked(far=far)).row == 25
