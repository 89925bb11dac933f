"""Output about decisions: success criteria, pending decisions, and effects of pending changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, write_plan

CRITERIA = "the plateau is flat"


def begun(folder: Path, consent: str = "trust") -> Place:
    """Return a workflow of a stage that a person must judge, and a dependent stage."""
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
    """Run the first stage until only the judgement of a person is missing."""
    place.done("dispatch", "stage-1", "--sync")


@pytest.mark.slow
def test_completion_shows_unchecked_criteria(tmp_path: Path) -> None:
    """The output says that no check tested the criteria, and the report names the judge."""
    place = begun(tmp_path)
    compute(place)
    words = ("stage", "complete", "stage-1", "--evidence", "I saw the plot")
    found = place.done(*words, "--dry-run")
    said = place.call(*words)
    assert f"criteria: {CRITERIA}" in said.out
    assert "checked: no check tested the criteria; " in said.out
    assert found["criteria"] == CRITERIA
    report = place.call("report").out
    assert "No decision of a person was needed" not in report
    assert "- stage-1 judged by " in report


@pytest.mark.slow
def test_completion_shows_the_check_of_the_criteria(tmp_path: Path) -> None:
    """The output shows the criteria and the last line of the check."""
    place = begun(tmp_path)
    verify = "--set=parameters.verify=echo slope 0.01"
    place.done("amend", "propose", "--stage", "stage-1", verify, "--reason", "checked by itself")
    place.done("amend", "approve", "amend-1")
    compute(place)
    said = place.call("stage", "complete", "stage-1").out
    assert f"criteria: {CRITERIA}" in said
    assert "checked: by parameters.verify, exit 0: slope 0.01" in said


def test_report_with_a_pending_decision_names_it(tmp_path: Path) -> None:
    """The report does not claim that no decision of a person was needed."""
    place = begun(tmp_path, "terminal")
    page = tmp_path / "report.html"
    assert place.call("export", "report", str(page)).code == 0
    for report in (place.call("report").out, page.read_text("utf-8")):
        assert "the plan waits for a person" in report
        assert "No decision of a person was needed" not in report
        assert "Nothing was decided yet" in report
    assert "ready           waits for the plan" in place.call("status").out


def test_status_of_a_stage_names_a_pending_amendment(tmp_path: Path) -> None:
    """`why` and `status` name the amendment until a person rejects it."""
    place = begun(tmp_path)
    place.done("amend", "propose", "--stage", "stage-1", "--set=parameters.n=2", "--reason", "x")
    told = "waits for a decision: amend-1 would change it"
    assert told in place.call("status").out
    assert told in place.call("why", "stage-1").out
    place.done("amend", "reject", "amend-1", "--reason", "no")
    assert told not in place.call("status").out + place.call("why", "stage-1").out


@pytest.mark.long
@pytest.mark.slow
def test_why_names_the_current_completion(tmp_path: Path) -> None:
    """While a dependency runs again, `why` says so and does not show the old completion."""
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
