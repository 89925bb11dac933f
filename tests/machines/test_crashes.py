"""Commands killed at any disk write: recorded events stay, and files are repaired."""

from __future__ import annotations

import os
import time
import warnings

import pytest

from tests.machines import victims
from tests.machines.place import MachinePlace
from tests.rounds import first

LOCK = "conductor/tracks/one/.metadata.lock"
#: Type of a machine, and a command that changes all files of this type.
COMMANDS = {
    "feature": ("update", "artifacts.design=d.md"),
    "dotagent": ("cancel",),
    "conductor": ("append", "step.started"),
}
#: An upper limit for the number of disk writes of a command.
MOST = 60


def killed(place: MachinePlace, number: int, *words: str) -> bool:
    """Run a command on the machine ``one``, killed as in `killed_command`."""
    return killed_command(place, number, words[0], "one", *words[1:])


def killed_command(place: MachinePlace, number: int, *words: str) -> bool:
    """Run a command in a child that dies before a disk write; return whether it died."""
    from cli.main import run

    with warnings.catch_warnings():
        # Newer Pythons warn about forks with threads; the child uses nothing that threads hold.
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
    """Make a leftover lock so old that wfctl breaks it."""
    age_lock_of(place, LOCK)


def age_lock_of(place: MachinePlace, lock: str) -> None:
    """Set the time of a lock to one minute ago."""
    if (place.path / lock).exists():
        old = time.time() - 60
        os.utime(place.path / lock, (old, old))


@pytest.mark.slow
@pytest.mark.parametrize("type_", first(list(COMMANDS)))
def test_killed_command_is_repaired_by_the_next_command(place: MachinePlace, type_: str) -> None:
    """After a kill before any disk write, the log and the files agree again."""
    deaths = 0
    for number in range(1, MOST):
        root = place.path / str(number)
        root.mkdir()
        here = MachinePlace(root)
        here.init("one", type_)
        died = killed(here, number, *COMMANDS[type_])
        deaths += died
        age_lock(here)
        # The command succeeds, or it is refused because the killed command ended the machine.
        assert here.call("checkpoint", "one", "--summary", "went on").code in (0, 5)
        assert here.wfctl("replay", "--check").data["findings"] == []
        assert here.wfctl("fsck").data["findings"] == []
        assert "drift.detected" not in here.types("one")
        if not died:
            break
    assert 3 < deaths < MOST - 2
