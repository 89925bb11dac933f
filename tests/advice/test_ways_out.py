"""The way out that docs/run/recovery.md names of what befell a workflow is done as it stands."""

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
    """Return the last column of a row of the page."""
    page = (HERE / "docs/run/recovery.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {befell}")]
    return row.split(" | ")[-1]


def ways(befell: str) -> list[Advice]:
    """Return the commands of a row, in their order."""
    found = re.findall(r"`(?:wfctl ([^`]*)|(--root-is \w+))`", way_out(befell))
    return [Advice(command or option) for command, option in found]


def taken(one: Advice, root: Path) -> str:
    """Take one way, with words in place of those in capitals."""
    line = " ".join(f"'{GIVEN[w]}'" if w in GIVEN else w for w in one.words)
    return fault(Advice(line), root, {}, person_named=False)


def copied(folder: Path) -> None:
    """Have an attempt in a copy that the original began."""
    observed(begun(folder), "ELSEWHERE")


def behind(folder: Path) -> None:
    """Put an older copy of the log in its place."""
    shorter(begun(folder), "status")


IN_TURN: dict[str, Callable[[Path], None]] = {
    "a stage cancelled in one root": copied,
    "the log ends before what the files show": behind,
    "the same, and the host was renamed too": copied,
}


@pytest.mark.parametrize("befell", IN_TURN)
def test_the_commands_of_a_row_are_taken_in_turn(tmp_path: Path, befell: str) -> None:
    """Each as it stands, with words for those in capitals."""
    IN_TURN[befell](tmp_path)
    found = ways(befell)
    assert len(found) > 1
    assert not [why for one in found if (why := taken(one, tmp_path / "root"))]


def test_a_lost_log_is_imported_or_restored(tmp_path: Path) -> None:
    """Either way leads on to a look."""
    found = ways("the log lost")
    for one, lose in zip(found, (moved_aside, database_moved_away), strict=True):
        place = begun(tmp_path / one.words[0])
        lose(place.path)
        assert not taken(one, place.path)
        place.done("rehydrate")


@pytest.mark.parametrize("befell", ["the root moved or copied", "the host renamed"])
def test_a_root_that_is_elsewhere_is_said_to_be(tmp_path: Path, befell: str) -> None:
    """The option is given once, with any command that writes."""
    place = begun(tmp_path / "first")
    if befell == "the host renamed":
        finished(place, "another boot")
        place.done("reconcile")
    else:
        place = Place(place.path.rename(tmp_path / "moved"))
        assert place.json("note", "hello").code == 6
    (option,) = ways(befell)
    place.done(*option.words, "rehydrate")
    place.done("note", "hello")


def killed(workflow: Workflow) -> None:
    """Kill all but the job."""


def one_file(workflow: Workflow) -> None:
    """Delete the submission of the attempt."""
    (attempt,) = workflow.attempts("stage-1")
    (attempt / "submission.json").unlink()


def no_stage(workflow: Workflow) -> None:
    """Delete the stage's folder under its job."""
    shutil.rmtree(workflow.root / "stage-1")


def anew(workflow: Workflow) -> None:
    """Begin anew where the log was deleted."""
    shutil.rmtree(workflow.root / ".wfctl")
    workflow.succeed("init", "plan.json", "--consent", "trust")


def everything(workflow: Workflow) -> None:
    """Kill the job too."""
    strike(workflow, Victim.EVERYTHING)


def clock_back(workflow: Workflow) -> None:
    """Let the launch be younger than what comes of it."""
    (launch,) = workflow.root.glob("stage-1/.attempts/*/launch.json")
    let_go(workflow)
    until((workflow.root.parent / "begun").exists)
    os.utime(launch)


AUTOMATIC: dict[str, Callable[[Workflow], None]] = {
    "monitor, session or tmux server killed": killed,
    "everything killed, the host restarted": everything,
    "the root deleted, or `.wfctl` alone": anew,
    "the clock set back": clock_back,
    "`git clean -fd`, `git stash -u`": no_stage,
    "one file of an attempt damaged": one_file,
}


@pytest.mark.slow
@pytest.mark.parametrize("befell", AUTOMATIC)
def test_what_is_automatic_needs_the_three_calls_alone(workflow: Workflow, befell: str) -> None:
    """The page begins with them; the third is for what does not go on."""
    assert way_out(befell).startswith("automatic")
    begin(workflow, "own", waits=True)
    orphaned(workflow)
    AUTOMATIC[befell](workflow)
    workflow.succeed("rehydrate")
    let_go(workflow)
    workflow.succeed("run")
    workflow.succeed("show", "stage-1")
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["restore it", "say how the stage ended"])
def test_a_folder_that_cannot_be_read_is_restored_or_the_stage_ended(
    workflow: Workflow, way: str
) -> None:
    """Nothing is concluded until then, and both ways lead on."""
    assert way in way_out("the folder `.attempts`")
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
