"""What every writer of a stream does, whatever its events mean.

A command has a claim and is carried out once. What others did to the files is recorded before it.
It is decided on a state; where somebody else appends in between, it is decided again on the newer
state. A refusal is kept for audit. Staged workflows and phase machines share this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from eventstore.chain import canonical, digest
from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor, NewEvent
from eventstore.store import Appended, Claim, EventStore, Expected, Refusal
from lifecycle.errors import LifecycleError
from service.errors import FilesBehind
from service.root.disk import Clock, new_id, utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow

#: How often a command is decided again because somebody else appended in between.
CONFLICT_RETRIES = 50


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What every write takes.

    ``occurred_at`` is when it was so (UTC, the log's form), now where it is None.
    ``occurred_each`` says so of each command by itself, where they differ.
    """

    command_id: str | None = None
    expected_version: int | None = None
    dry_run: bool = False
    occurred_at: str | None = None
    occurred_each: tuple[str | None, ...] = ()
    #: What the command is told apart by where it is not its payloads.
    content: Any = None
    #: A state that the caller has: decide on this state; on a version conflict reload the state
    #: and decide again.
    known: Workflow | None = None
    #: The version expected is the head that the command is bound to: nothing may come between.
    exact: bool = False


#: A write with nothing said about it.
PLAIN = WriteOptions()

Planned: TypeAlias = "tuple[tuple[Payload, str], ...]"
"""Payloads to be recorded, each with when it was so."""


class Folded(Protocol):
    """A state of a stream."""

    @property
    def head(self) -> int:
        """The version that it is of."""


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
        """Return what the command is known by: its id, and the digest of what is asked.

        Actor and time are no part of that.
        """
        asked = options.content
        if asked is None:
            asked = [[command.type, command.as_json()] for command in commands]
        return Claim(options.command_id or new_id(), digest(canonical(asked)))

    def first_answer(self, commands: Sequence[Payload], options: WriteOptions) -> Appended | None:
        """Return what a command of this id and content recorded before, None if it is new.

        Raises `CommandConflict` where the id was used for something else.
        """
        if options.command_id is None or options.dry_run:
            return None
        return self.store.claimed(self.claim(commands, options))

    def new_events(
        self, planned: Planned, sessions: Iterable[int | None], first_id: str | None = None
    ) -> list[NewEvent]:
        """Return the events to append, as this actor's; the first gets ``first_id``, if any.

        ``sessions``: the session that each event belongs to.
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
        """Record what was found in the files: it is so, whatever the rules say."""
        at = utc_text(self.clock())
        planned = tuple((fact, at) for fact in facts)
        self._record(Actor("reconciler", self.actor.name), planned, Expected.STREAM_EXISTS)

    def record_of_file(self, file: str, taken: Planned, head: int) -> None:
        """Record what others wrote into a file, as decided on version ``head``, by the file's name.

        Who wrote it nobody knows. Raises `WrongExpectedVersion` where somebody was quicker.
        """
        self._record(Actor("import", file), taken, head)

    def _record(self, finder: Actor, found: Planned, expected: int | Expected) -> None:
        claim = self.claim([payload for payload, _ in found], PLAIN)
        writer = replace(self, actor=finder)
        events = writer.new_events(found, [None] * len(found), claim.command_id)
        self.store.append(self.stream, events, expected=expected, claim=claim)

    def record_refusal(self, commands: Sequence[Payload], refusal: LifecycleError) -> None:
        """Keep a refusal for audit; it is no event."""
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
        """Have a command carried out on the state ``before``, anew where somebody was quicker.

        Raises `WrongExpectedVersion` where the caller expects a version that is not the head, and
        what the rules raise.
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


def with_outside_changes(take_in: Callable[[], int], options: WriteOptions) -> WriteOptions:
    """Record what others did to the files before the command, so that it stands in order.

    ``take_in`` returns how many events that took. The version that the caller expects moves by as
    much: what the command is decided on did not change.
    """
    recorded = 0
    # What the disk refuses here it refuses again once the command is recorded, and is told.
    with suppress(FilesBehind):
        recorded = take_in()
    if options.expected_version is None or not recorded:
        return options
    return replace(options, expected_version=options.expected_version + recorded)


def own_id(claim: Claim, options: WriteOptions) -> str | None:
    """Return the id of a command's first event: the command's, unless the caller named that.

    So a command of one event takes one entry in the log, and `events` shows one id for both.
    """
    return claim.command_id if options.command_id is None else None
