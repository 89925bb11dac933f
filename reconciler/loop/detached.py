"""The autonomous runner: session after session, while no one is watching.

It is started so that it outlives anyone who starts it, and found again. Source of its limits and of
what ends it: the staged-workflow protocol ("The autonomous runner").
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.status import Status
from projections.words.text import utc_seconds
from reconciler.context import Jobs
from reconciler.errors import AlreadyAutonomous, AlreadyDriven, NoRunner, RunnerFailed
from reconciler.host import processes
from reconciler.host.processes import Process
from reconciler.host.program import is_held
from reconciler.loop.agent import ended_by_itself, record_of, waited
from reconciler.loop.ending import Interruption
from reconciler.loop.runner_notices import RunnerNotices
from service.errors import RootBusy
from service.files.surroundings import PAUSE
from service.root.disk import locked, write_whole
from service.root.root import Root
from wording import Coded

LOCK = "runner.lock"
#: Seconds that the runner has to take its lock, and to end once it is asked to.
_WITHIN = 30.0
#: The command that starts the runner.
RUN_AUTONOMOUSLY = "wfctl run --autonomous"
#: What it says where it has no terminal.
OUTPUT = "runner.log"

#: tmux gives a new session its server's environment. This one is handed over by a pipe that only
#: its owner can read: on a command line everybody could.
_BOOTSTRAP = (
    "import json, os, signal, sys; path = sys.argv[1]; signal.alarm(60); "
    "environ = json.load(open(path)); signal.alarm(0); os.unlink(path); "
    "os.execve(sys.argv[2], sys.argv[2:], environ)"
)


@dataclass(frozen=True, slots=True)
class Detached:
    """A runner: its process, its tmux session where it has one, and its end.

    ``ended_at`` and ``why`` are None while it works, and also if it was killed.
    """

    pid: int
    ticks: int
    boot_id: str
    session: str | None
    started_at: str
    ended_at: str | None = None
    why: str | None = None

    @property
    def process(self) -> Process:
        """The process, told from any other of its id."""
        return Process(self.pid, self.ticks, self.boot_id)

    @property
    def was_killed(self) -> bool:
        """Whether its process is gone and did not write down why it ended."""
        return self.ended_at is None and not self.process.is_alive()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        """Return in a sentence what became of the runner."""
        begun = f"the autonomous runner that was started {utc_seconds(self.started_at)}"
        if self.ended_at is not None:
            return f"{begun} ended {utc_seconds(self.ended_at)}: {self.why}"
        if self.was_killed:
            return f"{begun} was killed: no new session begins"
        return f"{begun} drives this workflow"


def start(jobs: Jobs, words: list[str], environ: Mapping[str, str]) -> Detached:
    """Start the runner in tmux, else by setsid, and return once it holds its lock.

    Raises `AlreadyAutonomous` if one is at work, `RunnerFailed` if it does not come up.
    """
    root = jobs.service.root
    if is_held(root.folder / LOCK):
        raise AlreadyAutonomous(root.folder / LOCK)
    (root.runner_record).unlink(missing_ok=True)
    session = _in_tmux(jobs, words, environ)
    if session is None:
        with (root.folder / OUTPUT).open("ab") as output:
            subprocess.run(
                # Forked once more: nobody here waits for it.
                ["setsid", "--fork", *words],
                cwd=root.path,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
    # A runner that has ended already was started all the same.
    found = waited(lambda: last_runner(root), _WITHIN)
    if found is None:
        where = f"tmux session {session}" if session else str(root.folder / OUTPUT)
        raise RunnerFailed(where, _WITHIN)
    how = f"tmux session: {session}" if session else f"setsid, pid {found.pid}"
    jobs.record(p.NoteLogged(text=f"Autonomous mode activated. {how}"))
    return found


def _in_tmux(jobs: Jobs, words: list[str], environ: Mapping[str, str]) -> str | None:
    if not processes.is_installed(environ):
        jobs.say("tmux is not installed: the runner runs detached by setsid instead.")
        return None
    # Spelled as tmux spells it.
    name = f"workflow-runner-{jobs.service.state().id}".replace(".", "_").replace(":", "_")
    if processes.is_live(name, environ):
        # That of another root with a workflow of this id.
        name = f"{name}-{sha256(os.fsencode(jobs.root)).hexdigest()[:8]}"
    pipe = jobs.service.root.folder / "runner.environment"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    given = {**environ, "WFCTL_RUNNER_SESSION": name}
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, str(pipe), *words]
    refused = processes.start(name, jobs.root, command, environ)
    if refused is None and _handed_over(pipe, given):
        return name
    pipe.unlink(missing_ok=True)
    jobs.say(f"tmux refused the session {name} ({refused}); the runner runs by setsid instead.")
    return None


def _handed_over(pipe: Path, environ: Mapping[str, str]) -> bool:
    """Write the environment once somebody reads; False if nobody does in time."""

    def is_read() -> bool:
        with suppress(OSError):
            # Refused while nobody has the other end open.
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            with open(descriptor, "w") as writer:  # noqa: PTH123 - a descriptor has no path
                json.dump(dict(environ), writer)
            return True
        return False

    return waited(is_read, _WITHIN)


def record(root: Root, now: str) -> None:
    """Write down that this process is the runner; its lock is held from before until its end."""
    found = processes.identify(os.getpid())
    if found is not None:
        session = os.environ.get("WFCTL_RUNNER_SESSION")
        entry = Detached(**found.to_dict(), session=session, started_at=now)
        (root.runner_record).write_text(json.dumps(entry.to_dict()))


def recorded(root: Root) -> Detached | None:
    """Return the runner that is at work, if one is."""
    found = last_runner(root)
    return found if found is not None and found.process.is_alive() else None


def last_runner(root: Root) -> Detached | None:
    """Return the runner that was started last, at work or not; None once a session followed it."""
    return record_of(Detached, root.runner_record)


def forget_ended_runner(root: Root) -> None:
    """Remove the record of a runner that is no longer at work: somebody drives the workflow."""
    found = last_runner(root)
    if found is not None and not found.process.is_alive():
        (root.runner_record).unlink(missing_ok=True)


def _record_end(root: Root, now: str, why: str) -> None:
    """Write down why the runner ended; without space the last notice still tells it."""
    found = last_runner(root)
    if found is not None and found.pid == os.getpid():
        entry = replace(found, ended_at=now, why=why)
        with suppress(OSError):
            write_whole(root.runner_record, json.dumps(entry.to_dict()).encode())


def stop(root: Root, within: float = 2 * _WITHIN) -> Detached:
    """Ask the runner to stop and wait until it has; its session ends in order, jobs go on.

    Raises `NoRunner` if nobody is at work, `RunnerFailed` if it does not end in time.
    """
    found = recorded(root)
    if found is None:
        raise NoRunner(root.path)
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    if not waited(lambda: not found.process.is_alive(), within):
        raise RunnerFailed(f"process {found.pid}, which does not end", within)
    return found


#: The variable by which a loop knows that the runner started it.
_CHILD = "WFCTL_RUNNER"
#: Seconds that a look at the lock may hold it, and that a session has to end when it must.
_LOOK = 2.0
_GRACE = 60.0
#: The exit code of a session that could not be started.
_BROKEN = 5
#: Exit codes that no further session changes.
_HOPELESS = frozenset({2, 3, 5, 6})
#: Errors whose cause passes without a change of the workflow: a full disk, a locked log, a server
#: that is away, a root that is not mounted.
_PASSING = frozenset(
    {
        "store_busy",
        "store_unwritable",
        "store_unreachable",
        "database_missing",
        "no_workflow",
        "root_busy",
        "os_error",
    }
)
#: Seconds after which the runner no longer waits for such a cause, and the longest pause between
#: two tries.
_PATIENT, _LONGEST_PAUSE = 86_400.0, 300.0
#: Characters of what a session says of its failure.
_WORDS = 1_000


@dataclass(frozen=True, slots=True)
class Limits:
    """At most ``sessions``, each of so many ``seconds``, ``between`` seconds apart.

    ``rapid`` sessions in a row that took less than ``rapid_seconds``, left some of their budget
    and completed no stage end it.
    """

    sessions: int = 20
    seconds: float = 7200.0
    between: float = 15.0
    rapid: int = 3
    rapid_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class LoopSession:
    """How one session went: its exit code, the seconds it took, and what it printed.

    ``reason`` is its exit reason, ``code`` is that of its error, if any. ``message`` is that of its
    error, or says what a blocked session waits for.
    ``has_progress`` tells whether it completed a stage, ``may_pass`` whether a cause that blocked
    it may end without a command.
    """

    exit_code: int
    seconds: float
    reason: str | None = None
    code: str | None = None
    message: str | None = None
    has_progress: bool = False
    may_pass: bool = False

    @property
    def failure(self) -> str:
        """What it died of, in a line; empty if it ended in order."""
        if self.exit_code == 0 or self.reason is not None:
            return ""
        words = " ".join((self.message or "").split())[:_WORDS]
        return f" (exit {self.exit_code})" + (f": {words}" if words else "")

    def is_last(self) -> str | None:
        """Say why no session follows this one, if so."""
        if self.reason in ("completed", "blocked"):
            words = " ".join((self.message or "").split())[:_WORDS]
            return f"{self.reason}: {words}" if words else self.reason
        if self.reason is None and self.exit_code in _HOPELESS:
            return f"a session that cannot begin{self.failure}"
        return None


class PassingCause:
    """Why no session can begin at present, and since when."""

    def __init__(self, notices: RunnerNotices | None) -> None:
        self._notices = notices
        self._began = time.monotonic()
        self._tries = 0

    def may_wait(self, failed: LoopSession) -> bool:
        """Say whether to wait longer; the first time, the receiver of notices is told."""
        if self._tries == 0 and self._notices is not None:
            self._notices.tell_waiting(failed.failure.strip(" :") or str(failed.is_last()))
        self._tries += 1
        return time.monotonic() - self._began < _PATIENT

    def pause(self, between: float) -> float:
        """Return the seconds to the next try, which grow."""
        return float(min(_LONGEST_PAUSE, max(between, 1.0) * 2 ** min(self._tries, 10) / 2))


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts loops until there is no more to do. It alone holds the lock for as long as it lives.

    ``words`` call a loop; it is told its time limit with one more option.
    """

    jobs: Jobs
    words: list[str]
    limits: Limits
    asked: Interruption
    #: The program or address that is told what becomes of the runner.
    receiver: str | None = None

    def serve(self, begun: Callable[[], None]) -> str:
        """Run sessions; return why it ended. ``begun`` is called once the lock is held.

        Raises `AlreadyAutonomous` if another runs.
        """
        lock = self.jobs.service.root.folder / LOCK
        try:
            with locked(lock, timeout=_LOOK):
                begun()
                return self._work()
        except RootBusy as busy:
            raise AlreadyAutonomous(lock) from busy

    def _work(self) -> str:
        notices = self._notices()
        why = self._sessions(notices)
        # The notice comes first: the log may be held, and is waited for.
        if notices is not None:
            notices.tell_end(why)
        _record_end(self.jobs.service.root, self.jobs.now(), why)
        with suppress(Coded, OSError):
            self.jobs.record(p.NoteLogged(text=f"Autonomous runner ended: {why}"))
        return why

    def _notices(self) -> RunnerNotices | None:
        if not self.receiver:
            return None
        state = self.jobs.service.state()
        return RunnerNotices(self.receiver, state.id, self.jobs.root, os.getpid())

    def _sessions(self, notices: RunnerNotices | None) -> str:
        rapid = number = 0
        passing = PassingCause(notices)
        while number < self.limits.sessions:
            self._pause((self.jobs.root / PAUSE).exists)
            if self.asked.signal is not None:
                return "somebody asked it to stop"
            done = self._try_session()
            if done.code == AlreadyDriven.code:
                self._let_other_end()
                continue
            if (done.may_pass or done.code in _PASSING) and passing.may_wait(done):
                self._pause(lambda: True, passing.pause(self.limits.between))
                continue
            if (last := done.is_last()) is not None:
                return last
            passing = PassingCause(notices)
            number += 1
            # One that used up its time has waited.
            rapid_below = min(self.limits.rapid_seconds, self.limits.seconds)
            idle = done.seconds < rapid_below and done.reason != "budget_exhausted"
            rapid = rapid + 1 if idle and not done.has_progress else 0
            if rapid >= self.limits.rapid:
                return f"{rapid} sessions in a row that did nothing{done.failure}"
            if number < self.limits.sessions:
                self._pause(lambda: True, self.limits.between)
        return f"{number} sessions, the most there may be"

    def _try_session(self) -> LoopSession:
        """Run a session. What keeps it from its start is the error of that session."""
        try:
            before = self._completed()
            done = self._session()
            return replace(done, has_progress=self._completed() != before)
        except Coded as error:
            return LoopSession(_BROKEN, 0.0, code=error.code, message=error.message)
        except OSError as error:
            return LoopSession(_BROKEN, 0.0, code="os_error", message=str(error))

    def _let_other_end(self) -> None:
        """Wait for the end of another loop: a person's, or that of a runner that was killed."""
        if self.jobs.is_driven():
            self.jobs.record(p.NoteLogged(text="The runner waits for another loop to end"))
        # Where the lock does not tell, a session is tried again, but not without a pause.
        self._pause(lambda: True, 1.0)
        self._pause(lambda: self.jobs.is_driven() is True)

    def _completed(self) -> int:
        """Return how many stages are completed."""
        stages = self.jobs.service.state().stages.values()
        return sum(stage.status is Status.COMPLETED for stage in stages)

    def _session(self) -> LoopSession:
        began = time.monotonic()
        limit = f"--time-limit={self.limits.seconds}"
        # A pipe that nobody reads would stop a loop that has more to say than it holds.
        with TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                [*self.words, limit],
                cwd=self.jobs.root,
                env={**os.environ, _CHILD: "1"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                # What the terminal sends to the runner reaches the loop through the runner alone.
                start_new_session=True,
            )
            ended_by_itself(
                lambda: process.poll() is not None,
                process.send_signal,
                self.limits.seconds + _GRACE,
                _GRACE,
                lambda: self.asked.signal is not None,
            )
            if process.poll() is None:
                process.kill()
            process.wait()
            printed.seek(0)
            told = _told(printed.read())
        return LoopSession(process.returncode, time.monotonic() - began, **told)

    def _pause(self, holds: Callable[[], object], within: float = inf) -> None:
        """Wait while something holds and nobody asks to stop, for so many seconds at most."""
        waited(lambda: not holds() or self.asked.signal is not None, within)


def _told(printed: str) -> dict[str, Any]:
    """Return the exit reason or the error that a loop printed; empty if it printed none."""
    with suppress(ValueError, KeyError, TypeError):
        envelope: Mapping[str, Any] = json.loads(printed)
        if "error" in envelope:
            return {key: str(envelope["error"][key]) for key in ("code", "message")}
        data = envelope["data"]
        reason = str(data["exit_reason"])
        return {"reason": reason} | (_told_of_block(data) if reason == "blocked" else {})
    return {}


def _told_of_block(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a blocked session waits for, and whether one of these causes may pass."""
    found = data.get("blocked", ())
    may_pass = any(isinstance(one, dict) and one.get("may_pass") is True for one in found)
    return {"message": str(data.get("message", "")), "may_pass": may_pass}
