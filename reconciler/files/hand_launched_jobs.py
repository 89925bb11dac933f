"""Find jobs that a person launched by hand, as the published protocol describes.

Such a stage has a submission and a wrapper script in its folder. The wrapper runs in the tmux
session ``dpdisp_STAGE``, or has written its exit code and its completion marker. wfctl records such
a job as an attempt of the stage, judges it by its files, and starts no other job for the stage.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.regular_files import NotRegular, read_regular
from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.text import parse_time_to_epoch
from reconciler.attempt.paths import DONE, EXIT_CODE, PREPARED, WRAPPER
from reconciler.errors import LaunchFailed, ReconcilerError
from reconciler.far.manual_jobs import observe_manual_jobs
from reconciler.files.attempt_inputs import find_foreign_launch_inputs
from reconciler.files.described_submission import check_foreign_job_definition
from reconciler.host import processes, tmux_sessions
from reconciler.host import small_files as plain
from service.root.atomic_files import utc_text
from service.root.paths_within_root import is_inside

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import JobContext
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Outcome

TimedCommand = tuple["Payload", str]
"""A command, and the time of its cause (UTC, in the format of the log)."""

#: Line in a wrapper script which shows that wfctl wrote the script.
_WRAPPER_MARK = b"# Watches one attempt of a stage."
#: Maximum number of bytes that are read from a wrapper script.
_MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ManualLaunch:
    """A job that a person launched by hand.

    ``session`` is its tmux session, and ``since`` its start in seconds since the epoch. ``code`` is
    the exit code of its wrapper script, and ``ended`` the time at which the script ended. Both are
    None while the script runs.
    """

    stage: str
    session: str
    since: float
    code: int | None = None
    ended: float | None = None


def may_have_manual_job(stage: Stage) -> bool:
    """Return whether a job that is not in the log may run for the stage.

    This is possible only if the stage is ready or being prepared, without a running attempt.
    """
    return stage.status in (Status.READY, Status.PREPARING) and stage.open_attempt is None


def find_manual_launches(
    root: Path, state: Workflow, stages: Iterable[Stage]
) -> list[ManualLaunch]:
    """Return the jobs that a person launched by hand for the given stages in this root."""
    candidates = [stage for stage in stages if _is_prepared_by_hand(root / stage.id)]
    sessions = tmux_sessions.list_sessions(os.environ) if candidates else {}
    jobs: list[ManualLaunch | None] = []
    for stage in candidates:
        name = sanitize_session_name(f"dpdisp_{stage.id}")
        created, folders = sessions.get(name, (0, ()))
        runs = any(is_inside(Path(folder), root) for folder in folders)
        running = ManualLaunch(stage.id, name, created)
        ended = None if runs else _find_ended_launch(root, state, stage, name)
        jobs.append(
            running if runs else ended or _find_job_without_session(root, state, stage, name)
        )
    return [job for job in jobs if job is not None]


def sanitize_session_name(name: str) -> str:
    """Return a session name with the characters replaced that tmux does not allow."""
    return name.replace(".", "_").replace(":", "_")


def _find_job_without_session(
    root: Path, state: Workflow, stage: Stage, session: str
) -> ManualLaunch | None:
    """Return a job whose tmux session no longer exists, or None.

    The job is recognized by the folder in which DPDispatcher works.
    """
    folder = root / stage.id
    newest = stage.attempt
    earlier = (newest.ended_at if newest is not None else None) or state.created
    since = observe_manual_jobs(root, folder / PREPARED, folder / WRAPPER).submitted_at
    is_newer = since is not None and since >= (parse_time_to_epoch(earlier) or 0.0)
    return ManualLaunch(stage.id, session, since) if since is not None and is_newer else None


def restart_wrapper(
    root: Path, stage: str, session: str, wrapper: str, old_markers: Iterable[Path]
) -> None:
    """Run the wrapper script of a job again, so that DPDispatcher watches the job.

    The script runs in a tmux session. The markers of the previous run are removed. Raises
    `LaunchFailed` if the session does not start.
    """
    for marker in old_markers:
        marker.unlink(missing_ok=True)
    path = f"PATH={os.environ.get('PATH', os.defpath)}"
    command = ["env", path, "bash", wrapper]
    refusal = tmux_sessions.start_session(session, root, command, os.environ)
    if refusal is not None:
        raise LaunchFailed(stage, None, refusal)


def has_foreign_wrapper(folder: Path) -> bool:
    """Return whether the stage's folder contains a wrapper that wfctl did not write."""
    try:
        return _WRAPPER_MARK not in read_regular(folder / WRAPPER, _MAX_BYTES)
    except (NotRegular, OSError):
        return False


def _is_prepared_by_hand(folder: Path) -> bool:
    return (folder / PREPARED).is_file() and has_foreign_wrapper(folder)


def _find_ended_launch(
    root: Path, state: Workflow, stage: Stage, session: str
) -> ManualLaunch | None:
    """Return a job whose wrapper script has ended, or None.

    Its markers must be newer than the end of the stage's last attempt.
    """
    folder = root / stage.id
    done, code = folder / DONE, folder / EXIT_CODE
    number = plain.parse_number(plain.read_text(code).strip())
    newest = stage.attempt
    earlier = (newest.ended_at if newest is not None else None) or state.created
    if number is None or not done.is_file() or len(plain.read_text(done).split("\n")) > 2:
        return None
    ended = done.stat().st_mtime
    if ended < (parse_time_to_epoch(earlier) or 0.0):
        return None
    # The start was not recorded. The wrapper was written before it ran, so its change time is the
    # best estimate.
    since = min((folder / WRAPPER).stat().st_mtime, code.stat().st_mtime)
    return ManualLaunch(stage.id, session, since, number, ended)


def build_launch_commands(
    root: Path, state: Workflow, stage: Stage, job: ManualLaunch, now: datetime
) -> list[TimedCommand]:
    """Build the commands that record a job launched by hand as an attempt of the stage."""
    began = _format_time(job.since, now)
    submission = f"{stage.id}/{PREPARED}"
    id_ = f"att-{len(stage.attempts) + 1:04d}"
    host, boot_id = processes.host(), processes.boot_id()
    started = p.AttemptStarted(
        stage=stage.id,
        mode="tmux",
        root=str(root),
        work_dir=stage.id,
        submission=submission,
        wrapper=f"{stage.id}/{WRAPPER}",
        session=job.session,
        host=host,
        boot_id=boot_id,
        taken_over=True,
        **find_foreign_launch_inputs(root, state, stage, submission),
    )
    launched = p.StageLaunched(
        stage=stage.id, attempt=id_, mode="tmux", session=job.session, host=host, boot_id=boot_id
    )
    return [(started, began), (launched, began)]


def _format_time(seconds: float, now: datetime) -> str:
    return utc_text(min(datetime.fromtimestamp(seconds, UTC), now))


def record_manual_launch(
    jobs: JobContext, state: Workflow, stage: Stage, job: ManualLaunch, options: WriteOptions | None
) -> Outcome:
    """Record a job launched by hand, and warn if it differs from the stage's definition.

    Raises the error of a violated rule if the job must not be recorded.
    """
    asked = build_launch_commands(jobs.root, state, stage, job, jobs.service.clock())
    outcome = jobs.record_each(*asked, options=options)
    jobs.say(
        f"{stage.id}: its job was launched by hand ({job.session}); wfctl now follows this "
        "job and starts no other",
        stage=stage.id,
    )
    try:
        check_foreign_job_definition(jobs.root, outcome.state, outcome.state.stage(stage.id))
    except (LifecycleError, ReconcilerError) as error:
        jobs.say(error.message, level="warning", stage=stage.id)
    return outcome


def build_proven_edit_commands(
    root: Path, state: Workflow, stage: Stage, now: datetime
) -> list[TimedCommand]:
    """Return commands for a manual edit of a stage's status that its job proves.

    The traces of the job show that it was launched, and possibly that it succeeded. Returns an
    empty list if they prove nothing.
    """
    for job in find_manual_launches(root, state, [stage] if may_have_manual_job(stage) else []):
        launched = build_launch_commands(root, state, stage, job, now)
        if job.ended is None or job.code != 0:
            return launched
        id_ = f"att-{len(stage.attempts) + 1:04d}"
        over = p.StageComputed(stage=stage.id, attempt=id_, exit_code=0)
        return [*launched, (over, _format_time(job.ended, now))]
    return []
