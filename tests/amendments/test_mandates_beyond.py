"""Only a person can create a mandate (permission), and it proves no other decision."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest

from eventstore.event import Actor
from lifecycle.state.workflow import Workflow
from service.consent.consent_weaknesses import explain_invalid_decision, statement_of
from service.consent.proof import PlannedApproval, build_proof
from tests.amendments.forgery import proof as bound
from tests.amendments.mandated import BO, GRANT, PLAN, POLICIES, Mandated, made, plan_with
from tests.cli.support import call, write_plan
from tests.lifecycle.support import AT, given

pytestmark = pytest.mark.slow

SWEEP: dict[str, Any] = {
    "id": "stage-1",
    "name": "Sweep",
    "outputs": ["stage-1/tasks.json"],
    "parameters": {
        "command": "echo $WFCTL_PARAM_T > out.txt",
        "map": {"grid": {"T": [300, 310]}},
        "time_limit": 60,
    },
}
TEMPERATURES = {"stage-1.parameters.map.grid.T": {"from": 300, "to": 400, "step": 10}}


@pytest.fixture(params=POLICIES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Mandated:
    """Create a workflow with an approved mandate, under each policy."""
    return made(tmp_path, request.param)


def most(place: Mandated) -> dict[str, int]:
    """Return the maximum number of amendments of each mandate."""
    return {one["name"]: one["most"]["amendments"] for one in place.done("mandate", "list")}


@pytest.mark.forged
@pytest.mark.parametrize("policy", ["mandate", "signature", "trust", "terminal", ""])
def test_forged_grant_creates_no_mandate(policy: str, tmp_path: Path) -> None:
    """Under the policy `signature`, wfctl ignores a grant without a valid signature."""
    place = made(tmp_path, "signature")
    change = {"mandates": {"mine": {"new": {**GRANT, "amendments": 99}}}}
    asked = {"kind": "parameter_change", "description": "x", "reason": "y", "changes": change}
    place.done(*BO, "append", "amendment.proposed", "--data", json.dumps(asked))
    text = place.call("amend", "show", "amend-1", "--statement").out
    proof = {**bound(text, policy=policy), "mandate": "sampling", "by": "mandate sampling"}
    for named in ("mandate sampling", "pi@example.org"):
        row = {"amendment": "amend-1", "version": 2, "approved_by": named, "kept": {}}
        place.write_row("amendment.approved", {**row, "invalidated_stages": [], "proof": proof})
    assert most(place) == {"sampling": 3}
    assert len([one for one in place.bypasses() if one["kind"] == "ineffective"]) == 2


@pytest.mark.parametrize("policy", ["terminal", "signature"])
def test_applied_plan_with_a_mandate_needs_a_person(policy: str, tmp_path: Path) -> None:
    """An agent's `plan apply` that adds a mandate waits for a person."""
    place = made(tmp_path, policy)
    wider = plan_with(amendments=50)
    wider["mandates"]["other"] = GRANT
    source = str(write_plan(tmp_path, wider, "wider.json"))
    words = ("plan", "apply", source, "--reason", "more")
    assert place.agent(*words).code == 6
    assert most(place) == {"sampling": 3}
    place.agreed("amend", "approve", "amend-1")
    assert most(place) == {"sampling": 50, "other": 3}
    place.is_sound()


@pytest.mark.parametrize("verdict", ["proposed", "rejected"])
@pytest.mark.parametrize("policy", ["terminal", "signature"])
def test_mandate_of_an_unapproved_plan_is_not_valid(
    policy: str, verdict: str, tmp_path: Path
) -> None:
    """Amendments wait until a person approves the plan."""
    place = made(tmp_path, policy, agreed=False)
    if verdict == "rejected":
        place.done("amend", "reject", "plan", "--reason", "not so")
    told = place.ask(2)
    assert (told["mandate"], told["amendment"]["status"]) == (None, "proposed")
    assert "no person has approved the plan yet" in told["not_within"]["sampling"][0]
    assert place.agent("dispatch", "stage-1", "--sync").code == 6
    place.agreed("amend", "approve", "plan")
    place.done(*BO, "amend", "approve", "amend-1")
    assert place.document()["stages"][0]["parameters"]["n"] == 2
    place.is_sound()


def test_imported_mandate_needs_approval(tmp_path: Path) -> None:
    """A mandate in an imported file is valid only after a person approves the plan."""
    first = made(tmp_path, "trust")
    first.ask(2)
    root = tmp_path / "taken-over"
    root.mkdir()
    (root / "workflow-state.json").write_text((first.path / "workflow-state.json").read_text())
    words = ("--root", str(root), *BO, "import", str(root), "--consent", "terminal")
    answer = call(*words)
    assert answer.code == 0, answer
    place = Mandated(root)
    place.policy = "terminal"
    told = place.ask(3)
    assert (told["mandate"], told["amendment"]["status"]) == (None, "proposed")
    place.agreed("amend", "approve", "plan")
    assert place.ask(4)["mandate"] == "sampling"
    place.is_sound()


DECISIONS: dict[str, dict[str, Any]] = {
    "results.adopted": {"stage": "stage-1", "outputs": {}, "reason": "so"},
    "claim.overruled": {
        "stage": "stage-1",
        "attempt": "att-0001",
        "claim": "c",
        "verdict": "v",
        "reason": "so",
    },
    "drift.reverted": {"file": "workflow-state.json", "detected": 3, "kept_as": "x"},
    "machine.limited": {"loop": "l", "before": 1, "to": 9, "reason": "so"},
}


@pytest.mark.parametrize("type_", DECISIONS)
@pytest.mark.parametrize("policy", ["mandate", "", None])
def test_mandate_proves_no_other_decision(type_: str, policy: Any) -> None:
    """wfctl refuses a mandate as the proof of an adoption, a revert or a new limit."""
    state: Workflow = given(plan=PLAN)
    statement = statement_of(state, type_, DECISIONS[type_], "a" * 64)
    proof = {**build_proof(json.dumps({"form": 4}).encode(), policy, mandate="sampling")}
    from eventstore.chain import sha256_hex

    proof["statement"] = sha256_hex(statement)
    planned = PlannedApproval(
        {**DECISIONS[type_], "proof": proof}, "a" * 64, Actor("user", "ada"), AT
    )
    assert "the proof is for the policy" in str(explain_invalid_decision(state, type_, planned))


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
def test_added_sweep_points_count_as_tasks(policy: str, tmp_path: Path) -> None:
    """Only added points are counted, and a point outside the bounds waits for a person."""
    plan = plan_with(values=TEMPERATURES, tasks=3, stages=["stage-1"])
    plan["stages"] = [SWEEP]
    place = made(tmp_path, policy, plan)
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    words = ("amend", "propose", "--stage", "stage-1", "--reason", "more", "--set")

    def asked(values: list[int], *more: str) -> dict[str, Any]:
        change = f"parameters.map.grid.T={json.dumps(values)}"
        found: dict[str, Any] = place.done(*BO, *words, change, *more)
        return found

    for values, why in (
        ([300, 310, 320, 330, 340, 350], "4 tasks may be computed, and 3 of its 3 are left"),
        ([300, 315], "315 is not within"),
        ([300, 410], "410 is not within"),
    ):
        assert why in str(asked(values, "--dry-run")["not_within"]), values
    assert asked([300, 310, 320, 330])["mandate"] == "sampling"
    place.done(*BO, "dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    assert place.done("mandate", "list")[0]["used"]["tasks"] == 2
    assert asked([300, 310, 320, 330, 340, 350], "--dry-run")["mandate"] is None
    place.is_sound()


@pytest.mark.long
@pytest.mark.parametrize(("most", "code"), [(2, 6), (3, 0)])
def test_tasks_of_a_changed_input_are_counted_before_the_start(
    tmp_path: Path, most: int, code: int
) -> None:
    """Tasks that run again because of a changed input count when the attempt starts."""
    stage = copy.deepcopy(SWEEP) | {"inputs": ["in.txt"]}
    stage["parameters"]["command"] = "cat ../../../i*.txt > out.txt"
    plan = plan_with(values=TEMPERATURES, tasks=most, stages=["stage-1"]) | {"stages": [stage]}
    place = made(tmp_path, "trust", plan)
    (place.path / "in.txt").write_text("1\n")
    place.done("run")
    (place.path / "in.txt").write_text("2\n")
    words = ("amend", "propose", "--stage", "stage-1", "--reason", "more", "--set")
    told = place.done(*BO, *words, "parameters.map.grid.T=[300, 310, 320]")
    assert (told["mandate"], told["impact"]["tasks"]["stage-1"]["computed"]) == ("sampling", 3)
    answer = place.call(*BO, "run")
    assert answer.code == code
    assert ("3 tasks may be computed, and 2 of its 2 are left" in answer.out) == (most == 2)
    assert place.done("mandate", "list")[0]["used"]["tasks"] == (0 if most == 2 else 3)


@pytest.mark.long
def test_stopped_attempt_is_not_charged_to_the_mandate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the attempt after the amendment is charged."""
    monkeypatch.setattr("reconciler.host.tmux_sessions.is_installed", lambda *_: False)
    plan = plan_with(core_hours=1)
    plan["stages"][0]["parameters"]["command"] = "sleep $WFCTL_PARAM_n; echo > out.txt"
    plan["stages"][0]["parameters"]["n"] = 300
    place = made(tmp_path, "terminal", plan)
    place.done(*BO, "dispatch", "stage-1")
    deadline = time.monotonic() + 60
    while not list(place.path.glob("stage-1/.attempts/att-0001-*/job-*.started")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert place.ask(1)["impact"]["stopped"] == {"stage-1": "att-0001"}
    assert place.done("mandate", "list")[0]["used"]["core_hours"] == 0
    place.done(*BO, "dispatch", "stage-1", "--sync")
    assert (place.path / "stage-1/out.txt").is_file()
    assert 0 < place.done("mandate", "list")[0]["used"]["core_hours"] < 0.01
    place.is_sound()


@pytest.mark.parametrize("cores", [2.5, 3, "3"])
def test_any_number_of_cores_is_charged(cores: Any, tmp_path: Path) -> None:
    """Fractions and numbers written as strings count in full."""
    allowed = {"stage-1.parameters.resource_overrides.cpu_per_node": [2.5, 3, "3"]}
    # This limit is enough for the stage with one core, but not with 2.5 or 3 cores.
    plan = plan_with(values=allowed, core_hours=0.06)
    plan["stages"][0]["parameters"]["resource_overrides"] = {"cpu_per_node": 1}
    place = made(tmp_path, "trust", plan)
    change = f"parameters.resource_overrides.cpu_per_node={json.dumps(cores)}"
    words = ("--stage", "stage-1", "--set", change, "--reason", "faster", "--dry-run")
    told = place.done(*BO, "amend", "propose", *words)
    assert "up to 0.075 core hours may be needed" in str(told["not_within"]), told
