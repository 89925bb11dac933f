"""An acknowledged append survives SIGKILL, whole and once."""

import random
import subprocess
import sys
import time
from contextlib import closing

import pytest

from eventstore.store import Claim, Expected
from tests.eventstore.support import Log, note


def scribes_killed(log: Log, seconds: float) -> list[tuple[str, int]]:
    """Kill two writers so long after the first acknowledgement; what they had acknowledged."""
    command = [sys.executable, "-m", "tests.eventstore.scribe", *log]
    scribes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    said = b""
    for scribe in scribes:
        assert scribe.stdout is not None
        said += scribe.stdout.readline()
    time.sleep(seconds)
    for scribe in scribes:
        scribe.kill()
    for scribe in scribes:
        said += scribe.communicate()[0]
    lines = (line.split() for line in said.decode().splitlines(keepends=True) if line[-1] == "\n")
    return [(name, int(version)) for name, version in lines]


def check_there(log: Log, acknowledged: list[tuple[str, int]]) -> None:
    """Each that was acknowledged is there: given again, it is the same as before."""
    with closing(log.opened()) as store:
        for name, version in acknowledged:
            again = store.append("w", [note()], expected=Expected.ANY, claim=Claim(name, name))
            assert again.repeated
            assert again.events[-1].version == version


def check_whole(log: Log) -> None:
    """There is no hole in the log, and each command is whole and there once."""
    with closing(log.opened()) as store:
        assert list(store.verify()) == []
        events = list(store.read("w"))
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    commands: dict[str, int] = {}
    for event in events:
        commands[event.command_id] = commands.get(event.command_id, 0) + 1
    assert all(size == int(name.split("-")[1]) % 5 + 1 for name, size in commands.items())


def kill_rounds(log: Log, rounds: int, seed: int) -> None:
    """One log through so many rounds, the end of it looked at after each, the whole at last."""
    chance = random.Random(seed)
    acknowledged: list[tuple[str, int]] = []
    for _ in range(rounds):
        acknowledged += scribes_killed(log, chance.uniform(0, 0.08))
        check_there(log, acknowledged[-50:])
    check_there(log, acknowledged)
    check_whole(log)
    assert len(acknowledged) >= rounds


@pytest.mark.slow
def test_killed_writers_lose_nothing(log: Log) -> None:
    """A few rounds of two writers under load."""
    kill_rounds(log, rounds=5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_kills_lose_nothing(log: Log) -> None:
    """The same for two hundred rounds; for sixty on a server, which keeps its log by itself."""
    kill_rounds(log, rounds=60 if log.journal == "postgresql" else 200, seed=2)
