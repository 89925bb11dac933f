"""The write path of machines: load, fold, decide, append, retry on conflict, write the files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from eventstore.errors import EventStoreError, WrongExpectedVersion
from eventstore.event import Actor, NewEvent, RecordedEvent
from eventstore.store import Claim, Expected
from lifecycle.errors import NeedsConsent
from lifecycle.machines.decide import after, decide
from lifecycle.machines.decide_fields import check_places
from lifecycle.machines.definition import trusted
from lifecycle.machines.errors import MachineError, StateNotFound
from lifecycle.machines.guard import FileFact
from lifecycle.machines.machine import Caller, Machine
from lifecycle.machines.payload import MachineCancelled, MachineCreated, MachineImported
from lifecycle.payload.base import Payload
from lifecycle.rules.decide import require_recordable
from projections.machines.next_actions import machine_actions
from service.errors import FilesBehind
from service.machines.completing import completed
from service.machines.errors import VersionConflict
from service.machines.evidence import evidence, look
from service.machines.files import MachineFiles
from service.machines.log import MachineLog, first_event, machines_in
from service.root.disk import Clock, system_clock, utc_text
from service.root.root import Identity, Root, RootIs, check_place, known_identity, settled
from service.writing.stream_writer import (
    PLAIN,
    StreamWriter,
    WriteOptions,
    own_id,
    with_outside_changes,
)

#: What a machine's stream begins with.
_BEGIN = ("machine.created", "machine.imported")


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
        self,
        root: Root,
        log: MachineLog,
        actor: Actor,
        clock: Clock = system_clock,
        claim: str | None = None,
    ) -> None:
        self.root = root
        self.log = log
        self.actor = actor
        self._caller = Caller(f"{actor.kind}:{actor.name}", claim)
        self.clock = clock
        self.writer = StreamWriter(log.store, log.stream, actor, clock)
        self.files = MachineFiles(root, log, self.writer, clock)

    def state(self) -> Machine:
        """Return the state now; raises `StateNotFound`."""
        return self.log.current()

    def evidence(self, state: Machine | None) -> dict[str, FileFact]:
        """Return what is found of the files that the rules look at."""
        return evidence(self.root.path, state) if state is not None else {}

    def _evidence_for(self, state: Machine | None, command: Payload) -> dict[str, FileFact]:
        if isinstance(command, MachineCancelled) and command.anew and state is not None:
            again = state.definition
            return look(self.root.path, again.files_from_here(again.initial))
        if not isinstance(command, MachineCreated | MachineImported):
            return self.evidence(state)
        definition = trusted(command.definition, command.machine)
        phase = command.phase if isinstance(command, MachineImported) else definition.initial
        return look(self.root.path, definition.files_from_here(phase))

    def settle_place(self, how: RootIs | None) -> None:
        """See that the root is where it was, or take down ``how`` it came here.

        Raises `RootElsewhere` if nobody says.
        """
        self._known = settled(self.root, self._known, how) or self._known

    @cached_property
    def _known(self) -> Identity:
        log = self.log
        return known_identity(self.root, lambda: first_event(log.store, log.machine))

    def handle(self, *commands: Payload, options: WriteOptions = PLAIN) -> MachineOutcome:
        """Carry out the commands, all or nothing, and bring the files up to date.

        Raises what the rules raise (and records the refusal), `VersionConflict`,
        `CommandConflict`, `FilesBehind`, `RootElsewhere`, `AnotherLog`.
        """
        if not (options.dry_run or any(command.type in _BEGIN for command in commands)):
            # An id that is another root's is told by the rules, as taken.
            check_place(self.root, self._known)
            self.log.approvals.require_not_swapped()
        first = self.first_answer(options, *commands)
        if first is not None:
            return first
        claim = self.writer.claim(commands, options)
        if not (options.dry_run or options.exact):
            options = with_outside_changes(self.files.take_in, options)
        try:
            return self._decided(commands, claim, options)
        except (MachineError, NeedsConsent) as refusal:
            if not options.dry_run:
                self.writer.record_refusal(commands, refusal)
                # One that has ended may have been killed as it did; no later write mends its files.
                with suppress(FilesBehind):
                    self.files.bring_up_to_date()
            state = self.log.state()
            if state is not None:
                actions = machine_actions(state, self.evidence(state))
                refusal.data["next_actions"] = [action.to_dict() for action in actions]
            raise
        except WrongExpectedVersion as error:
            raise VersionConflict(self.log.machine, error) from error

    def first_answer(self, options: WriteOptions, *commands: Payload) -> MachineOutcome | None:
        """Return what a command of this id and content did before, None if it is new.

        Raises `CommandConflict` if the id was used for something else.
        """
        first = self.writer.first_answer(commands, options)
        if first is None:
            return None
        self.files.bring_up_to_date()
        return MachineOutcome(first.events, (), self.state(), repeated=True)

    def _decided(
        self, commands: Sequence[Payload], claim: Claim, options: WriteOptions
    ) -> MachineOutcome:
        at = options.occurred_at or utc_text(self.clock())

        def carried_out(before: Machine | None) -> MachineOutcome:
            due = MachineOutcome((), *self._planned(before, commands, at))
            if options.expected_version is None:
                for payload in due.planned:
                    check_places(due.state, payload)
            if options.dry_run or not due.planned:
                return due
            timed = tuple((payload, at) for payload in due.planned)
            first_id = own_id(claim, options)
            events = self.writer.new_events(timed, [None] * len(timed), first_id)
            return self._append(before.head if before is not None else 0, events, due, claim)

        return self.writer.decided(carried_out, self.log.state(), self.log.state, options)

    def _planned(
        self, before: Machine | None, commands: Sequence[Payload], at: str
    ) -> tuple[tuple[Payload, ...], Machine]:
        """Return what the commands yield one after another, and the state after them."""
        state = before
        planned: list[Payload] = []
        for command in commands:
            if state is None and command.type not in _BEGIN:
                raise StateNotFound(self.log.machine, list(machines_in(self.log.store)))
            files = self._evidence_for(state, command)
            whole = completed(self.root.path, self.actor.name, command, state)
            decided = decide(state, whole, at, files, self._caller)
            state = after(state, decided, at) if decided else state
            planned += decided
        if state is None:
            raise StateNotFound(self.log.machine, [])
        require_recordable(planned, before, state)
        return tuple(planned), state

    def _append(
        self, head: int, events: list[NewEvent], due: MachineOutcome, claim: Claim
    ) -> MachineOutcome:
        appended = self.log.store.append(
            self.log.stream, events, expected=head or Expected.NO_STREAM, claim=claim
        )
        self.files.bring_up_to_date()
        state = self.state()
        try:
            self.log.keep_fold(state)
        except EventStoreError as error:
            # What was asked is recorded: an error must not read as if it were not.
            raise FilesBehind(state.head, error) from error
        return MachineOutcome(appended.events, due.planned, state, appended.repeated)
