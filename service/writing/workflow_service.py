"""The write path: load, fold, decide, append, retry on conflict, bring the files up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from eventstore.codec import canonical, digest
from eventstore.errors import EventStoreError, WrongExpectedVersion
from eventstore.event import Actor, NewEvent, RecordedEvent
from eventstore.store import Claim, Expected, Refusal
from lifecycle.errors import LifecycleError, NeedsConsent, NoWorkflow, Refused
from lifecycle.event import Fact
from lifecycle.fold.evolve import evolve
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide_all
from lifecycle.state.workflow import Workflow
from service.errors import FilesBehind, RootElsewhere
from service.files.workflow_files import WorkflowFiles
from service.reading.log import FOLD_EVERY, WorkflowLog
from service.root.clock import Clock, new_id, system_clock, utc_text
from service.root.root import Root, RootIs
from service.writing.place import (
    Identity,
    add_former,
    adopt,
    check_place,
    identity,
    is_same,
    known_identity,
    was_here,
)

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: How often a decision is taken anew because somebody else appended in between.
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
    #: A state that the caller has: what is decided in it counts where nothing came after it, and
    #: is decided anew in the newest state where something did.
    known: Workflow | None = None
    #: The version expected is the head that the command is bound to: nothing may come between.
    exact: bool = False


Planned: TypeAlias = "tuple[tuple[Payload, str], ...]"
"""Payloads to be recorded, each with when it was so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did, or would do: the events recorded, those planned, the state after."""

    events: tuple[RecordedEvent, ...]
    planned: Planned
    state: Workflow
    repeated: bool = False


class Service:
    """The only writer of one workflow."""

    def __init__(
        self, root: Root, log: WorkflowLog, actor: Actor, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self.actor = actor
        self.clock = clock
        self.files = WorkflowFiles(root, log, self._record_found)

    def acting_as(self, kind: str) -> Service:
        """Return this service with the same caller in another role: reconciler, runner."""
        return Service(self.root, self.log, Actor(kind, self.actor.name), self.clock)

    def state(self) -> Workflow:
        """Return the state now; raises `NoWorkflow` where nothing was created yet."""
        return self.log.current()

    @cached_property
    def _known(self) -> Identity:
        return known_identity(self.root, self.log)

    def settle_place(self, how: RootIs | None) -> None:
        """See that the root is where it was, or take down ``how`` it came here.

        Raises `RootElsewhere` where nobody says.
        """
        here = identity(self.root.path)
        if not self._known or is_same(self._known, here):
            if how is RootIs.MOVED:
                self._take_in_former_hosts(here)
            return
        if how is None:
            raise RootElsewhere(self._known, here)
        adopt(self.root, self._known, how)
        before = f"{self._known.get('path')} on {self._known.get('host')}"
        self._known = here
        self.handle(p.NoteLogged(text=f"Root {how.value} from {before}"))

    def _take_in_former_hosts(self, here: Identity) -> None:
        """Take down that what was begun here under another host's name is this root's own."""
        newest = (stage.attempt for stage in self.state().stages.values())
        places = {(one.root, one.host) for one in newest if one is not None and one.host}
        others = [
            (path, host)
            for path, host in sorted(places)
            if path == here["path"] and host != here["host"] and not was_here(self.root, path, host)
        ]
        if others:
            add_former(self.root, here, others)
            hosts = ", ".join(dict.fromkeys(host for _, host in others))
            self.handle(p.NoteLogged(text=f"Root moved from {hosts} to {here['host']}"))

    def handle(self, *commands: Payload, options: WriteOptions = WriteOptions()) -> Outcome:
        """Carry out the commands, all or nothing, and bring the files up to date.

        Raises what the rules raise (and records the refusal), `WrongExpectedVersion`,
        `CommandConflict`, `FilesBehind`, `RootElsewhere`.
        """
        if not options.dry_run:
            check_place(self.root, self._known)
        first = self.first_answer(options, *commands)
        if first is not None:
            return first
        claim = Claim(options.command_id or new_id(), _content(commands, options))
        if not (options.dry_run or options.exact):
            options = self._with_outside_changes(options)
        try:
            return self._decided(commands, claim, options)
        except (Refused, NeedsConsent) as refusal:
            if not options.dry_run:
                self.record_refusal(commands, refusal)
            raise

    def _with_outside_changes(self, options: WriteOptions) -> WriteOptions:
        """Record what others did to the files before the command, so that it stands in order.

        The version that the caller expects moves by as much: the workflow itself did not change.
        """
        recorded = 0
        # What the disk refuses here it refuses again once the command is recorded, and is told.
        with suppress(FilesBehind):
            recorded = self.files.take_in()
        if options.expected_version is None or not recorded:
            return options
        return replace(options, expected_version=options.expected_version + recorded)

    def _record_found(self, facts: Sequence[Payload]) -> None:
        """Record what was found in the files: it is so, whatever the rules say."""
        at = utc_text(self.clock())
        finder = self.acting_as("reconciler")
        claim = Claim(new_id(), _content(facts, WriteOptions()))
        self.log.store.append(
            self.log.stream,
            finder.new_events(None, tuple((fact, at) for fact in facts), claim.command_id),
            expected=Expected.STREAM_EXISTS,
            claim=claim,
        )

    def take_over(self, planned: Planned, options: WriteOptions) -> Outcome:
        """Record a history of another's keeping as the beginning of this stream.

        No rule decides on it: it was so. Raises `WrongExpectedVersion` where the stream is not
        empty, `FilesBehind`.
        """
        claim = Claim(options.command_id or new_id(), _content((), options))
        return self._append(None, planned, claim, options)

    def first_answer(self, options: WriteOptions, *commands: Payload) -> Outcome | None:
        """Return what a command of this id and content did before, None where it is new.

        Raises `CommandConflict` where the id was used for something else.
        """
        if options.command_id is None or options.dry_run:
            return None
        first = self.log.store.claimed(Claim(options.command_id, _content(commands, options)))
        if first is None:
            return None
        self.files.bring_up_to_date()
        return Outcome(first.events, (), self.state(), repeated=True)

    def rehearse(self, *commands: Payload) -> Outcome:
        """Return what the commands would yield now; a refusal is recorded as one."""
        try:
            return plan_writes(self.state(), commands, WriteOptions(), self.clock)
        except (Refused, NeedsConsent) as refusal:
            self.record_refusal(commands, refusal)
            raise

    def _decided(self, commands: Sequence[Payload], claim: Claim, options: WriteOptions) -> Outcome:
        before = options.known or self.log.state()
        for _ in range(CONFLICT_RETRIES):
            self._check_version(before, options)
            outcome = self._placed(plan_writes(before, commands, options, self.clock))
            self._check_person(before, outcome.planned)
            if options.dry_run or not outcome.planned:
                return outcome
            try:
                return self._append(before, outcome.planned, claim, options)
            except WrongExpectedVersion:
                if options.expected_version is not None:
                    raise
                before = self.log.state()
        raise WrongExpectedVersion(self.log.stream, before.head if before else 0, _head(self.log))

    def _placed(self, outcome: Outcome) -> Outcome:
        """Give the report of a workflow that is completed now a place at which nothing lies."""
        planned = tuple((self._with_place(payload), at) for payload, at in outcome.planned)
        return replace(outcome, planned=planned)

    def _with_place(self, payload: Payload) -> Payload:
        if payload.type != "workflow.completed":
            return payload
        asked = cast("p.WorkflowCompleted", payload).report
        if asked is None:
            return payload
        from service.writing import report  # only a completed workflow has one

        return payload.model_copy(update={"report": report.free_place(self.root, asked)})

    def _check_person(self, before: Workflow | None, planned: Planned) -> None:
        """Raise `NeedsConsent` where an agent would decide what is a person's to decide."""
        adopted = next((one for one, _ in planned if one.type == "results.adopted"), None)
        is_trusted = before is not None and before.consent == "trust"
        if adopted is None or is_trusted or self.actor.kind != "agent":
            return
        stage = cast("p.ResultsAdopted", adopted).stage
        raise NeedsConsent(
            f"{stage}: whether changed results count is a person's decision, and agent:"
            f"{self.actor.name} is none; expected a user (--actor user:NAME off a terminal).",
            stage=stage,
        )

    def _check_version(self, before: Workflow | None, options: WriteOptions) -> None:
        found = before.head if before is not None else 0
        if options.expected_version is not None and options.expected_version != found:
            raise WrongExpectedVersion(self.log.stream, options.expected_version, found)

    def _append(
        self, before: Workflow | None, planned: Planned, claim: Claim, options: WriteOptions
    ) -> Outcome:
        expected = before.head if before is not None else Expected.NO_STREAM
        events = self.new_events(before, planned, own_id(claim, options))
        appended = self.log.store.append(self.log.stream, events, expected=expected, claim=claim)
        state = self.log.evolve(before, iter(appended.events))
        if state is None:
            raise NoWorkflow("appended to a stream that holds no workflow")
        self.files.bring_up_to_date(before)
        self._keep_fold(state)
        if not (state.session.is_open and state.session.driven):
            # A loop that is at work ends its session first, so that its end is told too.
            self.write_report(state)
        return Outcome(appended.events, planned, state, appended.repeated)

    def write_report(self, state: Workflow) -> None:
        """Write the report of a completed workflow where it is due; raises `FilesBehind`."""
        if state.workflow_status != "completed" or state.report is None:
            return
        from service.writing import report  # only a completed workflow has one

        report.write_due(self.root, self.log, state.report)

    def _keep_fold(self, state: Workflow) -> None:
        try:
            if self.log.keep_fold(state):
                self._catch_up()
        except EventStoreError as error:
            # What was asked is recorded: an error must not read as if it were not.
            raise FilesBehind(state.head, error) from error

    def _catch_up(self) -> None:
        """Bring the history's tables on, now that the log has grown by some hundred events."""
        from service.sql.tables import HistoryTables  # one append in hundreds pays for it

        HistoryTables(self.root.address, self.log).catch_up(2 * FOLD_EVERY)

    def new_events(
        self, before: Workflow | None, planned: Planned, first_id: str | None = None
    ) -> list[NewEvent]:
        """Return the events to append, as this caller's, after the state ``before``.

        The first of them gets ``first_id``, where there is one.
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
            for id_, session, (payload, at) in zip(
                ids, _sessions(before, planned), planned, strict=True
            )
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


def _sessions(before: Workflow | None, planned: Planned) -> Iterator[int | None]:
    """Yield the session that each event belongs to: one's beginning and end belong to it.

    What was imported belongs to the session that the lines above it say has begun.
    """
    session = before.session.count if before is not None and before.session.is_open else None
    for payload, _ in planned:
        if payload.type == "session.started":
            session = cast("p.SessionStarted", payload).number
        elif payload.type == "line.imported":
            said = cast("p.LineImported", payload).session
            session = session if said is None else said
        yield session
        if payload.type == "session.ended":
            session = None


def _head(log: WorkflowLog) -> int:
    head = log.store.head(log.stream)
    return head.version if head is not None else 0


def plan_writes(
    state: Workflow | None, commands: Sequence[Payload], options: WriteOptions, clock: Clock
) -> Outcome:
    """Return what the commands would yield in ``state``; nothing is written."""
    at = options.occurred_at or utc_text(clock())
    moments = options.occurred_each or (None,) * len(commands)
    asked = [(command, own or at) for command, own in zip(commands, moments, strict=True)]
    planned, state = decide_all(state, asked)
    if state is None:
        raise NoWorkflow("no command was given")
    return Outcome((), tuple(planned), state)


def planned_state(planned: Planned) -> Workflow:
    """Return the state that a whole stream of ``planned`` events would yield."""
    facts = [
        Fact(payload.type, payload.as_json(), at, number)
        for number, (payload, at) in enumerate(planned, 1)
    ]
    state = evolve(None, facts)
    if state is None:
        raise NoWorkflow("nothing was planned")
    return state


def own_id(claim: Claim, options: WriteOptions) -> str | None:
    """Return the id of a command's first event: the command's, unless the caller named that.

    So a command of one event takes one entry in the log, and `events` shows one id for both.
    """
    return claim.command_id if options.command_id is None else None


def _content(commands: Sequence[Payload], options: WriteOptions) -> str:
    """Return the digest of what is asked; actor and time are no part of it."""
    if options.content is not None:
        return digest(canonical(options.content))
    asked: list[Any] = [[command.type, command.as_json()] for command in commands]
    return digest(canonical(asked))
