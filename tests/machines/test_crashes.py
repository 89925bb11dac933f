"""A command killed at any of its steps on the disk: what it recorded stays, the rest is mended."""

from __future__ import annotations

import os
import time
import warnings

import pytest

from tests.machines import victims
from tests.machines.place import MachinePlace
from tests.rounds import first

LOCK = "conductor/tracks/one/.metadata.lock"
#: Type → a command that changes every file of the machine.
COMMANDS = {
    "feature": ("update", "artifacts.design=d.md"),
    "dotagent": ("cancel",),
    "conductor": ("append", "step.started"),
}
#: No command takes as many steps.
MOST = 60


def killed(place: MachinePlace, number: int, *words: str) -> bool:
    """Carry out a command on the machine ``one``, killed as `killed_command` does."""
    return killed_command(place, number, words[0], "one", *words[1:])


def killed_command(place: MachinePlace, number: int, *words: str) -> bool:
    """Carry out a command in a child that dies before a step; say whether it died."""
    from cli.main import run

    with warnings.catch_warnings():
        # Newer Pythons warn of forks beside threads; this child calls nothing that a thread holds.
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
    """Let a lock that a dead holder left be as old as it must be to be broken."""
    age_lock_of(place, LOCK)


def age_lock_of(place: MachinePlace, lock: str) -> None:
    """Let a lock be that of a holder who died long ago."""
    if (place.path / lock).exists():
        old = time.time() - 60
        os.utime(place.path / lock, (old, old))


@pytest.mark.slow
@pytest.mark.parametrize("type_", first(list(COMMANDS)))
def test_a_command_killed_before_any_step_is_mended_by_the_next(
    place: MachinePlace, type_: str
) -> None:
    """Given a kill at each step, when the next command comes, then log and files agree."""
    deaths = 0
    for number in range(1, MOST):
        root = place.path / str(number)
        root.mkdir()
        here = MachinePlace(root)
        here.init("one", type_)
        died = killed(here, number, *COMMANDS[type_])
        deaths += died
        age_lock(here)
        # It is carried out, or refused where the one before ended the machine.
        assert here.call("checkpoint", "one", "--summary", "went on").code in (0, 5)
        assert here.wfctl("replay", "--check").data["findings"] == []
        assert here.wfctl("fsck").data["findings"] == []
        assert "drift.detected" not in here.types("one")
        if not died:
            break
    assert 3 < deaths < MOST - 2
