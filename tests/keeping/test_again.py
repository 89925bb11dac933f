"""Rerun of a completed stage and its dependents, also after the import of an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amendments.support import make_keys
from tests.cli.support import Place, agree, call, write_plan
from tests.cli.terminal import agreed_to
from tests.exports.support import handed_over, taken_over
from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow

STAGES = [
    stage(1, "echo 1 > a.txt", outputs=["stage-1/a.txt"]),
    stage(2, "echo 2 > b.txt", depends_on=["stage-1"], outputs=["stage-2/b.txt"]),
    stage(3, "echo 3 > c.txt", outputs=["stage-3/c.txt"]),
    stage(4, "echo 4 > d.txt", depends_on=["stage-3"], outputs=["stage-4/d.txt"]),
]
MINE = ("--root-is", "copied", "rerun", "--from", "stage-1")


def ran(folder: Path, consent: str) -> Place:
    """Return a completed workflow of two pairs of stages."""
    place = made(folder, *STAGES, consent=consent)
    place.done("run")
    return place


@pytest.mark.long
def test_rerun_from_a_stage_includes_its_dependents(tmp_path: Path) -> None:
    """`wfctl rerun --from STAGE` repeats the stage and its dependents, and no other stages."""
    place = ran(tmp_path, "trust")
    lines = {
        ("--from", "stage-1"): ["stage-1", "stage-2"],
        ("stage-1", "--from-here"): ["stage-1", "stage-2"],
        ("--from", "stage-1", "--from", "stage-3"): ["stage-1", "stage-2", "stage-3", "stage-4"],
        ("stage-4", "--from", "stage-1"): ["stage-1", "stage-2", "stage-4"],
        ("stage-3", "--from", "stage-1", "--from-here"): [f"stage-{n}" for n in range(1, 5)],
    }
    for line, expected in lines.items():
        shown = place.done("rerun", *line, "--reason", "unsure", "--dry-run")
        assert shown["impact"]["invalidated"] == expected
    refused = {(): 2, ("--from", "stage-9"): 3, ("--from", "stage-1"): 2}
    for line, code in refused.items():
        assert place.json("rerun", *line).code == code


@pytest.mark.long
@pytest.mark.parametrize("consent", ["terminal", "trust"])
def test_rerun_of_an_imported_archive_needs_no_reason(tmp_path: Path, consent: str) -> None:
    """wfctl uses the archive's name as the reason; the rerun needs approval like any other."""
    there = taken_over(handed_over(ran(tmp_path, consent), tmp_path), tmp_path / "there")
    if consent == "terminal":
        answer = there.json(*MINE)
        assert (answer.code, answer.error["code"]) == (6, "needs_consent")
        assert there.done("status")["pending_amendments"] == ["amend-1"]
        agreed_to(there.path, "amend", "approve", "amend-1")
    else:
        there.done(*MINE)
    record = there.done("amend", "list")[-1]
    assert record["reason"] == "computed again from archive.zip"
    assert (record["status"], record["also"]) == ("approved", ["stage-2"])
    again = [one["status"] for one in there.done("status")["stages"]]
    assert again == ["ready", "invalidated", "completed", "completed"]


@pytest.mark.long
def test_rerun_of_an_archive_is_approved_by_an_allowed_key(tmp_path: Path) -> None:
    """Under the consent policy `signature`, wfctl refuses an approval with an unknown key."""
    keys = make_keys(tmp_path)
    here = Place(tmp_path / "here")
    here.path.mkdir()
    plan = write_plan(tmp_path, {"workflow_id": "w", "purpose": "See.", "stages": STAGES})
    here.done("init", str(plan), "--consent", "signature", "--signers", str(keys.signers))
    agree(here.path, keys.allowed)
    here.done("run")
    there = taken_over(handed_over(here, tmp_path), tmp_path / "there")
    assert there.json(*MINE, "--key", str(keys.stranger)).code == 6
    there.done("amend", "approve", "amend-1", "--key", str(keys.allowed))
    record = there.done("amend", "list")[-1]
    assert (record["status"], record["approved_by"]) == ("approved", "pi@example.org")


def test_archive_name_that_is_not_a_string_is_refused(tmp_path: Path) -> None:
    """With `archive = 3` in the configuration, wfctl exits with 2 and names the key."""
    place = made(tmp_path, STAGES[0], consent="trust")
    config = place.path / ".wfctl/config.toml"
    config.write_text(f"{config.read_text()}archive = 3\n")
    answer = call("--root", str(place.path), "status")
    assert (answer.code, "archive" in answer.err) == (2, True)
