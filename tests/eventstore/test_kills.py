"""An acknowledged append survives SIGKILL, whole and once."""

import random
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.store import Claim, Expected
from tests.eventstore.scribes import Scribes, scribes
from tests.eventstore.support import Log, note


def scribes_killed(writers: Scribes, seconds: float) -> list[tuple[str, int]]:
    """Kill two writers so long after the first acknowledgement; what they had acknowledged."""
    both = [writers.start() for _ in range(2)]
    for scribe in both:
        scribe.await_word()
    time.sleep(seconds)
    said = b"".join(scribe.kill() for scribe in both)
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


def kill_rounds(log: Log, folder: Path, rounds: int, seed: int) -> None:
    """One log through so many rounds, the end of it looked at after each, the whole at last."""
    chance = random.Random(seed)
    acknowledged: list[tuple[str, int]] = []
    with scribes(log, folder) as writers:
        for _ in range(rounds):
            acknowledged += scribes_killed(writers, chance.uniform(0, 0.08))
            check_there(log, acknowledged[-50:])
    check_there(log, acknowledged)
    check_whole(log)
    assert len(acknowledged) >= rounds


@pytest.mark.slow
@pytest.mark.few(2)
def test_killed_writers_lose_nothing(log: Log, tmp_path: Path) -> None:
    """A few rounds of two writers under load."""
    kill_rounds(log, tmp_path, rounds=5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_kills_lose_nothing(log: Log, tmp_path: Path) -> None:
    """The same for two hundred rounds."""
    kill_rounds(log, tmp_path, rounds=200, seed=2)
