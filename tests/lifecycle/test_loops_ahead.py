"""The forecast of an amendment's effects on loops: remaining rounds, ends and invalid results."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.rules.impact import compute_amendment_reach
from lifecycle.rules.loops_ahead import LoopForecast, RoundsLeft, forecast_loops
from lifecycle.state.workflow import Amendment, Workflow
from tests.lifecycle import support as s
from tests.lifecycle.looped import begin_round, create_workflow, finish_round, start, with_rounds

ENDED_AT = "2026-03-31T11:00:00.000000Z"


def forecast(
    state: Workflow, kind: Any, stage: str | None = None, **more: Any
) -> list[LoopForecast]:
    """Return the forecasts for the loops that a proposal affects."""
    return forecast_amendment(*s.propose(state, kind, stage, **more))


def forecast_amendment(state: Workflow, amendment: Amendment) -> list[LoopForecast]:
    """Return the forecasts for the loops that an amendment affects."""
    reach = compute_amendment_reach(state, amendment)
    affected = tuple(id_ for id_ in state.stages if id_ in reach.affected)
    return [*forecast_loops(state, reach.after, amendment, affected)]


def forecast_limits(state: Workflow, **limits: Any) -> list[LoopForecast]:
    """Return the forecasts for a change of the limits of the loop `search`."""
    new = {**state.rounds["search"], **limits}
    changes = {"rounds": {"search": {"new": new}}}
    return forecast(state, "parameter_change", changes=changes)


def compute_remaining_rounds(state: Workflow, **limits: Any) -> RoundsLeft | None:
    """Return the remaining rounds of the loop `search` after a change of its limits."""
    [found] = forecast_limits(state, **limits)
    return found.goes_on


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"at_most": 2}, RoundsLeft(1, None, None)),
        ({"at_most": 4}, RoundsLeft(3, None, None)),
        ({"at_most": 1}, RoundsLeft(0, 0, 0.0)),
        ({"each": 3}, RoundsLeft(2, 8, None)),
        ({"tasks": 6}, RoundsLeft(2, 6, None)),
        ({"tasks": 5}, RoundsLeft(2, 5, None)),
        ({"tasks": 3}, RoundsLeft(1, 3, None)),
        ({"tasks": 2}, RoundsLeft(1, 2, None)),
        ({"tasks": 1}, RoundsLeft(0, 0, 0.0)),
        ({"tasks": 0}, RoundsLeft(0, 0, 0.0)),
        ({"tasks": 9, "each": 2}, RoundsLeft(2, 6, None)),
        ({"tasks": 5, "each": 2}, RoundsLeft(2, 5, None)),
    ],
)
def test_limits_of_rounds_and_tasks_determine_the_remaining_rounds(
    limits: dict[str, int], expected: RoundsLeft
) -> None:
    """A round of one point has two tasks, and the first round is running without an attempt."""
    assert compute_remaining_rounds(create_workflow(), **limits) == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"core_hours": 0.02}, RoundsLeft(2, None, 0.02)),
        ({"core_hours": 0.0199}, RoundsLeft(0, 0, 0.0)),
        ({"core_hours": 0}, RoundsLeft(0, 0, 0.0)),
        ({"core_hours": 1, "each": 1}, RoundsLeft(2, 4, 0.04)),
        ({"core_hours": 0.03, "each": 1}, RoundsLeft(2, 4, 0.03)),
        ({"each": 2}, RoundsLeft(2, 6, 0.06)),
    ],
)
def test_core_hours_limit_the_remaining_rounds(
    limits: dict[str, Any], expected: RoundsLeft
) -> None:
    """Each task is charged its time limit of 6 s and 30 s to exit, so a round needs 0.02 h."""
    assert compute_remaining_rounds(create_workflow(time_limit=6), **limits) == expected


def test_core_hours_have_four_decimals() -> None:
    """Two rounds of two tasks of 37 s each are 148 s, or 0.041111 h."""
    assert compute_remaining_rounds(create_workflow(time_limit=7), each=1) == RoundsLeft(
        2, 4, 0.0411
    )
    assert compute_remaining_rounds(create_workflow(time_limit=4), each=1) == RoundsLeft(
        2, 4, 0.0378
    )


def test_loop_with_core_hours_needs_time_limits() -> None:
    """A round cannot start if the time limit of a stage is unknown."""
    state = create_workflow(time_limit=6)
    loop = {**state.rounds["search"], "core_hours": 1}
    parameters = {"run": {"time_limit": {"old": 6}}, "next": {"time_limit": {"old": 6}}}
    amendment = Amendment(
        "amend-1",
        "plan_change",
        None,
        "because",
        s.AT,
        {"rounds": {"search": {"new": loop}}},
        rewired={id_: {"parameters": change} for id_, change in parameters.items()},
    )
    [found] = forecast_amendment(state, amendment)
    assert found.goes_on == RoundsLeft(0, 0, 0.0)


def test_running_attempts_use_their_maximum_of_the_limits() -> None:
    """A running task is charged one task and 36 s, so 36 s fewer are left."""
    state = start(create_workflow(time_limit=6, search={"at_most": 9}), "run")
    assert compute_remaining_rounds(state, tasks=4) == RoundsLeft(1, 3, None)
    assert compute_remaining_rounds(state, tasks=2) == RoundsLeft(0, 0, 0.0)
    assert compute_remaining_rounds(state, core_hours=0.03) == RoundsLeft(8, None, 0.02)
    assert compute_remaining_rounds(state, core_hours=0.029) == RoundsLeft(0, 0, 0.0)


@pytest.mark.parametrize("limits", [{"at_most": 1}, {"tasks": 1}, {"core_hours": 0.001}])
def test_loop_that_exceeds_new_limits_has_no_rounds_left(limits: dict[str, Any]) -> None:
    """Numbers of remaining rounds, tasks and core hours are never negative."""
    state = finish_round(create_workflow(time_limit=6, search={"at_most": 9}), at=ENDED_AT)
    assert compute_remaining_rounds(begin_round(state, 1), **limits) == RoundsLeft(0, 0, 0.0)


def test_used_tasks_of_a_loop_with_one_stage_leave_none() -> None:
    """A loop whose tasks are all charged has no round left, even of one task."""
    changes = {"stages": ["other"], "points": "other", "ask": "agent"}
    state = start(create_workflow(search=changes), "other")
    assert compute_remaining_rounds(state, tasks=1) == RoundsLeft(0, 0, 0.0)
    assert compute_remaining_rounds(state, tasks=2) == RoundsLeft(1, 1, None)


def test_higher_limit_continues_a_loop_that_was_over() -> None:
    """The forecast has the remaining rounds of the loop, which ended at its limit."""
    assert forecast_limits(with_rounds(2, at_most=2), at_most=5) == [
        LoopForecast("search", 2, was_over=True, goes_on=RoundsLeft(3, None, None))
    ]


def test_new_criterion_continues_a_loop_that_was_over() -> None:
    """The remaining rounds are listed although the limits are the same as before."""
    met = {"metric": "next.f", "below": 9}
    state = with_rounds(1, until=met)
    assert state.loops["search"].over == "next.f below 9"
    assert forecast_limits(state, until={**met, "below": 1}) == [
        LoopForecast("search", 1, was_over=True, goes_on=RoundsLeft(2, None, None))
    ]


def test_lower_limit_ends_a_loop_after_its_completed_round() -> None:
    """The forecast has the reason of the end and no remaining rounds."""
    assert forecast_limits(with_rounds(2, at_most=4), at_most=2) == [
        LoopForecast("search", 2, was_over=False, ends="its limit of 2 rounds")
    ]


def test_loop_that_stays_over_has_no_forecast() -> None:
    """A change of the limits below the number of rounds has no effect on the loop."""
    assert forecast_limits(with_rounds(2, at_most=2), at_most=1) == []


def test_change_of_another_stage_does_not_affect_the_loop() -> None:
    """A loop whose remaining rounds and results stay the same has no forecast."""
    assert forecast(with_rounds(2), "parameter_change", "other", changes=SEED) == []


def test_new_limits_do_not_restart_a_stopped_loop() -> None:
    """The forecast has the reason why somebody stopped the loop, between and during rounds."""
    stop = p.LoopStopped(loop="search", reason="enough")
    ended, running = s.follow(with_rounds(1), stop), s.follow(create_workflow(), stop)
    assert forecast_limits(ended, at_most=5) == [
        LoopForecast("search", 1, was_over=True, stays_stopped="enough")
    ]
    assert forecast_limits(running, at_most=5) == [
        LoopForecast("search", 1, was_over=False, stays_stopped="enough")
    ]
    assert forecast(ended, "parameter_change", "run", changes={"name": {"new": "Other"}}) == []


SEED: dict[str, Any] = {"parameters": {"seed": {"new": 1}}}


def test_new_parameter_makes_the_earlier_rounds_invalid() -> None:
    """The newest round is computed again, so only the rounds before it are listed."""
    assert forecast(with_rounds(3, at_most=5), "parameter_change", "next", changes=SEED) == [
        LoopForecast("search", 3, was_over=False, uncounted=(1, 2))
    ]


def test_change_from_a_round_keeps_the_rounds_before_it() -> None:
    """The results of the rounds before the given round stay valid."""
    state = with_rounds(4, at_most=5)
    assert forecast(state, "parameter_change", "run", changes=SEED, from_round=3) == [
        LoopForecast("search", 4, was_over=False, uncounted=(3,))
    ]


def test_rounds_that_were_invalid_before_are_not_listed_again() -> None:
    """A second amendment lists only the rounds that it makes invalid."""
    first: list[Payload] = [
        p.AmendmentProposed(
            kind="parameter_change", stage="next", description="because", changes=SEED
        ),
        p.AmendmentApproved(amendment="amend-1", proof={"policy": "trust"}),
        *(s.attempt("next", "sync"), s.computed("next", "att-0003"), s.completed("next")),
    ]
    state = s.follow(with_rounds(2, at_most=9), *first)
    state = finish_round(begin_round(finish_round(begin_round(state, 7)), 8))
    change = {"parameters": {"seed": {"new": 2}}}
    [found] = forecast(state, "parameter_change", "next", changes=change)
    assert (found.round, found.uncounted) == (4, (2, 3))


def test_removed_loop_does_not_hide_the_forecast_of_the_next_loop() -> None:
    """A loop that the amendment removes has no forecast; the loops after it have theirs."""
    alone = {"stages": ["other"], "points": "other"}
    state = create_workflow(first=alone, search={})
    new = {**state.rounds["search"], "at_most": 7}
    changes = {"rounds": {"first": {"old": state.rounds["first"]}, "search": {"new": new}}}
    assert forecast(state, "parameter_change", changes=changes) == [
        LoopForecast("search", 1, was_over=False, goes_on=RoundsLeft(6, None, None))
    ]


def test_forecast_is_written_with_its_remaining_rounds() -> None:
    """The dictionary has every field except the name of the loop."""
    left = RoundsLeft(2, 8, 0.5)
    found = LoopForecast("search", 3, True, left, "met", (1, 2), "enough")
    assert found.to_dict() == {
        "round": 3,
        "was_over": True,
        "goes_on": {"rounds": 2, "tasks": 8, "core_hours": 0.5},
        "ends": "met",
        "stays_stopped": "enough",
        "count_no_longer": [1, 2],
    }
    assert LoopForecast("search", 3, was_over=True).to_dict()["goes_on"] is None


def test_forecast_cannot_be_changed() -> None:
    """The fields of a forecast and of its remaining rounds are constant."""
    left = RoundsLeft(2, 8, 0.5)
    for value, name in ((left, "rounds"), (LoopForecast("search", 3, True, left), "round")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 4)
