"""Many processes on one log: started as one program that forks, so that importing is paid once.

`python -m tests.eventstore.crowd DATABASE JOURNAL WRITERS APPENDS STREAMS READERS` prints one JSON
object: for each writer the longest wait in seconds, and what each reader saw.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from eventstore.store import Claim, Expected
from tests.eventstore.support import note, opened


def write(address: str, journal: str, writer: int, appends: int, stream: str) -> dict[str, Any]:
    """Append one event at a time; the command and the event are named by writer and number."""
    longest = 0.0
    with closing(opened(address, journal)) as store:
        began = time.perf_counter()
        for number in range(appends):
            name = f"{writer}-{number}"
            event = note(event_id=name)
            start = time.perf_counter()
            store.append(stream, [event], expected=Expected.ANY, claim=Claim(name, name))
            longest = max(longest, time.perf_counter() - start)
        ended = time.perf_counter()
    return {"longest": longest, "began": began, "ended": ended}


def tail(address: str, journal: str, total: int) -> dict[str, Any]:
    """Follow the log until it holds `total` events; say where a position was left out."""
    seen, holes, looks = 0, [], 0
    with closing(opened(address, journal)) as store:
        while seen < total:
            looks += 1
            for event in store.read_all(after=seen):
                if event.position != seen + 1:
                    holes.append([seen, event.position])
                seen = event.position
    return {"seen": seen, "holes": holes, "looks": looks}


def fork(work: Callable[[], dict[str, Any]], gate: int) -> tuple[int, int]:
    """A child that waits for the gate to close, works, and writes its result to a pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.read(gate, 1)
        os.write(writing, json.dumps(work()).encode())
        code = 0
    finally:
        os._exit(code)


def main(
    address: str, journal: str, writers: int, appends: int, streams: int, readers: int
) -> None:
    """Start everybody, let them go at once, and print what they report."""
    gate, opener = os.pipe()
    os.set_inheritable(gate, True)
    names = (f"stream-{writer % streams}" for writer in range(writers))
    jobs = [partial(write, address, journal, w, appends, name) for w, name in enumerate(names)]
    jobs += [partial(tail, address, journal, writers * appends)] * readers
    children = [fork(job, gate) for job in jobs]
    os.write(opener, b"x" * len(children))
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
