"""An acknowledged append survives SIGKILL completely and is recorded once."""

import random
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.store import Claim, Expected
from tests.eventstore.scribes import Scribes, scribes
from tests.eventstore.support import Log, note


def scribes_killed(writers: Scribes, seconds: float) -> list[tuple[str, int]]:
    """Start two writers, kill them later, and return the acknowledged commands."""
    both = [writers.start() for _ in range(2)]
    for scribe in both:
        scribe.await_word()
    time.sleep(seconds)
    said = b"".join(scribe.kill() for scribe in both)
    lines = (line.split() for line in said.decode().splitlines(keepends=True) if line[-1] == "\n")
    return [(name, int(version)) for name, version in lines]


def check_there(log: Log, acknowledged: list[tuple[str, int]]) -> None:
    """Check that each acknowledged command is recorded: a repetition gets the first answer."""
    with closing(log.opened()) as store:
        for name, version in acknowledged:
            again = store.append("w", [note()], expected=Expected.ANY, claim=Claim(name, name))
            assert again.repeated
            assert again.events[-1].version == version


def check_whole(log: Log) -> None:
    """Check that the log has no gap and that each command is complete and recorded once."""
    with closing(log.opened()) as store:
        assert list(store.verify()) == []
        events = list(store.read("w"))
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    commands: dict[str, int] = {}
    for event in events:
        commands[event.command_id] = commands.get(event.command_id, 0) + 1
    assert all(size == int(name.split("-")[1]) % 5 + 1 for name, size in commands.items())


def kill_rounds(log: Log, folder: Path, rounds: int, seed: int) -> None:
    """Start and kill writers of one log in several rounds.

    After each round, check the last events. After all rounds, check the whole log.
    """
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
@pytest.mark.long
def test_killed_writers_lose_no_event(log: Log, tmp_path: Path) -> None:
    """After a few rounds of kills, each acknowledged event is recorded once."""
    kill_rounds(log, tmp_path, rounds=5, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_hundred_kills_lose_no_event(log: Log, tmp_path: Path) -> None:
    """After two hundred rounds of kills, each acknowledged event is recorded once."""
    kill_rounds(log, tmp_path, rounds=200, seed=2)
