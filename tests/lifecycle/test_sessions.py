"""The published rules of working sessions and of their budget, each with its own test."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.errors import InvalidPayload, NoCommand, NotFinished, RetryLimitReached
from lifecycle.payload import models as p
from lifecycle.payload.build_payload import payload_of
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import decide, state_after
from lifecycle.state.conditions import find_hindrances, is_stuck
from lifecycle.state.report_path import add_number_to_path
from lifecycle.state.session_budget import (
    build_cost_charges,
    can_afford_stage,
    classify_ended_work,
    estimate_stage_cost,
    maximum_session_cost,
    weight_of,
)
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

FAR = {"far": {"type": "remote", "batch_type": "Slurm", "config_path": "m.json"}}
LOCAL = {"local": {"type": "local", "config": {"batch_type": "Shell"}}}


def plan(**config: Any) -> dict[str, Any]:
    """Return a plan of a local stage, a remote stage, and a stage that depends on both."""
    stages = [
        {"id": "stage-1", "name": "Near", "parameters": {"expected_seconds": 1}},
        {"id": "stage-2", "name": "Far", "backend": "far"},
        {"id": "stage-3", "name": "Both", "depends_on": ["stage-1", "stage-2"]},
    ]
    profiles = {**LOCAL, **FAR}
    found = {"workflow_id": "w-2026-03-31", "backend_profiles": profiles, "stages": stages}
    return {**found, "session_config": config} if config else found


def carried_out(state: Workflow, *commands: Payload) -> tuple[Workflow, list[Payload]]:
    """Apply commands by the rules, and return the new state and all resulting events."""
    found: list[Payload] = []
    for command in commands:
        events = decide(state, command, s.AT)
        state, found = state_after(state, events, s.AT), found + events
    return state, found


def synchronous(stage: str) -> list[Payload]:
    """Return the commands that run a stage synchronously and complete it."""
    return [s.attempt(stage, "sync"), s.computed(stage), s.completed(stage)]


def charged(events: list[Payload]) -> list[tuple[str, float, str]]:
    """Return the costs among the events, each with stage, weight and class of work."""
    return [(e.stage, e.weight, e.work_class) for e in events if isinstance(e, p.CostCharged)]


def opened(*commands: Payload, **config: Any) -> Workflow:
    """Return the state of a workflow with an open session, after the given commands."""
    return s.given(p.SessionStarted(), *commands, plan=plan(**config))


def test_local_synchronous_stage_costs_1() -> None:
    """A session is charged 1 for a stage of the class `sync`."""
    _, events = carried_out(opened(), *synchronous("stage-1"))
    assert charged(events) == [("stage-1", 1, "sync")]


def test_remote_or_asynchronous_stage_costs_1_5() -> None:
    """A session is charged 1.5 for a stage of the class `async`."""
    _, events = carried_out(opened(), *s.through("stage-1", Status.COMPLETED))
    assert charged(events) == [("stage-1", 1.5, "async")]
    _, events = carried_out(opened(), *synchronous("stage-2"))
    assert charged(events) == [("stage-2", 1.5, "async")]


def test_retried_stage_costs_2_for_each_attempt() -> None:
    """A session is charged 2 for the failed attempt and 2 for the retry (class `error_cycle`)."""
    again = [
        s.attempt("stage-1", "sync"),
        s.failed("stage-1"),
        p.StageRetried(stage="stage-1", fix="mended"),
        s.attempt("stage-1", "sync"),
        s.computed("stage-1", "att-0002"),
        s.completed("stage-1"),
    ]
    state, events = carried_out(opened(), *again)
    assert charged(events) == [("stage-1", 2, "error_cycle")] * 2
    assert state.session.cost == 4


def test_diagnostic_run_has_its_own_class() -> None:
    """A session is charged 2 for a diagnostic run, in the class `diagnostic`."""
    state, _ = carried_out(opened(), *s.through("stage-1", Status.FAILED))
    _, events = carried_out(state, s.attempt("stage-1", diagnostic=True), s.failed("stage-1"))
    assert charged(events) == [("stage-1", 2, "diagnostic")]


def test_heaviest_matching_class_is_charged() -> None:
    """If a stage belongs to two classes of work, the class with the greater weight is charged."""
    weights = {"sync": 1, "async": 9, "error_cycle": 2, "diagnostic": 3}
    state = opened(stage_weights=weights)
    _, events = carried_out(state, *s.through("stage-1", Status.RUNNING), s.failed("stage-1"))
    assert charged(events) == [("stage-1", 9, "async")]


def test_charge_is_in_the_same_append_as_its_completion() -> None:
    """wfctl records the completion and its cost together, so that no crash separates them."""
    state, _ = carried_out(opened(), s.attempt("stage-1", "sync"), s.computed("stage-1"))
    events = decide(state, s.completed("stage-1"), s.AT)
    assert s.types(events) == ["stage.completed", "cost.charged"]
    assert build_cost_charges(state_after(state, events, s.AT)) == []


def test_superseded_attempt_is_not_charged() -> None:
    """A session is not charged for an attempt that an approved amendment stopped."""
    state = opened(*s.through("stage-1", Status.RUNNING))
    assert build_cost_charges(s.recorded(state, superseded())) == []


def superseded() -> p.StageFailed:
    """Return the failure of an attempt that an approved amendment stops."""
    return p.StageFailed(stage="stage-1", error="superseded", superseded_by="amend-1")


def test_work_without_a_session_is_charged_to_the_next_session() -> None:
    """If a stage is completed without a session, the start of a session records its cost."""
    state = s.given(*synchronous("stage-1"), plan=plan())
    state, events = carried_out(state, p.SessionStarted(), p.NoteLogged(text="on"))
    assert charged(events) == [("stage-1", 1.0, "sync")]
    assert state.session.cost == 1


@settings(max_examples=60)
@given(st.lists(st.sampled_from([1, 1.5, 2, 0.25]), max_size=8), st.sampled_from([3, 6, 6.5]))
def test_stage_starts_only_if_its_estimate_fits_the_budget(
    weights: list[float], budget: float
) -> None:
    """A stage may start if the charges of the session and its estimate fit the budget."""
    state = opened(session_budget=budget)
    paid = [p.CostCharged(stage="stage-3", weight=w, work_class="sync") for w in weights]
    state = s.recorded(state, *paid)
    assert state.session.cost == sum(weights)
    for stage, needed in (("stage-1", 1), ("stage-2", 1.5)):
        fits = sum(weights) + needed <= budget
        assert can_afford_stage(state, state.stages[stage]) == fits


def test_estimate_of_a_stage_equals_its_later_charge() -> None:
    """wfctl estimates 1 for a short local stage, 1.5 for others, and 2 for a retried stage."""
    state = opened(session_budget=2)
    near, far = state.stages["stage-1"], state.stages["stage-2"]
    assert (estimate_stage_cost(state, near), estimate_stage_cost(state, far)) == (1, 1.5)
    assert can_afford_stage(state, near)
    assert not can_afford_stage(state, near, [far])
    near.parameters = {}
    assert estimate_stage_cost(state, near) == 1.5
    near.retry_count = 1
    assert estimate_stage_cost(state, near) == 2


def test_invalid_imported_settings_fall_back_to_the_defaults() -> None:
    """If an imported workflow has an invalid budget or weight, wfctl uses the default."""
    state = s.given(plan=plan())
    state.session_config = {"session_budget": "six", "stage_weights": {"sync": None, "async": 3}}
    assert (maximum_session_cost(state), weight_of(state, "sync"), weight_of(state, "async")) == (
        6,
        1,
        3,
    )
    state.session_config = {"stage_weights": [1, 2]}
    assert weight_of(state, "diagnostic") == 2


@pytest.mark.parametrize("reason", ["budget_exhausted", "blocked", "waiting"])
def test_exit_reason_is_logged_and_cleared_by_the_next_session(reason: Any) -> None:
    """The next session logs the exit reason and the cost of the previous session.

    A session that ended while it waited for a job has the exit reason null.
    """
    budget = 1 if reason == "budget_exhausted" else 6
    end = p.SessionEnded(reason=reason, next="ask Ada")
    state, _ = carried_out(opened(session_budget=budget), end)
    shown = None if reason == "waiting" else reason
    assert state.session.exit_reason == shown
    state, events = carried_out(state, p.SessionStarted())
    note = events[0]
    assert isinstance(note, p.NoteLogged)
    assert note.text == f"Previous session ended: exit_reason={shown or 'null'}, cost=0/{budget}"
    assert (state.session.exit_reason, state.session.cost, state.session.count) == (None, 0, 2)
    assert len(events) == 2


def test_killed_session_is_recognized_by_its_missing_end() -> None:
    """The next session logs a warning that the previous session has no end."""
    _, events = carried_out(opened(), p.SessionStarted())
    texts = [event.text for event in events if isinstance(event, p.NoteLogged)]
    assert texts == [
        "Previous session ended: exit_reason=null, cost=0/6",
        "WARNING: session 1 has no end in the log: it died",
    ]


def test_first_session_has_no_previous_session() -> None:
    """The start of the first session logs no line about a previous session."""
    assert s.types(decide(s.given(), p.SessionStarted(), s.AT)) == ["session.started"]


def test_session_number_comes_from_the_log() -> None:
    """wfctl ignores a session number given by the caller, and counts the recorded sessions."""
    state = opened()
    started = decide(state, p.SessionStarted(number=40), s.AT)[-1]
    assert isinstance(started, p.SessionStarted)
    assert started.number == 2


def test_exhausted_budget_is_logged_before_the_session_end() -> None:
    """wfctl logs a line with cost and budget, in the exact words of the protocol."""
    paid = p.CostCharged(stage="stage-1", weight=5.5, work_class="async")
    end = p.SessionEnded(reason="budget_exhausted", next="wfctl run")
    events = decide(opened(paid), end, s.AT)
    note = events[0]
    assert isinstance(note, p.NoteLogged)
    assert note.text == "Session ending: budget exhausted (cost=5.5, budget=6)"
    assert s.types(events) == ["note.logged", "session.ended"]


def test_session_ends_as_completed_only_with_the_workflow() -> None:
    """The rules refuse this end while stages are open, and refuse a second end of a session."""
    with pytest.raises(NotFinished, match="stage-1, stage-2, stage-3"):
        decide(opened(), p.SessionEnded(reason="completed"), s.AT)
    state, _ = carried_out(opened(), p.SessionEnded(reason="waiting"))
    with pytest.raises(NoCommand):
        decide(state, p.SessionEnded(reason="waiting"), s.AT)


@pytest.mark.parametrize(("stage", "limit"), [("stage-1", 3), ("stage-2", 5)])
def test_retry_limit_depends_on_the_backend_type(stage: str, limit: int) -> None:
    """After the last retry of a failed stage, wfctl suggests a rerun that a person approves."""
    state = opened(s.attempt(stage), s.failed(stage))
    for number in range(1, limit + 1):
        retried = p.StageRetried(stage=stage, fix="f")
        state, _ = carried_out(state, retried, s.attempt(stage), s.failed(stage))
        assert state.stages[stage].retry_count == number
    with pytest.raises(RetryLimitReached):
        decide(state, p.StageRetried(stage=stage, fix="f"), s.AT)
    [hindrance] = find_hindrances(state)
    assert "--type stage_rerun" in hindrance.unblock


def test_skipped_dependency_blocks_its_dependent_stage() -> None:
    """wfctl reports that a stage which depends on a skipped stage cannot run."""
    state = s.recorded(
        s.given(*synchronous("stage-1"), plan=plan()),
        *s.approved("stage_skip", "stage-2"),
        p.StageSkipped(stage="stage-2", amendment="amend-1"),
    )
    assert state.unmet_dependencies(state.stages["stage-3"]) == {"stage-2": "skipped"}
    assert is_stuck(state)
    assert [h.stage for h in find_hindrances(state)] == ["stage-3"]


def test_blocked_session_logs_stage_reason_and_fix() -> None:
    """When a session ends as blocked, wfctl logs one line for each blocked stage."""
    state = opened(s.attempt("stage-1"), s.failed("stage-1"))
    note = decide(state, p.SessionEnded(reason="blocked"), s.AT)[0]
    assert isinstance(note, p.NoteLogged)
    assert note.text == (
        "Session ending: blocked. stage-1: failed (it broke); "
        "to continue: `wfctl stage retry stage-1 --fix TEXT`"
    )


def test_class_depends_only_on_the_newest_run() -> None:
    """After an approved rerun, earlier failures of a stage do not make its work more expensive."""
    state = opened(s.attempt("stage-1", "sync"), s.computed("stage-1"))
    assert classify_ended_work(state, state.stages["stage-1"]) == "sync"


def test_report_path_must_be_below_the_root() -> None:
    """wfctl refuses a report path outside the root or among its own files, also in an event."""
    ours = (".wfctl/events.db", "workflow-state.json", "progress.log")
    for path in ("/etc/report.md", "../report.md", "a/../../report.md", ".", *ours):
        for data in ({"report": path}, {"report": path, "stages": 1}):
            type_ = "workflow.completed" if "stages" in data else "session.started"
            with pytest.raises(InvalidPayload, match="below the root"):
                payload_of(type_, data)


def test_report_is_named_by_date_and_topic() -> None:
    """A session may give another report path. A second completion gets a new file name."""
    one = {"workflow_id": "melt-2026-03-31", "stages": [{"id": "stage-1", "name": "Build"}]}
    for asked, expected in (
        (None, "docs/superscientist/reports/2026-03-31-melt-report.md"),
        ("report.md", "report.md"),
    ):
        state = s.given(p.SessionStarted(report=asked), plan=one)
        state, events = carried_out(state, *synchronous("stage-1"))
        done = events[-1]
        assert isinstance(done, p.WorkflowCompleted)
        assert (done.report, state.report) == (expected, expected)
    invalidated = p.StageInvalidated(stage="stage-1", amendment="amend-1")
    state = s.recorded(state, *s.approved("stage_rerun", "stage-1"), invalidated)
    state, events = carried_out(state, p.StageReadied(stage="stage-1"), s.attempt("stage-1"))
    state, events = carried_out(
        state,
        s.launched("stage-1", "att-0002"),
        s.computed("stage-1", "att-0002"),
        s.completed("stage-1"),
    )
    assert state.report == "report-2.md"


@pytest.mark.parametrize(
    ("path", "second"),
    [
        ("report.md", "report-2.md"),
        ("a.b/report", "a.b/report-2"),
        ("a/.report", "a/.report-2"),
        ("r.tar.md", "r.tar-2.md"),
    ],
)
def test_number_is_inserted_before_the_suffix(path: str, second: str) -> None:
    """The second report of "a.b/report.md" is "a.b/report-2.md"; dots in folders do not matter."""
    assert (add_number_to_path(path, 1), add_number_to_path(path, 2)) == (path, second)
