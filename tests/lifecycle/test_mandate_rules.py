"""Amendments and attempts that a mandate (a permission given in advance) covers or refuses."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.rules.impact import Impact, compute_approval_impact
from lifecycle.rules.mandates import (
    check_mandates_at_start,
    command_to_widen,
    compute_amendment_cost,
    find_covering_mandate,
    list_objections,
    list_refusing_mandates,
)
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.scripts import MISSING, OUTSIDE
from tests.lifecycle import support as s

LIMITED = {"command": "run", "dt": 1, "dts": [1, 2], "grid": {"x": 1, "y": 1}, "time_limit": 870}
STAGES: list[dict[str, Any]] = [
    {"id": "stage-1", "name": "Build", "parameters": LIMITED},
    {"id": "stage-2", "name": "Run", "parameters": {**LIMITED, "time_limit": 70}},
    {"id": "stage-3", "name": "Analyse", "depends_on": ["stage-2"]},
]
MANDATE: dict[str, Any] = {
    "stages": ["stage-1", "stage-2"],
    "amendments": 2,
    "reruns": 2,
    "values": {"stage-1.parameters.dt": [2, 3], "stage-1.parameters.grid.y": [2]},
}
#: A time before and a time after `support.AT`.
EARLIER, LATER = "2026-03-31T09:00:00.000000Z", "2026-03-31T11:00:00.000000Z"
A, B = "a" * 64, "b" * 64


def build_plan(mandates: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a plan with these mandates, or with the mandate `tune` with changed fields."""
    found = {"tune": {**MANDATE, **more}} if mandates is None else mandates
    return {"workflow_id": "w", "stages": STAGES, "mandates": found}


def create_state_with_mandate(*events: Payload, **more: Any) -> Workflow:
    """Return the state after the given events, with a mandate with these changed fields."""
    return s.recorded(s.given(plan=build_plan(**more)), *events)


def create_unapproved_state(*events: Payload) -> Workflow:
    """Return the state of a workflow whose plan no person has approved, after the given events."""
    created = build_creation_payload(build_plan(), created=s.AT, consent="terminal")
    return s.recorded(state_after(None, decide(None, created, s.AT), s.AT), *events)


def build_used_approvals(
    number: int = 1, kind: Any = "parameter_change", name: str = "tune"
) -> list[Payload]:
    """Return the events of an amendment of stage-1 that the mandate of this name approved."""
    id_ = f"amend-{number}"
    proof: dict[str, Any] = {"policy": "mandate", "mandate": name, "mandate_rule": 2}
    return [
        p.AmendmentProposed(amendment=id_, kind=kind, stage="stage-1", description="because"),
        p.AmendmentApproved(amendment=id_, version=1 + number, proof=proof),
    ]


def build_amendment(
    kind: str = "parameter_change", stage: str | None = "stage-1", **more: Any
) -> Any:
    """Return an amendment, by default one that changes `dt` of stage-1 from 1 to 2."""
    is_change = kind == "parameter_change"
    changes = {"parameters": {"dt": {"old": 1, "new": 2}}} if is_change else {}
    return Amendment(
        "amend-9", kind, stage, "because", s.AT, **{"changes": more.pop("changes", changes), **more}
    )


def find_objections(state: Workflow, change: Amendment, **more: Any) -> list[str]:
    """Return the objections of the mandate `tune` to the amendment."""
    known = {"impact": Impact(), "actor": "agent:x", "at": s.AT, **more}
    return list_objections(state, "tune", change, **known)


def test_first_covering_mandate_by_name_is_used() -> None:
    """Mandates are examined in the order of their names, and not after the first that covers."""
    state = s.given(
        plan=build_plan({"c": MANDATE, "b": MANDATE, "a": {**MANDATE, "amendments": 0}})
    )
    name, why = find_covering_mandate(state, build_amendment(), Impact(), "agent:x", s.AT)
    assert (name, why) == ("b", {"a": ["all 0 amendments of the mandate are used"], "b": []})


def test_amendment_without_a_covering_mandate_has_the_objections_of_each() -> None:
    """The name is None, and every mandate of the plan is listed with its objections."""
    none = ["all 0 amendments of the mandate are used"]
    given = {name: {**MANDATE, "amendments": 0} for name in ("b", "a")}
    for mandates, expected in ((given, {"a": none, "b": none}), ({}, {})):
        found = find_covering_mandate(
            s.given(plan=build_plan(mandates)), build_amendment(), Impact(), "agent:x", s.AT
        )
        assert found == (None, expected)


def test_mandate_that_the_plan_does_not_have_covers_nothing() -> None:
    """The only objection is that the workflow has no such mandate."""
    found = list_objections(
        create_state_with_mandate(), "other", build_amendment(), Impact(), "agent:x", s.AT
    )
    assert found == ["the workflow has no valid mandate 'other' (approval in advance)"]


def test_all_objections_except_the_limits_are_listed_together() -> None:
    """The limits are examined only if nothing else speaks against the amendment."""
    state = create_state_with_mandate(until=EARLIER, by=["agent:a", "agent:b"], amendments=0)
    assert find_objections(state, build_amendment(stage="stage-3", changes={})) == [
        f"the mandate expired at {EARLIER}",
        "the mandate is for agent:a, agent:b, not for agent:x",
        "the change would compute stage-3 again, but the mandate does not include stage-3",
    ]


@pytest.mark.parametrize(("until", "number"), [(EARLIER, 1), (s.AT, 0), (LATER, 0)])
def test_mandate_is_valid_up_to_its_expiry_time(until: str, number: int) -> None:
    """The amendment is decided before, at and after the expiry time of the mandate."""
    found = find_objections(create_state_with_mandate(until=until), build_amendment())
    assert found == [f"the mandate expired at {until}"] * number


def test_mandate_of_a_plan_that_no_person_approved_covers_nothing() -> None:
    """A mandate becomes valid when a person approves the plan that contains it."""
    approval = p.AmendmentApproved(amendment="plan", version=1)
    assert find_objections(create_unapproved_state(), build_amendment()) == [
        "no person has approved the plan yet"
    ]
    assert find_objections(create_unapproved_state(approval), build_amendment()) == []


@pytest.mark.parametrize(
    ("impact", "stages"),
    [
        (Impact(), []),
        (Impact(invalidated=("stage-1", "stage-2")), []),
        (Impact(invalidated=("stage-3", "stage-2", "stage-0")), ["stage-0", "stage-3"]),
        (Impact(stopped={"stage-3": None}), ["stage-3"]),
        (Impact(affected=("stage-3",)), []),
    ],
    ids=["none", "included", "invalidated", "stopped", "affected"],
)
def test_mandate_must_include_each_stage_that_is_computed_again(
    impact: Impact, stages: list[str]
) -> None:
    """Invalidated and stopped stages are computed again, in addition to the changed stage."""
    assert find_objections(create_state_with_mandate(), build_amendment(), impact=impact) == [
        f"the change would compute {id_} again, but the mandate does not include {id_}"
        for id_ in stages
    ]


@pytest.mark.parametrize(
    ("change", "is_allowed"),
    [
        (build_amendment(), True),
        (build_amendment("stage_rerun"), True),
        (build_amendment("criteria_change"), False),
        (build_amendment("stage_skip"), False),
        (build_amendment(stage=None, changes={}), False),
        (build_amendment(rewired={"stage-2": {"old": [], "new": []}}), False),
        (build_amendment(insert={}), False),
    ],
    ids=["values", "rerun", "criteria", "skip", "no stage", "rewired", "insert"],
)
def test_mandate_allows_only_new_values_and_reruns(change: Amendment, is_allowed: bool) -> None:
    """Any other amendment has this single objection."""
    other = ["a mandate can allow only new values of a stage, and reruns"]
    assert find_objections(create_state_with_mandate(), change) == ([] if is_allowed else other)


def test_amendment_that_no_mandate_allows_is_not_examined_further() -> None:
    """The changes of an inserted stage are not compared with the bounds."""
    change = build_amendment(
        "criteria_change", changes={"success_criteria": {"new": "x"}}, from_round=2
    )
    assert find_objections(create_state_with_mandate(), change) == [
        "a mandate can allow only new values of a stage, and reruns"
    ]


def test_every_change_without_bounds_is_listed() -> None:
    """A field without limits does not hide a value of the next field that is outside its bounds."""
    changes = {
        "name": {"old": "Build", "new": "Other"},
        "parameters": {
            "dt": {"old": 1, "new": 9},
            "command": {"old": "run"},
            "free": {"new": 7},
        },
        "inputs": {"old": [], "new": ["a"]},
    }
    assert find_objections(
        create_state_with_mandate(), build_amendment(changes=changes, from_round=2)
    ) == [
        "a person must decide which earlier rounds stay valid (from_round)",
        "stage-1.name: the mandate gives no limits for this value",
        "stage-1.parameters.dt: 9 is not within [2, 3]",
        "stage-1.parameters.command: no bounds allow to take it away",
        "stage-1.parameters.free: no bounds are given for it",
        "stage-1.inputs: the mandate gives no limits for this value",
    ]


@pytest.mark.parametrize(
    "leaf", [{"old": {"x": 1, "y": 1}, "new": {"x": 1, "y": 2}}, {"old": 1, "new": 1}]
)
def test_only_the_changed_part_of_a_value_needs_bounds(leaf: dict[str, Any]) -> None:
    """The part that equals the old value needs no bounds."""
    assert (
        find_objections(
            create_state_with_mandate(), build_amendment(changes={"parameters": {"grid": leaf}})
        )
        == []
    )


def test_earlier_version_of_the_rule_allows_a_shorter_list() -> None:
    """An approval of an old log is checked by the rule that was valid then."""
    change = build_amendment(changes={"parameters": {"dts": {"old": [1, 2], "new": [1]}}})
    assert find_objections(create_state_with_mandate(), change, rule=1) == []
    assert find_objections(create_state_with_mandate(), change, rule=2) == find_objections(
        create_state_with_mandate(), change
    )
    assert len(find_objections(create_state_with_mandate(), change)) == 1


@pytest.mark.parametrize(("most", "uses"), [(2, 1), (1, 1), (1, 0), (0, 0), (2, 2)])
def test_mandate_covers_at_most_its_number_of_amendments(most: int, uses: int) -> None:
    """The amendments that the mandate approved before are counted."""
    events = [event for number in range(uses) for event in build_used_approvals(number + 1)]
    expected = [] if uses < most else [f"all {most} amendments of the mandate are used"]
    assert (
        find_objections(create_state_with_mandate(*events, amendments=most), build_amendment())
        == expected
    )


@pytest.mark.parametrize(("most", "uses", "needed"), [(2, 0, 2), (2, 1, 2), (1, 1, 1), (2, 1, 1)])
def test_mandate_covers_at_most_its_number_of_reruns(most: int, uses: int, needed: int) -> None:
    """Each stage of a rerun is one rerun."""
    state = create_state_with_mandate(
        *(build_used_approvals(kind="stage_rerun") if uses else []), reruns=most
    )
    change = build_amendment("stage_rerun", also=["stage-2"] if needed == 2 else [])
    expected = (
        f"{uses} of {most} reruns of the mandate are used, but the change needs {needed} more"
    )
    assert find_objections(state, change) == ([expected] if uses + needed > most else [])


def test_change_of_values_needs_no_rerun() -> None:
    """It is covered even if more reruns are used than the mandate now allows."""
    assert (
        find_objections(
            create_state_with_mandate(*build_used_approvals(kind="stage_rerun"), reruns=0),
            build_amendment(),
        )
        == []
    )


def test_cost_of_an_amendment_must_be_within_the_limits() -> None:
    """The number of tasks and the core hours of the changed stage are compared with the limits."""
    assert (
        find_objections(create_state_with_mandate(tasks=1, core_hours=0.25), build_amendment())
        == []
    )
    assert find_objections(
        create_state_with_mandate(tasks=0, core_hours=0.24), build_amendment()
    ) == [
        "1 task may be computed, and 0 of its 0 are left",
        "up to 0.25 core hours may be needed, and 0.24 of its 0.24 are left",
    ]


def test_earlier_version_of_the_rule_charges_only_the_newest_mandate() -> None:
    """In version 1, an attempt used only the first of the mandates of its stage."""
    mandates = {"tune": {**MANDATE, "tasks": 1}, "other": MANDATE}
    state = s.recorded(
        s.given(plan=build_plan(mandates)),
        *build_used_approvals(1, name="tune"),
        *build_used_approvals(2, name="other"),
    )
    state = s.recorded(state, *decide(state, s.attempt("stage-1"), s.AT))
    expected = ["1 task may be computed, and 0 of its 1 are left"]
    assert [find_objections(state, build_amendment(), rule=rule) for rule in (1, 2)] == [
        [],
        expected,
    ]


def compute_cost(state: Workflow, change: Amendment, impact: Impact | None = None) -> Any:
    """Return the number of tasks of an amendment and their maximum core seconds."""
    return compute_amendment_cost(state, change, impact or Impact())


def test_cost_is_the_time_limit_of_each_task_and_its_time_to_exit() -> None:
    """A command gets 30 seconds to exit after its time limit."""
    assert compute_cost(create_state_with_mandate(), build_amendment()) == (1, 900.0)


def test_cost_is_that_of_the_changed_values() -> None:
    """A longer time limit and more cores are counted, although they are not approved yet."""
    parameters = {
        "time_limit": {"old": 870, "new": 970},
        "resource_overrides": {"new": {"cpu_per_node": 4, "number_node": 2}},
    }
    assert compute_cost(
        create_state_with_mandate(), build_amendment(changes={"parameters": parameters})
    ) == (1, 8000.0)


def test_cost_includes_each_stage_once() -> None:
    """Stages of a rerun and stages that are computed again are added, without repetition."""
    change = build_amendment("stage_rerun", also=["stage-2"])
    assert compute_cost(
        create_state_with_mandate(), change, Impact(again=("stage-1", "stage-2"))
    ) == (2, 1000.0)
    assert compute_cost(
        create_state_with_mandate(), build_amendment(), Impact(again=("stage-2",))
    ) == (2, 1000.0)


@pytest.mark.parametrize("first", ["stage-1", "stage-3"])
def test_core_seconds_of_a_stage_without_a_time_limit_are_unknown(first: str) -> None:
    """The number of tasks is known nevertheless. The order of the stages does not matter."""
    other = {"stage-1": "stage-3", "stage-3": "stage-1"}[first]
    change = build_amendment("stage_rerun", first, also=[other])
    assert compute_cost(create_state_with_mandate(), change) == (2, None)


def test_amendment_of_no_stage_costs_nothing() -> None:
    """A changed default of the workflow that computes no stage again needs no task."""
    change = build_amendment(stage=None, changes={"workflow_plan": {"old": None, "new": "x"}})
    assert compute_cost(create_state_with_mandate(), change) == (0, 0.0)


def build_sweep(id_: str, points: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the definition of a sweep stage with a time limit of 70 seconds for each task."""
    parameters = {"command": "run", "map": points, "time_limit": 70}
    stage = {"id": id_, "name": id_, "outputs": [f"{id_}/tasks.csv"], "parameters": parameters}
    return {**stage, **more}


POINTS = {"points": [{"x": 0}, {"x": 1}]}
SWEEPS = {
    "workflow_id": "w",
    "stages": [
        build_sweep("run", POINTS),
        build_sweep("check", {"like": "run"}, depends_on=["run"], inputs=["run/tasks.csv"]),
    ],
}


def build_sweep_events(stage: str) -> list[Payload]:
    """Return the commands that compute the two tasks of a sweep stage and complete it."""
    seen = p.TasksObserved(
        stage=stage, attempt="att-0001", total=2, points="x", done="0-1", ended=2
    )
    before = [s.attempt(stage, tasks=2), s.launched(stage)]
    return [*before, seen, s.computed(stage), s.completed(stage)]


def with_points(*values: int) -> Any:
    """Return an amendment that gives the sweep `run` these points."""
    new = {"points": [{"x": value} for value in values]}
    return build_amendment(
        stage="run", changes={"parameters": {"map": {"old": POINTS, "new": new}}}
    )


def test_sweep_that_has_not_run_costs_all_its_tasks() -> None:
    """The points of the changed plan are counted."""
    state = s.given(plan=SWEEPS)
    rerun = build_amendment("stage_rerun", "run")
    assert compute_cost(state, rerun) == (2, 200.0)
    assert compute_cost(state, with_points(0, 1, 2)) == (3, 300.0)


def test_sweep_costs_only_its_new_tasks_and_those_of_its_follower() -> None:
    """The finished tasks of both sweeps stay valid, and one new point needs one task in each."""
    state = s.given(*build_sweep_events("run"), *build_sweep_events("check"), plan=SWEEPS)
    change = with_points(0, 1, 2)
    assert compute_cost(state, change, compute_approval_impact(state, change)) == (2, 200.0)


def test_removed_point_of_a_finished_sweep_costs_nothing() -> None:
    """The remaining tasks are finished, so the number of computed tasks is zero."""
    state = s.given(*build_sweep_events("run"), *build_sweep_events("check"), plan=SWEEPS)
    change = with_points(0)
    assert compute_cost(state, change, compute_approval_impact(state, change)) == (0, 0.0)


def find_refusals(
    state: Workflow, tasks: int = 1, at: str = s.AT, **scripts: str
) -> dict[str, list[str]]:
    """Return the mandates that do not allow an attempt of stage-1, with their objections."""
    named = {f"{name}.sh": digest for name, digest in scripts.items()} or None
    return list_refusing_mandates(state, state.stage("stage-1"), tasks, at, named)


def test_stage_that_no_mandate_changed_has_no_limits() -> None:
    """The mandates of the plan do not limit a stage that a person approved."""
    assert find_refusals(create_state_with_mandate(tasks=0, until=EARLIER), 5) == {}


def test_only_refusing_mandates_are_listed() -> None:
    """The other mandates of the stage allow the attempt."""
    mandates = {"tune": {**MANDATE, "tasks": 1}, "other": MANDATE}
    state = s.recorded(
        s.given(plan=build_plan(mandates)),
        *build_used_approvals(1, name="tune"),
        *build_used_approvals(2, name="other"),
    )
    assert state.stage("stage-1").mandates == ["other", "tune"]
    assert find_refusals(state, 2) == {"tune": ["2 tasks may be computed, and 1 of its 1 is left"]}


def test_withdrawn_mandate_allows_no_attempt() -> None:
    """A mandate that the plan no longer has gives this single reason."""
    assert find_refusals(
        create_state_with_mandate(*build_used_approvals(name="gone")), 1, s.AT, a=A
    ) == {"gone": ["a person withdrew the approval"]}


def test_mandate_that_no_longer_includes_the_stage_allows_no_attempt() -> None:
    """The other reasons are listed after it."""
    state = create_state_with_mandate(
        *build_used_approvals(), stages=["stage-2"], values={}, tasks=0
    )
    assert find_refusals(state) == {
        "tune": [
            "the mandate no longer includes stage-1",
            "1 task may be computed, and 0 of its 0 are left",
        ]
    }


def test_mandate_of_an_unapproved_plan_allows_no_attempt() -> None:
    """The reason is that no person has approved the plan."""
    assert find_refusals(create_unapproved_state(*build_used_approvals())) == {
        "tune": ["no person has approved the plan yet"]
    }


@pytest.mark.parametrize(
    ("until", "at", "is_expired"),
    [
        ("2026-03-31T09:30:00Z", EARLIER, True),
        (LATER, "2026-03-31T11:00:01Z", True),
        (LATER, EARLIER, False),
        (LATER, LATER, False),
    ],
)
def test_clock_that_was_set_back_does_not_extend_a_mandate(
    until: str, at: str, is_expired: bool
) -> None:
    """The later one of the current time and the time of the last event is used."""
    expected = {"tune": [f"the mandate expired at {until}"]} if is_expired else {}
    assert (
        find_refusals(create_state_with_mandate(*build_used_approvals(), until=until), 1, at)
        == expected
    )


@pytest.mark.parametrize(
    ("name", "digest", "problem"),
    [
        ("agreed", A, None),
        ("agreed", B, "agreed.sh differs from the file that a person approved"),
        ("allowed", B, None),
        ("allowed", A, "allowed.sh differs from the file that a person approved"),
        ("new", MISSING, None),
        ("new", A, "new.sh differs from the file that a person approved"),
        ("agreed", MISSING, "agreed.sh differs from the file that a person approved"),
        ("agreed", OUTSIDE, "agreed.sh is outside the root, and its digest is not known"),
    ],
)
def test_mandate_allows_only_approved_scripts(name: str, digest: str, problem: str | None) -> None:
    """A person approves a digest with the plan, or the mandate lists the digest."""
    scripts = p.FilesRecorded(scripts={"agreed.sh": A})
    state = create_state_with_mandate(scripts, *build_used_approvals(), scripts={"allowed.sh": B})
    found = find_refusals(state, 1, s.AT, **{name: digest})
    assert found == ({} if problem is None else {"tune": [problem]})


def test_each_changed_script_is_listed() -> None:
    """A script with unknown contents does not hide the next one."""
    found = find_refusals(
        create_state_with_mandate(*build_used_approvals()), 1, s.AT, a=OUTSIDE, b=MISSING, c=A
    )
    assert found == {
        "tune": [
            "a.sh is outside the root, and its digest is not known",
            "c.sh differs from the file that a person approved",
        ]
    }


@pytest.mark.parametrize(("hours", "is_allowed"), [(0.5, True), (0.499, False)])
def test_core_hours_of_an_attempt_include_the_time_to_exit(hours: float, is_allowed: bool) -> None:
    """Two tasks of 870 seconds, with 30 seconds to exit, need half a core hour."""
    problem = f"up to 0.5 core hours may be needed, and {hours:g} of its {hours:g} are left"
    found = find_refusals(create_state_with_mandate(*build_used_approvals(), core_hours=hours), 2)
    assert found == ({} if is_allowed else {"tune": [problem]})


def test_core_hours_of_an_attempt_are_those_of_all_its_cores() -> None:
    """A task on four cores needs four times its run time."""
    stage = {**STAGES[0], "parameters": {**LIMITED, "resource_overrides": {"cpu_per_node": 4}}}
    changed = {**build_plan(core_hours=0.9), "stages": [stage, *STAGES[1:]]}
    state = s.recorded(s.given(plan=changed), *build_used_approvals())
    assert find_refusals(state) == {
        "tune": ["up to 1 core hour may be needed, and 0.9 of its 0.9 are left"]
    }


def test_core_hours_without_a_time_limit_are_unknown() -> None:
    """The mandate limits core hours, so an attempt without a time limit is refused."""
    removed = {"parameters": {"time_limit": {"old": 870}}}
    proposal, approval = build_used_approvals()
    state = create_state_with_mandate(
        proposal.model_copy(update={"changes": removed}), approval, core_hours=100
    )
    assert find_refusals(state) == {
        "tune": ["a stage has no parameters.time_limit, so its core hours are unknown"]
    }


def test_earlier_attempts_under_the_mandate_are_counted() -> None:
    """The first attempt used one of two tasks, so only one task is left."""
    state = create_state_with_mandate(*build_used_approvals(), tasks=2)
    state = s.recorded(state, *decide(state, s.attempt("stage-1"), s.AT))
    assert find_refusals(state, 1) == {}
    assert find_refusals(state, 2) == {"tune": ["2 tasks may be computed, and 1 of its 2 is left"]}


@pytest.mark.parametrize(
    ("given", "most", "is_allowed"),
    [(None, 1, True), (None, 0, False), (0, 0, True), (3, 3, True), (3, 2, False)],
)
def test_attempt_starts_only_within_the_limits_of_its_mandate(
    given: int | None, most: int, is_allowed: bool
) -> None:
    """An attempt without a number of tasks has one task."""
    state, start = (
        create_state_with_mandate(*build_used_approvals(), tasks=most),
        s.attempt("stage-1", tasks=given),
    )
    if is_allowed:
        assert s.types(decide(state, start, s.AT)) == ["stage.prepared", "attempt.started"]
        return
    with pytest.raises(NeedsConsent) as refusal:
        decide(state, start, s.AT)
    count = "3 tasks" if given else "1 task"
    why = [f"{count} may be computed, and {most} of its {most} are left"]
    assert refusal.value.data == {"stage": "stage-1", "mandate": "tune", "why": why}


def test_refused_attempt_shows_the_reasons_and_the_command_that_allows_it() -> None:
    """All reasons of the mandate are in the message, also those about the time and scripts."""
    state = create_state_with_mandate(*build_used_approvals(), until=LATER)
    later = "2026-03-31T12:00:00.000000Z"
    start = s.attempt("stage-1", scripts={"a.sh": A})
    with pytest.raises(NeedsConsent) as refusal:
        check_mandates_at_start(state, start, later)
    assert str(refusal.value) == (
        "the limits of the mandate tune do not allow another attempt of the stage stage-1: the "
        f"mandate expired at {LATER}; a.sh differs from the file that a person approved. To allow "
        "more attempts, a person can run `wfctl mandate grant tune FILE`."
    )


def test_limits_of_a_stage_do_not_apply_to_other_stages() -> None:
    """The mandate has no task left, but stage-2 was not changed under the mandate."""
    decision = decide(
        create_state_with_mandate(*build_used_approvals(), tasks=0), s.attempt("stage-2"), s.AT
    )
    assert s.types(decision) == ["stage.prepared", "attempt.started"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("tune", "wfctl mandate grant tune FILE"),
        ("rounds.search", "wfctl amend propose --set rounds.search.NAME=VALUE --reason TEXT"),
    ],
)
def test_limits_of_a_loop_are_extended_by_an_amendment(name: str, command: str) -> None:
    """A loop is part of the plan, so a person extends its limits by an amendment."""
    assert command_to_widen(name) == command


def test_ended_attempt_uses_its_actual_time() -> None:
    """A completed attempt of zero seconds leaves all core hours of the mandate."""
    state = create_state_with_mandate(*build_used_approvals(), core_hours=0.25)
    for command in s.through("stage-1", Status.RUNNING):
        state = s.recorded(state, *decide(state, command, s.AT))
    assert find_objections(state, build_amendment()) == [
        "up to 0.25 core hours may be needed, and 0 of its 0.25 are left"
    ]
    ended = s.recorded(state, s.observed("stage-1", "att-0001", "succeeded"), s.computed("stage-1"))
    assert find_objections(ended, build_amendment()) == []
