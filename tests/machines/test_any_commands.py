"""Random commands: a machine's events always give its state, and no loop exceeds its limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.definition import CANCELLED, Definition
from extensions.machines.rules.errors import MachineError
from extensions.machines.rules.evolve import evolve
from extensions.machines.rules.guard import FileFact
from extensions.machines.rules.machine import Machine
from extensions.machines.service.complete_command import SHIPPED
from lifecycle.errors import NeedsConsent
from lifecycle.event import UnrecordedEvent
from lifecycle.payload.base import Payload
from tests.machines.support import AT, PROOF, World, definition, meet

ACCEPTED = "accepted"
FIELDS = {
    "planReview": {"approved": True, "gapsFound": True},
    "artifacts": {"design": "d.md", "plan": "p.md", "rca": "r.md", "fixDesign": "f.md"},
    "validation": {"testsPass": False},
    "synthesis": {"lastError": "no network"},
}


class AnyCommands(RuleBasedStateMachine):
    """Random commands on one machine of a random type."""

    def __init__(self) -> None:
        super().__init__()
        self.state: Machine | None = None
        self.log: list[Payload] = []
        self.known: Definition = definition("feature")
        self.last = ""

    def carry_out(self, command: Payload, files: dict[str, FileFact] | None = None) -> None:
        """Apply a command. Check that a refused command does not change the machine."""
        before = repr(self.state)
        try:
            decided = decide(self.state, command, AT, files)
        except (MachineError, NeedsConsent):
            assert repr(self.state) == before
            return
        assert repr(self.state) == before
        if decided:
            self.last = self.state.phase if self.state is not None else ""
            self.state = compute_state_after(self.state, decided, AT)
            self.log += decided
            self.check_last()

    def check_last(self) -> None:
        """Check that the machine never leaves a final phase."""
        if self.last and self.known.is_final(self.last):
            assert self.state is not None
            assert self.state.phase == self.last

    @precondition(lambda self: self.state is None)
    @rule(name=st.sampled_from(SHIPPED))
    def begin(self, name: str) -> None:
        """Create a machine of any type."""
        self.known = definition(name)
        self.carry_out(p.MachineCreated(machine="task-001", definition=self.known.dumped()))

    @precondition(lambda self: self.state is None)
    @rule(data=st.data(), name=st.sampled_from(SHIPPED))
    def take_over(self, data: st.DataObject, name: str) -> None:
        """Import a machine that is in any phase. Each loop is unused or at its limit."""
        self.known = definition(name)
        counts = {
            loop: data.draw(st.sampled_from([0, one.limit]))
            for loop, one in self.known.loops.items()
        }
        sources = [way.source for way in self.known.transitions]
        command = p.MachineImported(
            machine="task-001",
            definition=self.known.dumped(),
            phase=data.draw(st.sampled_from(sources)),
            status=self.known.statuses.initial if self.known.statuses is not None else None,
            counts=counts,
        )
        self.carry_out(command)

    @precondition(lambda self: self.state is not None)
    @rule(data=st.data())
    def transition(self, data: st.DataObject) -> None:
        """Try a transition to any phase, to an unknown phase, or without naming a phase."""
        names = [*self.known.phases, CANCELLED, "nowhere", None]
        self.carry_out(p.MachineTransitioned(to=data.draw(st.sampled_from(names))))

    @precondition(lambda self: self.state is not None)
    @rule(data=st.data())
    def onward(self, data: st.DataObject) -> None:
        """Write the facts that a transition requires, and take the transition."""
        assert self.state is not None
        ways = [] if self.state.is_final else self.known.ways(self.state.phase)
        if not ways:
            return
        way = data.draw(st.sampled_from(ways))
        world = World(self.known)
        meet(way.guard, world)
        self.write(world.document)
        for name in world.recorded:
            self.carry_out(p.MachineRecorded(name=name))
        for name in world.approved:
            self.carry_out(p.MachineApproved(approval=name, proof=PROOF))
        self.stand(world.status)
        self.carry_out(p.MachineTransitioned(to=way.to), world.files)

    def write(self, document: dict[str, Any]) -> None:
        """Write the fields of the document, if it has any."""
        changes = [p.Change(path=path, value=value) for path, value in document.items()]
        if changes:
            self.carry_out(p.MachineUpdated(changes=changes))

    def stand(self, status: str | None) -> None:
        """Record events that give the current phase the given status."""
        for name, kind in self.known.events.items():
            if kind.starts or (status is not None and kind.status == status):
                data: dict[str, Any] = dict.fromkeys(kind.required, "because")
                self.carry_out(p.MachineRecorded(name=name, data=data))

    @precondition(lambda self: self.state is not None)
    @rule(top=st.sampled_from([*FIELDS, "phase", "_internal", "tasks[3]", "tasks[id=1]"]))
    def update(self, top: str) -> None:
        """Try to write an ordinary field, a reserved field or an invalid path."""
        value: Any = FIELDS.get(top, "done")
        self.carry_out(p.MachineUpdated(changes=[p.Change(path=top, value=value)]))

    @precondition(lambda self: self.state is not None)
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        """Try to record an event of the definition or an unknown event, with and without data."""
        name = data.draw(st.sampled_from([*self.known.events, "nothing.known"]))
        self.carry_out(p.MachineRecorded(name=name, data={"notes": "looked"}))
        self.carry_out(p.MachineRecorded(name=name))

    @precondition(lambda self: self.state is not None)
    @rule(
        id_=st.sampled_from(["task-001", "task-002", "no task"]),
        status=st.sampled_from(
            ["pending", "running", "in_progress", "complete", "verified", "failed"]
        ),
    )
    def task(self, id_: str, status: str) -> None:
        """Try to set the status of an existing or invalid task."""
        self.carry_out(p.MachineTaskChanged(task=id_, changes={"status": status}))

    @precondition(lambda self: self.state is not None)
    @rule(proof=st.sampled_from([PROOF, {}]), name=st.sampled_from(["unblock", "requirements"]))
    def approve(self, proof: dict[str, Any], name: str) -> None:
        """Try an approval with a valid proof of consent or without a proof."""
        self.carry_out(p.MachineApproved(approval=name, proof=proof))

    @precondition(lambda self: self.state is not None)
    @rule(number=st.integers(0, 9))
    def cancel(self, number: int) -> None:
        """Cancel the machine with a probability of one in ten."""
        if number == 0:
            self.carry_out(p.MachineCancelled())

    @invariant()
    def the_state_is_the_fold(self) -> None:
        """Check that replaying all events gives the current state."""
        if self.state is not None:
            facts = [
                UnrecordedEvent(e.type, e.model_dump(mode="json"), AT, number, ACCEPTED)
                for number, e in enumerate(self.log, 1)
            ]
            assert evolve(None, facts, {ACCEPTED}) == self.state

    @invariant()
    def loops_never_pass_their_limit(self) -> None:
        """Check that the count of each loop is at most its limit."""
        if self.state is not None:
            for loop, count in self.state.counts.items():
                assert count <= self.known.limit_of(loop, self.state.document)


AnyCommands.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestAnyCommands = pytest.mark.slow(AnyCommands.TestCase)
