"""After a loss of power the log holds what was acknowledged, and the files show it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.eventstore.powerloss import Loss, build_shim, losses, recorded, restore

STEP = 18


def faults_after(loss: Loss, place: Place) -> list[str]:
    """Say what is wrong once the machine is up again and one more command was given."""
    # Shared memory is not synced at all; SQLite makes it anew.
    restore({n: c for n, c in loss.files.items() if not n.endswith("-shm")}, place.path)
    acknowledged = int((loss.said.split() or [b"0"])[-1])
    answer = place.call("note", "after the loss")
    if answer.code != 0 and acknowledged:
        return [f"point {loss.point}: {answer.err or answer.out}"]
    return _faults(loss, place, acknowledged) if answer.code == 0 else []


def _faults(loss: Loss, place: Place, acknowledged: int) -> list[str]:
    notes = place.notes()
    wanted = max(acknowledged - 2, 0)
    found = [
        f"{line[0]} ended with {answer.code}: {answer.out}"
        for line in (["replay", "--check"], ["fsck"])
        if (answer := place.call(*line)).code != 0
    ]
    if notes[:wanted] != [f"note {n} {'x' * 300}" for n in range(wanted)]:
        found.append(f"expected {wanted} notes, found {len(notes)}")
    json.loads((place.path / "workflow-state.json").read_bytes())
    if any(note not in place.log() for note in notes):
        found.append("progress.log lacks a note")
    return [f"point {loss.point}: {fault}" for fault in found]


def faults_after_losses(tmp_path: Path, step: int) -> list[str]:
    """Record a life, and return everything wrong after a loss at every ``step``-th point."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    root.mkdir()
    tools.mkdir()
    program = [sys.executable, "-m", "tests.service.life", str(root)]
    operations = recorded(program, root, build_shim(tools))
    place = Place(root)
    found = [faults_after(loss, place) for loss in losses(operations, "screen", step, 3)]
    assert len(found) > 50, "the run was too short to mean anything"
    return [fault for faults in found for fault in faults]


@pytest.mark.slow
def test_a_loss_of_power_leaves_files_that_the_next_command_makes_whole(tmp_path: Path) -> None:
    """At some points of the run, in four variants each."""
    assert faults_after_losses(tmp_path, STEP) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_loss_of_power_at_any_point_leaves_files_that_are_made_whole(tmp_path: Path) -> None:
    """At every point of the run."""
    assert faults_after_losses(tmp_path, 1) == []
