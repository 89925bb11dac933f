"""Agents that write their files beside wfctl, and both are killed at any moment."""

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

#: Deaths in one round.
DEATHS = 20
#: No command takes as many steps on the disk.
MOST = 40


def forked(work: Callable[[Path], None], root: Path) -> int:
    """Let an agent work in a process of its own; return its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            work(root)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child of a test must never come back
            os._exit(1)
    return child


def ended(child: int, *, kill: bool) -> int:
    """Wait for a process, killed at once or not; return how it ended."""
    if kill:
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def begun(place: MachinePlace) -> None:
    """Begin a track, and phased development at its implementation, with tasks."""
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
    """Let wfctl write once more; one that has ended is mended all the same."""
    assert place.call("checkpoint", machine, "--summary", "went on").code in (0, 5)


def struck(place: MachinePlace, dice: random.Random) -> int:
    """Let an agent and a command of wfctl work beside each other, and kill them; count deaths."""
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
def test_nothing_of_theirs_is_lost_and_no_phase_is_passed_without_evidence(
    place: MachinePlace, seed: int
) -> None:
    """Given kills of both, then all that agents wrote is there, and nothing that was not done."""
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
    # Anyone who lied had no output to show.
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
