"""What is said of decisions: by what a stage counts, what waits, and what a pending change does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, write_plan

CRITERIA = "the plateau is flat"


def begun(folder: Path, consent: str = "trust") -> Place:
    """Return a workflow of a stage that somebody must judge, and one that rests on it."""
    place = Place(folder / "root")
    place.path.mkdir()
    first = {
        "id": "stage-1",
        "name": "Fit",
        "outputs": ["stage-1/out.txt"],
        "success_criteria": CRITERIA,
        "parameters": {"command": "echo 1 > out.txt"},
    }
    after = {
        "id": "stage-2",
        "name": "Use",
        "depends_on": ["stage-1"],
        "parameters": {"command": "true"},
    }
    plan = write_plan(folder, {"workflow_id": "w", "stages": [first, after]})
    assert place.call("init", str(plan), "--consent", consent).code == 0
    return place


def compute(place: Place) -> None:
    """Compute the first stage to where somebody judges it."""
    place.done("dispatch", "stage-1", "--sync")


@pytest.mark.slow
def test_a_completion_says_its_criteria_and_that_nothing_checked_them(tmp_path: Path) -> None:
    """In words and as data; the report tells whose word it was."""
    place = begun(tmp_path)
    compute(place)
    words = ("stage", "complete", "stage-1", "--evidence", "I saw the plot")
    found = place.done(*words, "--dry-run")
    said = place.call(*words)
    assert f"criteria: {CRITERIA}" in said.out
    assert "checked: nothing checked them: they hold on the word of " in said.out
    assert found["criteria"] == CRITERIA
    report = place.call("report").out
    assert "Nothing was for a person to decide" not in report
    assert "- stage-1 judged by " in report


@pytest.mark.slow
def test_a_completion_that_a_command_checked_says_so(tmp_path: Path) -> None:
    """The check's own words stand beside the criteria."""
    place = begun(tmp_path)
    verify = "--set=parameters.verify=echo slope 0.01"
    place.done("amend", "propose", "--stage", "stage-1", verify, "--reason", "checked by itself")
    place.done("amend", "approve", "amend-1")
    compute(place)
    said = place.call("stage", "complete", "stage-1").out
    assert f"criteria: {CRITERIA}" in said
    assert "checked: by parameters.verify, exit 0: slope 0.01" in said


def test_what_waits_for_a_person_is_no_nothing(tmp_path: Path) -> None:
    """A report has both sentences of nothing that waits."""
    place = begun(tmp_path, "terminal")
    page = tmp_path / "report.html"
    assert place.call("export", "report", str(page)).code == 0
    for report in (place.call("report").out, page.read_text("utf-8")):
        assert "the plan waits for a person" in report
        assert "Nothing was for a person to decide" not in report
        assert "Nothing was decided yet" in report
    assert "ready           waits for the plan" in place.call("status").out


def test_a_ready_stage_on_which_a_pending_amendment_acts_is_told_with_it(tmp_path: Path) -> None:
    """By `why` and by `status`; one that it does not reach is ready as it is."""
    place = begun(tmp_path)
    place.done("amend", "propose", "--stage", "stage-1", "--set=parameters.n=2", "--reason", "x")
    told = "waits for a decision: amend-1 would act on it"
    assert told in place.call("status").out
    assert told in place.call("why", "stage-1").out
    place.done("amend", "reject", "amend-1", "--reason", "no")
    assert told not in place.call("status").out + place.call("why", "stage-1").out


@pytest.mark.slow
def test_why_cites_the_completion_that_counts_now(tmp_path: Path) -> None:
    """A stage stays ready while what it depends on runs again; it says so, and cites no old one."""
    place = begun(tmp_path)
    compute(place)
    place.done("stage", "complete", "stage-1", "--evidence", "first look")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage=stage-1", "--reason", "x")
    place.done("amend", "approve", "amend-1")
    said = place.call("why", "stage-2").out
    assert "it waits for stage-1, which is ready" in said
    assert "first look" not in said
    compute(place)
    place.done("stage", "complete", "stage-1", "--evidence", "second look")
    for _ in range(2):
        said = place.call("why", "stage-2").out
        assert "second look" in said
        assert "first look" not in said
        place.json("dispatch", "stage-2", "--sync")
