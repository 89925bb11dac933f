"""After a command is killed before a disk write, the next command repairs the files."""

from __future__ import annotations

import os
import time
import warnings

import pytest

from tests.machines import victims
from tests.machines.place import MachinePlace
from tests.rounds import first

LOCK = "conductor/tracks/one/.metadata.lock"
#: For each type of machine: a command that writes all files of this type.
COMMANDS = {
    "feature": ("update", "artifacts.design=d.md"),
    "dotagent": ("cancel",),
    "conductor": ("append", "step.started"),
}
#: More disk writes than any of these commands makes.
MOST = 60


def killed(place: MachinePlace, number: int, *words: str) -> bool:
    """Run a command on the machine ``one`` that is killed before a disk write.

    Return whether the command was killed.
    """
    return killed_command(place, number, words[0], "one", *words[1:])


def killed_command(place: MachinePlace, number: int, *words: str) -> bool:
    """Run a command in a child process that is killed before its given disk write.

    Return False if the command made fewer disk writes and ended normally.
    """
    from cli.main import run

    with warnings.catch_warnings():
        # Newer Python versions warn about a fork in a process with threads. This is safe here,
        # because the child uses no lock of another thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        victims.arm(number)
        os._exit(run(["--root", str(place.path), "machine", *words]))
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def age_lock(place: MachinePlace) -> None:
    """Make the lock of the track one minute old, so that wfctl removes it."""
    age_lock_of(place, LOCK)


def age_lock_of(place: MachinePlace, lock: str) -> None:
    """Make the given lock one minute old, if it exists."""
    if (place.path / lock).exists():
        old = time.time() - 60
        os.utime(place.path / lock, (old, old))


@pytest.mark.slow
@pytest.mark.parametrize("type_", first(list(COMMANDS)))
def test_killed_command_is_repaired_by_the_next_command(place: MachinePlace, type_: str) -> None:
    """After a kill before each disk write, the next command makes the log and the files agree."""
    deaths = 0
    for number in range(1, MOST):
        root = place.path / str(number)
        root.mkdir()
        here = MachinePlace(root)
        here.init("one", type_)
        died = killed(here, number, *COMMANDS[type_])
        deaths += died
        age_lock(here)
        # Exit code 5 means that the killed command had already cancelled the machine.
        assert here.call("checkpoint", "one", "--summary", "went on").code in (0, 5)
        assert here.wfctl("replay", "--check").data["findings"] == []
        assert here.wfctl("fsck").data["findings"] == []
        assert "drift.detected" not in here.types("one")
        if not died:
            break
    assert 3 < deaths < MOST - 2
