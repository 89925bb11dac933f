"""The published rules of sessions, each as a test named after it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.errors import InvalidPayload, NoCommand, NotFinished, RetryLimitReached
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import after, decide, payload_of
from lifecycle.state.conditions import (
    affords,
    budget_of,
    charges,
    class_of,
    estimate,
    hindrances,
    is_stuck,
    weight_of,
)
from lifecycle.state.report_path import numbered
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

FAR = {"far": {"type": "remote", "batch_type": "Slurm", "config_path": "m.json"}}
LOCAL = {"local": {"type": "local", "config": {"batch_type": "Shell"}}}


def plan(**config: Any) -> dict[str, Any]:
    """Return a plan of a local stage, a remote one, and one after both."""
    stages = [
        {"id": "stage-1", "name": "Near", "parameters": {"expected_seconds": 1}},
        {"id": "stage-2", "name": "Far", "backend": "far"},
        {"id": "stage-3", "name": "Both", "depends_on": ["stage-1", "stage-2"]},
    ]
    profiles = {**LOCAL, **FAR}
    found = {"workflow_id": "w-2026-03-31", "backend_profiles": profiles, "stages": stages}
    return {**found, "session_config": config} if config else found


def carried_out(state: Workflow, *commands: Payload) -> tuple[Workflow, list[Payload]]:
    """Return the state after the commands, and all that they yielded."""
    found: list[Payload] = []
    for command in commands:
        events = decide(state, command, s.AT)
        state, found = after(state, events, s.AT), found + events
    return state, found


def synchronous(stage: str) -> list[Payload]:
    """Return the commands that compute a stage synchronously and complete it."""
    return [s.attempt(stage, "sync"), s.computed(stage), s.completed(stage)]


def charged(events: list[Payload]) -> list[tuple[str, float, str]]:
    """Return the charges among events."""
    return [(e.stage, e.weight, e.work_class) for e in events if isinstance(e, p.CostCharged)]


def opened(*commands: Payload, **config: Any) -> Workflow:
    """Return the state with a session open."""
    return s.given(p.SessionStarted(), *commands, plan=plan(**config))


def test_a_local_stage_in_one_attempt_without_an_error_is_sync() -> None:
    """It costs 1."""
    _, events = carried_out(opened(), *synchronous("stage-1"))
    assert charged(events) == [("stage-1", 1, "sync")]


def test_a_stage_that_is_remote_or_waited_for_is_async() -> None:
    """It costs 1.5, wherever it ran."""
    _, events = carried_out(opened(), *s.through("stage-1", Status.COMPLETED))
    assert charged(events) == [("stage-1", 1.5, "async")]
    _, events = carried_out(opened(), *synchronous("stage-2"))
    assert charged(events) == [("stage-2", 1.5, "async")]


def test_any_retry_is_an_error_cycle() -> None:
    """The failure costs 2, and so does the run that follows it."""
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


def test_a_diagnostic_run_is_diagnostic() -> None:
    """It always ends in failed; of two classes of one weight, it is named so."""
    state, _ = carried_out(opened(), *s.through("stage-1", Status.FAILED))
    _, events = carried_out(state, s.attempt("stage-1", diagnostic=True), s.failed("stage-1"))
    assert charged(events) == [("stage-1", 2, "diagnostic")]


def test_of_several_classes_the_heaviest_counts() -> None:
    """Whichever that is by the workflow's own weights."""
    weights = {"sync": 1, "async": 9, "error_cycle": 2, "diagnostic": 3}
    state = opened(stage_weights=weights)
    _, events = carried_out(state, *s.through("stage-1", Status.RUNNING), s.failed("stage-1"))
    assert charged(events) == [("stage-1", 9, "async")]


def test_a_charge_is_in_the_append_of_the_end_that_it_pays_for() -> None:
    """So no crash comes between them, and nothing that follows is decided before it."""
    state, _ = carried_out(opened(), s.attempt("stage-1", "sync"), s.computed("stage-1"))
    events = decide(state, s.completed("stage-1"), s.AT)
    assert s.types(events) == ["stage.completed", "cost.charged"]
    assert charges(after(state, events, s.AT)) == []


def test_what_an_amendment_stops_is_not_charged() -> None:
    """Its work is not over: it begins anew."""
    state = opened(*s.through("stage-1", Status.RUNNING))
    assert charges(s.recorded(state, superseded())) == []


def superseded() -> p.StageFailed:
    """Return the failure of an attempt that an approved amendment stops."""
    return p.StageFailed(stage="stage-1", error="superseded", superseded_by="amend-1")


def test_what_ends_without_a_session_is_charged_to_the_next() -> None:
    """In the append that starts it, and once."""
    state = s.given(*synchronous("stage-1"), plan=plan())
    state, events = carried_out(state, p.SessionStarted(), p.NoteLogged(text="on"))
    assert charged(events) == [("stage-1", 1.0, "sync")]
    assert state.session.cost == 1


@settings(max_examples=60)
@given(st.lists(st.sampled_from([1, 1.5, 2, 0.25]), max_size=8), st.sampled_from([3, 6, 6.5]))
def test_budget_arithmetic(weights: list[float], budget: float) -> None:
    """The cost is the sum of the weights; a stage is begun while its estimate still fits in."""
    state = opened(session_budget=budget)
    paid = [p.CostCharged(stage="stage-3", weight=w, work_class="sync") for w in weights]
    state = s.recorded(state, *paid)
    assert state.session.cost == sum(weights)
    for stage, needed in (("stage-1", 1), ("stage-2", 1.5)):
        fits = sum(weights) + needed <= budget
        assert affords(state, state.stages[stage]) == fits


def test_the_estimate_of_a_stage_is_what_its_end_will_charge() -> None:
    """Short and local: sync; waited for: async; retried: an error cycle."""
    state = opened(session_budget=2)
    near, far = state.stages["stage-1"], state.stages["stage-2"]
    assert (estimate(state, near), estimate(state, far)) == (1, 1.5)
    assert affords(state, near)
    assert not affords(state, near, [far])
    near.parameters = {}
    assert estimate(state, near) == 1.5
    near.retry_count = 1
    assert estimate(state, near) == 2


def test_weights_and_budget_are_as_usual_where_a_file_says_nothing_usable() -> None:
    """An imported session_config may hold anything."""
    state = s.given(plan=plan())
    state.session_config = {"session_budget": "six", "stage_weights": {"sync": None, "async": 3}}
    assert (budget_of(state), weight_of(state, "sync"), weight_of(state, "async")) == (6, 1, 3)
    state.session_config = {"stage_weights": [1, 2]}
    assert weight_of(state, "diagnostic") == 2


@pytest.mark.parametrize("reason", ["budget_exhausted", "blocked", "waiting"])
def test_the_previous_exit_reason_is_logged_and_cleared(reason: Any) -> None:
    """A session that waited for a job has none."""
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


def test_a_session_that_died_is_recognised_by_its_missing_end() -> None:
    """Its exit reason is null, and the log says why."""
    _, events = carried_out(opened(), p.SessionStarted())
    texts = [event.text for event in events if isinstance(event, p.NoteLogged)]
    assert texts == [
        "Previous session ended: exit_reason=null, cost=0/6",
        "WARNING: session 1 has no end in the log: it died",
    ]


def test_the_first_session_has_none_before_it() -> None:
    """Nothing is said of one."""
    assert s.types(decide(s.given(), p.SessionStarted(), s.AT)) == ["session.started"]


def test_session_numbers_come_only_from_the_log() -> None:
    """Whatever the caller says."""
    state = opened()
    started = decide(state, p.SessionStarted(number=40), s.AT)[-1]
    assert isinstance(started, p.SessionStarted)
    assert started.number == 2


def test_a_budget_that_is_exhausted_is_said_as_readers_expect_it() -> None:
    """Before the session's end."""
    paid = p.CostCharged(stage="stage-1", weight=5.5, work_class="async")
    end = p.SessionEnded(reason="budget_exhausted", next="wfctl run")
    events = decide(opened(paid), end, s.AT)
    note = events[0]
    assert isinstance(note, p.NoteLogged)
    assert note.text == "Session ending: budget exhausted (cost=5.5, budget=6)"
    assert s.types(events) == ["note.logged", "session.ended"]


def test_a_session_ends_as_completed_only_when_the_workflow_is() -> None:
    """And only once."""
    with pytest.raises(NotFinished, match="stage-1, stage-2, stage-3"):
        decide(opened(), p.SessionEnded(reason="completed"), s.AT)
    state, _ = carried_out(opened(), p.SessionEnded(reason="waiting"))
    with pytest.raises(NoCommand):
        decide(state, p.SessionEnded(reason="waiting"), s.AT)


@pytest.mark.parametrize(("stage", "limit"), [("stage-1", 3), ("stage-2", 5)])
def test_retry_limits_by_backend_type(stage: str, limit: int) -> None:
    """Local 3, remote 5; at the limit the stage stays failed and a person is named."""
    state = opened(s.attempt(stage), s.failed(stage))
    for number in range(1, limit + 1):
        retried = p.StageRetried(stage=stage, fix="f")
        state, _ = carried_out(state, retried, s.attempt(stage), s.failed(stage))
        assert state.stages[stage].retry_count == number
    with pytest.raises(RetryLimitReached):
        decide(state, p.StageRetried(stage=stage, fix="f"), s.AT)
    [hindrance] = hindrances(state)
    assert "--type stage_rerun" in hindrance.unblock


def test_skipped_does_not_satisfy_a_dependency() -> None:
    """What depends on it stays pending, and is named as what waits for somebody."""
    state = s.recorded(
        s.given(*synchronous("stage-1"), plan=plan()),
        *s.approved("stage_skip", "stage-2"),
        p.StageSkipped(stage="stage-2", amendment="amend-1"),
    )
    assert state.unmet(state.stages["stage-3"]) == {"stage-2": "skipped"}
    assert is_stuck(state)
    assert [h.stage for h in hindrances(state)] == ["stage-3"]


def test_a_block_says_which_stage_why_and_what_would_unblock_it() -> None:
    """A line for each."""
    state = opened(s.attempt("stage-1"), s.failed("stage-1"))
    note = decide(state, p.SessionEnded(reason="blocked"), s.AT)[0]
    assert isinstance(note, p.NoteLogged)
    assert note.text == (
        "Session ending: blocked. stage-1: failed (it broke); "
        "`wfctl stage retry stage-1 --fix TEXT` would unblock it"
    )


def test_a_class_is_told_from_the_newest_run_alone() -> None:
    """A rerun that a person approved starts with a clean count."""
    state = opened(s.attempt("stage-1", "sync"), s.computed("stage-1"))
    assert class_of(state, state.stages["stage-1"]) == "sync"


def test_a_report_lies_below_the_root_where_nothing_of_ours_is() -> None:
    """No session can have it written elsewhere, nor a log that somebody made up."""
    ours = (".wfctl/events.db", "workflow-state.json", "progress.log")
    for path in ("/etc/report.md", "../report.md", "a/../../report.md", ".", *ours):
        for data in ({"report": path}, {"report": path, "stages": 1}):
            type_ = "workflow.completed" if "stages" in data else "session.started"
            with pytest.raises(InvalidPayload, match="below the root"):
                payload_of(type_, data)


def test_a_report_is_named_by_day_and_topic_and_never_written_over() -> None:
    """The session may ask for another place; a second completion has a path of its own."""
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
def test_a_number_stands_before_the_suffix_of_the_name(path: str, second: str) -> None:
    """A dot in a folder, or at the beginning of a name, begins no suffix."""
    assert (numbered(path, 1), numbered(path, 2)) == (path, second)
