"""The predicted impact equals the actual effects, for random workflows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.state.status import ACTIVE, FINISHED, Status
from lifecycle.state.workflow import Stage, Workflow
from tests.lifecycle import support as s

PROOF: dict[str, Any] = {"policy": "trust"}


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a plan whose stages depend on earlier stages."""
    size = draw(st.integers(1, 7))
    stages = []
    for number in range(1, size + 1):
        earlier = [f"stage-{n}" for n in range(1, number)]
        needs = draw(st.lists(st.sampled_from(earlier), unique=True)) if earlier else []
        stages.append({"id": f"stage-{number}", "name": f"S{number}", "depends_on": needs})
    return {"workflow_id": "any", "stages": stages}


@st.composite
def situations(draw: st.DrawFn) -> Workflow:
    """Draw a workflow with stages of different statuses."""
    state = s.given(plan=draw(plans()))
    ends = [Status.COMPLETED] * 4 + [Status.RUNNING, Status.POST_PROCESSING, Status.FAILED]
    for id_ in state.stages:
        if state.stages[id_].status is Status.READY and draw(st.integers(0, 5)):
            for command in s.through(id_, draw(st.sampled_from(ends))):
                state = state_after(state, decide(state, command, s.AT), s.AT)
    return state


def proposals(state: Workflow) -> st.SearchStrategy[Payload]:
    """Draw an amendment of any stage."""
    stage = st.sampled_from(list(state.stages))
    names = st.sampled_from(["x", "time_limit", "expected_seconds"])
    change = names.map(lambda name: {"parameters": {name: {"new": 60}}})
    criteria = {"success_criteria": {"new": "better"}}
    insert = {"name": "New"}
    what: dict[str, Any] = {"description": "d"}
    return st.one_of(
        st.builds(p.AmendmentProposed, kind=st.just("parameter_change"), stage=stage,
                  changes=change, **_just(what)),
        st.builds(p.AmendmentProposed, kind=st.just("criteria_change"), stage=stage,
                  changes=st.just(criteria), **_just(what)),
        st.builds(p.AmendmentProposed, kind=st.just("stage_rerun"), stage=stage, **_just(what)),
        st.builds(p.AmendmentProposed, kind=st.just("stage_skip"), stage=stage,
                  rewire=st.booleans(), **_just(what)),
        st.builds(p.AmendmentProposed, kind=st.just("stage_insert"), insert=st.just(insert),
                  rewire=st.lists(stage, unique=True, max_size=2), **_just(what)),
    )  # fmt: skip


def _just(values: dict[str, Any]) -> dict[str, Any]:
    return {key: st.just(value) for key, value in values.items()}


@given(st.data())
def test_predicted_impact_equals_the_actual_effects(data: st.DataObject) -> None:
    """The approval invalidates, stops and keeps exactly the stages that the impact lists."""
    before = data.draw(situations())
    proposal = data.draw(proposals(before))
    try:
        proposed = state_after(before, decide(before, proposal, s.AT), s.AT)
    except LifecycleError:
        return
    amendment = proposed.pending_amendments[0]
    predicted = compute_approval_impact(proposed, amendment)
    approval = p.AmendmentApproved(amendment=amendment.id, proof=PROOF)
    events = decide(proposed, approval, s.AT)
    new = state_after(proposed, events, s.AT)
    assert set(predicted.invalidated) == {
        e.stage for e in events if isinstance(e, p.StageInvalidated)
    }
    assert set(predicted.stopped) == {
        e.stage for e in events if isinstance(e, p.StageFailed) and e.superseded_by
    }
    assert dict(predicted.kept) == {
        e.stage: e.kept_as for e in events if isinstance(e, p.OutputsArchived)
    }
    assert new.amendments[amendment.id].invalidated_stages == list(predicted.affected)
    _only_what_was_said(proposed, new, predicted)


def _only_what_was_said(before: Workflow, new: Workflow, predicted: Any) -> None:
    for id_, stage in before.stages.items():
        now = new.stages[id_].status
        if stage.status is Status.COMPLETED and now is not Status.COMPLETED:
            assert id_ in predicted.invalidated or now is Status.SKIPPED
        if stage.status in ACTIVE and now not in ACTIVE:
            assert id_ in predicted.stopped
        if id_ in predicted.affected and stage.status is Status.COMPLETED:
            assert now in (Status.INVALIDATED, Status.READY)


def _approved(data: st.DataObject) -> Workflow | None:
    """Draw a workflow and an amendment, and return the state after its approval."""
    before = data.draw(situations())
    try:
        proposed = state_after(before, decide(before, data.draw(proposals(before)), s.AT), s.AT)
    except LifecycleError:
        return None
    id_ = proposed.pending_amendments[0].id
    approval = p.AmendmentApproved(amendment=id_, proof=PROOF)
    return state_after(proposed, decide(proposed, approval, s.AT), s.AT)


@given(st.data())
def test_workflow_can_be_finished_after_any_amendment(data: st.DataObject) -> None:
    """Each stage has an allowed next step until all stages have ended."""
    state = _approved(data)
    while state is not None and not state.is_finished:
        steps = [way for stage in state.stages.values() if (way := _way_on(state, stage))]
        assert steps, {stage.id: stage.status for stage in state.stages.values()}
        for command in steps[0]:
            state = state_after(state, decide(state, command, s.AT), s.AT)


def _way_on(state: Workflow, stage: Stage) -> list[Payload]:
    """Return the next commands of a stage, or nothing if it waits for another stage."""
    newest = stage.attempts[-1].id if stage.attempts else "none"
    following = f"att-{len(stage.attempts) + 1:04d}"
    gone = [id_ for id_ in stage.depends_on if state.stages[id_].status is Status.SKIPPED]
    if gone and stage.status not in FINISHED:
        needs = [id_ for id_ in stage.depends_on if id_ not in gone]
        return _amended(state, stage, {"depends_on": {"new": needs}})
    match stage.status:
        case Status.READY if not state.unmet_dependencies(stage):
            return [s.attempt(stage.id), s.launched(stage.id, following)]
        case Status.RUNNING:
            return [s.computed(stage.id, newest)]
        case Status.POST_PROCESSING:
            return [s.completed(stage.id)]
        case Status.FAILED:
            return [p.StageRetried(stage=stage.id, fix="put right")]
    return []


def _amended(state: Workflow, stage: Stage, changes: dict[str, Any]) -> list[Payload]:
    id_ = f"amend-{len(state.amendments) + 1}"
    proposal = p.AmendmentProposed(
        kind="parameter_change", stage=stage.id, description="d", changes=changes
    )
    return [proposal, p.AmendmentApproved(amendment=id_, proof=PROOF)]


@given(st.data())
def test_approved_change_reaches_all_dependents(data: st.DataObject) -> None:
    """No stage with a result depends on a stage that runs again."""
    new = _approved(data)
    if new is None:
        return
    for stage in new.stages.values():
        reached = [id_ for one in new.amendments.values() for id_ in one.invalidated_stages]
        if stage.status in {Status.COMPLETED, *ACTIVE, Status.FAILED}:
            assert not set(stage.depends_on) & set(reached)
