"""wfctl compares claims about jobs and manual edits with the evidence.

A manual edit about which nobody has decided stops every run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, agree, write_plan
from tests.cli.terminal import agreed_to
from tests.keeping.support import made, stage
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]
Document = dict[str, Any]


def edit(place: Place, change: Callable[[Document], object]) -> None:
    """Change the state file like a user's script, which also sets the field ``updated``."""
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    document["updated"] = "2026-05-05T00:00:00+00:00"
    path.write_text(json.dumps(document, indent=2), "utf-8")


def set_tolerance(document: Document) -> None:
    """Set the parameter `tol` of the first stage to a smaller value."""
    document["stages"][0]["parameters"]["tol"] = "1e-6"


def tolerant(folder: Path) -> Place:
    """Return a workflow of one stage that has the parameter `tol`."""
    return made(
        folder, stage(1, "echo hi > a.txt", outputs=OUT, parameters={"tol": "1e-4", "n": 1})
    )


@pytest.mark.parametrize(
    "claim",
    [
        ("stage", "compute", "stage-1"),
        (
            "append",
            "stage.computed",
            "--data",
            '{"stage": "stage-1", "attempt": "att-0001", "exit_code": 0}',
        ),
    ],
)
def test_claim_that_a_running_job_ended_is_refused(tmp_path: Path, claim: tuple[str, ...]) -> None:
    """wfctl sees that the job still runs, refuses the claim, and does not disturb the job."""
    gate = "while [ ! -e ../../../../../../go ]; do sleep 0.05; done; echo hi > a.txt"
    place = made(tmp_path, stage(1, gate, outputs=OUT))
    place.done("dispatch", "stage-1")
    answer = place.json(*claim)
    assert (answer.code, answer.error["code"]) == (5, "claim_denied")
    assert answer.error["data"]["verdict"] == "MONITORED"
    (place.path / "go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)
    assert place.call("run").code == 0


def running(folder: Path, consent: str) -> Place:
    """Return a workflow whose job has written its output and still runs."""
    gate = (
        "echo hi > ../../../../../a.txt; while [ ! -e ../../../../../../go ]; do sleep 0.05; done"
    )
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {"workflow_id": "w", "purpose": "See it held.", "stages": [stage(1, gate, outputs=OUT)]}
    words = ("init", str(write_plan(folder, plan)), "--consent", consent)
    assert place.call(*words).code == 0
    if consent == "terminal":
        agree(place.path)
    place.done("dispatch", "stage-1")
    until((place.path / "stage-1/a.txt").exists)
    return place


def test_overruled_evidence_is_listed_by_the_audit(tmp_path: Path) -> None:
    """`audit bypasses` lists each claim that a person recorded with `--overrule`."""
    place = running(tmp_path, "trust")
    assert place.json("stage", "compute", "stage-1").error["code"] == "claim_denied"
    words = ("stage", "compute", "stage-1", "--overrule", "the node is gone", "--command-id", "k")
    assert "claim.overruled" not in place.types()
    first = place.done(*words)
    assert [event["type"] for event in first["events"]] == ["claim.overruled", "stage.computed"]
    assert place.done(*words)["repeated"] is True
    assert place.json("stage", "complete", "stage-1", "--evidence", "so").code == 5
    over = ("--evidence", "so", "--overrule", "it only sleeps")
    place.done("stage", "complete", "stage-1", *over)
    (place.path / "go").touch()
    answer = place.json("audit", "bypasses")
    assert answer.code == 7
    found = [(one["kind"], one["what"], one["why"]) for one in answer.data]
    assert found[0][1:] == ("stage-1 att-0001: MONITORED called computed", found[0][2])
    assert found[0][2].endswith(": the node is gone")
    assert [kind for kind, _, _ in found] == ["overruled", "overruled"]
    assert "overruled the evidence on att-0001 (MONITORED) and calls it over" in place.log()
    until((place.path / "stage-1/DPDISP_DONE").exists)


def test_agent_cannot_overrule_the_evidence(tmp_path: Path) -> None:
    """wfctl refuses `--overrule` without a person's consent, and an event with a forged proof."""
    place = running(tmp_path, "terminal")
    answer = place.json("stage", "compute", "stage-1", "--overrule", "trust me")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    data = {"stage": "stage-1", "attempt": "att-0001", "claim": "computed", "verdict": "MONITORED"}
    made_up = json.dumps({**data, "reason": "so", "proof": {"policy": "terminal"}})
    answer = place.json("append", "claim.overruled", "--data", made_up)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert "claim.overruled" not in place.types()
    (place.path / "go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)


def test_claim_that_a_failed_job_computed_is_refused(tmp_path: Path) -> None:
    """wfctl reads the exit code of the ended job, and refuses the claim of a success."""
    place = made(tmp_path, stage(1, "exit 3", outputs=OUT))
    place.done("dispatch", "stage-1")
    until((place.path / "stage-1/DPDISP_DONE").exists)
    answer = place.json("stage", "compute", "stage-1")
    assert (answer.code, answer.error["data"]["verdict"]) == (5, "TASK_FAILED")


def test_manual_edit_of_the_definition_stops_the_run(tmp_path: Path) -> None:
    """After an edit of a stage's parameter in the state file, wfctl starts no job.

    The error has the field with its old and new value. `drift adopt` turns the edit into a
    proposal.
    """
    place = tolerant(tmp_path)
    edit(place, set_tolerance)
    for command in (("run",), ("dispatch", "stage-1"), ("run", "--autonomous")):
        answer = place.json(*command)
        assert (answer.code, answer.error["code"]) == (6, "undecided_edit"), command
        (found,) = answer.error["data"]["edits"]
        assert found == {"field": "stage-1.parameters.tol", "old": "1e-4", "new": "1e-6"}
    assert "attempt.started" not in place.types()
    place.done("drift", "adopt")
    assert "amendment.proposed" in place.types()


def test_run_continues_after_a_manual_edit_is_reverted(tmp_path: Path) -> None:
    """After `drift revert`, the run uses the values that the log has."""
    place = tolerant(tmp_path)
    edit(place, set_tolerance)
    assert place.call("run").code == 6
    agreed_to(place.path, "drift", "revert")
    assert place.call("run").code == 0


@pytest.mark.parametrize(("field", "value"), [("autonomous", False), ("session_budget", 1)])
def test_protective_edit_stops_the_run_until_a_decision(
    tmp_path: Path, field: str, value: object
) -> None:
    """If a user's edit turns off autonomous runs or lowers the budget, wfctl starts no job."""
    place = made(
        tmp_path,
        stage(1, "echo hi > a.txt", outputs=OUT),
        session_config={"autonomous": True},
    )
    edit(place, lambda document: document["session_config"].update({field: value}))
    answer = place.json("run")
    assert (answer.code, answer.error["code"]) == (6, "undecided_edit")
    assert answer.error["data"]["edits"][0]["field"] == f"session_config.{field}"


def test_single_field_of_an_edit_can_be_adopted(tmp_path: Path) -> None:
    """Of two edited parameters, `drift adopt --only FIELD` proposes only the named one."""
    place = tolerant(tmp_path)

    def change(document: Document) -> None:
        set_tolerance(document)
        document["stages"][0]["parameters"]["n"] = 7

    edit(place, change)
    place.done("drift", "adopt", "--only", "stage-1.parameters.tol")
    (proposed,) = place.done("events", "--type", "amendment.proposed")
    assert proposed["data"]["changes"] == {"parameters": {"tol": {"old": "1e-4", "new": "1e-6"}}}
