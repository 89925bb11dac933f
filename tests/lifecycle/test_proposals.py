"""Proposed amendments that the rules refuse or complete."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.errors import (
    AmendmentDecided,
    InvalidAmendment,
    StaleAmendment,
    UnknownAmendment,
    UnknownStage,
)
from lifecycle.payload import models as p
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.amendable import build_changes_from_paths, build_plan_change
from lifecycle.rules.amendments import signer_problems
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s
from tests.lifecycle.test_rounds import LOOP
from tests.lifecycle.test_rounds import PLAN as LOOPED

#: A plan whose second stage reads an output of the first, and files below its folder.
PLAN: dict[str, Any] = {
    "workflow_id": "melt",
    "stages": [
        {"id": "stage-1", "name": "Build", "outputs": ["stage-1/a.txt"]},
        {
            "id": "stage-2",
            "name": "Run",
            "depends_on": ["stage-1"],
            "inputs": ["stage-1/a.txt", "stage-1/more/b.txt", "stage-10/c.txt", "given.txt"],
        },
        {"id": "stage-3", "name": "Analyse", "depends_on": ["stage-2"]},
    ],
}
NEW = {"id": "stage-4", "name": "Check"}


def with_parameters(**parameters: Any) -> Workflow:
    """Return the state of a new workflow whose only stage has these parameters."""
    stage = {"id": "stage-1", "name": "Build", "parameters": parameters}
    return s.given(plan={"workflow_id": "w", "stages": [stage]})


def propose(state: Workflow, kind: Any, stage: str | None = None, **more: Any) -> Any:
    """Return the completed event of a proposal."""
    command = p.AmendmentProposed(kind=kind, stage=stage, description="because", **more)
    return decide(state, command, s.AT)[0]


def find_problems(state: Workflow, kind: Any, stage: str | None = None, **more: Any) -> list[str]:
    """Return the reasons why the rules refuse a proposal."""
    with pytest.raises(InvalidAmendment) as refusal:
        propose(state, kind, stage, **more)
    found: list[str] = refusal.value.data["problems"]
    return found


NAME = {"name": {"new": "Other"}}


@pytest.mark.parametrize(
    ("kind", "stage", "more", "text"),
    [
        ("stage_insert", "stage-1", {"insert": NEW}, "a stage_insert must not name a stage"),
        ("stage_insert", None, {}, "only a stage_insert contains the definition of a stage"),
        ("stage_skip", None, {}, "a stage_skip must name a stage"),
        ("stage_rerun", None, {}, "a stage_rerun must name a stage"),
        ("criteria_change", None, {"changes": {"x": {}}}, "a criteria_change must name a stage"),
        ("parameter_change", "stage-1", {}, "a parameter_change must change at least one field"),
        ("plan_change", "stage-1", {"changes": NAME}, "a plan_change must not name a stage"),
        ("plan_change", None, {"changes": NAME, "also": ["stage-2"]}, "must not name a stage"),
        ("plan_change", None, {}, "a plan_change must change at least one field"),
        ("stage_skip", "stage-1", {"also": ["stage-2"]}, "only a stage_rerun without other"),
    ],
)
def test_proposal_without_a_part_that_its_type_needs_is_refused(
    kind: str, stage: str | None, more: dict[str, Any], text: str
) -> None:
    """The error names the missing part, or the part that the type does not allow."""
    assert any(text in problem for problem in find_problems(s.given(), kind, stage, **more))


def test_stage_that_is_already_skipped_cannot_be_skipped_again() -> None:
    """A proposal to skip needs a stage that is not skipped; another stage can still be skipped."""
    skip = p.StageSkipped(stage="stage-1", amendment="amend-1", reason="because")
    skipped = s.recorded(s.given(), *s.approved("stage_skip", "stage-1"), skip)
    assert skipped.stage("stage-1").status is Status.SKIPPED
    assert find_problems(skipped, "stage_skip", "stage-1") == ["stage-1 is already skipped"]
    assert propose(skipped, "stage_skip", "stage-3").stage == "stage-3"
    assert propose(skipped, "parameter_change", "stage-1", changes={"name": {"new": "Other"}})


def test_stage_that_never_ran_cannot_be_run_again() -> None:
    """A rerun needs stages that have run, each named once."""
    state = s.given(*s.through("stage-1", Status.FAILED))
    [found] = find_problems(state, "stage_rerun", "stage-2")
    assert found == "stage-2 is pending: so it has no run that could be repeated"
    twice = find_problems(state, "stage_rerun", "stage-1", also=["stage-1"])
    assert twice == ["also: each stage can be named only once"]
    again = find_problems(state, "stage_rerun", "stage-1", also=["stage-2", "stage-2"])
    assert again[0] == "also: each stage can be named only once"
    assert propose(state, "stage_rerun", "stage-1").stage == "stage-1"


def test_skipped_stage_is_removed_from_dependencies_and_inputs_of_the_next_stage() -> None:
    """The next stage keeps its inputs from other stages and from people."""
    event = propose(s.given(plan=PLAN), "stage_skip", "stage-1", rewire=True)
    assert event.rewired == {
        "stage-2": {
            "old": ["stage-1"],
            "new": [],
            "inputs": {
                "old": ["stage-1/a.txt", "stage-1/more/b.txt", "stage-10/c.txt", "given.txt"],
                "new": ["stage-10/c.txt", "given.txt"],
            },
        }
    }


def test_skipped_stage_without_files_changes_only_dependencies() -> None:
    """The inputs of a stage that reads nothing of the skipped stage are not part of the change."""
    event = propose(s.given(plan=PLAN), "stage_skip", "stage-2", rewire=["stage-3"])
    assert event.rewired == {"stage-3": {"old": ["stage-2"], "new": []}}


@pytest.mark.parametrize("place", [0, 3])
def test_stage_can_be_inserted_at_the_start_and_at_the_end(place: int) -> None:
    """Position 0 is before the first stage, and 3 after the last of three stages."""
    assert propose(s.given(), "stage_insert", insert=NEW, place=place).place == place


@pytest.mark.parametrize("place", [-1, 4])
def test_position_outside_of_the_stages_is_refused(place: int) -> None:
    """The error has the allowed positions."""
    expected = f"place: expected 0 to 3, found {place}"
    assert find_problems(s.given(), "stage_insert", insert=NEW, place=place) == [expected]


def test_parameter_of_stages_is_not_a_parameter_of_the_plan() -> None:
    """The error names the first stage that has the parameter."""
    plan = {**PLAN, "stages": [{**one, "parameters": {"count": 1}} for one in PLAN["stages"]]}
    [found] = find_problems(
        s.given(plan=plan), "parameter_change", changes={"parameters": {"count": {"new": 2}}}
    )
    assert "stage-1, stage-2, stage-3 has one; name the stage by its own option" in found
    assert "--stage stage-1 --set parameters.count=VALUE" in found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("purpose.x", "purpose.x: purpose has no keys that can be changed"),
        ("stage-2.parameters.x", "--stage stage-2 --set parameters.x=VALUE"),
        ("stages.stage-2", "--stage stage-2 --set parameters.x=VALUE"),
        ("parameters", "parameters: name the key to change, such as parameters.x"),
    ],
)
def test_path_that_cannot_be_changed_is_refused(path: str, text: str) -> None:
    """The error has the correct spelling of the path."""
    with pytest.raises(InvalidAmendment) as refusal:
        build_changes_from_paths(s.given(), {path: 1})
    assert any(text in problem for problem in refusal.value.data["problems"])


def test_nested_paths_of_one_key_are_changed_together() -> None:
    """A second path below the same key adds to the value that the first path gave."""
    state = with_parameters(resource_overrides={"cpu": 1})
    found = build_changes_from_paths(
        state.stage("stage-1"),
        {"parameters.resource_overrides.gpu": 1, "parameters.resource_overrides.cpu": 2},
    )
    assert found == {"parameters": {"resource_overrides": {"new": {"cpu": 2, "gpu": 1}}}}


def test_old_value_of_a_stale_proposal_is_shown_as_it_was_written() -> None:
    """The error has the text of both values, without escaped characters."""
    state = with_parameters(unit="Å")
    stale = {"parameters": {"unit": {"old": "nm", "new": "pm"}}}
    with pytest.raises(StaleAmendment, match=r'"nm".*"Å"'):
        propose(state, "parameter_change", "stage-1", changes=stale)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_new_stage_of_an_applied_plan_gets_its_position(place: int) -> None:
    """The new stage follows the stage that precedes it in the edited plan."""
    stages = [{"id": f"stage-{number}", "name": str(number)} for number in (1, 2)]
    state = s.given(plan={"workflow_id": "w", "stages": stages})
    new = [*stages[:place], {"id": "check", "name": "Check"}, *stages[place:]]
    change = build_plan_change(state, s.given(plan={"workflow_id": "w", "stages": new}), "why")
    assert change is not None
    assert change.insert is not None
    assert (change.place, change.insert["id"]) == (place, "check")


@pytest.mark.parametrize(
    ("kind", "stage", "more", "problem"),
    [
        (
            "criteria_change",
            "stage-1",
            {"changes": {"inputs": {"new": []}}},
            (
                "inputs: an amendment of the type criteria_change can change only "
                "success_criteria; use a parameter_change to change both"
            ),
        ),
        (
            "stage_skip",
            "stage-1",
            {"changes": {"inputs": {"new": []}}},
            "inputs: an amendment of the type stage_skip can change only no field",
        ),
        (
            "plan_change",
            None,
            {"rewired": {"stage-2": {"retry_count": {"new": 1}}}},
            (
                "stage-2.retry_count: an amendment of the type plan_change can change only "
                "backend, depends_on, inputs, name, outputs, parameters, success_criteria in "
                "other stages"
            ),
        ),
        (
            "stage_skip",
            "stage-1",
            {"reason": "TEXT"},
            "reason: expected a reason in your own words, found 'TEXT'",
        ),
    ],
)
def test_proposal_with_a_forbidden_part_has_a_single_problem(
    kind: str, stage: str | None, more: dict[str, Any], problem: str
) -> None:
    """The problem has the allowed fields."""
    assert find_problems(s.given(), kind, stage, **more) == [problem]


def test_proposals_are_numbered_by_the_log() -> None:
    """The number follows the highest number, and other ids are ignored."""
    state = s.given()
    assert propose(state, "stage_skip", "stage-1").amendment == "amend-1"
    [proposal, _] = s.approved("stage_skip", "stage-1")
    for id_ in ("amend-7", "amend-2"):
        state = s.recorded(state, proposal.model_copy(update={"amendment": id_}))
    assert propose(state, "stage_skip", "stage-1").amendment == "amend-8"


@pytest.mark.parametrize(("ids", "number"), [(["a", "b"], 1), (["a", "stage-1"], 2)])
def test_inserted_stage_without_an_id_gets_the_next_number(ids: list[str], number: int) -> None:
    """Stages with a name have no number."""
    plan = {"workflow_id": "w", "stages": [{"id": id_, "name": id_} for id_ in ids]}
    event = propose(s.given(plan=plan), "stage_insert", insert={"name": "Check"})
    assert event.insert["id"] == f"stage-{number}"


@pytest.mark.parametrize(
    ("id_", "problem"),
    [
        ("stage-9", "the id of an inserted stage must be the next number, stage-2, or a name"),
        ("stage-1", "the id of an inserted stage must be the next number, stage-2, or a name"),
        (2, "the id of an inserted stage must be the next number, stage-2, or a name"),
        ("BUILD", "id: 'BUILD' cannot be used, because the workflow already has build"),
    ],
)
def test_id_of_an_inserted_stage_must_be_new(id_: Any, problem: str) -> None:
    """Names that differ only in case are equal on some file systems."""
    stages = [{"id": "build", "name": "Build"}, {"id": "stage-1", "name": "Run"}]
    state = s.given(plan={"workflow_id": "w", "stages": stages})
    assert find_problems(state, "stage_insert", insert={"id": id_, "name": "Check"}) == [problem]
    assert propose(state, "stage_insert", insert={"id": "check", "name": "Check"}).place == 2


@pytest.mark.parametrize(
    ("taken_over", "needs"),
    [
        (["stage-1"], ["stage-4", "stage-2"]),
        (["stage-2"], ["stage-1", "stage-4"]),
        (["stage-1", "stage-2"], ["stage-4"]),
        ([], ["stage-1", "stage-2", "stage-4"]),
    ],
)
def test_inserted_stage_replaces_the_dependencies_that_it_takes_over(
    taken_over: list[str], needs: list[str]
) -> None:
    """The new stage comes before the first stage that depends on it."""
    stages = [{"id": f"stage-{number}", "name": str(number)} for number in (1, 2)]
    last = {"id": "stage-3", "name": "3", "depends_on": ["stage-1", "stage-2"]}
    state = s.given(plan={"workflow_id": "w", "stages": [*stages, last]})
    event = propose(
        state, "stage_insert", insert={**NEW, "depends_on": taken_over}, rewire=["stage-3"]
    )
    expected = {"stage-3": {"old": ["stage-1", "stage-2"], "new": needs}}
    assert (event.place, event.rewired) == (2, expected)


def test_skip_changes_other_stages_only_on_demand() -> None:
    """Without the request, and for other stages than the requested ones, nothing is rewired."""
    for rewire in (False, [], ["stage-3"]):
        assert propose(s.given(), "stage_skip", "stage-1", rewire=rewire).rewired == {}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"consent": {"new": "other"}},
            "consent: expected one of terminal, signature, trust, found 'other'",
        ),
        (
            {"consent": {"new": "signature"}},
            "consent by signature needs at least one allowed signer (signers)",
        ),
        ({"signers": {"new": "x"}}, "signers: expected a list of lines, found 'x'"),
        (
            {"signers": {"new": [7]}},
            "signers: expected `who key-type key` (ssh-keygen(1)), found 7",
        ),
    ],
)
def test_policy_that_nobody_could_use_is_refused(changes: dict[str, Any], problem: str) -> None:
    """An amendment cannot make all later approvals impossible."""
    assert find_problems(s.given(), "parameter_change", changes=changes) == [problem]


@pytest.mark.parametrize(
    ("line", "is_usable"),
    [
        ("ada ssh-ed25519 AAAA", True),
        ("ada options ecdsa-sha2-nistp256 AAAA", True),
        ("ssh-ed25519 AAAA", False),
        ("ada key AAAA", False),
        ("ada ssh-ed25519 AAAA\nbob ssh-ed25519 AAAA", False),
        ("", False),
    ],
)
def test_signer_is_a_line_with_a_name_and_a_key(line: str, is_usable: bool) -> None:
    """The type of the key follows the name of the signer."""
    problem = f"signers: expected `who key-type key` (ssh-keygen(1)), found {line!r:.80}"
    assert signer_problems("signature", [line]) == ([] if is_usable else [problem])


@pytest.mark.parametrize(
    ("consent", "expected"), [("signature", ["signature needs --signers"]), ("trust", [])]
)
def test_only_consent_by_signature_needs_signers(consent: str, expected: list[str]) -> None:
    """Without signers, no signature would be accepted."""
    assert signer_problems(consent, []) == expected


def test_amendment_is_decided_once() -> None:
    """An unknown or decided amendment is neither approved nor rejected."""
    approved = s.recorded(s.given(), *s.approved("stage_skip", "stage-1"))
    for command in (
        p.AmendmentApproved(amendment="amend-1", proof={"policy": "trust"}),
        p.AmendmentRejected(amendment="amend-1"),
    ):
        with pytest.raises(AmendmentDecided, match="already approved"):
            decide(approved, command, s.AT)
        with pytest.raises(UnknownAmendment):
            decide(s.given(), command, s.AT)


def test_rejected_plan_can_be_approved_but_not_rejected_again() -> None:
    """The initial plan stays open after its rejection."""
    created = build_creation_payload(s.PLAN, created=s.AT, consent="terminal")
    state = state_after(None, decide(None, created, s.AT), s.AT)
    command = p.AmendmentRejected(amendment="plan")
    assert decide(state, command, s.AT) == [command]
    rejected = s.recorded(state, command)
    with pytest.raises(AmendmentDecided, match="plan is already rejected"):
        decide(rejected, command, s.AT)
    approval = p.AmendmentApproved(amendment="plan", proof={"policy": "trust"})
    assert decide(rejected, approval, s.AT) == [approval.model_copy(update={"version": 1})]


def approve(state: Workflow, *proposals: p.AmendmentProposed) -> list[p.Payload]:
    """Return the events of the approval of the first of these recorded proposals."""
    approval = p.AmendmentApproved(amendment="amend-1", proof={"policy": "trust"})
    return decide(s.recorded(state, *proposals), approval, s.AT)


def build_proposal(kind: Any, stage: str | None = None, **more: Any) -> p.AmendmentProposed:
    """Return the event of a proposal that the rules did not check."""
    return p.AmendmentProposed(
        amendment="amend-1", kind=kind, stage=stage, description="because", **more
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (build_proposal("stage_skip"), InvalidAmendment),
        (
            build_proposal("parameter_change", "stage-1", changes={"inputs": {"old": []}}),
            InvalidAmendment,
        ),
        (
            build_proposal("plan_change", rewired={"stage-1": {"inputs": {"old": []}}}),
            InvalidAmendment,
        ),
        (build_proposal("stage_rerun", "stage-1", also=["stage-9"]), UnknownStage),
        (build_proposal("stage_insert", insert={"id": "stage-1", "name": "x"}), StaleAmendment),
        (
            build_proposal(
                "parameter_change", "stage-1", changes={"name": {"old": "x", "new": "y"}}
            ),
            StaleAmendment,
        ),
        (
            build_proposal("parameter_change", changes={"purpose": {"old": "x", "new": "y"}}),
            InvalidAmendment,
        ),
        (
            build_proposal("plan_change", rewired={"stage-1": {"name": {"old": "x", "new": "y"}}}),
            StaleAmendment,
        ),
        (
            build_proposal(
                "parameter_change", "stage-1", changes={"depends_on": {"old": [], "new": ["z"]}}
            ),
            StaleAmendment,
        ),
    ],
)
def test_recorded_proposal_is_checked_again_at_its_approval(
    change: p.AmendmentProposed, error: type[Exception]
) -> None:
    """Another program can have recorded the proposal, or the workflow has changed since then."""
    with pytest.raises(error):
        approve(s.given(), change)


ALL = [c for number in (1, 2, 3) for c in s.through(f"stage-{number}", Status.COMPLETED)]
RENAME = {"name": {"old": "Build", "new": "Other"}}


@pytest.mark.parametrize(
    ("before", "change", "expected"),
    [
        (ALL, build_proposal("stage_insert", insert=NEW), ["workflow.reopened", "stage.readied"]),
        (
            ALL,
            build_proposal("stage_rerun", "stage-3"),
            ["workflow.reopened", "stage.invalidated", "outputs.archived", "stage.readied"],
        ),
        (ALL[:-4], build_proposal("stage_insert", insert=NEW), ["stage.readied"]),
        (
            ALL[:-4],
            build_proposal("stage_rerun", "stage-2"),
            ["stage.invalidated", "outputs.archived", "stage.readied"],
        ),
        (ALL, build_proposal("parameter_change", "stage-1", changes=RENAME), []),
        (
            ALL,
            build_proposal("stage_skip", "stage-2"),
            ["workflow.reopened", "stage.invalidated", "stage.skipped", "outputs.archived"],
        ),
    ],
    ids=["insert", "rerun", "insert in open", "rerun in open", "rename", "skip"],
)
def test_approval_reopens_a_completed_workflow_only_for_new_work(
    before: list[p.Payload], change: p.AmendmentProposed, expected: list[str]
) -> None:
    """An inserted stage or a stage that runs again is new work; a new name is not."""
    found = s.types(approve(s.given(*before), change))
    wanted = ["amendment.approved", *expected]
    assert [one for one in found if one != "stage.blocked"] == wanted


def test_approval_explains_why_a_running_attempt_is_stopped() -> None:
    """The error has the type and the stage of the amendment."""
    state = s.given(*s.through("stage-1", Status.RUNNING))
    changes = {"parameters": {"x": {"new": 1}}}
    events = approve(state, build_proposal("parameter_change", "stage-1", changes=changes))
    assert events[1] == p.StageFailed(
        stage="stage-1",
        error="stopped, because the amendment amend-1 (parameter_change of stage-1) was approved",
        attempt="att-0001",
        superseded_by="amend-1",
    )
    assert events[0].model_dump()["version"] == 2
    assert events[0].model_dump()["invalidated_stages"] == ["stage-1", "stage-2", "stage-3"]


@pytest.mark.parametrize(("reason", "expected"), [(None, "because"), ("not needed", "not needed")])
def test_skipped_stage_has_the_reason_or_the_description(reason: str | None, expected: str) -> None:
    """A completed stage is skipped without becoming invalid before."""
    state = s.given(*s.through("stage-1", Status.COMPLETED))
    events = approve(state, build_proposal("stage_skip", "stage-1", reason=reason))
    skipped = p.StageSkipped(stage="stage-1", amendment="amend-1", reason=expected)
    assert [one for one in events if one.type.startswith("stage.") and one != skipped] == [
        one for one in events if one.type in ("stage.blocked", "stage.readied")
    ]
    assert skipped in events


CHECKED = {"map": {"points": [{"x": 9, "kind": "a"}]}, "command": "side"}
SIDE = {
    "id": "side",
    "name": "Side",
    "depends_on": ["run"],
    "outputs": ["side/tasks.csv"],
    "parameters": CHECKED,
}


def in_round(number: int) -> Workflow:
    """Return the state of a loop with two sweeps, in the round with this number."""
    loop = {**LOOP, "ask": "agent", "stages": ["run", "side", "next"]}
    stages = [LOOPED["stages"][0], SIDE, *LOOPED["stages"][1:]]
    state = s.given(plan={**LOOPED, "rounds": {"search": loop}, "stages": stages})
    value: Any = {"name": "f", "path": "next/f.json", "pointer": "/f", "value": 1}
    for new in range(2, number + 1):
        for id_ in loop["stages"]:
            known: dict[str, Any] = (
                {"metrics": [p.MeasuredNumber(**value)]} if id_ == "next" else {}
            )
            attempt = f"att-{new - 1:04d}"
            state = s.recorded(
                state,
                s.attempt(id_, "sync", attempt=attempt),
                s.computed(id_, attempt),
                p.StageCompleted(stage=id_, evidence="seen", **known),
            )
        point: dict[str, Any] = {"x": new, "kind": "a"}
        begun = p.RoundBegun(loop="search", points=[point], by="agent:x", round=new)
        state = s.recorded(state, begun)
    assert state.loops["search"].round.number == number
    return state


@pytest.mark.parametrize(
    ("number", "since", "expected"),
    [
        (1, 2, "no from_round, because the loop has only one round"),
        (1, 1, "no from_round, because the loop has only one round"),
        (2, 1, "2 to 2"),
        (2, 2, None),
        (2, 3, "2 to 2"),
        (3, 2, None),
        (3, 3, None),
        (3, 4, "2 to 3"),
    ],
)
def test_only_results_before_a_started_round_can_be_kept(
    number: int, since: int, expected: str | None
) -> None:
    """The first round whose results become invalid is the second one or a later one."""
    state = in_round(number)
    change: dict[str, Any] = {"from_round": since, **build_value_change("command", "other")}
    if expected is None:
        assert propose(state, "parameter_change", "next", **change).from_round == since
        return
    found = find_problems(state, "parameter_change", "next", **change)
    assert found == [f"from_round: expected {expected}, found {since}"]


@pytest.mark.parametrize(
    ("kind", "stage", "more"),
    [
        ("criteria_change", "next", {"changes": {"success_criteria": {"new": "x"}}}),
        ("parameter_change", "tell", {"changes": {"parameters": {"x": {"new": 1}}}}),
        ("parameter_change", None, {"changes": {"workflow_plan": {"new": "x"}}}),
        ("stage_rerun", "next", {"also": ["run"]}),
    ],
)
def test_earlier_rounds_are_kept_only_by_a_change_of_one_stage_in_a_loop(
    kind: str, stage: str | None, more: dict[str, Any]
) -> None:
    """Each of these amendments cannot keep the results of earlier rounds."""
    started = [p.StagePrepared(stage=id_) for id_ in ("run", "next")]
    assert find_problems(s.recorded(in_round(2), *started), kind, stage, from_round=2, **more) == [
        "from_round can be used only with a parameter_change or stage_rerun of one stage in a loop"
    ]


def build_value_change(name: str, new: Any) -> dict[str, Any]:
    """Return the changes that set one parameter."""
    return {"changes": {"parameters": {name: {"new": new}}}}


CHECKS_ONLY = (
    "from_round cannot be used here: the change only checks results, and a check applies to all "
    "rounds"
)


@pytest.mark.parametrize(
    ("kind", "stage", "more", "expected"),
    [
        ("parameter_change", "next", build_value_change("verify", "true"), [CHECKS_ONLY]),
        ("parameter_change", "next", {"changes": {"name": {"new": "x"}}}, [CHECKS_ONLY]),
        ("stage_rerun", "next", build_value_change("verify", "true"), []),
        ("parameter_change", "next", {"changes": {"backend": {"new": "local"}}}, []),
        ("parameter_change", "next", build_value_change("command", "other"), []),
        (
            "parameter_change",
            "next",
            {
                "changes": {
                    "inputs": {"new": ["z"]},
                    **build_value_change("command", "other")["changes"],
                }
            },
            ["inputs: cannot change together with from_round: earlier results would not fit"],
        ),
        (
            "parameter_change",
            "run",
            build_value_change("forward_files", ["z"]),
            [
                (
                    "parameters.forward_files: cannot change together with from_round; propose a "
                    "separate amendment"
                )
            ],
        ),
        (
            "parameter_change",
            "side",
            build_value_change("command", "other"),
            ["from_round: the rounds of search add no points to the map of side"],
        ),
    ],
)
def test_results_of_earlier_rounds_are_kept_only_if_they_still_fit(
    kind: str, stage: str, more: dict[str, Any], expected: list[str]
) -> None:
    """Files, points and checks cannot differ between the rounds of a loop."""
    state = in_round(2)
    if kind == "stage_rerun":
        state = s.recorded(state, p.StagePrepared(stage=stage))
    if expected:
        assert find_problems(state, kind, stage, from_round=2, **more) == expected
    else:
        assert propose(state, kind, stage, from_round=2, **more).from_round == 2


@pytest.mark.parametrize(
    ("leaf", "problem"),
    [
        ({}, "rounds.search: the loop has started; `wfctl round stop search` ends it"),
        (
            {"stages": ["run", "next"]},
            (
                "rounds.search: the stages of the loop and their points cannot change after "
                "the loop has started"
            ),
        ),
        ({"at_most": 5}, None),
    ],
    ids=["removed", "stages", "limit"],
)
@pytest.mark.parametrize("number", [1, 2])
def test_stages_of_a_loop_cannot_change_after_it_has_started(
    number: int, leaf: dict[str, Any], problem: str | None
) -> None:
    """A loop has started with its second round. Its limits can change later."""
    state = in_round(number)
    new = {"new": {**state.rounds["search"], **leaf}} if leaf else {}
    changes = {"rounds": {"search": new}}
    if problem is None or number == 1:
        assert propose(state, "parameter_change", changes=changes).kind == "parameter_change"
    else:
        assert problem in find_problems(state, "parameter_change", changes=changes)
