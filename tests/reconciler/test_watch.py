"""The process that watches an attempt ends when a person must act."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.attempt.observations import ObservedJob, RemoteAnswer
from reconciler.attempt.paths import AttemptPaths, WatchResult
from reconciler.dpdispatcher import watch
from reconciler.evidence.evidence import Evidence
from reconciler.host.scheduler_jobs import Queue
from reconciler.verdict.table import Verdict, derive_verdict
from tests.reconciler.support import JOB, submitted

UNLOCKED = replace(JOB, lock_held=None)


class StillWatching(Exception):
    """The process waits before its next check."""


def watch_once(root: Path, monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> WatchResult:
    """Watch an attempt that always looks the same, without patience.

    Raises `StillWatching` if the process would check the attempt again.
    """

    def look(_attempt: AttemptPaths, _again: bool) -> tuple[Evidence, Verdict]:
        return evidence, derive_verdict(evidence)

    def wait(*_: object) -> bool:
        raise StillWatching

    monkeypatch.setattr(watch, "_inspect_attempt", look)
    monkeypatch.setattr(watch, "_wait_for_job_end", wait)
    attempt = AttemptPaths(root, "wf", "stage-1", "att-0001")
    attempt.folder.mkdir(parents=True)
    return watch.watch_attempt(attempt, patience=0)


@pytest.mark.parametrize(
    ("verdict", "evidence"),
    [
        ("UNSEEN", submitted(UNLOCKED, scheduler="Slurm", queue=Queue(1, ()), looked_twice=True)),
        ("UNKNOWN", submitted(replace(UNLOCKED, exit_code=137), far=RemoteAnswer(1), tenants=())),
    ],
)
def test_watching_ends_if_nothing_shows_whether_the_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: str, evidence: Evidence
) -> None:
    """The machine answers, but its answer shows neither a running job nor its end."""
    assert derive_verdict(evidence).name == verdict
    assert watch_once(tmp_path, monkeypatch, evidence) is WatchResult.SILENT


def test_watching_continues_while_a_job_without_a_lock_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the job shows that it runs, although its lock is unknown."""
    job: ObservedJob = replace(UNLOCKED, id_alive=True)
    with pytest.raises(StillWatching):
        watch_once(tmp_path, monkeypatch, submitted(job, far=RemoteAnswer(1), tenants=()))
