"""The fixes that docs/run/recovery.md suggests for an incident work."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.advice.advice import Advice, fault
from tests.advice.log_rows import begun, database_moved_away, moved_aside, shorter
from tests.advice.test_waiting import observed
from tests.cli.support import HERE, Place
from tests.cli.test_renamed_host import finished
from tests.crash.support import Workflow, until
from tests.crash.test_lives import begin, let_go, orphaned
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.forged

GIVEN = {"STAGE": "stage-1", "TEXT": "the host is gone", "FILE": "../backup.db"}


def way_out(befell: str) -> str:
    """Return the text of the last column (the fix) for an incident on the recovery page."""
    page = (HERE / "docs/run/recovery.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {befell}")]
    return row.split(" | ")[-1]


def ways(befell: str) -> list[Advice]:
    """Return the commands that the recovery page suggests for an incident, in their order."""
    found = re.findall(r"`(?:wfctl ([^`]*)|(--root-is \w+))`", way_out(befell))
    return [Advice(command or option) for command, option in found]


def taken(one: Advice, root: Path) -> str:
    """Run a suggested command with its placeholders replaced, and return its error or ""."""
    line = " ".join(f"'{GIVEN[w]}'" if w in GIVEN else w for w in one.words)
    return fault(Advice(line), root, {}, person_named=False)


def copied(folder: Path) -> None:
    """Create an attempt that was started in the original of a copied root."""
    observed(begun(folder), "ELSEWHERE")


def behind(folder: Path) -> None:
    """Replace the log with an older copy."""
    shorter(begun(folder), "status")


IN_TURN: dict[str, Callable[[Path], None]] = {
    "You cancelled a stage in one root": copied,
    "The log is older than the files": behind,
    "You moved the root while its job waited in a queue, and": copied,
}


@pytest.mark.parametrize("befell", IN_TURN)
def test_commands_of_a_row_work_one_after_another(tmp_path: Path, befell: str) -> None:
    """The suggested commands of each incident on the page work in the documented order."""
    IN_TURN[befell](tmp_path)
    found = ways(befell)
    assert len(found) > 1
    assert not [why for one in found if (why := taken(one, tmp_path / "root"))]


def test_lost_log_is_imported_or_restored(tmp_path: Path) -> None:
    """Both commands work, and `rehydrate` succeeds afterwards."""
    found = ways("You lost the log")
    for one, lose in zip(found, (moved_aside, database_moved_away), strict=True):
        place = begun(tmp_path / one.words[0])
        lose(place.path)
        assert not taken(one, place.path)
        place.done("rehydrate")


@pytest.mark.parametrize("befell", ["You moved or copied the folder", "The host has a new name"])
def test_moved_root_is_declared_with_an_option(tmp_path: Path, befell: str) -> None:
    """The first writing command in the moved root needs the option, and later ones do not."""
    place = begun(tmp_path / "first")
    if befell == "The host has a new name":
        finished(place, "another boot")
        place.done("reconcile")
    else:
        place = Place(place.path.rename(tmp_path / "moved"))
        assert place.json("note", "hello").code == 6
    (option,) = ways(befell)
    place.done(*option.words, "rehydrate")
    place.done("note", "hello")


def killed(workflow: Workflow) -> None:
    """Do nothing, because monitor and run loop are already dead at this point."""


def one_file(workflow: Workflow) -> None:
    """Delete the submission of the attempt."""
    (attempt,) = workflow.attempts("stage-1")
    (attempt / "submission.json").unlink()


def no_stage(workflow: Workflow) -> None:
    """Delete the stage folder while its job runs."""
    shutil.rmtree(workflow.root / "stage-1")


def anew(workflow: Workflow) -> None:
    """Create the workflow again after its log was deleted."""
    shutil.rmtree(workflow.root / ".wfctl")
    workflow.succeed("init", "plan.json", "--consent", "trust")


def everything(workflow: Workflow) -> None:
    """Kill all processes, including the job."""
    strike(workflow, Victim.EVERYTHING)


def clock_back(workflow: Workflow) -> None:
    """Set the time of the launch file after that of the output, as a clock error would."""
    (launch,) = workflow.root.glob("stage-1/.attempts/*/launch.json")
    let_go(workflow)
    until((workflow.root.parent / "begun").exists)
    os.utime(launch)


AUTOMATIC: dict[str, Callable[[Workflow], None]] = {
    "Somebody killed the monitor": killed,
    "The computer restarted": everything,
    "Somebody deleted the root": anew,
    "Somebody set the clock": clock_back,
    "Somebody ran `git clean -fd`": no_stage,
    "One file of a job": one_file,
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("befell", AUTOMATIC)
def test_automatic_recovery_needs_only_the_documented_calls(
    workflow: Workflow, befell: str
) -> None:
    """The commands with which the page starts, `rehydrate` and `run`, complete the stage."""
    assert "automatically" in way_out(befell)
    begin(workflow, "own", waits=True)
    orphaned(workflow)
    AUTOMATIC[befell](workflow)
    workflow.succeed("rehydrate")
    let_go(workflow)
    workflow.succeed("run")
    workflow.succeed("show", "stage-1")
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("way", ["Restore the folder", "record how the stage ended"])
def test_unreadable_folder_is_restored_or_the_stage_ended(workflow: Workflow, way: str) -> None:
    """wfctl decides nothing while the folder is unreadable, and both suggested fixes work."""
    assert way in way_out("The folder `.attempts`")
    begin(workflow, "own", waits=True)
    orphaned(workflow)
    folder = workflow.root / "stage-1/.attempts"
    saved = folder.rename(workflow.root / "saved")
    folder.touch()
    assert "UNREADABLE" in workflow.succeed("rehydrate")
    let_go(workflow)
    if way == "restore it":
        folder.unlink()
        saved.rename(folder)
        workflow.succeed("run")
    else:
        workflow.succeed("stage", "fail", "stage-1", "--error", "its folder is lost")
        folder.unlink()
        workflow.succeed("stage", "retry", "stage-1", "--fix", "the folder is there")
        workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
