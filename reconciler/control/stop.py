"""Ending the jobs and processes of an attempt, and seeing that they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.attempt import execution_host as machine
from reconciler.attempt.contract import OfJob
from reconciler.attempt.paths import ATTEMPT, AttemptPaths
from reconciler.far import ask
from reconciler.host import processes
from reconciler.host.processes import Process, Tenant
from reconciler.records import traces

#: Seconds that killed processes have to be gone.
_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What was ended, and what is left, each in words such as ``job 12`` or ``process 4711``."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def stop(attempt: AttemptPaths) -> Stopped:
    """End every process and queued job of an attempt where they are.

    From the first moment on no job of it starts its command any more. No process group is ever
    hit, which may hold a person's shell: a job is found by the folder that it works in, and a
    process by that, by the locks that it inherited and by the attempt in its environment. Whatever
    a silent scheduler may hold is left. Raises
    MachineUnreachable where nobody can say whether anything is left.
    """
    where = machine.of(attempt)
    if attempt.folder.is_dir():
        attempt.barrier.touch()
    if where.is_far or where.has_scheduler:
        there = _stopped_there(attempt)
    else:
        there = _stopped_here(attempt, Path(where.scratch))
    if where.is_far or there.left:
        return there
    held = end_holders(traces.told(attempt, OfJob.LOCK))
    return Stopped(_each((*there.ended, *held.ended)), held.left)


def _stopped_here(attempt: AttemptPaths, scratch: Path) -> Stopped:
    ended, left = stop_below(scratch)
    inside = Stopped(_words(ended), _words(left))
    # What a command started may work in another folder, with every file of it closed.
    variable = f"{ATTEMPT}={attempt.tag}"
    outside = _ended(lambda: processes.began_with(variable), _WITHIN)
    return Stopped(_each((*inside.ended, *outside.ended)), _each((*inside.left, *outside.left)))


def _stopped_there(attempt: AttemptPaths) -> Stopped:
    told = ask.stop(attempt)
    return Stopped(
        tuple(what for word, what in told if word == "ended"),
        tuple(what for word, what in told if word == "left"),
    )


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def end_holders(locks: Iterable[Path], within: float = _WITHIN) -> Stopped:
    """Kill whoever holds one of the locks, wherever they work.

    Whoever only looks whether a lock is held does not hold it.
    """
    places = list(locks)
    return _ended(lambda: processes.holders(places), within)


def _ended(find: Callable[[], Sequence[Process]], within: float) -> Stopped:
    """Kill what is found, until nothing is."""
    deadline, ended = time.monotonic() + within, dict[int, Process]()
    while (left := find()) and time.monotonic() < deadline:
        ended |= {one.pid: one for one in left}
        for one in left:
            _kill(one)
        time.sleep(0.05)
    return Stopped(_words(ended.values()), _words(left))


def stop_below(
    folder: Path, within: float = _WITHIN
) -> tuple[tuple[Tenant, ...], tuple[Tenant, ...]]:
    """Kill every process that works in ``folder`` or below it; return those, and who is left.

    Only processes of an attempt work below its scratch folder, so nobody else is hit. A process
    is told by its id and its start time. Looks again until none is left, since a process may
    start another while it is killed.
    """
    deadline, ended = time.monotonic() + within, dict[int, Tenant]()
    while (left := processes.below(processes.census(), folder)) and time.monotonic() < deadline:
        ended |= {tenant.pid: tenant for tenant in left}
        for tenant in left:
            _kill(tenant)
        time.sleep(0.05)
    return tuple(ended.values()), left


def _words(found: Iterable[Process | Tenant]) -> tuple[str, ...]:
    return tuple(f"process {one.pid}" for one in found)


def _kill(one: Process | Tenant) -> None:
    if processes.start_ticks(one.pid) != one.ticks:
        return
    try:
        os.kill(one.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
