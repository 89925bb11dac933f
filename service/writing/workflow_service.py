"""The write path: load, fold, decide, append, retry on conflict, bring the files up to date."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast

from eventstore.errors import EventStoreError
from eventstore.event import Actor, RecordedEvent
from eventstore.store import Claim, Expected
from lifecycle.errors import NeedsConsent, NoWorkflow, Refused
from lifecycle.event import Fact
from lifecycle.fold.evolve import evolve
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide_all
from lifecycle.state.report_path import numbered
from lifecycle.state.workflow import Workflow
from lifecycle.words.values import is_report
from projections.words.account import Seen
from service.errors import FilesBehind
from service.files.workflow_files import WorkflowFiles
from service.reading.log import WorkflowLog
from service.reading.stream_log import FOLD_EVERY
from service.root.disk import (
    Clock,
    OutsideRoot,
    place_within,
    system_clock,
    utc_text,
    write_whole,
)
from service.root.root import (
    Identity,
    Root,
    RootIs,
    add_former,
    check_place,
    identity,
    known_identity,
    settled,
    was_here,
)
from service.writing.stream_writer import (
    PLAIN,
    Planned,
    StreamWriter,
    WriteOptions,
    own_id,
    with_outside_changes,
)

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def report(log: WorkflowLog, seen: Seen | None = None, place: Path = Path()) -> bytes:
    """Return the report as the log has it now; raises `NoWorkflow` if nothing was created.

    All of it is of one version, whatever others record while it is made. ``seen`` is what a look
    at the files found; ``place`` the folder that the report is to lie in, relative to the root.
    """
    from projections.files.facts import facts_of  # few writes have a report to make
    from projections.files.report import render

    state = log.replayed()
    facts = facts_of(log.steps(upto=state.head), state)
    return render(facts, seen, root=os.path.relpath(os.curdir, place))


def write_due(root: Root, log: WorkflowLog, path: str | None, seen: Seen | None = None) -> None:
    """Write the report that a completion names, unless it is there; nobody's file is overwritten.

    ``path`` is relative to the root, None if none is due. Raises `FilesBehind` where the disk
    does not let it; the next command that writes tries again.
    """
    # A path that no command of ours records was put into the log: no report is due there.
    if path is None or not is_report(path) or os.path.lexists(root.path / path):
        return
    try:
        with place_within(root.path, path, make=True) as place:
            write_whole(place, report(log, seen, Path(path).parent))
    except (OSError, EventStoreError, OutsideRoot) as error:
        head = log.store.head(log.stream)
        raise FilesBehind(head.version if head else 0, error) from error


def write_to(path: Path, content: bytes) -> None:
    """Write a report whole; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did, or would do: the events recorded, those planned, the state after.

    ``stands`` is the state that the log is in: that before if nothing was recorded.
    """

    events: tuple[RecordedEvent, ...]
    planned: Planned
    state: Workflow
    repeated: bool = False
    stands: Workflow | None = None


class Service:
    """The only writer of one workflow."""

    def __init__(
        self, root: Root, log: WorkflowLog, actor: Actor, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self.actor = actor
        self.clock = clock
        self.writer = StreamWriter(log.store, log.stream, actor, clock)
        self.files = WorkflowFiles(root, log, self.writer.record_found, self._close_fulfilled)

    def acting_as(self, kind: str) -> Service:
        """Return this service with the same caller in another role: reconciler, runner."""
        return Service(self.root, self.log, Actor(kind, self.actor.name), self.clock)

    def _close_fulfilled(self, state: Workflow) -> list[Payload]:
        from service.files.foreign_changes import close_fulfilled

        return close_fulfilled(self.root, self.log, state)

    def state(self) -> Workflow:
        """Return the state now; raises `NoWorkflow` if nothing was created yet."""
        return self.log.current()

    @cached_property
    def _known(self) -> Identity:
        events = self.log.store.read(self.log.stream, upto=1)
        return known_identity(self.root, lambda: next(events, None))

    def settle_place(self, how: RootIs | None) -> None:
        """See that the root is where it was, or take down ``how`` it came here.

        Raises `RootElsewhere` if nobody says.
        """
        here = settled(self.root, self._known, how)
        if how is None:
            return
        if here is not None:
            before = f"{self._known.get('path')} on {self._known.get('host')}"
            self._known = here
            self.handle(p.NoteLogged(text=f"Root {how.value} from {before}"))
        elif how is RootIs.MOVED:
            self._take_in_former_hosts()

    def _take_in_former_hosts(self) -> None:
        """Take down that what was begun here under another host's name is this root's own."""
        here = identity(self.root.path)
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

    def handle(self, *commands: Payload, options: WriteOptions = PLAIN) -> Outcome:
        """Carry out the commands, all or nothing, and bring the files up to date.

        Raises what the rules raise (and records the refusal), `WrongExpectedVersion`,
        `CommandConflict`, `FilesBehind`, `RootElsewhere`, `AnotherLog`.
        """
        if not options.dry_run:
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
        except (Refused, NeedsConsent) as refusal:
            if not options.dry_run:
                self.writer.record_refusal(commands, refusal)
            raise

    def take_over(self, planned: Planned, options: WriteOptions) -> Outcome:
        """Record a history of another's keeping as the beginning of this stream.

        No rule decides on it: it was so. Raises `WrongExpectedVersion` where the stream is not
        empty, `FilesBehind`.
        """
        claim = self.writer.claim((), options)
        return self._append(None, planned, claim, options)

    def first_answer(self, options: WriteOptions, *commands: Payload) -> Outcome | None:
        """Return what a command of this id and content did before, None if it is new.

        Raises `CommandConflict` where the id was used for something else.
        """
        first = self.writer.first_answer(commands, options)
        if first is None:
            return None
        self.files.bring_up_to_date()
        state = self.state()
        return Outcome(first.events, (), state, repeated=True, stands=state)

    def rehearse(self, *commands: Payload) -> Outcome:
        """Return what the commands would yield now; a refusal is recorded as one."""
        try:
            return plan_writes(self.state(), commands, WriteOptions(), self.clock)
        except (Refused, NeedsConsent) as refusal:
            self.writer.record_refusal(commands, refusal)
            raise

    def _decided(self, commands: Sequence[Payload], claim: Claim, options: WriteOptions) -> Outcome:
        def carried_out(before: Workflow | None) -> Outcome:
            outcome = plan_writes(before, commands, options, self.clock)
            planned = tuple((self._placed(payload), at) for payload, at in outcome.planned)
            if options.dry_run or not planned:
                return replace(outcome, planned=planned)
            return self._append(before, planned, claim, options)

        before = options.known or self.log.state()
        return self.writer.decided(carried_out, before, self.log.state, options)

    def _placed(self, payload: Payload) -> Payload:
        """Give the report of a workflow that is completed now a place at which nothing lies."""
        if payload.type != "workflow.completed":  # most commands load no models
            return payload
        asked = cast("p.WorkflowCompleted", payload).report
        if asked is None:
            return payload
        places = (numbered(asked, number) for number in count(1))  # report.md, report-2.md
        free = next(one for one in places if not os.path.lexists(self.root.path / one))
        return payload.model_copy(update={"report": free})

    def _append(
        self, before: Workflow | None, planned: Planned, claim: Claim, options: WriteOptions
    ) -> Outcome:
        expected = before.head if before is not None else Expected.NO_STREAM
        sessions = _sessions(before, planned)
        events = self.writer.new_events(planned, sessions, own_id(claim, options))
        appended = self.log.store.append(self.log.stream, events, expected=expected, claim=claim)
        state = self.log.evolve(before, iter(appended.events))
        if state is None:
            raise NoWorkflow("appended to a stream that holds no workflow")
        self.files.bring_up_to_date(before)
        self._keep_fold(state)
        if not (state.session.is_open and state.session.driven):
            # A loop that is at work ends its session first, so that its end is told too.
            self.write_report(state)
        return Outcome(appended.events, planned, state, appended.repeated, state)

    def write_report(self, state: Workflow, seen: Seen | None = None) -> None:
        """Write the report of a completed workflow where it is due; raises `FilesBehind`."""
        if state.workflow_status == "completed":
            write_due(self.root, self.log, state.report, seen)

    def _keep_fold(self, state: Workflow) -> None:
        """Keep the fold; the history's tables go on when the log grew by some hundred events."""
        try:
            if self.log.keep_fold(state):
                from service.sql.tables import HistoryTables

                HistoryTables(self.root.address, self.log).catch_up(2 * FOLD_EVERY)
        except EventStoreError as error:
            # What was asked is recorded: an error must not read as if it were not.
            raise FilesBehind(state.head, error) from error


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


def plan_writes(
    state: Workflow | None, commands: Sequence[Payload], options: WriteOptions, clock: Clock
) -> Outcome:
    """Return what the commands would yield in ``state``; nothing is written."""
    at = options.occurred_at or utc_text(clock())
    moments = options.occurred_each or (None,) * len(commands)
    asked = [(command, own or at) for command, own in zip(commands, moments, strict=True)]
    planned, after = decide_all(state, asked)
    if after is None:
        raise NoWorkflow("no command was given")
    return Outcome((), tuple(planned), after, stands=state)


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
