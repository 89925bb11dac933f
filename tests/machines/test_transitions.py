"""Each transition of each shipped definition, tested with a met and an unmet condition."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from extensions.machines.rules import guard as g
from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import decide
from extensions.machines.rules.definition import CANCELLED, Definition, Transition
from extensions.machines.rules.errors import CircuitOpen, GuardFailed, InvalidTransition
from lifecycle.errors import NoWorkflow
from tests.machines.support import AT, World, every, fail, go, meet, placed, when


class Way(NamedTuple):
    """A transition and its definition."""

    known: Definition
    way: Transition

    @property
    def name(self) -> str:
        """Return a name for the transition, such as "feature: plan to review"."""
        return f"{self.known.id}: {self.way.source} to {self.way.to}"


WAYS = [Way(known, way) for known in every() for way in known.transitions]
GUARDED = [one for one in WAYS if one.way.guard is not None]
LOOPS = [one for one in WAYS if one.way.loop is not None]
UNFINISHED = [
    (known, name) for known in every() for name, phase in known.phases.items() if not phase.final
]


def world_of(known: Definition) -> World:
    """Return the facts for a machine whose phase has its initial status."""
    return World(known, status=known.statuses.initial if known.statuses else None)


@pytest.mark.parametrize("one", WAYS, ids=lambda one: one.name)
def test_transition_with_a_met_guard_changes_the_phase(one: Way) -> None:
    """The machine enters the next phase, and its fields stay the same."""
    world = world_of(one.known)
    meet(one.way.guard, world)
    before = world.machine(one.way.source)
    after = when(before, go(one.way.to), files=world.files)
    assert (after.phase, after.moves[-1].source) == (one.way.to, one.way.source)
    assert after.document == before.document


@pytest.mark.parametrize("one", GUARDED, ids=lambda one: one.name)
def test_transition_with_an_unmet_guard_is_refused(one: Way) -> None:
    """The error lists the unmet conditions and all phases that the machine may enter."""
    world = world_of(one.known)
    fail(one.way.guard, world)
    state = world.machine(one.way.source)
    with pytest.raises((GuardFailed, CircuitOpen)) as refused:
        decide(state, go(one.way.to), AT, world.files)
    assert refused.value.data["unmet"]
    assert one.way.to in refused.value.data["validTargets"]
    assert CANCELLED in refused.value.data["validTargets"]


@pytest.mark.parametrize("one", GUARDED, ids=lambda one: one.name)
def test_refusal_lists_each_unmet_condition(one: Way) -> None:
    """If all conditions except one are met, the refusal lists this condition."""
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
def test_loop_at_its_limit_leads_to_its_exit(one: Way) -> None:
    """At the limit, the machine enters the phase `on_limit` instead of repeating the loop."""
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
def test_every_unfinished_phase_can_be_cancelled(known: Definition, phase: str) -> None:
    """A machine can be cancelled in each phase that is not final, and then never continues."""
    state = world_of(known).machine(phase)
    cancelled = when(state, p.MachineCancelled(reason="no longer wanted"))
    assert (cancelled.phase, cancelled.is_final) == (CANCELLED, True)
    for target in known.phases:
        with pytest.raises(InvalidTransition) as refused:
            decide(cancelled, go(target), AT)
        assert refused.value.data["validTargets"] == []


@pytest.mark.parametrize(("known", "phase"), UNFINISHED, ids=lambda value: str(value)[:20])
def test_transition_to_the_current_phase_appends_nothing(known: Definition, phase: str) -> None:
    """A command that requests the current phase succeeds and records no event."""
    assert decide(world_of(known).machine(phase), go(phase), AT) == []


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_undefined_transition_is_refused_with_the_valid_targets(known: Definition) -> None:
    """For each pair of phases without a transition, the error lists the possible phases."""
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
def test_machine_cannot_start_in_an_unknown_phase(known: Definition) -> None:
    """wfctl refuses to import a machine in an unknown phase, but accepts `cancelled`."""
    with pytest.raises(NoWorkflow, match="no phase 'nowhere'"):
        placed(known, "nowhere", {}, None)
    assert placed(known, CANCELLED, {}, None).is_final
