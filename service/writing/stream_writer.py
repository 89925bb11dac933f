"""Write to the log of a workflow or machine.

Each command has an id and is carried out only once. Before it, changes of the generated files by
other programs are recorded. The rules decide on the command in a certain state. If another program
appends an event meanwhile, they decide again in the newer state. Refused commands are recorded too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from eventstore.chain import canonical_json, sha256_hex
from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor, NewEvent
from eventstore.store import AppendResult, Claim, EventStore, Expected, Refusal
from lifecycle.errors import LifecycleError
from service.errors import FilesBehind
from service.root.atomic_files import Clock, new_id, utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow

#: Maximum number of times to decide on a command again because another program appended an event.
CONFLICT_RETRIES = 50


class WriteOptions(NamedTuple):
    """The options of a write command.

    ``occurred_at`` is the time of the commands (UTC, as in the log), or None for now. If the
    commands have different times, ``occurred_each`` contains the time of each.
    """

    command_id: str | None = None
    expected_version: int | None = None
    dry_run: bool = False
    occurred_at: str | None = None
    occurred_each: tuple[str | None, ...] = ()
    #: Content that identifies the command. By default, it is the data of the command.
    content: Any = None
    #: A state that the caller has already loaded. The rules decide on the command in this state.
    #: After a version conflict, the state is loaded again.
    known: Workflow | None = None
    #: Whether the log must be exactly at the expected version, without any event in between.
    exact: bool = False


#: The default options.
PLAIN = WriteOptions()

Planned: TypeAlias = "tuple[tuple[Payload, str], ...]"
"""Payloads to be recorded, each with its time."""


class Folded(Protocol):
    """The state of a workflow or machine, computed from its events."""

    @property
    def head(self) -> int:
        """Return the version of the last event in the state."""


S = TypeVar("S", bound=Folded)
O = TypeVar("O")  # noqa: E741 - an outcome


class StreamWriter(NamedTuple):
    """Writes to the log of one workflow or machine on behalf of one author."""

    store: EventStore
    stream: str
    actor: Actor
    clock: Clock

    def claim(self, commands: Sequence[Payload], options: WriteOptions) -> Claim:
        """Return the identity of a command: its id, and the digest of its content.

        The digest does not cover the author and the time.
        """
        asked = options.content
        if asked is None:
            asked = [[command.type, command.as_json()] for command in commands]
        return Claim(options.command_id or new_id(), sha256_hex(canonical_json(asked)))

    def first_answer(
        self, commands: Sequence[Payload], options: WriteOptions
    ) -> AppendResult | None:
        """Return the events of an earlier command with this id, or None for a new id.

        Raises `CommandConflict` if an earlier command with this id had another content.
        """
        if options.command_id is None or options.dry_run:
            return None
        return self.store.find_executed_command(self.claim(commands, options))

    def new_events(
        self, planned: Planned, sessions: Iterable[int | None], first_id: str | None = None
    ) -> list[NewEvent]:
        """Return the events to append, with this writer's author.

        ``first_id`` is the id of the first event, if given. ``sessions`` contains the session of
        each event.
        """
        ids = [first_id or new_id(), *(new_id() for _ in planned[1:])]
        return [
            NewEvent(
                event_id=id_,
                type=payload.type,
                schema_version=payload.schema_version,
                data=payload.as_json(),
                actor=self.actor,
                session=session,
                causation_id=ids[0] if id_ != ids[0] else None,
                correlation_id=ids[0],
                occurred_at=at,
            )
            for id_, session, (payload, at) in zip(ids, sessions, planned, strict=True)
        ]

    def record_found(self, facts: Sequence[Payload]) -> None:
        """Record changes that wfctl found in files. No rule can refuse them."""
        at = utc_text(self.clock())
        planned = tuple((fact, at) for fact in facts)
        self._record(Actor("reconciler", self.actor.name), planned, Expected.STREAM_EXISTS)

    def record_foreign_text(self, file: str, taken: Planned, head: int) -> None:
        """Record text that an unknown program wrote to a file, with the file as author.

        ``head`` is the expected version of the log. Raises `WrongExpectedVersion` if another
        program appended an event first.
        """
        self._record(Actor("import", file), taken, head)

    def _record(self, finder: Actor, found: Planned, expected: int | Expected) -> None:
        claim = self.claim([payload for payload, _ in found], PLAIN)
        writer = self._replace(actor=finder)
        events = writer.new_events(found, [None] * len(found), claim.command_id)
        self.store.append(self.stream, events, expected=expected, claim=claim)

    def record_refusal(self, commands: Sequence[Payload], refusal: LifecycleError) -> None:
        """Record that a command was refused, for later audits. This is not an event."""
        self.store.record_refusal(
            Refusal(
                at=utc_text(self.clock()),
                stream=self.stream,
                actor=f"{self.actor.kind}:{self.actor.name}",
                command=",".join(command.type for command in commands),
                code=refusal.code,
                message=refusal.message,
                data=refusal.data,
            )
        )

    def decided(
        self,
        carried_out: Callable[[S | None], O],
        before: S | None,
        newest: Callable[[], S | None],
        options: WriteOptions,
    ) -> O:
        """Carry out a command in the state ``before``. Repeat after a version conflict.

        A conflict means that another program appended an event. Raises `WrongExpectedVersion` if
        the log is not at the version that the caller expects. Raises the error of a
        violated rule.
        """
        for _ in range(CONFLICT_RETRIES):
            found = before.head if before is not None else 0
            if options.expected_version not in (None, found):
                raise WrongExpectedVersion(self.stream, options.expected_version or 0, found)
            try:
                return carried_out(before)
            except WrongExpectedVersion:
                if options.expected_version is not None:
                    raise
                before = newest()
        head = self.store.head(self.stream)
        decided_on = before.head if before is not None else 0
        raise WrongExpectedVersion(self.stream, decided_on, head.version if head is not None else 0)


def record_outside_changes(
    record_changes: Callable[[], int], options: WriteOptions
) -> WriteOptions:
    """Record changes that other programs made to files before a command is carried out.

    ``record_changes`` does this, and returns the number of recorded events. Return the options with
    the expected version increased by this number, because these events do not affect the command.
    """
    recorded = 0
    # Ignore an error of the disk here. It occurs again after the command is recorded, and is
    # reported then.
    with suppress(FilesBehind):
        recorded = record_changes()
    if options.expected_version is None or not recorded:
        return options
    return options._replace(expected_version=options.expected_version + recorded)


def first_event_id(claim: Claim, options: WriteOptions) -> str | None:
    """Return the id for the first event of a command, or None to create a new id.

    It is the id of the command, if wfctl created that. `wfctl events` then shows the same id for a
    command and its only event.
    """
    return claim.command_id if options.command_id is None else None
