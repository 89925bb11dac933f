"""Carry out write commands: load the state, decide, append events, and update the files.

If another program appends an event meanwhile, the command is decided again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from eventstore.errors import EventStoreError
from eventstore.event import Actor, RecordedEvent
from eventstore.store import Claim, Expected
from lifecycle.errors import NeedsConsent, NoWorkflow, Refused
from lifecycle.event import UnrecordedEvent
from lifecycle.fold.evolve import evolve
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide_all
from lifecycle.state.report_path import add_number_to_path
from lifecycle.state.workflow import Workflow
from lifecycle.words.values import is_valid_report_path
from projections.words.account import FileCheckResult
from service.errors import FilesBehind
from service.files.workflow_files import WorkflowFiles
from service.reading.log import WorkflowLog
from service.reading.stream_log import FOLD_EVERY
from service.root.atomic_files import Clock, system_clock, utc_text, write_whole
from service.root.paths_within_root import OutsideRoot, open_stable_path_within
from service.root.root import (
    Identity,
    Root,
    RootIs,
    has_former_place,
    read_identity,
    read_recorded_identity,
    record_former_places,
    record_root_relocation,
    require_same_place,
)
from service.writing.stream_writer import (
    PLAIN,
    Planned,
    StreamWriter,
    WriteOptions,
    first_event_id,
    record_outside_changes,
)
from wfctl_eventstore.extension import find_extension

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def render_report(
    log: WorkflowLog, seen: FileCheckResult | None = None, place: Path = Path()
) -> bytes:
    """Return the current report. Raises `NoWorkflow` if there is no workflow.

    All parts of the report show the same version, even if other programs append events meanwhile.
    ``seen`` is the result of a check of the files. ``place`` is the folder of the report, relative
    to the workflow folder.
    """
    from projections.files.facts import (
        collect_report_facts,  # needed by the few writes that create a report
    )
    from projections.files.report import render

    state = log.replayed()
    facts = collect_report_facts(log.steps(upto=state.head), state)
    return render(facts, seen, root=os.path.relpath(os.curdir, place))


def write_due_report(
    root: Root, log: WorkflowLog, path: str | None, seen: FileCheckResult | None = None
) -> None:
    """Write the report of a completed workflow. An existing file is never overwritten.

    ``path`` is relative to the workflow folder, or None if no report is wanted. Raises
    `FilesBehind` if the file cannot be written. The next write command then tries again.
    """
    # A path that does not look like a report was not recorded by a command of wfctl. Write no
    # report there.
    if path is None or not is_valid_report_path(path) or os.path.lexists(root.path / path):
        return
    try:
        with open_stable_path_within(root.path, path, make=True) as place:
            write_whole(place, render_report(log, seen, Path(path).parent))
    except (OSError, EventStoreError, OutsideRoot) as error:
        head = log.store.head(log.stream)
        raise FilesBehind(head.version if head else 0, error) from error


def write_report_to(path: Path, content: bytes) -> None:
    """Write a report to a file, and create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


class Outcome(NamedTuple):
    """The result of a write command: recorded events, planned events, and the new state.

    ``stands`` is the state of the log. If nothing was recorded, it is the previous state.
    """

    events: tuple[RecordedEvent, ...]
    planned: Planned
    state: Workflow
    repeated: bool = False
    stands: Workflow | None = None


class Service:
    """Writes to the log of one workflow. All write commands use this class."""

    def __init__(
        self, root: Root, log: WorkflowLog, actor: Actor, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self.actor = actor
        self.clock = clock
        self.writer = StreamWriter(log.store, log.stream, actor, clock)
        self.files = WorkflowFiles(
            root, log, self.writer.record_found, self._build_commands_to_close_edits
        )

    def acting_as(self, kind: str) -> Service:
        """Return a copy of this service whose author has another kind, such as runner."""
        return Service(self.root, self.log, Actor(kind, self.actor.name), self.clock)

    def _build_commands_to_close_edits(self, state: Workflow) -> list[Payload]:
        from service.files.foreign_changes import build_commands_to_close_edits

        return build_commands_to_close_edits(self.root, self.log, state)

    def state(self) -> Workflow:
        """Return the current state of the workflow.

        Raises `NoWorkflow` if the log contains no workflow.
        """
        return self.log.current()

    @cached_property
    def _known(self) -> Identity:
        events = self.log.store.read(self.log.stream, upto=1)
        return read_recorded_identity(self.root, lambda: next(events, None))

    def settle_place(self, how: RootIs | None) -> None:
        """Check that the workflow folder is at its recorded place.

        If ``how`` is given, record that the folder was moved or copied. Raises `RootElsewhere` if
        the place has changed and ``how`` is None.
        """
        here = record_root_relocation(self.root, self._known, how)
        if how is None:
            return
        if here is not None:
            before = f"{self._known.get('path')} on {self._known.get('host')}"
            self._known = here
            self.handle(p.NoteLogged(text=f"Root {how.value} from {before}"))
        elif how is RootIs.MOVED:
            self._record_former_host_names()

    def _record_former_host_names(self) -> None:
        """Record former names of this host from earlier attempts.

        These attempts then belong to this folder, even though the host has another name now.
        """
        here = read_identity(self.root.path)
        newest = (stage.attempt for stage in self.state().stages.values())
        places = {(one.root, one.host) for one in newest if one is not None and one.host}
        others = [
            (path, host)
            for path, host in sorted(places)
            if path == here["path"]
            and host != here["host"]
            and not has_former_place(self.root, path, host)
        ]
        if others:
            record_former_places(self.root, here, others)
            hosts = ", ".join(dict.fromkeys(host for _, host in others))
            self.handle(p.NoteLogged(text=f"Root moved from {hosts} to {here['host']}"))

    def handle(self, *commands: Payload, options: WriteOptions = PLAIN) -> Outcome:
        """Record the events of the commands, all or none, and update the generated files.

        Raises the error of a violated rule, and records each refusal. Also raises
        `WrongExpectedVersion`, `CommandConflict`, `FilesBehind`, `RootElsewhere` or `AnotherLog`.
        """
        if not options.dry_run:
            require_same_place(self.root, self._known)
            self.log.approvals.require_no_pin_conflict()
        first = self.first_answer(options, *commands)
        if first is not None:
            return first
        claim = self.writer.claim(commands, options)
        if not (options.dry_run or options.exact):
            options = record_outside_changes(self.files.record_foreign_changes, options)
        try:
            return self._decide_and_append(commands, claim, options)
        except (Refused, NeedsConsent) as refusal:
            if not options.dry_run:
                self.writer.record_refusal(commands, refusal)
            raise

    def record_imported_history(self, planned: Planned, options: WriteOptions) -> Outcome:
        """Record an imported history as the first events of the log.

        No rule checks these events. Raises `WrongExpectedVersion` if the log is not empty, and
        `FilesBehind` if the files cannot be updated.
        """
        claim = self.writer.claim((), options)
        return self._append(None, planned, claim, options)

    def first_answer(self, options: WriteOptions, *commands: Payload) -> Outcome | None:
        """Return the result of an earlier command with this id, or None for a new id.

        Raises `CommandConflict` if an earlier command with this id had another content.
        """
        first = self.writer.first_answer(commands, options)
        if first is None:
            return None
        self.files.bring_up_to_date()
        state = self.state()
        return Outcome(first.events, (), state, repeated=True, stands=state)

    def rehearse(self, *commands: Payload) -> Outcome:
        """Return the events that the commands would record now.

        If the rules refuse the commands, record the refusal.
        """
        try:
            return plan_writes(self.state(), commands, WriteOptions(), self.clock)
        except (Refused, NeedsConsent) as refusal:
            self.writer.record_refusal(commands, refusal)
            raise

    def _decide_and_append(
        self, commands: Sequence[Payload], claim: Claim, options: WriteOptions
    ) -> Outcome:
        def carried_out(before: Workflow | None) -> Outcome:
            outcome = plan_writes(before, commands, options, self.clock)
            planned = tuple(
                (self._choose_report_path(payload), at) for payload, at in outcome.planned
            )
            if options.dry_run or not planned:
                return outcome._replace(planned=planned)
            return self._append(before, planned, claim, options)

        before = options.known or self.log.state()
        return self.writer.decided(carried_out, before, self.log.state, options)

    def _choose_report_path(self, payload: Payload) -> Payload:
        """Return the command with an unused path for the report of a completed workflow.

        Any other command is returned unchanged.
        """
        if payload.type != "workflow.completed":  # most commands import no models
            return payload
        asked = cast("p.WorkflowCompleted", payload).report
        if asked is None:
            return payload
        places = (
            add_number_to_path(asked, number) for number in count(1)
        )  # report.md, report-2.md
        free = next(one for one in places if not os.path.lexists(self.root.path / one))
        return payload.model_copy(update={"report": free})

    def _append(
        self, before: Workflow | None, planned: Planned, claim: Claim, options: WriteOptions
    ) -> Outcome:
        expected = before.head if before is not None else Expected.NO_STREAM
        sessions = _assign_sessions(before, planned)
        events = self.writer.new_events(planned, sessions, first_event_id(claim, options))
        appended = self.log.store.append(self.log.stream, events, expected=expected, claim=claim)
        state = self.log.evolve(before, iter(appended.events))
        if state is None:
            raise NoWorkflow("the event was added to a stream of the log that contains no workflow")
        self.files.bring_up_to_date(before)
        self._store_state_if_due(state)
        if not (state.session.is_open and state.session.driven):
            # During a session of `wfctl run`, the report is written later, so that it includes the
            # end of the session.
            self.write_report(state)
        return Outcome(appended.events, planned, state, appended.repeated, state)

    def write_report(self, state: Workflow, seen: FileCheckResult | None = None) -> None:
        """Write the report of the workflow if it is completed and has no report yet.

        Raises `FilesBehind` if the file cannot be written.
        """
        if state.workflow_status == "completed":
            write_due_report(self.root, self.log, state.report, seen)

    def _store_state_if_due(self, state: Workflow) -> None:
        """Store the state and update the history's tables, after some hundred new events."""
        try:
            if self.log.store_state_if_due(state):
                history = find_extension("history")
                if history is not None:
                    history.catch_up_tables(self.root.address, self.log, 2 * FOLD_EVERY)
        except EventStoreError as error:
            # Report that the command was recorded. Another error would look as if the command had
            # failed.
            raise FilesBehind(state.head, error) from error


def _assign_sessions(before: Workflow | None, planned: Planned) -> Iterator[int | None]:
    """Yield the number of the session to which each event belongs, or None.

    A session includes the events of its start and end. Imported events belong to the session that
    an earlier imported line started.
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
    """Return the events that the commands would record in ``state``, and write nothing."""
    at = options.occurred_at or utc_text(clock())
    moments = options.occurred_each or (None,) * len(commands)
    asked = [(command, own or at) for command, own in zip(commands, moments, strict=True)]
    planned, after = decide_all(state, asked)
    if after is None:
        raise NoWorkflow("no command was given")
    return Outcome((), tuple(planned), after, stands=state)


def planned_state(planned: Planned) -> Workflow:
    """Return the state after a complete history of planned events."""
    facts = [
        UnrecordedEvent(payload.type, payload.as_json(), at, number)
        for number, (payload, at) in enumerate(planned, 1)
    ]
    state = evolve(None, facts)
    if state is None:
        raise NoWorkflow("nothing was planned")
    return state
