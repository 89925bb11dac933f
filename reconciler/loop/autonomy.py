"""The autonomous runner: session after session, while no one is watching.

Source of its limits and of what ends it: the staged-workflow protocol ("The autonomous runner").
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any

from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.state.status import Status
from reconciler.context import Jobs
from reconciler.errors import AlreadyAutonomous, AlreadyDriven
from reconciler.loop.ending import Interruption
from service.errors import RootBusy
from service.files.inspection import PAUSE
from service.root.disk import locked

#: The variable by which a loop knows that the runner started it.
CHILD = "WFCTL_RUNNER"
LOCK = "runner.lock"

_GLANCE = 0.2
#: Seconds that a look at the lock may hold it, and that a session has to end when it must.
_LOOK = 2.0
_GRACE = 60.0
#: Exit codes that no further session changes.
_HOPELESS = frozenset({2, 3, 5, 6})
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

    ``reason`` is its exit reason, ``code`` and ``message`` are those of its error; None where it
    printed none.
    """

    exit_code: int
    seconds: float
    reason: str | None = None
    code: str | None = None
    message: str | None = None

    @property
    def failure(self) -> str:
        """What it died of, in a line; empty where it ended in order."""
        if self.exit_code == 0 or self.reason is not None:
            return ""
        words = " ".join((self.message or "").split())[:_WORDS]
        return f" (exit {self.exit_code})" + (f": {words}" if words else "")

    def is_last(self) -> str | None:
        """Say why no session follows this one; None where one does."""
        if self.reason in ("completed", "blocked"):
            return self.reason
        if self.reason is None and self.exit_code in _HOPELESS:
            return f"a session that cannot begin{self.failure}"
        return None


@dataclass(frozen=True, slots=True)
class Runner:
    """Starts loops until there is no more to do. It alone holds the lock for as long as it lives.

    ``words`` call a loop; it is told its time limit with one more option.
    """

    jobs: Jobs
    words: list[str]
    limits: Limits
    asked: Interruption

    def serve(self, begun: Callable[[], None]) -> str:
        """Run sessions; return why it ended. ``begun`` is called once the lock is held.

        Raises `AlreadyAutonomous` where another runs.
        """
        lock = self.jobs.service.root.folder / LOCK
        try:
            with locked(lock, timeout=_LOOK):
                begun()
                why = self._sessions()
                self.jobs.record(p.NoteLogged(text=f"Autonomous runner ended: {why}"))
                return why
        except RootBusy as busy:
            raise AlreadyAutonomous(lock) from busy

    def _sessions(self) -> str:
        rapid = number = 0
        while number < self.limits.sessions:
            self._pause((self.jobs.root / PAUSE).exists)
            if self.asked.signal is not None:
                return "somebody asked it to stop"
            before = self._completed()
            if before is None:
                return "the workflow's state cannot be read"
            done = self._session()
            if done.code == AlreadyDriven.code:
                self._let_other_end()
                continue
            last = done.is_last()
            if last is not None:
                return last
            number += 1
            # One that used up its time has waited.
            rapid_below = min(self.limits.rapid_seconds, self.limits.seconds)
            idle = done.seconds < rapid_below and done.reason != "budget_exhausted"
            futile = idle and self._completed() == before
            rapid = rapid + 1 if futile else 0
            if rapid >= self.limits.rapid:
                return f"{rapid} sessions in a row that did nothing{done.failure}"
            if number < self.limits.sessions:
                self._sleep(self.limits.between)
        return f"{number} sessions, the most there may be"

    def _let_other_end(self) -> None:
        """Wait for the end of another loop: a person's, or that of a runner that was killed."""
        if self.jobs.is_driven():
            self.jobs.record(p.NoteLogged(text="The runner waits for another loop to end"))
        # Where the lock does not tell, a session is tried again, but not without a pause.
        self._sleep(1.0)
        self._pause(lambda: self.jobs.is_driven() is True)

    def _completed(self) -> int | None:
        """Return how many stages are completed, None where the state cannot be read."""
        try:
            stages = self.jobs.service.state().stages.values()
        except LifecycleError as error:
            self.jobs.say(f"runner: {error.message}")
            return None
        return sum(stage.status is Status.COMPLETED for stage in stages)

    def _session(self) -> LoopSession:
        began = time.monotonic()
        limit = f"--time-limit={self.limits.seconds}"
        # A pipe that nobody reads would stop a loop that has more to say than it holds.
        with TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                [*self.words, limit],
                cwd=self.jobs.root,
                env={**os.environ, CHILD: "1"},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                # What the terminal sends to the runner reaches the loop through the runner alone.
                start_new_session=True,
            )
            self._attend(process, began)
            printed.seek(0)
            told = _told(printed.read())
        return LoopSession(process.returncode, time.monotonic() - began, **told)

    def _attend(self, process: subprocess.Popen[bytes], began: float) -> None:
        told: float | None = None
        while process.poll() is None:
            now = time.monotonic()
            late = now - began > self.limits.seconds + _GRACE
            if told is None and (late or self.asked.signal is not None):
                told = now
                process.send_signal(signal.SIGTERM)
            if told is not None and now - told > _GRACE:
                process.kill()
            time.sleep(_GLANCE)

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self._pause(lambda: time.monotonic() < end)

    def _pause(self, holds: Callable[[], bool]) -> None:
        """Wait while something holds and nobody asks to stop."""
        while holds() and self.asked.signal is None:
            time.sleep(_GLANCE)


def _told(printed: str) -> dict[str, str]:
    """Return the exit reason or the error that a loop printed; empty where it printed none."""
    with suppress(ValueError, KeyError, TypeError):
        envelope: Mapping[str, Any] = json.loads(printed)
        if "error" in envelope:
            return {key: str(envelope["error"][key]) for key in ("code", "message")}
        return {"reason": str(envelope["data"]["exit_reason"])}
    return {}
