"""Every transition of every definition, with its guard met and with it refused."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from lifecycle.errors import NoWorkflow
from lifecycle.machines import guard as g
from lifecycle.machines import payload as p
from lifecycle.machines.decide import decide
from lifecycle.machines.definition import CANCELLED, Definition, Transition
from lifecycle.machines.errors import CircuitOpen, GuardFailed, InvalidTransition
from tests.machines.support import AT, World, every, fail, go, meet, placed, when


class Way(NamedTuple):
    """A transition of a definition."""

    known: Definition
    way: Transition

    @property
    def name(self) -> str:
        """How it is called in a report."""
        return f"{self.known.id}: {self.way.source} to {self.way.to}"


WAYS = [Way(known, way) for known in every() for way in known.transitions]
GUARDED = [one for one in WAYS if one.way.guard is not None]
LOOPS = [one for one in WAYS if one.way.loop is not None]
UNFINISHED = [
    (known, name) for known in every() for name, phase in known.phases.items() if not phase.final
]


def world_of(known: Definition) -> World:
    """Return a world in which a phase stands as on entry."""
    return World(known, status=known.statuses.initial if known.statuses else None)


@pytest.mark.parametrize("one", WAYS, ids=lambda one: one.name)
def test_a_way_is_taken_where_its_guard_is_met(one: Way) -> None:
    """Given what the guard asks for, when it is asked for, then the phase changes, and only it."""
    world = world_of(one.known)
    meet(one.way.guard, world)
    before = world.machine(one.way.source)
    after = when(before, go(one.way.to), files=world.files)
    assert (after.phase, after.moves[-1].source) == (one.way.to, one.way.source)
    assert after.document == before.document


@pytest.mark.parametrize("one", GUARDED, ids=lambda one: one.name)
def test_a_way_is_refused_where_its_guard_is_not_met(one: Way) -> None:
    """Given nothing of it, when it is asked for, then every unmet condition and target is named."""
    world = world_of(one.known)
    fail(one.way.guard, world)
    state = world.machine(one.way.source)
    with pytest.raises((GuardFailed, CircuitOpen)) as refused:
        decide(state, go(one.way.to), AT, world.files)
    assert refused.value.data["unmet"]
    assert one.way.to in refused.value.data["validTargets"]
    assert CANCELLED in refused.value.data["validTargets"]


@pytest.mark.parametrize("one", GUARDED, ids=lambda one: one.name)
def test_a_refusal_lists_each_unmet_condition(one: Way) -> None:
    """Given all conditions but one, then that one is the whole list."""
    whole = one.way.guard
    conditions = whole.all if isinstance(whole, g.All) else [whole]
    for left_out in conditions:
        world = world_of(one.known)
        for condition in conditions:
            meet(condition, world) if condition is not left_out else fail(condition, world)
        with pytest.raises((GuardFailed, CircuitOpen)) as refused:
            decide(world.machine(one.way.source), go(one.way.to), AT, world.files)
        expected = 2 if isinstance(left_out, g.AnyOf) else 1
        assert len(refused.value.data["unmet"]) >= expected


@pytest.mark.parametrize("one", LOOPS, ids=lambda one: one.name)
def test_a_loop_is_counted_and_leads_out_at_its_limit(one: Way) -> None:
    """Given the limit taken, when it is asked for once more, then the exit is taken and said."""
    loop = one.way.loop
    assert loop is not None
    limit = one.known.loops[loop].limit
    world = world_of(one.known)
    meet(one.way.guard, world)
    for taken in range(limit):
        before = world.machine(one.way.source)
        before.counts = {loop: taken}
        after = when(before, go(one.way.to), files=world.files)
        assert (after.phase, after.counts[loop]) == (one.way.to, taken + 1)
    before = world.machine(one.way.source)
    before.counts = {loop: limit}
    (event,) = decide(before, go(one.way.to), AT, world.files)
    assert isinstance(event, p.MachineTransitioned)
    assert (event.to, event.asked) == (one.known.loops[loop].on_limit, one.way.to)
    assert (event.loop, event.count, event.limit) == (loop, limit, limit)


@pytest.mark.parametrize(("known", "phase"), UNFINISHED, ids=lambda value: str(value)[:20])
def test_any_phase_that_is_not_final_leads_to_cancelled(known: Definition, phase: str) -> None:
    """Given any work, when it is cancelled, then nothing leads on from there."""
    state = world_of(known).machine(phase)
    cancelled = when(state, p.MachineCancelled(reason="no longer wanted"))
    assert (cancelled.phase, cancelled.is_final) == (CANCELLED, True)
    for target in known.phases:
        with pytest.raises(InvalidTransition) as refused:
            decide(cancelled, go(target), AT)
        assert refused.value.data["validTargets"] == []


@pytest.mark.parametrize(("known", "phase"), UNFINISHED, ids=lambda value: str(value)[:20])
def test_asking_for_the_phase_one_is_in_appends_nothing(known: Definition, phase: str) -> None:
    """It is so already."""
    assert decide(world_of(known).machine(phase), go(phase), AT) == []


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_what_is_no_way_is_refused_with_the_ways_there_are(known: Definition) -> None:
    """Every pair of phases that no transition joins."""
    ways = {(way.source, way.to) for way in known.transitions}
    for source, phase in known.phases.items():
        state = world_of(known).machine(source)
        for target in known.phases:
            if target != source and (source, target) not in ways:
                with pytest.raises(InvalidTransition) as refused:
                    decide(state, go(target), AT)
                assert target not in refused.value.data["validTargets"]
                assert phase.final == (refused.value.data["validTargets"] == [])


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_no_machine_begins_in_a_phase_that_there_is_not(known: Definition) -> None:
    """However the event that begins it came into the log; one that was cancelled has its place."""
    with pytest.raises(NoWorkflow, match="no phase 'nowhere'"):
        placed(known, "nowhere", {}, None)
    assert placed(known, CANCELLED, {}, None).is_final
