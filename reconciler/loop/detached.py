"""Starting the runner so that it outlives whoever starts it, and finding it again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from eventstore.private import read_regular
from lifecycle.payload import models as p
from reconciler.context import Jobs
from reconciler.errors import AlreadyAutonomous, NoRunner, RunnerFailed
from reconciler.host import processes
from reconciler.host.processes import Process
from reconciler.host.program import is_held
from reconciler.loop.autonomy import LOCK
from service.root.root import Root

#: Seconds that the runner has to take its lock, and to end once it is asked to.
_WITHIN = 30.0
_GLANCE = 0.05
RECORD = "runner.json"
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
    """A runner: its process, and its tmux session where it has one."""

    pid: int
    ticks: int
    boot_id: str
    session: str | None
    started_at: str

    @property
    def process(self) -> Process:
        """The process, told from any other of its id."""
        return Process(self.pid, self.ticks, self.boot_id)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def session_name(workflow: str, root: Path, environ: Mapping[str, str]) -> str:
    """Return the tmux session's name, spelled as tmux spells it.

    Where another root with a workflow of this id has that name, the root's digest is behind it.
    """
    name = f"workflow-runner-{workflow}".replace(".", "_").replace(":", "_")
    if not processes.is_live(name, environ):
        return name
    return f"{name}-{sha256(os.fsencode(root)).hexdigest()[:8]}"


def start(jobs: Jobs, words: list[str], environ: Mapping[str, str]) -> Detached:
    """Start the runner in tmux, else by setsid, and return once it holds its lock.

    Raises `AlreadyAutonomous` where one is at work, `RunnerFailed` where it does not come up.
    """
    root = jobs.service.root
    lock = root.folder / LOCK
    if is_held(lock):
        raise AlreadyAutonomous(lock)
    (root.folder / RECORD).unlink(missing_ok=True)
    session = _in_tmux(jobs, words, environ)
    if session is None:
        _by_setsid(root, words, environ)
    found = _awaited(jobs, session)
    how = f"tmux session: {session}" if session else f"setsid, pid {found.pid}"
    jobs.record(p.NoteLogged(text=f"Autonomous mode activated. {how}"))
    return found


def _in_tmux(jobs: Jobs, words: list[str], environ: Mapping[str, str]) -> str | None:
    if not processes.is_installed(environ):
        jobs.say("tmux is not installed: the runner runs detached by setsid instead.")
        return None
    name = session_name(jobs.service.state().id, jobs.root, environ)
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
    """Write the environment once somebody reads; False where nobody does in time."""
    deadline = time.monotonic() + _WITHIN
    while time.monotonic() < deadline:
        with suppress(OSError):
            # Refused while nobody has the other end open.
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            with open(descriptor, "w") as writer:  # noqa: PTH123 - a descriptor has no path
                json.dump(dict(environ), writer)
            return True
        time.sleep(_GLANCE)
    return False


def _by_setsid(root: Root, words: list[str], environ: Mapping[str, str]) -> None:
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


def _awaited(jobs: Jobs, session: str | None) -> Detached:
    deadline = time.monotonic() + _WITHIN
    while time.monotonic() < deadline:
        if (found := recorded(jobs.service.root)) is not None:
            return found
        time.sleep(_GLANCE)
    where = f"tmux session {session}" if session else str(jobs.service.root.folder / OUTPUT)
    raise RunnerFailed(where, _WITHIN)


def record(root: Root, now: str) -> None:
    """Write down that this process is the runner; its lock is held from before until its end."""
    found = processes.identify(os.getpid())
    if found is not None:
        session = os.environ.get("WFCTL_RUNNER_SESSION")
        entry = Detached(**found.to_dict(), session=session, started_at=now)
        (root.folder / RECORD).write_text(json.dumps(entry.to_dict()))


def recorded(root: Root) -> Detached | None:
    """Return the runner that is at work; None where none is."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        found = Detached(**orjson.loads(read_regular(root.folder / RECORD)))
        return found if found.process.is_alive() else None
    return None


def stop(root: Root, within: float = 2 * _WITHIN) -> Detached:
    """Ask the runner to stop and wait until it has; its session ends in order, jobs go on.

    Raises `NoRunner` where none is at work, `RunnerFailed` where it does not end in time.
    """
    found = recorded(root)
    if found is None:
        raise NoRunner(root.path)
    with suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + within
    while found.process.is_alive():
        if time.monotonic() > deadline:
            raise RunnerFailed(f"process {found.pid}, which does not end", within)
        time.sleep(_GLANCE)
    return found
