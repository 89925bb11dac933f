"""Jobs that somebody launched by hand, as the published protocol says, recognised by their traces.

Submission and wrapper lie in the stage's folder, and the wrapper runs in the tmux session
``dpdisp_STAGE``, or has left its exit code and its mark that it is done. Such a job becomes an
attempt that was taken over: it is judged by what it left, and nothing is computed beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.private import NotRegular, read_regular
from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.text import epoch
from reconciler.attempt.paths import DONE, EXIT_CODE, PREPARED, WRAPPER
from reconciler.errors import LaunchFailed, ReconcilerError
from reconciler.far.manual_jobs import observe_manual_jobs
from reconciler.files.described import check_launched, used_by_launched
from reconciler.host import processes
from reconciler.host import small_files as plain
from service.root.disk import is_inside, utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import Jobs
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Outcome

Timed = tuple["Payload", str]
"""A command, and when it was so (UTC, the log's form)."""

#: What a wrapper of ours says of itself.
_OURS = b"# Watches one attempt of a stage."
#: Bytes of a wrapper and of a marker that are looked at.
_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class ManualLaunch:
    """A job that was launched by hand.

    ``session`` is its tmux session, ``since`` when it began, in seconds since the epoch. ``code``
    and ``ended`` are the exit code that its wrapper left and when, None while it runs.
    """

    stage: str
    session: str
    since: float
    code: int | None = None
    ended: float | None = None


def is_free(stage: Stage) -> bool:
    """Whether a job may be at work for the stage that the log knows nothing of."""
    return stage.status in (Status.READY, Status.PREPARING) and stage.open_attempt is None


def found(root: Path, state: Workflow, stages: Iterable[Stage]) -> list[ManualLaunch]:
    """Return the jobs of the stages that were launched by hand in this root."""
    candidates = [stage for stage in stages if _is_prepared_by_hand(root / stage.id)]
    sessions = processes.sessions(os.environ) if candidates else {}
    jobs: list[ManualLaunch | None] = []
    for stage in candidates:
        name = session_name(f"dpdisp_{stage.id}")
        created, folders = sessions.get(name, (0, ()))
        runs = any(is_inside(Path(folder), root) for folder in folders)
        running = ManualLaunch(stage.id, name, created)
        ended = None if runs else _ended(root, state, stage, name)
        jobs.append(running if runs else ended or _find_unwatched(root, state, stage, name))
    return [job for job in jobs if job is not None]


def session_name(name: str) -> str:
    """Return the name as tmux spells it."""
    return name.replace(".", "_").replace(":", "_")


def _find_unwatched(root: Path, state: Workflow, stage: Stage, session: str) -> ManualLaunch | None:
    """Return a job whose session is gone, by what DPDispatcher's folder shows of it."""
    folder = root / stage.id
    newest = stage.attempt
    earlier = (newest.ended_at if newest is not None else None) or state.created
    since = observe_manual_jobs(root, folder / PREPARED, folder / WRAPPER).submitted_at
    is_newer = since is not None and since >= (epoch(earlier) or 0.0)
    return ManualLaunch(stage.id, session, since) if since is not None and is_newer else None


def relaunch(
    root: Path, stage: str, session: str, wrapper: str, old_markers: Iterable[Path]
) -> None:
    """Run the wrapper of a job again in its tmux session, so that DPDispatcher watches the job.

    Removes the markers of the earlier wrapper. Raises `LaunchFailed`.
    """
    for marker in old_markers:
        marker.unlink(missing_ok=True)
    path = f"PATH={os.environ.get('PATH', os.defpath)}"
    command = ["env", path, "bash", wrapper]
    refusal = processes.start(session, root, command, os.environ)
    if refusal is not None:
        raise LaunchFailed(stage, None, refusal)


def _is_prepared_by_hand(folder: Path) -> bool:
    """Whether submission and wrapper of somebody else lie in the stage's folder."""
    try:
        wrapper = read_regular(folder / WRAPPER, _LONGEST)
    except (NotRegular, OSError):
        return False
    return (folder / PREPARED).is_file() and _OURS not in wrapper


def _ended(root: Path, state: Workflow, stage: Stage, session: str) -> ManualLaunch | None:
    """Return a job whose wrapper is through, by what it left since the stage last ended."""
    folder = root / stage.id
    done, code = folder / DONE, folder / EXIT_CODE
    number = plain.number(plain.text(code).strip())
    newest = stage.attempt
    earlier = (newest.ended_at if newest is not None else None) or state.created
    if number is None or not done.is_file() or len(plain.text(done).split("\n")) > 2:
        return None
    ended = done.stat().st_mtime
    if ended < (epoch(earlier) or 0.0):
        return None
    # The wrapper was put there before it ran.
    since = min((folder / WRAPPER).stat().st_mtime, code.stat().st_mtime)
    return ManualLaunch(stage.id, session, since, number, ended)


def commands(
    root: Path, state: Workflow, stage: Stage, job: ManualLaunch, now: datetime
) -> list[Timed]:
    """Return the commands by which a job that was launched by hand becomes an attempt."""
    began = _moment(job.since, now)
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
        **used_by_launched(root, state, stage, submission),
    )
    launched = p.StageLaunched(
        stage=stage.id, attempt=id_, mode="tmux", session=job.session, host=host, boot_id=boot_id
    )
    return [(started, began), (launched, began)]


def _moment(seconds: float, now: datetime) -> str:
    return utc_text(min(datetime.fromtimestamp(seconds, UTC), now))


def take_over(
    jobs: Jobs, state: Workflow, stage: Stage, job: ManualLaunch, options: WriteOptions | None
) -> Outcome:
    """Record that a job was launched by hand, and tell in what it is not as its stage is defined.

    Raises what the rules raise.
    """
    asked = commands(jobs.root, state, stage, job, jobs.service.clock())
    outcome = jobs.record_each(*asked, options=options)
    jobs.say(
        f"{stage.id}: its job was launched by hand ({job.session}); it is taken over, and nothing "
        "is computed beside it",
        stage=stage.id,
    )
    try:
        check_launched(jobs.root, outcome.state, outcome.state.stage(stage.id))
    except (LifecycleError, ReconcilerError) as error:
        jobs.say(error.message, level="warning", stage=stage.id)
    return outcome


def borne_out(root: Path, state: Workflow, stage: Stage, now: datetime) -> list[Timed]:
    """Return what the traces of a job bear out of an edit that says it was launched, or is over.

    Nothing if they do not.
    """
    for job in found(root, state, [stage] if is_free(stage) else []):
        launched = commands(root, state, stage, job, now)
        if job.ended is None or job.code != 0:
            return launched
        id_ = f"att-{len(stage.attempts) + 1:04d}"
        over = p.StageComputed(stage=stage.id, attempt=id_, exit_code=0)
        return [*launched, (over, _moment(job.ended, now))]
    return []
