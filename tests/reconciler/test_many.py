"""Many stages at once: what they cost, and that they are settled together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest

from benchmarks.running_stages import finish, jobs_of, make, monitored
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from reconciler.context import Jobs
from reconciler.control.reconcile import reconcile
from service.root.disk import system_clock
from service.writing.workflow_service import Service

FEW = 12


@pytest.fixture
def few(tmp_path: Path) -> Iterator[Jobs]:
    """Make a root with some stages whose jobs have all ended well."""
    make(tmp_path / "root", FEW)
    finish(tmp_path / "root", FEW)
    with jobs_of(tmp_path / "root") as jobs:
        yield jobs


def appends(jobs: Jobs, type_: str) -> int:
    """Return how many appends recorded events of a type."""
    log = jobs.service.log
    return len({e.correlation_id for e in log.store.read(log.stream) if e.type == type_})


def statuses(jobs: Jobs) -> set[Status]:
    """Return the statuses that there are."""
    return {stage.status for stage in jobs.service.state().stages.values()}


@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.long
def test_a_thousand_running_stages_are_looked_at_in_time(tmp_path: Path) -> None:
    """Aimed at: two seconds. Their first verdicts take an append for hundreds, not for each."""
    make(tmp_path / "root", 1_000)
    with monitored(tmp_path / "root", 1_000), jobs_of(tmp_path / "root") as jobs:
        start = time.process_time()
        findings = reconcile(jobs)
        assert time.process_time() - start < 20
        assert [finding.verdict.name for finding in findings] == ["MONITORED"] * 1_000
        assert appends(jobs, "attempt.observed") <= 10


def test_stages_that_ended_are_recorded_together(few: Jobs) -> None:
    """One append holds what was seen of each and how it ended."""
    assert len(reconcile(few)) == FEW
    assert statuses(few) == {Status.POST_PROCESSING}
    assert appends(few, "stage.computed") == 1


def test_each_end_has_its_own_time(few: Jobs) -> None:
    """What is recorded together did not happen at once: each job's own record says when."""
    reconcile(few)
    log = few.service.log
    ends = [e for e in log.store.read(log.stream) if e.type == "stage.computed"]
    exits = sorted(few.root.glob("stage-*/.attempts/*/job-*.exit"), key=lambda f: f.stat().st_mtime)
    assert len({end.occurred_at for end in ends}) == len({f.stat().st_mtime_ns for f in exits})
    assert all(end.occurred_at < end.recorded_at for end in ends)


def test_a_stage_that_another_process_holds_is_settled_by_itself(few: Jobs) -> None:
    """It is waited for, and keeps nobody else's stage from being recorded."""
    with ExitStack() as held, jobs_of(few.root) as other:
        held.enter_context(few.sole("stage-1", timeout=0))
        reconcile(replace(other, tell=lambda _: held.close()))
    assert statuses(few) == {Status.POST_PROCESSING}
    assert appends(few, "stage.computed") == 2


def test_a_stage_that_moved_meanwhile_keeps_no_other_back(few: Jobs) -> None:
    """The rules refuse the append that holds it; then each is recorded by what is so."""
    looks = count(1)

    def clock() -> datetime:
        # Called at each look: after the last one somebody fails what was looked at first.
        if next(looks) == FEW:
            few.service.handle(p.StageFailed(stage="stage-1", error="by hand"))
        return system_clock()

    with jobs_of(few.root) as other:
        known = other.service
        reconcile(replace(other, service=Service(known.root, known.log, known.actor, clock)))
    found = {id_: stage.status for id_, stage in few.service.state().stages.items()}
    assert found.pop("stage-1") is Status.FAILED
    assert set(found.values()) == {Status.POST_PROCESSING}
