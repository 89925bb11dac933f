"""The resume protocol: what a session does before it may touch a stage.

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
from reconciler.briefing.briefing import Briefing
from reconciler.briefing.rehydrate import rehydrate
from reconciler.context import Jobs
from reconciler.errors import EnvironmentNotReady
from reconciler.files.described import check_pinned
from service.consent.scripts import INIT
from service.errors import AlreadyThere
from service.files.surroundings import SESSIONS
from service.root.git import git
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Characters of its output that an error shows, and of a note that says why no session began.
_TAIL, _NOTE = 2_000, 4_000
#: Lines of the log, and commits, that a session is shown.
_LINES, _COMMITS = 20, 10
#: Seconds that git may take to name the commits.
_GIT_WITHIN = 10


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a session begins with.

    ``briefing`` is None if nothing was done: a dry run, or a command that was carried out before.
    ``git_log`` is None if the root is in no repository.
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


def start(jobs: Jobs, options: WriteOptions, *, report: str | None = None) -> Resumed:
    """Begin a session by hand, as `begin`, unless a loop keeps one; raises `AlreadyDriven`."""
    with nullcontext() if options.dry_run else jobs.driving():
        return begin(jobs, options, report=report)


def begin(
    jobs: Jobs, options: WriteOptions, *, report: str | None = None, driven: bool = False
) -> Resumed:
    """Look, check the environment, reconcile, and record a session of the next number.

    Raises `EnvironmentNotReady` if ``init.sh`` fails: no session begins then, and the log says so;
    what `check_report` raises, if the session is not a loop's.
    """
    command = payload_of(p.SessionStarted.type, {"report": report, "driven": driven})
    if options.content is None:
        options = replace(options, content={"session": "start", "report": report})
    first = jobs.service.first_answer(options)
    if first is not None:
        return Resumed(first)
    if not driven:
        check_report(jobs, report)
    if options.dry_run:
        return Resumed(jobs.service.handle(command, options=options))
    # Compared before anything is repaired: the repairs move the version on.
    head, expected = jobs.service.state().head, options.expected_version
    if expected not in (None, head):
        raise WrongExpectedVersion(jobs.service.log.stream, int(expected or 0), head)
    tail, commits = _log_tail(jobs.root), _git_log(jobs.root)
    ready = _environment(jobs)
    briefing = rehydrate(jobs)
    command = command.model_copy(update={"environment": ready})
    outcome = jobs.service.handle(command, options=replace(options, expected_version=None))
    jobs.tell(outcome)
    return Resumed(outcome, briefing, ready, tail, commits)


def check_report(jobs: Jobs, report: str | None) -> None:
    """Raise `AlreadyThere` if something lies at the place that is asked for the report.

    What comes there later is left as it is too, and the report gets the next free name.
    """
    if report is None:
        return
    payload_of(p.SessionStarted.type, {"report": report})
    place = jobs.root / numbered(report, jobs.service.state().completions + 1)
    if os.path.lexists(place):
        raise AlreadyThere(place)


def _environment(jobs: Jobs) -> dict[str, Any] | None:
    """Run ``init.sh`` in the root and keep all that it prints; None if there is no such file.

    Returns its SHA-256, the seconds it took and the file with its output, relative to the root.
    Raises `EnvironmentNotReady` if it does not exit 0.
    """
    root, session = jobs.service.root, jobs.service.state().session.count + 1
    check_pinned(jobs, jobs.service.state(), "the session")
    script = root.path / INIT
    if not script.is_file():
        return None
    folder = root.folder / SESSIONS
    folder.mkdir(exist_ok=True)
    # A check that failed is repeated for its session.
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
        said = kept.read_text("utf-8", errors="replace").strip()[-_TAIL:]
        error = EnvironmentNotReady(INIT, done.returncode, said, place)
        text = f"Session {session} not started: {error.message}"
        jobs.record(p.NoteLogged(text=text[:_NOTE]))
        raise error
    return {
        "script": INIT,
        "sha256": sha256(script.read_bytes()).hexdigest(),
        "seconds": round(time.monotonic() - began, 3),
        "output": place,
    }


def _log_tail(root: Path) -> tuple[str, ...]:
    path = root / "progress.log"
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    return tuple(text.splitlines()[-_LINES:])


def _git_log(root: Path) -> tuple[str, ...] | None:
    """Return the newest commits, a line each; None without a repository or git."""
    with suppress(subprocess.TimeoutExpired):
        done = git(root, "log", "--oneline", "-n", str(_COMMITS), within=_GIT_WITHIN)
        if done is not None and done.returncode == 0:
            return tuple(done.stdout.decode(errors="replace").splitlines())
    return None
