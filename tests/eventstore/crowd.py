"""Let many processes use one log, forked from one program to save import time.

`python -m tests.eventstore.crowd DATABASE JOURNAL WRITERS APPENDS STREAMS READERS [REHEARSALS]`
prints one JSON object with the longest wait of each writer in seconds and the observations of each
reader. All processes open the log, append their rehearsal events to separate streams, and then
start together. There are two rehearsals, because the first append after another process's append
takes a different path. A process that has finished keeps the log open until all have finished. A
failed process ends all others.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

from eventstore.store import Claim, EventStore, Expected
from tests.eventstore.support import note, opened

_PATIENCE_SECONDS = 600


class Part(NamedTuple):
    """The work of one writer process. Its number is in the ids of its events."""

    writer: int
    appends: int
    stream: str
    rehearsals: int


class Gates(NamedTuple):
    """Functions that wait for the second rehearsal, for the start, and for the end."""

    again: Callable[[], None]
    start: Callable[[], None]
    leave: Callable[[], None]


def write(address: str, journal: str, part: Part, gates: Gates) -> dict[str, Any]:
    """Append one event at a time."""
    longest = 0.0
    with closing(opened(address, journal)) as store:
        _rehearse(store, part, "first")
        gates.again()
        _rehearse(store, part, "second")
        gates.start()
        began = time.perf_counter()
        for number in range(part.appends):
            longest = max(longest, _append(store, part.stream, f"{part.writer}-{number}"))
        ended = time.perf_counter()
        gates.leave()
    return {"longest": longest, "began": began, "ended": ended}


def _rehearse(store: EventStore, part: Part, time: str) -> None:
    for number in range(part.rehearsals):
        _append(store, f"rehearsal-{part.writer}", f"{part.writer}-{time}-{number}")


def _append(store: EventStore, stream: str, name: str) -> float:
    """Append an event, and return the time that it took in seconds."""
    event = note(event_id=name)
    began = time.perf_counter()
    store.append(stream, [event], expected=Expected.ANY, claim=Claim(name, name))
    return time.perf_counter() - began


def tail(
    address: str, journal: str, total: int, start: Callable[[], None], leave: Callable[[], None]
) -> dict[str, Any]:
    """Follow the log until it has `total` events, and report skipped positions."""
    seen, holes, looks = 0, [], 0
    with closing(opened(address, journal)) as store:
        start()
        while seen < total:
            looks += 1
            for event in store.read_all(after=seen):
                if event.position != seen + 1:
                    holes.append([seen, event.position])
                seen = event.position
        leave()
    return {"seen": seen, "holes": holes, "looks": looks}


class Gate:
    """A barrier that stops processes until all of them have arrived."""

    def __init__(self) -> None:
        self._arrivals, self._arrived = os.pipe()
        self._entrance, self._opener = os.pipe()

    def wait(self) -> None:
        """Arrive at the gate, and wait until it opens."""
        os.write(self._arrived, b"x")
        os.read(self._entrance, 1)

    def open(self, number: int) -> None:
        """Wait until the given number of processes have arrived, and let them pass."""
        for _ in range(number):
            os.read(self._arrivals, 1)
        os.write(self._opener, b"x" * number)


def fork(work: Callable[[], dict[str, Any]], gate: Gate) -> tuple[int, int]:
    """Fork a child that waits at the gate, works, and writes its result to a pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    # If the parent process was killed, nobody opens the next gate, so an alarm ends the child.
    signal.alarm(_PATIENCE_SECONDS)
    code = 1
    try:
        gate.wait()
        os.write(writing, json.dumps(work()).encode())
        code = 0
    finally:
        if code:
            traceback.print_exc()
            os.killpg(0, signal.SIGTERM)
        os._exit(code)


def main(
    address: str,
    journal: str,
    writers: int,
    appends: int,
    streams: int,
    readers: int,
    rehearsals: int = 0,
) -> None:
    """Start all processes, open the gates, and print the reports."""
    os.setpgid(0, 0)
    doors, stage, line, exit_ = Gate(), Gate(), Gate(), Gate()
    parts = [Part(w, appends, f"stream-{w % streams}", rehearsals) for w in range(writers)]
    gates = Gates(stage.wait, line.wait, exit_.wait)
    jobs = [partial(write, address, journal, part, gates) for part in parts]
    jobs += [partial(tail, address, journal, writers * appends, line.wait, exit_.wait)] * readers
    children = [fork(job, doors) for job in jobs]
    doors.open(len(children))
    stage.open(writers)
    line.open(len(children))
    exit_.open(len(children))
    reports = [report(*child) for child in children]
    print(json.dumps({"writers": reports[:writers], "readers": reports[writers:]}))


def report(child: int, reading: int) -> Any:
    """Return the report of a child that ended successfully."""
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"a process of the crowd failed: {status}")
    return json.loads(said)


if __name__ == "__main__":
    database, mode, *numbers = sys.argv[1:]
    main(database, mode, *(int(number) for number in numbers))
