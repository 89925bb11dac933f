"""Run the autonomous runner, which starts one session after another without a user.

The runner survives the process that starts it and can be found again. The staged-workflow protocol
("The autonomous runner") defines its limits and the reasons for its end.
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
from projections.words.text import truncate_utc_to_seconds
from reconciler.context import JobContext
from reconciler.errors import AlreadyAutonomous, AlreadyDriven, NoRunner, RunnerFailed
from reconciler.host import processes, tmux_sessions
from reconciler.host.file_locks import is_lock_held
from reconciler.host.processes import Process
from reconciler.loop.agent import poll_until, read_record, wait_or_terminate
from reconciler.loop.stop_request import StopRequest
from service.errors import RootBusy
from service.files.stage_obstacles import PAUSE
from service.root.atomic_files import hold_lock, write_whole
from service.root.root import Root
from wfctl_eventstore.extension import RunnerNotifier, require_extension
from wording import CodedError

LOCK = "runner.lock"
#: Seconds that the runner has to take its lock after its start, and to end after a request.
_START_TIMEOUT = 30.0
#: The command that starts the runner, for messages to the user.
RUN_AUTONOMOUSLY = "wfctl run --autonomous"
#: Name of the file for the output of a runner that runs outside tmux.
OUTPUT = "runner.log"

#: A new tmux session gets the environment of the tmux server, not of the caller. The caller's
#: environment is passed through a pipe that only its owner can read. A command line would be
#: readable for everybody.
_BOOTSTRAP = (
    "import json, os, signal, sys; path = sys.argv[1]; signal.alarm(60); "
    "environ = json.load(open(path)); signal.alarm(0); os.unlink(path); "
    "os.execve(sys.argv[2], sys.argv[2:], environ)"
)


@dataclass(frozen=True, slots=True)
class RunnerProcess:
    """The record of a background runner: its process, its tmux session and its end.

    ``session`` is None if the runner runs outside tmux. ``ended_at`` and ``why`` are None while the
    runner runs. They stay None if it was killed.
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
        """Return the process of the runner, identified by more than its id."""
        return Process(self.pid, self.ticks, self.boot_id)

    @property
    def was_killed(self) -> bool:
        """Return whether the process has ended without recording a reason."""
        return self.ended_at is None and not self.process.is_alive()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)

    def __str__(self) -> str:
        """Return one sentence about the status or the end of the runner."""
        begun = f"the autonomous runner (started {truncate_utc_to_seconds(self.started_at)})"
        if self.ended_at is not None:
            return f"{begun} ended {truncate_utc_to_seconds(self.ended_at)}: {self.why}"
        if self.was_killed:
            return f"{begun} was killed, so no new session starts"
        return f"{begun} is running this workflow"


def start_runner(jobs: JobContext, words: list[str], environ: Mapping[str, str]) -> RunnerProcess:
    """Start the background runner, and return its record when the runner has started.

    The runner starts in tmux, or through setsid if tmux cannot be used. Raises `AlreadyAutonomous`
    if a runner is already running, and `RunnerFailed` if the new runner does not start in time.
    """
    root = jobs.service.root
    if is_lock_held(root.folder / LOCK):
        raise AlreadyAutonomous(root.folder / LOCK)
    (root.runner_record).unlink(missing_ok=True)
    session = _start_in_tmux(jobs, words, environ)
    if session is None:
        with (root.folder / OUTPUT).open("ab") as output:
            subprocess.run(
                # With --fork, the runner is not a child of this process, so nobody has to wait for
                # its end.
                ["setsid", "--fork", *words],
                cwd=root.path,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=True,
            )
    # The record exists as soon as the runner has started. A runner that has already ended again
    # also counts.
    found = poll_until(lambda: read_last_runner(root), _START_TIMEOUT)
    if found is None:
        where = f"tmux session {session}" if session else str(root.folder / OUTPUT)
        raise RunnerFailed(where, _START_TIMEOUT)
    how = f"tmux session: {session}" if session else f"setsid, pid {found.pid}"
    jobs.record(p.NoteLogged(text=f"Autonomous mode activated. {how}"))
    return found


def _start_in_tmux(jobs: JobContext, words: list[str], environ: Mapping[str, str]) -> str | None:
    if not tmux_sessions.is_installed(environ):
        jobs.say("tmux is not installed, so the runner runs in the background through setsid.")
        return None
    # tmux replaces these characters in the names of sessions.
    name = f"workflow-runner-{jobs.service.state().id}".replace(".", "_").replace(":", "_")
    if tmux_sessions.is_live(name, environ):
        # A session with this name belongs to another root with the same workflow id, so the name
        # gets a suffix.
        name = f"{name}-{sha256(os.fsencode(jobs.root)).hexdigest()[:8]}"
    pipe = jobs.service.root.folder / "runner.environment"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    given = {**environ, "WFCTL_RUNNER_SESSION": name}
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, str(pipe), *words]
    refused = tmux_sessions.start_session(name, jobs.root, command, environ)
    if refused is None and _write_environment(pipe, given):
        return name
    pipe.unlink(missing_ok=True)
    jobs.say(
        f"tmux refused to start the session {name} ({refused}), so the runner runs through setsid."
    )
    return None


def _write_environment(pipe: Path, environ: Mapping[str, str]) -> bool:
    """Write the environment as JSON into a pipe when a reader opens the pipe.

    Returns False if no reader opens the pipe in time.
    """

    def is_read() -> bool:
        with suppress(OSError):
            # With O_NONBLOCK, this call fails while no reader has opened the pipe.
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            with open(descriptor, "w") as writer:  # noqa: PTH123 - a descriptor has no path
                json.dump(dict(environ), writer)
            return True
        return False

    return poll_until(is_read, _START_TIMEOUT)


def record_runner(root: Root, now: str) -> None:
    """Record this process as the background runner.

    The process must hold the lock of the runner.
    """
    found = processes.identify(os.getpid())
    if found is not None:
        session = os.environ.get("WFCTL_RUNNER_SESSION")
        entry = RunnerProcess(**found.to_dict(), session=session, started_at=now)
        (root.runner_record).write_text(json.dumps(entry.to_dict()))


def find_running_runner(root: Root) -> RunnerProcess | None:
    """Return the record of the runner that is running now, or None."""
    found = read_last_runner(root)
    return found if found is not None and found.process.is_alive() else None


def read_last_runner(root: Root) -> RunnerProcess | None:
    """Return the record of the runner that was started last, running or not.

    Returns None if no runner was started, or if a user has driven the workflow since its end.
    """
    return read_record(RunnerProcess, root.runner_record)


def forget_ended_runner(root: Root) -> None:
    """Remove the record of an ended runner, because a user now drives the workflow.

    The record of a running runner is kept.
    """
    found = read_last_runner(root)
    if found is not None and not found.process.is_alive():
        (root.runner_record).unlink(missing_ok=True)


def _record_end(root: Root, now: str, why: str) -> None:
    """Record the reason why this runner ended.

    If this fails, for example because the disk is full, the error is ignored. The notice to the
    user still contains the reason.
    """
    found = read_last_runner(root)
    if found is not None and found.pid == os.getpid():
        entry = replace(found, ended_at=now, why=why)
        with suppress(OSError):
            write_whole(root.runner_record, json.dumps(entry.to_dict()).encode())


def stop_runner(root: Root, within: float = 2 * _START_TIMEOUT) -> RunnerProcess:
    """Ask the background runner to stop, wait for its end, and return its record.

    Its session ends in an orderly way, and jobs continue to run. Raises `NoRunner` if no runner is
    running, and `RunnerFailed` if it does not end in time.
    """
    found = find_running_runner(root)
    if found is None:
        raise NoRunner(root.path)
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    if not poll_until(lambda: not found.process.is_alive(), within):
        raise RunnerFailed(f"process {found.pid}, which does not stop", within)
    return found


#: Environment variable that the runner sets for the loops that it starts.
_CHILD = "WFCTL_RUNNER"
#: Seconds to wait for the runner's lock, and seconds that a session has to end after a request.
_LOCK_TIMEOUT = 2.0
_END_TIMEOUT = 60.0
#: Exit code of a session that could not be started.
_START_FAILED = 5
#: Exit codes of a session after which another session would fail too.
_FATAL_EXIT_CODES = frozenset({2, 3, 5, 6})
#: Codes of errors with a cause that may pass without an action of the user. Examples are a full
#: disk, a locked log, an unreachable server and a root that is not mounted.
_PASSING_CODES = frozenset(
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
#: Maximum number of seconds that the runner waits for such a cause to pass, and maximum pause
#: between two tries.
_MAX_WAIT, _LONGEST_PAUSE = 86_400.0, 300.0
#: Maximum number of characters that are kept of a session's error message.
_MAX_MESSAGE_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """The limits of a background runner.

    The runner starts at most ``sessions`` sessions of ``seconds`` seconds each, with pauses of
    ``between`` seconds. It also ends after ``rapid`` sessions in a row that took less than
    ``rapid_seconds``, did not use all their time and completed no stage.
    """

    sessions: int = 20
    seconds: float = 7200.0
    between: float = 15.0
    rapid: int = 3
    rapid_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class LoopSession:
    """The result of one session that the runner started.

    ``exit_code`` is that of its process. ``reason`` is the reason why the session ended in an
    orderly way, or None. ``code`` and ``message`` describe its error, or ``message`` contains the
    causes that block the session. ``has_progress`` states whether a stage was completed, and
    ``may_pass`` whether a blocking cause may pass without an action of the user.
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
        """Return the cause of a failed session in one line.

        Returns an empty string if the session ended in an orderly way.
        """
        if self.exit_code == 0 or self.reason is not None:
            return ""
        words = " ".join((self.message or "").split())[:_MAX_MESSAGE_LENGTH]
        return f" (exit {self.exit_code})" + (f": {words}" if words else "")

    def stop_reason(self) -> str | None:
        """Return the reason why no further session is started, or None if another one is."""
        if self.reason in ("completed", "blocked"):
            words = " ".join((self.message or "").split())[:_MAX_MESSAGE_LENGTH]
            return f"{self.reason}: {words}" if words else self.reason
        if self.reason is None and self.exit_code in _FATAL_EXIT_CODES:
            return f"a session could not start{self.failure}"
        return None


class PassingCause:
    """Counts the tries while an error with a passing cause prevents new sessions.

    A passing cause is one that may end without an action of the user, such as a full disk.
    """

    def __init__(self, notices: RunnerNotifier | None) -> None:
        self._notices = notices
        self._began = time.monotonic()
        self._tries = 0

    def should_retry(self, failed: LoopSession) -> bool:
        """Return whether to try again after a failed session.

        Returns False when the cause has lasted too long. The first call sends a notice to the user.
        """
        if self._tries == 0 and self._notices is not None:
            self._notices.tell_waiting(failed.failure.strip(" :") or str(failed.stop_reason()))
        self._tries += 1
        return time.monotonic() - self._began < _MAX_WAIT

    def pause(self, between: float) -> float:
        """Return the seconds to wait before the next try. They grow with each try."""
        return float(min(_LONGEST_PAUSE, max(between, 1.0) * 2 ** min(self._tries, 10) / 2))


@dataclass(frozen=True, slots=True)
class Runner:
    """The background runner, which starts one session after another until no work is left.

    It holds a lock while it runs. ``words`` is the command of a session, to which the runner adds
    an option with the time limit.
    """

    jobs: JobContext
    words: list[str]
    limits: RunnerLimits
    asked: StopRequest
    #: Program or address to which notices about the runner are sent, or None.
    receiver: str | None = None

    def serve(self, begun: Callable[[], None]) -> str:
        """Run sessions until no work is left, and return the reason why the runner ended.

        ``begun`` is called when the runner has taken its lock. Raises `AlreadyAutonomous` if
        another runner holds the lock.
        """
        lock = self.jobs.service.root.folder / LOCK
        try:
            with hold_lock(lock, timeout=_LOCK_TIMEOUT):
                begun()
                return self._run_until_end()
        except RootBusy as busy:
            raise AlreadyAutonomous(lock) from busy

    def _run_until_end(self) -> str:
        notices = self._open_notifier()
        why = self._run_sessions(notices)
        # The notice is sent first, because writing to the log may have to wait for a lock.
        if notices is not None:
            notices.tell_end(why)
        _record_end(self.jobs.service.root, self.jobs.now(), why)
        with suppress(CodedError, OSError):
            self.jobs.record(p.NoteLogged(text=f"Autonomous runner ended: {why}"))
        return why

    def _open_notifier(self) -> RunnerNotifier | None:
        if not self.receiver:
            return None
        state = self.jobs.service.state()
        notices = require_extension("notices", "--notify")
        return notices.open_runner_notifier(self.receiver, state.id, self.jobs.root, os.getpid())

    def _run_sessions(self, notices: RunnerNotifier | None) -> str:
        rapid = number = 0
        passing = PassingCause(notices)
        while number < self.limits.sessions:
            self._wait_while((self.jobs.root / PAUSE).exists)
            if self.asked.signal is not None:
                return "a user or the system asked the runner to stop"
            done = self._try_session()
            if done.code == AlreadyDriven.code:
                self._wait_for_other_loop()
                continue
            if (done.may_pass or done.code in _PASSING_CODES) and passing.should_retry(done):
                self._wait_while(lambda: True, passing.pause(self.limits.between))
                continue
            if (last := done.stop_reason()) is not None:
                return last
            passing = PassingCause(notices)
            number += 1
            # A session with a short time limit is not rapid if it used all its time.
            rapid_below = min(self.limits.rapid_seconds, self.limits.seconds)
            idle = done.seconds < rapid_below and done.reason != "budget_exhausted"
            rapid = rapid + 1 if idle and not done.has_progress else 0
            if rapid >= self.limits.rapid:
                return f"{rapid} sessions in a row made no progress{done.failure}"
            if number < self.limits.sessions:
                self._wait_while(lambda: True, self.limits.between)
        return f"the maximum of {number} sessions is reached"

    def _try_session(self) -> LoopSession:
        """Run a session, and return its result.

        An error that prevents its start is also returned as a result.
        """
        try:
            before = self._count_completed()
            done = self._run_session()
            return replace(done, has_progress=self._count_completed() != before)
        except CodedError as error:
            return LoopSession(_START_FAILED, 0.0, code=error.code, message=error.message)
        except OSError as error:
            return LoopSession(_START_FAILED, 0.0, code="os_error", message=str(error))

    def _wait_for_other_loop(self) -> None:
        """Wait until a loop that this runner did not start has ended."""
        if self.jobs.is_driven():
            self.jobs.record(p.NoteLogged(text="The runner waits until another `wfctl run` ends"))
        # If the lock of the other loop cannot be read, the second wait ends immediately. This pause
        # then limits how often sessions are started.
        self._wait_while(lambda: True, 1.0)
        self._wait_while(lambda: self.jobs.is_driven() is True)

    def _count_completed(self) -> int:
        """Return the number of completed stages."""
        stages = self.jobs.service.state().stages.values()
        return sum(stage.status is Status.COMPLETED for stage in stages)

    def _run_session(self) -> LoopSession:
        began = time.monotonic()
        limit = f"--time-limit={self.limits.seconds}"
        # The output goes to a file. A pipe that nobody reads would block the session when it is
        # full.
        with TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                [*self.words, limit],
                cwd=self.jobs.root,
                env={**os.environ, _CHILD: "1"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                # In its own process group, the session does not get signals of the terminal. The
                # runner passes a request to stop on to it.
                start_new_session=True,
            )
            wait_or_terminate(
                lambda: process.poll() is not None,
                process.send_signal,
                self.limits.seconds + _END_TIMEOUT,
                _END_TIMEOUT,
                lambda: self.asked.signal is not None,
            )
            if process.poll() is None:
                process.kill()
            process.wait()
            printed.seek(0)
            told = _parse_result(printed.read())
        return LoopSession(process.returncode, time.monotonic() - began, **told)

    def _wait_while(self, holds: Callable[[], object], within: float = inf) -> None:
        """Wait while ``holds`` returns true, until a stop is requested or time is up."""
        poll_until(lambda: not holds() or self.asked.signal is not None, within)


def _parse_result(printed: str) -> dict[str, Any]:
    """Return the exit reason or the error from the JSON output of a session.

    Returns an empty dict if the output is not valid.
    """
    with suppress(ValueError, KeyError, TypeError):
        envelope: Mapping[str, Any] = json.loads(printed)
        if "error" in envelope:
            return {key: str(envelope["error"][key]) for key in ("code", "message")}
        data = envelope["data"]
        reason = str(data["exit_reason"])
        return {"reason": reason} | (_parse_blocked_result(data) if reason == "blocked" else {})
    return {}


def _parse_blocked_result(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a blocked session, and whether one of its causes may pass."""
    found = data.get("blocked", ())
    may_pass = any(isinstance(one, dict) and one.get("may_pass") is True for one in found)
    return {"message": str(data.get("message", "")), "may_pass": may_pass}
