"""After a power loss, the log has all acknowledged events, and wfctl restores the files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.eventstore.powerloss import Loss, build_shim, losses, recorded, restore

STEP = 18


def faults_after(loss: Loss, place: Place) -> list[str]:
    """Restore the disk after a power loss, run a command, and return the problems found."""
    # Leave out the shared memory file, which SQLite never syncs and creates again.
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
    """Record the disk writes of a program; return all problems after losses of power.

    A loss is simulated at every ``step``-th write.
    """
    root, tools = tmp_path / "root", tmp_path / "tools"
    root.mkdir()
    tools.mkdir()
    program = [sys.executable, "-m", "tests.service.life", str(root)]
    operations = recorded(program, root, build_shim(tools))
    place = Place(root)
    found = [faults_after(loss, place) for loss in losses(operations, "screen", step, 3)]
    assert len(found) > 50, "the run was too short to mean anything"
    return [fault for faults in found for fault in faults]


@pytest.mark.long
@pytest.mark.slow
def test_next_command_repairs_files_after_a_power_loss(tmp_path: Path) -> None:
    """The power fails at some writes of the program, with several variants each."""
    assert faults_after_losses(tmp_path, STEP) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_files_are_repaired_after_a_power_loss_at_any_point(tmp_path: Path) -> None:
    """The power fails at every write of the program."""
    assert faults_after_losses(tmp_path, 1) == []
