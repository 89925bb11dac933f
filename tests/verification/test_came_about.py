"""How a result came about, told to somebody who looks afterwards: by status, report and page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.support import document, imported, stage, write_files
from tests.cli.support import Place
from tests.exports.support import text_of
from tests.pages.support import served
from tests.reconciler.support import until
from tests.sweeps.support import begun, sweep

STAGE: dict[str, Any] = {
    "id": "stage-1",
    "name": "Sample",
    "outputs": ["stage-1/out.txt"],
    "parameters": {"command": "bash sample.sh", "forward_files": ["sample.sh"]},
}
FAILS, CONSTANT = "exit 3\n", "echo 0.97 > out.txt\n"


def failed(folder: Path) -> Place:
    """Return a workflow whose only stage failed."""
    place = begun(folder, STAGE)
    script(place).parent.mkdir()
    script(place).write_text(FAILS)
    assert place.json("run").code == 6
    return place


def script(place: Place) -> Path:
    """Return the script that the stage runs."""
    return place.path / "stage-1/sample.sh"


def told(place: Place) -> list[tuple[str, str]]:
    """Return what the account has beside what waits for a person; the report must have it too.

    What a look at the files finds stands on the page that is served; an export is of the log alone.
    """
    found = [one for one in place.done("status")["account"] if not one["person"]]
    report = place.call("report").out
    page = text_of(place, "report")
    if any(one["text"].replace("'", "&#39;") not in page for one in found):
        with served(place.path.parent, "--root", str(place.path)) as pages:
            page = pages.get(f"/w/{place.done('status')['workflow']}/").text
    for one in found:
        assert one["text"].replace("'", "&#39;") in page, page
        assert one["text"] in " ".join(report.split()).replace("\\", "")
    return [(one["kind"], one["text"]) for one in found]


@pytest.mark.slow
def test_a_script_that_was_rewritten_between_a_failure_and_a_pass_is_told(tmp_path: Path) -> None:
    """Here by one that returns constants."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    place.done("stage", "retry", "stage-1", "--fix", "It samples longer.")
    place.done("run")
    expected = "stage-1/sample.sh was another file in att-0001, which failed"
    assert ("script", expected) in told(place)


@pytest.mark.slow
def test_a_script_that_a_person_agreed_to_in_between_is_not(tmp_path: Path) -> None:
    """The approval holds its digest."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    pinning = ["--set", "session_config.pin=scripts", "--reason", "The old one had a fault."]
    place.done("amend", "propose", *pinning)
    place.done("amend", "approve", "amend-1")
    place.done("stage", "retry", "stage-1", "--fix", "The fault is mended.")
    place.done("run")
    assert "script" not in dict(told(place))


@pytest.mark.slow
def test_a_script_that_a_person_agreed_to_before_another_approval_is_not(tmp_path: Path) -> None:
    """Each approval between the two attempts counts, and not the newest alone."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    place.done("amend", "propose", "--set", "workflow_plan=a.md", "--reason", "It had a fault.")
    place.done("amend", "approve", "amend-1")
    place.done("stage", "retry", "stage-1", "--fix", "The fault is mended.")
    place.done("run")
    script(place).write_text("echo 0.98 > out.txt\n")
    place.done("amend", "propose", "--set", "workflow_plan=b.md", "--reason", "Time.")
    place.done("amend", "approve", "amend-2")
    assert "script" not in dict(told(place))


@pytest.mark.slow
def test_another_stages_script_that_a_person_agreed_to_in_between_is_no_module(
    tmp_path: Path,
) -> None:
    """It lies where a check would import from, and the approval holds its digest."""
    first = {**STAGE, "parameters": {**STAGE["parameters"], "verify": "test -s stage-1/out.txt"}}
    second = {"id": "stage-2", "name": "Plot", "parameters": {"command": "python3 ../plot.py"}}
    place = begun(tmp_path, first, {**second, "depends_on": ["stage-1"], "inputs": ["plot.py"]})
    (place.path / "plot.py").write_text("print(1)\n")
    script(place).parent.mkdir()
    script(place).write_text(f"test -e {place.path}/go && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "plot.py").write_text("print(2)\n")
    change = ["--set", "parameters.n=2", "--reason", "It plots another thing."]
    place.done("amend", "propose", "--stage", "stage-2", *change)
    place.done("amend", "approve", "amend-1")
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    place.done("run")
    assert told(place) == []


@pytest.mark.slow
def test_an_interpreter_that_changed_between_a_failure_and_a_pass_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An assertion that is switched off passes."""
    place = begun(tmp_path, STAGE)
    script(place).parent.mkdir()
    script(place).write_text("python3 -c 'assert 0' && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    said = "PYTHONOPTIMIZE=1 was not set in att-0001, which failed"
    assert ("environment", said) in told(place)


@pytest.mark.slow
def test_a_result_that_was_rewritten_after_its_job_is_told(tmp_path: Path) -> None:
    """Its digest is taken when its job is seen to have ended, before anybody judges it."""
    place = begun(tmp_path, {**STAGE, "success_criteria": "It is above 0.95."})
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    expected = "stage-1/out.txt is not what att-0001 left: it was rewritten after its job ended"
    assert ("rewritten", expected) in told(place)


@pytest.mark.slow
def test_a_result_that_was_rewritten_before_anybody_looked_at_its_job_is_told(
    tmp_path: Path,
) -> None:
    """By the times of the file and of the end of its job."""
    place = begun(tmp_path, {**STAGE, "success_criteria": "It is above 0.95."})
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    place.done("dispatch", "stage-1")
    out = place.path / "stage-1/out.txt"
    until((place.path / "stage-1/DPDISP_DONE").exists)
    out.write_text("0.97\n")
    later = out.stat().st_mtime + 40
    os.utime(out, (later, later))
    place.done("reconcile")
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    kinds = dict(told(place))
    assert kinds["rewritten"].startswith("stage-1/out.txt was written 4")
    assert kinds["rewritten"].endswith(" s after its job ended")


@pytest.mark.slow
def test_a_result_that_its_job_left_is_not(tmp_path: Path) -> None:
    """Nor is the table of a sweep, which is written once its tasks are over."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}))
    place.done("run")
    assert told(place) == []


def test_an_imported_stage_is_taken_over_and_never_called_verified(tmp_path: Path) -> None:
    """By nobody's check but that of anyone who wrote the file."""
    state = document(stage(1, "completed"), workflow_status="completed")
    place = imported(write_files(tmp_path / "melt", state))
    assert ("taken over", "completed by an imported record; nothing verified it") in told(place)
    page = text_of(place, "report")
    assert "completed and verified" not in page
    assert "1 of them taken over and not verified" in page


def test_a_stage_that_was_under_way_when_it_was_imported_is_verified_as_any(tmp_path: Path) -> None:
    """It has an attempt, no matter who launched that, and somebody's word or a check ended it."""
    place = imported(write_files(tmp_path / "melt", document(stage(1, "post_processing"))))
    place.done("stage", "complete", "stage-1", "--evidence", "I looked.")
    assert told(place) == []
    assert "taken over" not in text_of(place, "report")


@pytest.mark.slow
def test_an_approval_says_what_its_policy_proves(tmp_path: Path) -> None:
    """Nobody is called a person for having been named."""
    place = begun(tmp_path, STAGE)
    place.done("amend", "propose", "--set", "workflow_plan=plan.md", "--reason", "Time.")
    place.done("--actor", "agent:hasty", "amend", "approve", "amend-1")
    page = text_of(place, "report")
    assert "on trust: this policy asks for no person" in page
    assert "A person decided" not in page
