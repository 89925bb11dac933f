"""Change a machine: run commands, append their events, and update its files.

If another writer appends at the same time, the commands are decided again on the new state.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from eventstore.errors import EventStoreError, WrongExpectedVersion
from eventstore.event import Actor, NewEvent, RecordedEvent
from eventstore.store import Claim, Expected
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.decide_fields import refuse_list_positions
from extensions.machines.rules.definition import load_trusted_definition
from extensions.machines.rules.errors import MachineError, StateNotFound
from extensions.machines.rules.guard import FileFact
from extensions.machines.rules.machine import Caller, Machine
from extensions.machines.rules.payload import MachineCancelled, MachineCreated, MachineImported
from extensions.machines.service.complete_command import complete_command
from extensions.machines.service.files import MachineFiles
from extensions.machines.service.guard_facts import collect_guard_facts, collect_pattern_facts
from extensions.machines.service.log import MachineLog
from extensions.machines.views.next_actions import machine_actions
from lifecycle.errors import NeedsConsent
from lifecycle.payload.base import Payload
from lifecycle.rules.decide import require_recordable
from service.errors import FilesBehind, VersionConflict
from service.reading.machine_streams import find_first_event, list_machines_in_store
from service.root.atomic_files import Clock, system_clock, utc_text
from service.root.root import (
    Identity,
    Root,
    RootIs,
    read_recorded_identity,
    record_root_relocation,
    require_same_place,
)
from service.writing.stream_writer import (
    PLAIN,
    StreamWriter,
    WriteOptions,
    first_event_id,
    record_outside_changes,
)

#: Event types with which the event stream of a machine can start.
_BEGIN = ("machine.created", "machine.imported")


class MachineOutcome(NamedTuple):
    """The result of a write or dry run: recorded events, planned events, and new state."""

    events: tuple[RecordedEvent, ...]
    planned: tuple[Payload, ...]
    state: Machine
    repeated: bool = False


class MachineService:
    """The only component that changes a machine."""

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
        """Return the current state of the machine.

        Raises `StateNotFound` if the machine does not exist.
        """
        return self.log.current()

    def evidence(self, state: Machine | None) -> dict[str, FileFact]:
        """Return the facts about files that the rules need in the given state."""
        return collect_guard_facts(self.root.path, state) if state is not None else {}

    def _evidence_for(self, state: Machine | None, command: Payload) -> dict[str, FileFact]:
        if isinstance(command, MachineCancelled) and command.anew and state is not None:
            again = state.definition
            return collect_pattern_facts(self.root.path, again.list_relevant_files(again.initial))
        if not isinstance(command, MachineCreated | MachineImported):
            return self.evidence(state)
        definition = load_trusted_definition(command.definition, command.machine)
        phase = command.phase if isinstance(command, MachineImported) else definition.initial
        return collect_pattern_facts(self.root.path, definition.list_relevant_files(phase))

    def settle_place(self, how: RootIs | None) -> None:
        """Check that the folder was not moved or copied, or record that it was.

        ``how`` states whether it was moved or copied. Raises `RootElsewhere` if the place has
        changed and ``how`` is None.
        """
        self._known_identity = (
            record_root_relocation(self.root, self._known_identity, how) or self._known_identity
        )

    @cached_property
    def _known_identity(self) -> Identity:
        log = self.log
        return read_recorded_identity(self.root, lambda: find_first_event(log.store, log.machine))

    def handle(self, *commands: Payload, options: WriteOptions = PLAIN) -> MachineOutcome:
        """Run all commands or none of them, and update the files of the machine.

        Raises the error of the rule that refuses a command, and records this refusal. Other errors
        are `VersionConflict`, `CommandConflict`, `FilesBehind`, `RootElsewhere` and `AnotherLog`.
        """
        if not (options.dry_run or any(command.type in _BEGIN for command in commands)):
            # Skip these checks for a new machine. If its id is in use in another folder, the rules
            # report it.
            require_same_place(self.root, self._known_identity)
            self.log.approvals.require_no_pin_conflict()
        first = self.first_answer(options, *commands)
        if first is not None:
            return first
        claim = self.writer.claim(commands, options)
        if not (options.dry_run or options.exact):
            options = record_outside_changes(self.files.record_foreign_changes, options)
        try:
            return self._decide_and_append(commands, claim, options)
        except (MachineError, NeedsConsent) as refusal:
            if not options.dry_run:
                self.writer.record_refusal(commands, refusal)
                # Update the files even after a refusal. If wfctl was killed when the machine ended,
                # no later write would repair the files.
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
        """Return the result of an earlier command with the same id and content, or None.

        Raises `CommandConflict` if the id was used for another command.
        """
        first = self.writer.first_answer(commands, options)
        if first is None:
            return None
        self.files.bring_up_to_date()
        return MachineOutcome(first.events, (), self.state(), repeated=True)

    def _decide_and_append(
        self, commands: Sequence[Payload], claim: Claim, options: WriteOptions
    ) -> MachineOutcome:
        at = options.occurred_at or utc_text(self.clock())

        def carried_out(before: Machine | None) -> MachineOutcome:
            due = MachineOutcome((), *self._plan_events(before, commands, at))
            if options.expected_version is None:
                for payload in due.planned:
                    refuse_list_positions(due.state, payload)
            if options.dry_run or not due.planned:
                return due
            timed = tuple((payload, at) for payload in due.planned)
            first_id = first_event_id(claim, options)
            events = self.writer.new_events(timed, [None] * len(timed), first_id)
            return self._append_events(before.head if before is not None else 0, events, due, claim)

        return self.writer.decided(carried_out, self.log.state(), self.log.state, options)

    def _plan_events(
        self, before: Machine | None, commands: Sequence[Payload], at: str
    ) -> tuple[tuple[Payload, ...], Machine]:
        """Return the events that the commands cause, and the state after them."""
        state = before
        planned: list[Payload] = []
        for command in commands:
            if state is None and command.type not in _BEGIN:
                raise StateNotFound(self.log.machine, list(list_machines_in_store(self.log.store)))
            files = self._evidence_for(state, command)
            whole = complete_command(self.root.path, self.actor.name, command, state)
            decided = decide(state, whole, at, files, self._caller)
            state = compute_state_after(state, decided, at) if decided else state
            planned += decided
        if state is None:
            raise StateNotFound(self.log.machine, [])
        require_recordable(planned, before, state)
        return tuple(planned), state

    def _append_events(
        self, head: int, events: list[NewEvent], due: MachineOutcome, claim: Claim
    ) -> MachineOutcome:
        appended = self.log.store.append(
            self.log.stream, events, expected=head or Expected.NO_STREAM, claim=claim
        )
        self.files.bring_up_to_date()
        state = self.state()
        try:
            self.log.store_state_if_due(state)
        except EventStoreError as error:
            # The command is already recorded, so this error must not look like a failed command.
            raise FilesBehind(state.head, error) from error
        return MachineOutcome(appended.events, due.planned, state, appended.repeated)
