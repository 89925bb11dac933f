"""Start a session: check the environment, repair the log and record the session.

A session must take these steps before it may change a stage. Source: the staged-workflow protocol
("A session", 1 to 4).
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.errors import WrongExpectedVersion
from lifecycle.payload import models as p
from lifecycle.payload.build_payload import payload_of
from lifecycle.state.report_path import add_number_to_path
from lifecycle.words.scripts import INIT
from reconciler.briefing.briefing import Briefing
from reconciler.briefing.rehydrate import rehydrate
from reconciler.context import JobContext
from reconciler.errors import EnvironmentNotReady
from reconciler.files.script_consent import check_plan_and_scripts_approved
from service.errors import AlreadyThere
from service.files.stage_obstacles import SESSIONS
from service.root.git import run_git
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Maximum number of characters of the script's output in an error, and of a note about a session
#: that did not start.
_MAX_OUTPUT_LENGTH, _MAX_NOTE_LENGTH = 2_000, 4_000
#: Maximum number of lines of the progress log, and of commits, that are printed at the start of a
#: session.
_MAX_LOG_LINES, _MAX_COMMITS = 20, 10
#: Maximum number of seconds that git may take to list the commits.
_GIT_TIMEOUT = 10


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The data that are returned at the start of a session.

    ``briefing`` is None if no session was started: in a dry run, or if the command was already
    carried out earlier. ``git_log`` contains the newest commits. It is None if the root is not in a
    repository.
    """

    outcome: Outcome
    briefing: Briefing | None = None
    environment: dict[str, Any] | None = None
    log_tail: tuple[str, ...] = ()
    git_log: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the data as plain JSON values."""
        session = self.outcome.state.session
        return {
            "session": session.count,
            "started_at": session.id,
            "environment": self.environment,
            "log_tail": list(self.log_tail),
            "git_log": None if self.git_log is None else list(self.git_log),
            "briefing": None if self.briefing is None else self.briefing.to_dict(),
        }


def start_manual_session(
    jobs: JobContext, options: WriteOptions, *, report: str | None = None
) -> SessionStart:
    """Start a session that a person drives, with the same steps as `begin_session`.

    Raises `AlreadyDriven` while a loop runs.
    """
    with nullcontext() if options.dry_run else jobs.lock_workflow_loop():
        return begin_session(jobs, options, report=report)


def begin_session(
    jobs: JobContext, options: WriteOptions, *, report: str | None = None, driven: bool = False
) -> SessionStart:
    """Check the environment, correct the log, and record a new session.

    The session gets the next number. Raises `NeedsConsent` while the plan waits for its approval,
    and `EnvironmentNotReady` if ``init.sh`` fails. In the second case, the failure is recorded in
    the log. If the session does not belong to a loop, also raises any error of
    `check_report_path_free`.
    """
    command = payload_of(p.SessionStarted.type, {"report": report, "driven": driven})
    if options.content is None:
        options = options._replace(content={"session": "start", "report": report})
    first = jobs.service.first_answer(options)
    if first is not None:
        return SessionStart(first)
    if not driven:
        check_report_path_free(jobs, report)
    if options.dry_run:
        return SessionStart(jobs.service.handle(command, options=options))
    # The expected version is compared first, because repairs add events and increase the version.
    head, expected = jobs.service.state().head, options.expected_version
    if expected not in (None, head):
        raise WrongExpectedVersion(jobs.service.log.stream, int(expected or 0), head)
    jobs.service.rehearse(command)
    tail, commits = _read_log_tail(jobs.root), _read_git_log(jobs.root)
    ready = _run_init_script(jobs)
    briefing = rehydrate(jobs)
    command = command.model_copy(update={"environment": ready})
    outcome = jobs.service.handle(command, options=options._replace(expected_version=None))
    jobs.tell(outcome)
    return SessionStart(outcome, briefing, ready, tail, commits)


def check_report_path_free(jobs: JobContext, report: str | None) -> None:
    """Raise `AlreadyThere` if a file exists at the requested path of the report.

    If a file appears there later, it is not overwritten. The report then gets the next free name.
    """
    if report is None:
        return
    payload_of(p.SessionStarted.type, {"report": report})
    place = jobs.root / add_number_to_path(report, jobs.service.state().completions + 1)
    if os.path.lexists(place):
        raise AlreadyThere(place)


def _run_init_script(jobs: JobContext) -> dict[str, Any] | None:
    """Run ``init.sh`` in the root, and store its output in a file.

    Returns the SHA-256 of the script, its run time in seconds and the path of the output relative
    to the root, or None if the script does not exist. Raises `EnvironmentNotReady` if its exit code
    is not 0.
    """
    root, session = jobs.service.root, jobs.service.state().session.count + 1
    check_plan_and_scripts_approved(jobs, jobs.service.state(), "the session")
    script = root.path / INIT
    if not script.is_file():
        return None
    folder = root.folder / SESSIONS
    folder.mkdir(exist_ok=True)
    # If the script fails, it runs again for the same session. Each run gets its own output file.
    taken = len(list(folder.glob(f"{session}.init*.log")))
    kept = folder / (f"{session}.init.{taken + 1}.log" if taken else f"{session}.init.log")
    place, began = str(kept.relative_to(root.path)), time.monotonic()
    with kept.open("wb") as output:
        done = subprocess.run(
            ["bash", INIT],
            cwd=root.path,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        said = kept.read_text("utf-8", errors="replace").strip()[-_MAX_OUTPUT_LENGTH:]
        error = EnvironmentNotReady(INIT, done.returncode, said, place)
        text = f"Session {session} not started: {error.message}"
        jobs.record(p.NoteLogged(text=text[:_MAX_NOTE_LENGTH]))
        raise error
    return {
        "script": INIT,
        "sha256": sha256(script.read_bytes()).hexdigest(),
        "seconds": round(time.monotonic() - began, 3),
        "output": place,
    }


def _read_log_tail(root: Path) -> tuple[str, ...]:
    path = root / "progress.log"
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    return tuple(text.splitlines()[-_MAX_LOG_LINES:])


def _read_git_log(root: Path) -> tuple[str, ...] | None:
    """Return the newest commits, one line each.

    Returns None if the root is in no repository, or if git is missing or does not answer.
    """
    with suppress(subprocess.TimeoutExpired):
        done = run_git(root, "log", "--oneline", "-n", str(_MAX_COMMITS), within=_GIT_TIMEOUT)
        if done is not None and done.returncode == 0:
            return tuple(done.stdout.decode(errors="replace").splitlines())
    return None
