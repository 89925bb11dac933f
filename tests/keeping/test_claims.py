"""What somebody says or edits is held to the evidence, and nothing runs over an open question."""

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
    """Edit the state file as a script does, which touches ``updated`` too."""
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    document["updated"] = "2026-05-05T00:00:00+00:00"
    path.write_text(json.dumps(document, indent=2), "utf-8")


def set_tolerance(document: Document) -> None:
    """Make the first stage's tolerance a smaller one."""
    document["stages"][0]["parameters"]["tol"] = "1e-6"


def tolerant(folder: Path) -> Place:
    """Return a workflow of one stage with a tolerance."""
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
def test_a_living_job_is_not_over_by_being_called_so(
    tmp_path: Path, claim: tuple[str, ...]
) -> None:
    """The claim is refused with what the evidence says, and the job goes on."""
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
    """Return a workflow whose job has left its output and goes on."""
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


def test_a_person_may_overrule_the_evidence_and_the_audit_lists_it(tmp_path: Path) -> None:
    """With a proof, for each claim that the evidence denies; nothing else is taken as one."""
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


def test_an_agent_overrules_nothing(tmp_path: Path) -> None:
    """Where a person is wanted; neither does a proof that somebody makes up."""
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


def test_a_claim_of_a_job_that_failed_is_denied(tmp_path: Path) -> None:
    """Its own record says so."""
    place = made(tmp_path, stage(1, "exit 3", outputs=OUT))
    place.done("dispatch", "stage-1")
    until((place.path / "stage-1/DPDISP_DONE").exists)
    answer = place.json("stage", "compute", "stage-1")
    assert (answer.code, answer.error["data"]["verdict"]) == (5, "TASK_FAILED")


def test_a_definitional_hand_edit_is_not_run_over(tmp_path: Path) -> None:
    """Run, dispatch and the runner name field, old and new; the command told proposes it."""
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


def test_a_hand_edit_that_was_dismissed_holds_nothing_up(tmp_path: Path) -> None:
    """The workflow goes on with what the log has."""
    place = tolerant(tmp_path)
    edit(place, set_tolerance)
    assert place.call("run").code == 6
    agreed_to(place.path, "drift", "revert")
    assert place.call("run").code == 0


@pytest.mark.parametrize(("field", "value"), [("autonomous", False), ("session_budget", 1)])
def test_a_protective_edit_holds_until_somebody_decides(
    tmp_path: Path, field: str, value: object
) -> None:
    """Autonomy or budget taken away by hand, as the published protocol means it."""
    place = made(
        tmp_path,
        stage(1, "echo hi > a.txt", outputs=OUT),
        session_config={"autonomous": True},
    )
    edit(place, lambda document: document["session_config"].update({field: value}))
    answer = place.json("run")
    assert (answer.code, answer.error["code"]) == (6, "undecided_edit")
    assert answer.error["data"]["edits"][0]["field"] == f"session_config.{field}"


def test_one_key_of_an_edit_can_be_adopted(tmp_path: Path) -> None:
    """A path goes as deep as a field goes, and nothing else comes with it."""
    place = tolerant(tmp_path)

    def change(document: Document) -> None:
        set_tolerance(document)
        document["stages"][0]["parameters"]["n"] = 7

    edit(place, change)
    place.done("drift", "adopt", "--only", "stage-1.parameters.tol")
    (proposed,) = place.done("events", "--type", "amendment.proposed")
    assert proposed["data"]["changes"] == {"parameters": {"tol": {"old": "1e-4", "new": "1e-6"}}}
