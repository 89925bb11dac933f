"""The write path of machines: load, fold, decide, append, retry on conflict, write the files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from eventstore.codec import canonical, digest
from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor, NewEvent, RecordedEvent
from eventstore.store import Claim, Expected, Refusal
from lifecycle.errors import LifecycleError, NeedsConsent
from lifecycle.machines.decide import after, decide
from lifecycle.machines.definition import trusted
from lifecycle.machines.errors import MachineError, StateNotFound
from lifecycle.machines.guard import FileFact
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import (
    MachineCreated,
    MachineRecorded,
    MachineTaskChanged,
    MachineUpdated,
)
from lifecycle.payload.base import Payload
from lifecycle.rules.recordable import require_recordable
from projections.machines.next_actions import machine_actions
from service.errors import FilesBehind, RootElsewhere
from service.machines import artifacts
from service.machines.errors import VersionConflict
from service.machines.evidence import look, output_at
from service.machines.files import MachineFiles
from service.machines.log import MachineLog, machines_in
from service.machines.place import first_event
from service.root.clock import Clock, new_id, system_clock, utc_text
from service.root.root import Root, RootIs
from service.writing.place import adopt, identity, is_same, said_identity
from service.writing.workflow_service import CONFLICT_RETRIES, WriteOptions, own_id

_PLAIN = WriteOptions()


@dataclass(frozen=True, slots=True)
class MachineOutcome:
    """What a write did, or would do: the events recorded, those planned, the state after."""

    events: tuple[RecordedEvent, ...]
    planned: tuple[Payload, ...]
    state: Machine
    repeated: bool = False


class MachineService:
    """The only writer of one machine."""

    def __init__(
        self, root: Root, log: MachineLog, actor: Actor, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self.actor = actor
        self.clock = clock
        self.files = MachineFiles(root, log, self._record_found)

    def state(self) -> Machine:
        """Return the state now; raises `StateNotFound`."""
        return self.log.current()

    def evidence(self, state: Machine | None) -> dict[str, FileFact]:
        """Return what is found of the files that guards look at from here and in the next phase."""
        if state is None or state.is_final:
            return {}
        return look(self.root.path, state.definition.files_from_here(state.phase))

    def _evidence_for(self, state: Machine | None, command: Payload) -> dict[str, FileFact]:
        if not isinstance(command, MachineCreated):
            return self.evidence(state)
        definition = trusted(command.definition, command.machine)
        return look(self.root.path, definition.files_from_here(definition.initial))

    def settle_place(self, how: RootIs | None) -> None:
        """See that the root is where it was, or take down ``how`` it came here.

        Raises `RootElsewhere` where nobody says.
        """
        first = first_event(self.log.store, self.log.machine)
        begun = (first.data.get("root") or {}) if first is not None else {}
        known = said_identity(self.root) or begun
        here = identity(self.root.path)
        if not known or is_same(known, here):
            return
        if how is None:
            raise RootElsewhere(known, here)
        adopt(self.root, known, how)

    def handle(self, *commands: Payload, options: WriteOptions = _PLAIN) -> MachineOutcome:
        """Carry out the commands, all or nothing, and bring the files up to date.

        Raises what the rules raise (and records the refusal), `VersionConflict`,
        `CommandConflict`, `FilesBehind`.
        """
        first = self.first_answer(options, *commands)
        if first is not None:
            return first
        claim = Claim(options.command_id or new_id(), _content(commands, options))
        if not (options.dry_run or options.exact):
            options = self._with_outside_changes(options)
        try:
            return self._decided(commands, claim, options)
        except (MachineError, NeedsConsent) as refusal:
            if not options.dry_run:
                self.record_refusal(commands, refusal)
                # One that has ended may have been killed as it did; no later write mends its files.
                with suppress(FilesBehind):
                    self.files.bring_up_to_date()
            self._lead_on(refusal)
            raise
        except WrongExpectedVersion as error:
            raise VersionConflict(self.log.machine, error) from error

    def _lead_on(self, refusal: LifecycleError) -> None:
        state = self.log.state()
        if state is not None:
            actions = machine_actions(state, self.evidence(state))
            refusal.data["next_actions"] = [action._asdict() for action in actions]

    def _with_outside_changes(self, options: WriteOptions) -> WriteOptions:
        """Record what others did to the files before the command, so that it stands in order."""
        recorded = 0
        # What the disk refuses here it refuses again once the command is recorded, and is told.
        with suppress(FilesBehind):
            recorded = self.files.take_in()
        if options.expected_version is None or not recorded:
            return options
        return replace(options, expected_version=options.expected_version + recorded)

    def _record_found(self, facts: Sequence[Payload]) -> None:
        """Record what was found in the files: it is so, whatever the rules say."""
        finder = MachineService(self.root, self.log, Actor("reconciler", self.actor.name))
        claim = Claim(new_id(), _content(facts, _PLAIN))
        self.log.store.append(
            self.log.stream,
            finder.new_events(facts, utc_text(self.clock()), claim.command_id),
            expected=Expected.STREAM_EXISTS,
            claim=claim,
        )

    def first_answer(self, options: WriteOptions, *commands: Payload) -> MachineOutcome | None:
        """Return what a command of this id and content did before, None where it is new.

        Raises `CommandConflict` where the id was used for something else.
        """
        if options.command_id is None or options.dry_run:
            return None
        first = self.log.store.claimed(Claim(options.command_id, _content(commands, options)))
        if first is None:
            return None
        self.files.bring_up_to_date()
        return MachineOutcome(first.events, (), self.state(), repeated=True)

    def _decided(
        self, commands: Sequence[Payload], claim: Claim, options: WriteOptions
    ) -> MachineOutcome:
        head = 0
        for _ in range(CONFLICT_RETRIES):
            before = self.log.state()
            head = before.head if before is not None else 0
            if options.expected_version not in (None, head):
                raise WrongExpectedVersion(self.log.stream, options.expected_version or 0, head)
            at = options.occurred_at or utc_text(self.clock())
            planned, state = self._planned(before, commands, at)
            if options.dry_run or not planned:
                return MachineOutcome((), planned, state)
            events = self.new_events(planned, at, own_id(claim, options))
            try:
                return self._append(head, events, MachineOutcome((), planned, state), claim)
            except WrongExpectedVersion:
                if options.expected_version is not None:
                    raise
        raise WrongExpectedVersion(self.log.stream, head, head + 1)

    def _planned(
        self, before: Machine | None, commands: Sequence[Payload], at: str
    ) -> tuple[tuple[Payload, ...], Machine]:
        """Return what the commands yield one after another, and the state after them."""
        state = before
        planned: list[Payload] = []
        for command in commands:
            if state is None and command.type not in ("machine.created", "machine.imported"):
                raise StateNotFound(self.log.machine, list(machines_in(self.log.store)))
            files = self._evidence_for(state, command)
            decided = decide(state, self._completed(command, state), at, files)
            state = after(state, decided, at) if decided else state
            planned += decided
        if state is None:
            raise StateNotFound(self.log.machine, [])
        require_recordable(planned, before, state)
        return tuple(planned), state

    def _completed(self, command: Payload, state: Machine | None) -> Payload:
        """Return a command with what only this side of the rules knows."""
        if isinstance(command, MachineUpdated):
            found = artifacts.digests(self.root.path, command)
            return command.model_copy(update={"digests": found}) if found else command
        if isinstance(command, MachineRecorded) and state is not None:
            return self._with_agent(command, state)
        if isinstance(command, MachineTaskChanged) and state is not None:
            return self._with_earlier_output(command, state)
        return command

    def _with_earlier_output(
        self, command: MachineTaskChanged, state: Machine
    ) -> MachineTaskChanged:
        """A task that begins to run: what lies at its output's place already is not its own."""
        tasks = state.definition.tasks
        if tasks is None or command.changes.get("status") != tasks.running:
            return command
        named = command.changes.get("output", (state.task(command.task) or {}).get("output"))
        marks = output_at(self.root.path, named).marks
        return command.model_copy(update={"earlier": dict(marks)})

    def _with_agent(self, command: MachineRecorded, state: Machine) -> MachineRecorded:
        """Who starts a phase that is nobody's by its definition is its agent."""
        kind = state.definition.events.get(command.name)
        if kind is None or not kind.starts or state.is_final or "agent" in command.data:
            return command
        if "agent" not in kind.data or state.definition.phases[state.phase].agent is not None:
            return command
        return command.model_copy(update={"data": {**command.data, "agent": self.actor.name}})

    def _append(
        self, head: int, events: list[NewEvent], due: MachineOutcome, claim: Claim
    ) -> MachineOutcome:
        appended = self.log.store.append(
            self.log.stream, events, expected=head or Expected.NO_STREAM, claim=claim
        )
        recorded = self.files.bring_up_to_date()
        state = self.state() if recorded or appended.repeated else due.state
        return MachineOutcome(appended.events, due.planned, state, appended.repeated)

    def new_events(
        self, planned: Sequence[Payload], at: str, first_id: str | None = None
    ) -> list[NewEvent]:
        """Return the events to append, as this caller's; the first gets ``first_id``, if any."""
        ids = [first_id or new_id(), *(new_id() for _ in planned[1:])]
        return [
            NewEvent(
                event_id=id_,
                type=payload.type,
                schema_version=payload.schema_version,
                data=payload.model_dump(mode="json"),
                actor=self.actor,
                session=None,
                causation_id=ids[0] if id_ != ids[0] else None,
                correlation_id=ids[0],
                occurred_at=at,
            )
            for id_, payload in zip(ids, planned, strict=True)
        ]

    def record_refusal(self, commands: Sequence[Payload], refusal: LifecycleError) -> None:
        """Keep a refusal for audit; it is no event."""
        self.log.store.record_refusal(
            Refusal(
                at=utc_text(self.clock()),
                stream=self.log.stream,
                actor=f"{self.actor.kind}:{self.actor.name}",
                command=",".join(command.type for command in commands),
                code=refusal.code,
                message=refusal.message,
                data=refusal.data,
            )
        )


def _content(commands: Sequence[Payload], options: WriteOptions) -> str:
    """Return the digest of what is asked; actor and time are no part of it."""
    asked: Any = options.content
    if asked is None:
        asked = [[command.type, command.model_dump(mode="json")] for command in commands]
    return digest(canonical(asked))
