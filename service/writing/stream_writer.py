"""The common writer of a stream, for workflows and phase machines.

A command has a claim and is carried out once. Foreign changes of the files are recorded before it.
It is decided on a state, and decided again on a newer state if another program appends meanwhile.
Refusals are kept for audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from eventstore.chain import canonical_json, sha256_hex
from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor, NewEvent
from eventstore.store import Appended, Claim, EventStore, Expected, Refusal
from lifecycle.errors import LifecycleError
from service.errors import FilesBehind
from service.root.atomic_files import Clock, new_id, utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow

#: Maximum number of times a command is decided again after another program appended.
CONFLICT_RETRIES = 50


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of every write.

    ``occurred_at`` is the time of the commands (UTC, the log's form), None for now.
    ``occurred_each`` gives the time of each command if the times differ.
    """

    command_id: str | None = None
    expected_version: int | None = None
    dry_run: bool = False
    occurred_at: str | None = None
    occurred_each: tuple[str | None, ...] = ()
    #: Content that identifies the command, if its payloads do not.
    content: Any = None
    #: A state that the caller already has. The command is decided on this state.
    #: After a version conflict, the state is loaded again.
    known: Workflow | None = None
    #: Whether the expected version is exactly the head, so that no event may come between.
    exact: bool = False


#: The default options.
PLAIN = WriteOptions()

Planned: TypeAlias = "tuple[tuple[Payload, str], ...]"
"""Payloads to be recorded, each with its time."""


class Folded(Protocol):
    """A state of a stream."""

    @property
    def head(self) -> int:
        """Return the version of the state."""


S = TypeVar("S", bound=Folded)
O = TypeVar("O")  # noqa: E741 - an outcome


@dataclass(frozen=True, slots=True)
class StreamWriter:
    """Writes one stream of a log in the name of one actor."""

    store: EventStore
    stream: str
    actor: Actor
    clock: Clock

    def claim(self, commands: Sequence[Payload], options: WriteOptions) -> Claim:
        """Return the claim of a command: its id, and the digest of its content.

        The actor and the time are not part of the digest.
        """
        asked = options.content
        if asked is None:
            asked = [[command.type, command.as_json()] for command in commands]
        return Claim(options.command_id or new_id(), sha256_hex(canonical_json(asked)))

    def first_answer(self, commands: Sequence[Payload], options: WriteOptions) -> Appended | None:
        """Return the events of an earlier command with this id and content, None for a new id.

        Raises `CommandConflict` if the id was used for another command.
        """
        if options.command_id is None or options.dry_run:
            return None
        return self.store.claimed(self.claim(commands, options))

    def new_events(
        self, planned: Planned, sessions: Iterable[int | None], first_id: str | None = None
    ) -> list[NewEvent]:
        """Return the events to append for this actor.

        The first event gets ``first_id``, if given. ``sessions`` gives the session of each event.
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
        """Record findings in the files as facts, without checking the rules."""
        at = utc_text(self.clock())
        planned = tuple((fact, at) for fact in facts)
        self._record(Actor("reconciler", self.actor.name), planned, Expected.STREAM_EXISTS)

    def record_of_file(self, file: str, taken: Planned, head: int) -> None:
        """Record what others wrote into a file, in the name of the file.

        The writer is unknown. ``head`` is the version of the decision. Raises
        `WrongExpectedVersion` if another program appended first.
        """
        self._record(Actor("import", file), taken, head)

    def _record(self, finder: Actor, found: Planned, expected: int | Expected) -> None:
        claim = self.claim([payload for payload, _ in found], PLAIN)
        writer = replace(self, actor=finder)
        events = writer.new_events(found, [None] * len(found), claim.command_id)
        self.store.append(self.stream, events, expected=expected, claim=claim)

    def record_refusal(self, commands: Sequence[Payload], refusal: LifecycleError) -> None:
        """Store a refusal for audit. A refusal is not an event."""
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
        """Carry out a command on the state ``before``, again if others append meanwhile.

        Raises `WrongExpectedVersion` if the caller expects another version than the head, or any
        error of the rules.
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


def record_outside_changes(take_in: Callable[[], int], options: WriteOptions) -> WriteOptions:
    """Record foreign changes of the files before the command, and return the adjusted options.

    ``take_in`` returns the number of recorded events, by which the version that the caller expects
    is increased: the command's own decision did not change.
    """
    recorded = 0
    # An error of the disk here occurs again after the command is recorded, and is then reported.
    with suppress(FilesBehind):
        recorded = take_in()
    if options.expected_version is None or not recorded:
        return options
    return replace(options, expected_version=options.expected_version + recorded)


def first_event_id(claim: Claim, options: WriteOptions) -> str | None:
    """Return the id of a command's first event: the command's id, unless the caller chose that.

    Then `events` shows one id for a command of one event and its event.
    """
    return claim.command_id if options.command_id is None else None
