"""The processes that tests kill, and the search for processes that remain."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from enum import StrEnum
from pathlib import Path

from reconciler.host.processes import environ_of
from tests.crash.support import MARK, Workflow, until


class Victim(StrEnum):
    """The processes that one kill ends."""

    ORCHESTRATOR = "orchestrator"
    TMUX_SERVER = "tmux server"
    MONITOR = "monitor"
    SESSION = "session"
    JOB = "job"
    EVERYTHING = "everything"


def processes(workflow: Workflow) -> dict[int, str]:
    """Return every live process of the test with its command line."""
    mark = f"{MARK}={workflow.environ[MARK]}".encode()
    found = {}
    for place in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if place.name.isdigit() and mark in environ_of(int(place.name)):
                found[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
    return found


def find(workflow: Workflow, victim: Victim) -> list[int]:
    """Return the processes of a victim."""
    everyone = processes(workflow)
    if victim is Victim.EVERYTHING:
        return list(everyone)
    if victim is Victim.JOB:
        return [pid for pid in everyone if is_job(pid)]
    session = {pid: line for pid, line in everyone.items() if not is_job(pid)}
    return [pid for pid, line in session.items() if _fits(line, victim)]


def is_job(pid: int) -> bool:
    """Return whether a process belongs to a job, which runs in a scratch copy."""
    try:
        return "/work/" in str(Path(f"/proc/{pid}/cwd").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _fits(line: str, victim: Victim) -> bool:
    match victim:
        case Victim.ORCHESTRATOR:
            return "-m cli.main run" in line or "-m cli.main dispatch" in line
        case Victim.TMUX_SERVER:
            return line.startswith("tmux ")
        case Victim.MONITOR:
            names = ("dpdisp-run.sh", "/dpdisp ", "reconciler.dpdispatcher.watch")
            return not line.startswith("tmux ") and any(name in line for name in names)
        case Victim.SESSION:
            return "cli.main note" not in line
        case _:
            raise AssertionError(victim)


def strike(workflow: Workflow, victim: Victim) -> None:
    """Kill all processes of a victim together."""
    stopped: set[int] = set()
    # Processes are stopped and searched again, so that no new child process is missed.
    while found := set(find(workflow, victim)) - stopped:
        suspend(found)
        _hold(found)
        stopped |= found
    # The youngest process is killed first, because the death of a session leader resumes others.
    kill(sorted(stopped, key=_age, reverse=True))
    # A killed process keeps its locks for a moment. wfctl would take it for alive, so the test
    # waits until it is dead.
    until(lambda: all(_state(pid) in "ZX" for pid in stopped))


def _hold(pids: set[int]) -> None:
    """Stop all processes until all are really stopped.

    A terminal server may resume them, so the signal is repeated. On a busy machine, a stopped
    process first finishes a fork. A process whose child was stopped before its exec waits in state
    D and cannot stop.
    """
    for _ in range(40):
        going = {pid for pid in pids if _state(pid) not in "TtZXD"}
        if not going:
            return
        suspend(going)
        time.sleep(0.005)


def _state(pid: int) -> str:
    """Return the state letter of a process as in ps, or X if the process no longer exists."""
    return _stat(pid)[0]


def _age(pid: int) -> tuple[int, int]:
    """Return a key that sorts processes by their start."""
    return int(_stat(pid)[19]), pid


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", *("0" * 40)]


def kill(pids: set[int] | list[int]) -> None:
    """Kill processes that may have ended already."""
    _send(pids, signal.SIGKILL)


def suspend(pids: set[int]) -> None:
    """Stop processes that may have ended already."""
    _send(pids, signal.SIGSTOP)


def _send(pids: set[int] | list[int], what: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def until_none_is_left(workflow: Workflow) -> None:
    """Wait until no process of the test remains, and fail the test otherwise."""
    end = time.monotonic() + 20
    while processes(workflow) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes(workflow) == {}


def until_dead(pid: int) -> None:
    """Wait until a process no longer exists."""
    until(lambda: not Path(f"/proc/{pid}").exists())
