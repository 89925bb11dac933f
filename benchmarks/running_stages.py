"""Create a workflow with many running stages, each with the files of a real attempt.

No job is started. The benchmark itself takes the locks that real monitors would hold.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.frame.workspace import create_log
from eventstore.event import Actor
from eventstore.store import Claim, Expected
from lifecycle.payload import models as p
from lifecycle.plan.document import build_creation_payload as command_of
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import JobContext
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.host import processes
from reconciler.submission import build as submission
from reconciler.submission.build import StageJob
from service.reading.log import WorkflowLog
from service.root.atomic_files import new_id, system_clock, utc_text
from service.root.root import read_identity
from service.writing.initialise import initialise, root_at
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Service

_ACTOR = Actor("user", "bench")
_PROFILE = {"type": "local", "config": {"batch_type": "Shell", "context_type": "LocalContext"}}
_JOB, _SUBMISSION = "a" * 40, "c" * 40


def make(path: Path, count: int) -> None:
    """Create a workflow at ``path`` whose ``count`` stages are recorded as running.

    Each stage gets the files of a running attempt.
    """
    plan = {
        "workflow_id": "many-stages",
        "stages": [
            {
                "id": f"stage-{n}",
                "name": f"sample {n}",
                "outputs": [f"stage-{n}/out.txt"],
                "parameters": {"command": f"sample {n}", "seed": n},
            }
            for n in range(1, count + 1)
        ],
    }
    path.mkdir(parents=True)
    now = utc_text(system_clock())
    make_root(path, command_of(plan, created=now, root=read_identity(path), consent="trust"))
    with jobs_of(path) as jobs:
        attempts = [_attempt(jobs.root, n) for n in range(1, count + 1)]
        for attempt in attempts:
            _leave_files(attempt)
        record(jobs.service, tuple((e, now) for a in attempts for e in _launched(a)))


def make_root(path: Path, command: p.WorkflowCreated) -> None:
    """Create a workflow in an existing folder."""
    initialise(
        root_at(path),
        command,
        connect=create_log,
        actor=_ACTOR,
        clock=system_clock,
        options=WriteOptions(),
    )


@contextmanager
def jobs_of(path: Path) -> Iterator[JobContext]:
    """Open a workflow in the same way as the reconciler does."""
    root = root_at(path)
    store = create_log(root)
    try:
        service = Service(root, WorkflowLog(store, "workflow-many-stages"), _ACTOR)
        yield JobContext(service, DPDispatcherRunner(), lambda *_, **__: None, lambda _: None)
    finally:
        store.close()


@contextmanager
def monitored(path: Path, count: int) -> Iterator[None]:
    """Hold the lock files that the monitors of all running stages would hold."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count + 1_024), most))
    held = [os.open(_attempt(path, n).monitor_lock, os.O_RDWR) for n in range(1, count + 1)]
    try:
        for descriptor in held:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)


def finish(path: Path, count: int) -> None:
    """Write the files that successful jobs and their monitors would leave in all stages."""
    for number in range(1, count + 1):
        attempt = _attempt(path, number)
        marker = f"0\n{attempt.tag} 2026-01-01T00:00:00.000000Z\n"
        (attempt.folder / f"job-{_JOB}.exit").write_text(marker)
        (attempt.stage_folder / "out.txt").write_text("42\n")
        attempt.exit_code_marker.write_text("0\n")
        for place in (attempt.exit_code_record, attempt.done_marker):
            place.write_text(marker)


def _attempt(root: Path, number: int) -> AttemptPaths:
    stage = f"stage-{number}"
    return AttemptPaths(root, "many-stages", stage, "att-0001", (f"{stage}/out.txt",))


def _leave_files(attempt: AttemptPaths) -> None:
    copy = attempt.work / _SUBMISSION
    started = attempt.folder / f"job-{_JOB}.started"
    for folder in (copy, started):
        folder.mkdir(parents=True)
    job = StageJob(attempt.stage, "sample", outputs=attempt.outputs)
    own, machine = submission.build_attempt_copy(
        submission.build_submission(job, _PROFILE), attempt
    )
    here = processes.identify(os.getpid())
    boot, host = processes.boot_id(), processes.host()
    texts = {
        attempt.submission: json.dumps(own, indent=2),
        attempt.machine_record: machine.to_text(),
        attempt.launch_record: json.dumps(
            {"root": str(attempt.root), "host": host, "boot_id": boot}
        ),
        attempt.monitor_record: json.dumps(
            {"pid": os.getpid(), **(here.to_dict() if here else {})}
        ),
        attempt.monitor_lock: "",
        attempt.folder / f"job-{_JOB}.lock": "",
        started / "record": f"{copy}\n{os.getpid()}\n1\n{boot}\n{host}\n",
        attempt.log: f"job {_JOB} was submitted; job_id is {os.getpid()}\n",
        copy / f"{_JOB}_job_id": str(os.getpid()),
        copy / f"{_SUBMISSION}.json": json.dumps({"belonging_jobs": [{_JOB: {"job_state": 2}}]}),
    }
    for path, text in texts.items():
        path.write_text(text)


def _launched(attempt: AttemptPaths) -> tuple[p.AttemptStarted, p.StageLaunched]:
    host, boot = processes.host(), processes.boot_id()
    started = p.AttemptStarted(
        stage=attempt.stage,
        attempt=attempt.id,
        mode="setsid",
        root=str(attempt.root),
        work_dir=str(attempt.work.relative_to(attempt.root)),
        submission=str(attempt.submission.relative_to(attempt.root)),
        submission_sha256="0" * 64,
        wrapper=str(attempt.wrapper.relative_to(attempt.root)),
        host=host,
        boot_id=boot,
    )
    launched = p.StageLaunched(
        stage=attempt.stage,
        attempt=attempt.id,
        mode="setsid",
        job_ids=[str(os.getpid())],
        host=host,
        boot_id=boot,
    )
    return started, launched


def record(service: Service, planned: Planned) -> None:
    """Append the events in one transaction, without checking them against the rules.

    wfctl itself would record these events one at a time.
    """
    service.log.store.append(
        service.log.stream,
        service.writer.new_events(planned, [service.state().session.count] * len(planned)),
        expected=Expected.STREAM_EXISTS,
        claim=Claim(new_id(), new_id()),
    )
    service.files.bring_up_to_date()
