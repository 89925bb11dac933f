"""Agents write their files while wfctl runs, and both are killed at random times."""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.machines import writers
from tests.machines.place import MachinePlace
from tests.machines.test_crashes import age_lock_of, killed_command
from tests.rounds import rounds

#: Number of processes that one test kills.
DEATHS = 20
#: More disk writes than any of these commands makes.
MOST = 40


def forked(work: Callable[[Path], None], root: Path) -> int:
    """Run an agent in a child process, and return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work(root)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child process must exit
            os._exit(1)
    return child


def ended(child: int, *, kill: bool) -> int:
    """Wait for the end of a process, and return its exit status. With ``kill``, kill it first."""
    if kill:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def begun(place: MachinePlace) -> None:
    """Create a track, and a dotagent machine with tasks in its implementation phase."""
    place.init("auth", "conductor")
    place.init("wf-1", "dotagent")
    for report, approval, phase in (
        ("demand", "requirements", "ARCHITECTURE"),
        ("final_design", "architecture", "IMPLEMENTATION"),
    ):
        place.done("append", "wf-1", "phase.started")
        place.write(f"memory/reports/{report}.json", {"a": report})
        place.done("approve", "wf-1", approval)
        place.done("transition", "wf-1", phase)
    for number in range(1, writers.TASKS + 1):
        place.done("task", "wf-1", f"task-{number:03}", "--status", "pending")


def looked(place: MachinePlace, machine: str) -> None:
    """Record a checkpoint, which repairs the files even if the machine has ended and refuses it."""
    assert place.call("checkpoint", machine, "--summary", "went on").code in (0, 5)


def struck(place: MachinePlace, dice: random.Random) -> int:
    """Run an agent and a command at the same time, kill both, and return the number of deaths."""
    work = dice.choice([writers.orchestrate, writers.execute, writers.execute, writers.lie])
    machine = dice.choice(["auth", "wf-1"])
    agent = forked(work, place.path)
    words = ["checkpoint", machine, "--summary", f"s{dice.random()}"]
    deaths = int(killed_command(place, dice.randrange(1, MOST), *words))
    time.sleep(dice.random() * 0.05)
    deaths += os.WIFSIGNALED(ended(agent, kill=True))
    age_lock_of(place, str(writers.TRACK / ".metadata.lock"))
    return deaths


@pytest.mark.parametrize("seed", rounds(range(10), 1))
def test_kills_lose_no_data_and_pass_no_phase(place: MachinePlace, seed: int) -> None:
    """The files have all values that agents wrote, and each passed phase has its evidence."""
    dice = random.Random(seed)
    begun(place)
    deaths = 0
    while deaths < DEATHS:
        deaths += struck(place, dice)
    for machine in ("auth", "wf-1"):
        looked(place, machine)
    for work in (writers.orchestrate, writers.execute):
        assert ended(forked(work, place.path), kill=False) == 0
    for machine in ("auth", "wf-1"):
        looked(place, machine)
    whole = (place.path / writers.TRACK / "metadata.json").read_text("utf-8")
    whole += (place.path / writers.STATE / "execution.json").read_text("utf-8")
    written = (place.path / "written.txt").read_text("utf-8").split()
    assert written
    assert [token for token in written if token not in whole] == []
    assert {t["status"] for t in place.json("memory/state/execution.json")["tasks"]} == {"verified"}
    assert place.done("list")[0]["phase"] == "COMPLETE"
    # The agent that claims REFLECTION wrote no output, so the machine must not enter this phase.
    assert place.json("memory/state/phase.json")["current_phase"] in (
        *("IMPLEMENTATION", "VERIFICATION"),
    )
    passed = None
    for event in place.events("auth"):
        name = event["data"].get("name") or event["type"]
        if name == "machine.transitioned":
            assert passed == "step.passed"
        if name.startswith(("step.", "machine.transitioned")):
            passed = name
    assert place.wfctl("replay", "--check").data["findings"] == []
    assert place.wfctl("fsck").data["findings"] == []
