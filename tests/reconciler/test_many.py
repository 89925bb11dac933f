"""wfctl reconciles many stages together and records them with few appends to the log."""

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
from reconciler.context import JobContext
from reconciler.control.reconcile import reconcile_stages
from service.root.atomic_files import system_clock
from service.writing.workflow_service import Service

FEW = 12


@pytest.fixture
def few(tmp_path: Path) -> Iterator[JobContext]:
    """Create a workflow of 12 running stages whose jobs have all succeeded."""
    make(tmp_path / "root", FEW)
    finish(tmp_path / "root", FEW)
    with jobs_of(tmp_path / "root") as jobs:
        yield jobs


def appends(jobs: JobContext, type_: str) -> int:
    """Return the number of appends to the log that recorded events of a type."""
    log = jobs.service.log
    return len({e.correlation_id for e in log.store.read(log.stream) if e.type == type_})


def statuses(jobs: JobContext) -> set[Status]:
    """Return the set of all statuses of stages."""
    return {stage.status for stage in jobs.service.state().stages.values()}


@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.long
def test_thousand_running_stages_are_reconciled_in_time(tmp_path: Path) -> None:
    """wfctl records the first verdicts of 1,000 attempts in at most 10 appends to the log."""
    make(tmp_path / "root", 1_000)
    with monitored(tmp_path / "root", 1_000), jobs_of(tmp_path / "root") as jobs:
        start = time.process_time()
        findings = reconcile_stages(jobs)
        assert time.process_time() - start < 20
        assert [finding.verdict.name for finding in findings] == ["MONITORED"] * 1_000
        assert appends(jobs, "attempt.observed") <= 10


def test_ended_stages_are_recorded_together(few: JobContext) -> None:
    """One append to the log records the verdicts and results of all stages."""
    assert len(reconcile_stages(few)) == FEW
    assert statuses(few) == {Status.POST_PROCESSING}
    assert appends(few, "stage.computed") == 1


def test_each_job_has_its_own_end_time(few: JobContext) -> None:
    """Each event has the end time that its job recorded, despite the common append."""
    reconcile_stages(few)
    log = few.service.log
    ends = [e for e in log.store.read(log.stream) if e.type == "stage.computed"]
    exits = sorted(few.root.glob("stage-*/.attempts/*/job-*.exit"), key=lambda f: f.stat().st_mtime)
    assert len({end.occurred_at for end in ends}) == len({f.stat().st_mtime_ns for f in exits})
    assert all(end.occurred_at < end.recorded_at for end in ends)


def test_stage_locked_by_another_process_is_recorded_separately(few: JobContext) -> None:
    """The reconciler records the other stages first and waits for the locked stage."""
    with ExitStack() as held, jobs_of(few.root) as other:
        held.enter_context(few.lock_stage("stage-1", timeout=0))
        reconcile_stages(replace(other, tell=lambda _: held.close()))
    assert statuses(few) == {Status.POST_PROCESSING}
    assert appends(few, "stage.computed") == 2


def test_stage_changed_by_another_process_does_not_block_the_others(few: JobContext) -> None:
    """The log refuses the common append, so the reconciler records each stage separately."""
    looks = count(1)

    def clock() -> datetime:
        # Just before the common append, another process fails the stage that was checked first.
        if next(looks) == FEW:
            few.service.handle(p.StageFailed(stage="stage-1", error="by hand"))
        return system_clock()

    with jobs_of(few.root) as other:
        known = other.service
        reconcile_stages(replace(other, service=Service(known.root, known.log, known.actor, clock)))
    found = {id_: stage.status for id_, stage in few.service.state().stages.items()}
    assert found.pop("stage-1") is Status.FAILED
    assert set(found.values()) == {Status.POST_PROCESSING}
