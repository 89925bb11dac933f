"""The resume protocol: the steps of a session before it may change a stage.

Source: the staged-workflow protocol ("A session", 1 to 4).
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.errors import WrongExpectedVersion
from lifecycle.payload import models as p
from lifecycle.rules.decide import payload_of
from lifecycle.state.report_path import numbered
from lifecycle.words.scripts import INIT
from reconciler.briefing.briefing import Briefing
from reconciler.briefing.rehydrate import rehydrate
from reconciler.context import Jobs
from reconciler.errors import EnvironmentNotReady
from reconciler.files.script_consent import check_agreed
from service.errors import AlreadyThere
from service.files.stage_obstacles import SESSIONS
from service.root.git import run_git
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Maximum number of characters of output in an error, and of a note about a failed session start.
_MAX_OUTPUT_LENGTH, _MAX_NOTE_LENGTH = 2_000, 4_000
#: Maximum number of log lines, and of commits, that a session is shown.
_MAX_LOG_LINES, _MAX_COMMITS = 20, 10
#: Maximum time in seconds for git to list the commits.
_GIT_TIMEOUT = 10


@dataclass(frozen=True, slots=True)
class SessionStart:
    """The data with which a session starts.

    ``briefing`` is None if nothing was done, in a dry run or for a command that was already carried
    out. ``git_log`` is None if the root is not in a repository.
    """

    outcome: Outcome
    briefing: Briefing | None = None
    environment: dict[str, Any] | None = None
    log_tail: tuple[str, ...] = ()
    git_log: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
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
    jobs: Jobs, options: WriteOptions, *, report: str | None = None
) -> SessionStart:
    """Start a session by hand, like `begin_session`.

    Raises `AlreadyDriven` while a loop runs.
    """
    with nullcontext() if options.dry_run else jobs.driving():
        return begin_session(jobs, options, report=report)


def begin_session(
    jobs: Jobs, options: WriteOptions, *, report: str | None = None, driven: bool = False
) -> SessionStart:
    """Check the environment, reconcile, and record a session with the next number.

    Raises `NeedsConsent` while the plan waits for its approval, and `EnvironmentNotReady` if
    ``init.sh`` fails; then no session starts, and the log records the failure. If the session does
    not belong to a loop, also raises any error of `check_report`.
    """
    command = payload_of(p.SessionStarted.type, {"report": report, "driven": driven})
    if options.content is None:
        options = replace(options, content={"session": "start", "report": report})
    first = jobs.service.first_answer(options)
    if first is not None:
        return SessionStart(first)
    if not driven:
        check_report(jobs, report)
    if options.dry_run:
        return SessionStart(jobs.service.handle(command, options=options))
    # Compare before any repair, because repairs increase the version.
    head, expected = jobs.service.state().head, options.expected_version
    if expected not in (None, head):
        raise WrongExpectedVersion(jobs.service.log.stream, int(expected or 0), head)
    jobs.service.rehearse(command)
    tail, commits = _read_log_tail(jobs.root), _read_git_log(jobs.root)
    ready = _run_init_script(jobs)
    briefing = rehydrate(jobs)
    command = command.model_copy(update={"environment": ready})
    outcome = jobs.service.handle(command, options=replace(options, expected_version=None))
    jobs.tell(outcome)
    return SessionStart(outcome, briefing, ready, tail, commits)


def check_report(jobs: Jobs, report: str | None) -> None:
    """Raise `AlreadyThere` if the requested path of the report exists.

    A file that appears there later is not overwritten, and the report gets the next free name.
    """
    if report is None:
        return
    payload_of(p.SessionStarted.type, {"report": report})
    place = jobs.root / numbered(report, jobs.service.state().completions + 1)
    if os.path.lexists(place):
        raise AlreadyThere(place)


def _run_init_script(jobs: Jobs) -> dict[str, Any] | None:
    """Run ``init.sh`` in the root and keep its output. Return None if the file does not exist.

    Returns its SHA-256, its run time in seconds and the file with its output, relative to the root.
    Raises `EnvironmentNotReady` if its exit code is not 0.
    """
    root, session = jobs.service.root, jobs.service.state().session.count + 1
    check_agreed(jobs, jobs.service.state(), "the session")
    script = root.path / INIT
    if not script.is_file():
        return None
    folder = root.folder / SESSIONS
    folder.mkdir(exist_ok=True)
    # A failed check is repeated for its session.
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
    """Return the newest commits, one line each, or None without a repository or git."""
    with suppress(subprocess.TimeoutExpired):
        done = run_git(root, "log", "--oneline", "-n", str(_MAX_COMMITS), within=_GIT_TIMEOUT)
        if done is not None and done.returncode == 0:
            return tuple(done.stdout.decode(errors="replace").splitlines())
    return None
