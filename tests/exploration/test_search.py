"""The search finds no violation in the small workflows, and it finds planted faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lifecycle.fold import evolve, rounds
from lifecycle.fold import stages as folded_stages
from lifecycle.rules import amendments, decide
from lifecycle.rules import rounds as round_rules
from lifecycle.rules import stages as stage_rules
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from service.consent import proof
from tests.exploration.consent_world import build_consent_world
from tests.exploration.rounds_world import build_rounds_world
from tests.exploration.search import Place, World, create_place, explore, take_step
from tests.exploration.worlds import (
    build_attempts_world,
    build_chain_world,
    build_restored_log_world,
)

TINY = [
    build_attempts_world(1, 1, 2),
    build_chain_world(1, 0),
    build_rounds_world(2, 0),
    build_consent_world("trust", 1),
]
#: Each world with the least number of states that the search must find.
WHOLE = [
    (build_attempts_world(3, 1), 4_000),
    (build_attempts_world(1, 2), 4_994),
    (build_chain_world(1, 1), 1_596),
    (build_chain_world(2, 0), 1_857),
    (build_restored_log_world(2), 30_280),
    (build_rounds_world(4, 0), 1_432),
    (build_rounds_world(3, 1), 9_132),
    (build_consent_world("terminal"), 1_027),
    (build_consent_world("signature"), 3_348),
    (build_consent_world("trust"), 595),
]


@pytest.mark.parametrize("world", TINY, ids=lambda world: world.name)
def test_no_state_of_a_tiny_world_violates_an_invariant(world: World) -> None:
    """Every state of a workflow with few attempts has all required properties."""
    found = explore(world)
    assert found.problem is None, str(found)


@pytest.mark.long
@pytest.mark.parametrize(("world", "least"), WHOLE, ids=lambda one: getattr(one, "name", ""))
def test_no_state_of_a_small_world_violates_an_invariant(world: World, least: int) -> None:
    """Every state has all required properties; docs/trust/assurance.md gives their number."""
    found = explore(world)
    print(world.name, found)
    assert found.problem is None, str(found)
    assert found.states >= least


class Fault(NamedTuple):
    """A fault of the rules or of the fold, the world that shows it, and the expected problem.

    ``make`` returns the faulty function that replaces the right one in each place.
    """

    places: list[tuple[Any, str]]
    make: Callable[[Any], Any]
    world: World
    problem: str
    path: list[str]


def _start_with_used_id(rules: Any) -> Any:
    def start(state: Workflow, stage: Any, command: Any) -> Any:
        *others, started = rules["attempt.started"](state, stage, command)
        return [*others, started.model_copy(update={"attempt": "att-0001"})]

    return {**rules, "attempt.started": start}


def _keep_lost_attempts_open(right: Any) -> Any:
    return lambda attempt, event, how: how == "lost" or right(attempt, event, how)


def _allow_any_change_of_completed_stages(right: Any) -> Any:
    return lambda stage, *rest: stage.status is Status.COMPLETED or right(stage, *rest)


def _accept_every_approval(right: Any) -> Any:
    return lambda draft, event, _: right(draft, event, {event.hash})


_RUN = ["dispatch stage-1", "monitor: stage-1 att-0001 is launched"]
FAULTS = {
    "an attempt gets an id twice": Fault(
        [(stage_rules, "RULES")],
        _start_with_used_id,
        build_attempts_world(2, 0),
        "the attempt att-0001 of stage-1 was started twice",
        ["dispatch stage-1", "cancel stage-1", "diagnose stage-1"],
    ),
    "a lost attempt does not end": Fault(
        [(folded_stages, "_end_attempt")],
        _keep_lost_attempts_open,
        build_attempts_world(2, 0),
        "stage-1 has the running attempts att-0001, att-0002",
        [
            "dispatch stage-1",
            "monitor: stage-1 att-0001 is seen as lost",
            "replace the lost attempt stage-1 att-0001",
        ],
    ),
    "a late report of an ended attempt is accepted": Fault(
        [(stage_rules, "_get_open_attempt")],
        lambda _: stage_rules._get_attempt,
        build_restored_log_world(2),
        "the results of stage-1 are checked, but no attempt reported its success",
        [
            "dispatch stage-1",
            "monitor: stage-1 att-0001-00000000 is launched",
            "monitor: stage-1 att-0001-00000000 is seen as lost",
            "replace the lost attempt stage-1 att-0001",
            "monitor: stage-1 att-0001-00000000 has succeeded",
        ],
    ),
    "an approved rerun has no consequence": Fault(
        [(decide, "_find_consequences_of_failed")],
        lambda _: lambda *_: [],
        build_attempts_world(1, 1),
        "wfctl suggests no next action and names no decision of a person",
        [
            "dispatch stage-1",
            "propose: another value of x in stage-1",
            "approve amend-1",
        ],
    ),
    "a completed stage can change": Fault(
        [(stage_rules, "_require_transition")],
        _allow_any_change_of_completed_stages,
        build_attempts_world(1, 0),
        "the results of a finished workflow changed by stage.retried",
        [
            *_RUN,
            "monitor: stage-1 att-0001 has succeeded",
            "the checks of stage-1 pass",
            "retry stage-1",
        ],
    ),
    "an agent approves": Fault(
        [(proof, "_explain_policy_violation")],
        lambda _: lambda *_: None,
        build_consent_world("terminal", 1),
        "an event that is not valid changed the state",
        ["approve plan by an agent"],
    ),
    "an earlier proof is accepted": Fault(
        [(proof, "_explain_unbound_proof")],
        lambda _: lambda *_: None,
        build_consent_world("terminal", 1),
        "an event that is not valid changed the state",
        ["approve plan by a proof that was given earlier"],
    ),
    "the fold accepts every approval": Fault(
        [(evolve, "fold_approval")],
        _accept_every_approval,
        build_consent_world("signature", 1),
        "an event that is not valid changed the state",
        ["approve plan by ann through an agent"],
    ),
    "a round uses any points": Fault(
        [(rounds, "is_round_from_loop_source"), (round_rules, "is_round_from_loop_source")],
        lambda _: lambda *_: True,
        build_rounds_world(2, 0),
        "a round started with points that the current attempt did not write",
        [
            "dispatch run",
            "run att-0001 has succeeded",
            "the checks of run pass",
            "dispatch next",
            "next att-0001 has succeeded",
            "the checks of next pass, f is 1",
            "start a round with the points of an earlier result",
        ],
    ),
    "a skipped stage is skipped again": Fault(
        [(amendments, "_is_skipped")],
        lambda _: lambda *_: False,
        build_attempts_world(0, 2),
        "protocol check: version 9: statuses",
        [
            "propose: to skip stage-1",
            "propose: to skip stage-1",
            "approve amend-1",
            "approve amend-2",
        ],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found_with_a_shortest_path(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search finds a fault, and lists the moves that lead to it."""
    fault = FAULTS[name]
    for owner, attribute in fault.places:
        monkeypatch.setattr(owner, attribute, fault.make(getattr(owner, attribute)))
    found = explore(fault.world, every=1 if "protocol" in fault.problem else 1_000_000)
    print(name, found)
    assert found.problem is not None
    assert found.problem.startswith(fault.problem)
    assert found.path == fault.path


SAME = [
    build_attempts_world(2, 0),
    build_chain_world(1, 1),
    build_restored_log_world(1),
    build_rounds_world(2, 0),
    build_consent_world("trust", 1),
]


@pytest.mark.long
@pytest.mark.parametrize("world", SAME, ids=lambda world: world.name)
def test_states_with_equal_keys_have_equal_successors(world: World) -> None:
    """The key omits nothing that influences a later decision of the rules."""
    start = create_place(world)
    known, queue = {start.key: _list_successors(world, start)}, deque([start])
    while queue:
        place = queue.popleft()
        for after in _list_places(world, place):
            successors = _list_successors(world, after)
            if after.key not in known:
                queue.append(after)
            assert known.setdefault(after.key, successors) == successors


def _list_places(world: World, place: Place) -> list[Place]:
    steps = (take_step(place, move, world.judge) for move in world.moves(place))
    return [step.after for step in steps if step is not None]


def _list_successors(world: World, place: Place) -> list[bytes]:
    return [one.key for one in _list_places(world, place)]
