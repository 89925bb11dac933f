"""Many processes on one log: started as one program that forks, so that importing is paid once.

`python -m tests.eventstore.crowd DATABASE JOURNAL WRITERS APPENDS STREAMS READERS [REHEARSALS]`
prints one JSON object: for each writer the longest wait in seconds, and what each reader saw. All
open the log at once, make their rehearsals, appends to a stream of their own, and start at once.
They rehearse twice, as the first append after another process's takes a path of its own; and who
has ended keeps the log open until all have. One that fails ends them all.
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
    """What one writer does; its commands and events are named by writer and number."""

    writer: int
    appends: int
    stream: str
    rehearsals: int


class Gates(NamedTuple):
    """What a writer waits for: to rehearse again, to begin, and to leave."""

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
    """Append an event; the seconds it took."""
    event = note(event_id=name)
    began = time.perf_counter()
    store.append(stream, [event], expected=Expected.ANY, claim=Claim(name, name))
    return time.perf_counter() - began


def tail(
    address: str, journal: str, total: int, start: Callable[[], None], leave: Callable[[], None]
) -> dict[str, Any]:
    """Follow the log until it holds `total` events; say where a position was left out."""
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
    """Holds processes up until all of them are there."""

    def __init__(self) -> None:
        self._arrivals, self._arrived = os.pipe()
        self._entrance, self._opener = os.pipe()

    def wait(self) -> None:
        """Arrive, and go on once the gate is open."""
        os.write(self._arrived, b"x")
        os.read(self._entrance, 1)

    def open(self, number: int) -> None:
        """Let so many in, once all of them wait."""
        for _ in range(number):
            os.read(self._arrivals, 1)
        os.write(self._opener, b"x" * number)


def fork(work: Callable[[], dict[str, Any]], gate: Gate) -> tuple[int, int]:
    """A child that waits at the gate, works, and writes its result to a pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    # Where the parent was killed, nobody opens the next gate.
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
    """Start everybody, let them go at once, and print what they report."""
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
    """What a child wrote, after it ended well."""
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"a process of the crowd failed: {status}")
    return json.loads(said)


if __name__ == "__main__":
    database, mode, *numbers = sys.argv[1:]
    main(database, mode, *(int(number) for number in numbers))
