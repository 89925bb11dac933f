"""A server that is restarted under load loses no acknowledged event."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.eventstore.support import Log
from tests.eventstore.test_kills import check_there, check_whole
from tests.eventstore.test_subscription import follower
from tests.server import Server, started


@pytest.fixture
def own() -> Iterator[Server]:
    """Yield a server that no other test uses."""
    running = started()
    try:
        yield running
    finally:
        running.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_writers_and_followers_survive_a_restart(own: Server, mode: str) -> None:
    """During a restart, two writers and a reader wait, and the reader misses no event."""
    log = Log(own.log(), "postgresql")
    command = [sys.executable, "-m", "tests.eventstore.scribe", *log]
    with follower(log) as reader:
        scribes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        outputs = [scribe.stdout for scribe in scribes if scribe.stdout is not None]
        said = b"".join(output.readline() for output in outputs)
        for _ in range(2):
            time.sleep(0.3)
            own.stop(mode)
            own.start()
            said += b"".join(output.readline() for output in outputs for _ in range(60))
        for scribe in scribes:
            scribe.kill()
            said += scribe.communicate()[0]
        whole = (line.split() for line in said.decode().splitlines(keepends=True) if "\n" in line)
        acknowledged = [(name, int(version)) for name, version in whole]
        check_there(log, acknowledged[-200:])
        check_whole(log)
        last = max(version for _, version in acknowledged)
        positions = [reader.next().position for _ in range(last)]
    assert positions == list(range(1, last + 1))
