"""The state of a phase machine, as computed from its events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from glob import escape
from typing import Any, NamedTuple

from extensions.machines.rules.definition import DEFINITION, Approval, Definition, Tasks, Transition
from extensions.machines.rules.guard import (
    All,
    Approved,
    Facts,
    FileFact,
    HasCommit,
    iterate_conditions,
)
from extensions.machines.rules.path import Steps, get_value, parse_path
from lifecycle.state.workflow import Drift

Document = dict[str, Any]


@dataclass(slots=True)
class Visit:
    """The period from entering a phase to leaving it. Times are in UTC.

    ``data`` contains the data that was recorded for the phase.
    """

    phase: str
    entered_at: str
    status: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    updated_at: str | None = None
    left_at: str | None = None
    data: Document = field(default_factory=dict)
    #: File that a guard of the phase reads → its mark when the machine entered the phase. A changed
    #: mark shows that the file was written since.
    earlier: dict[str, str] = field(default_factory=dict)
    #: Paths of the fields that were written since the machine entered the phase. ``()`` stands for
    #: all fields.
    written: set[Steps] = field(default_factory=set)
    #: Records of earlier work in the same phase: status, times and data.
    went: list[Document] = field(default_factory=list)

    @property
    def has_recorded_events(self) -> bool:
        """Return whether an event was recorded for the phase since it was entered."""
        return self.started_at is not None or bool(self.data)

    @property
    def ended_at(self) -> str | None:
        """Return the time when the work of the phase ended, or None while it continues.

        The work may have ended successfully or not.
        """
        is_over = self.status in ("FAILED", "BLOCKED", "failed")
        return self.completed_at or (self.updated_at if is_over else None)

    def draft(self) -> Visit:
        """Return a copy that can be changed without affecting this object."""
        return replace(self, written=set(self.written), went=list(self.went))

    def record(self) -> Document:
        """Return a record of the work in this phase, to be kept when it starts again."""
        times = {"started_at": self.started_at or self.entered_at, "completed_at": self.ended_at}
        return {"status": self.status, **times, **self.data}


@dataclass(slots=True)
class Move:
    """A change of phase. If a loop counted it, the loop, its count and its limit are set."""

    source: str
    to: str
    at: str
    reason: str | None = None
    loop: str | None = None
    count: int | None = None
    limit: int | None = None
    asked: str | None = None

    @property
    def is_diverted(self) -> bool:
        """Return whether the limit of a loop led to another phase than the requested one."""
        return self.asked is not None


@dataclass(slots=True)
class GivenApproval:
    """An approval by a person, with the file that the person chose, if any."""

    approval: str | None
    phase: str
    at: str
    by: str | None = None
    choice: str | None = None


class ApprovalScope(NamedTuple):
    """The fields and files that an approval covers.

    A value is None if an older version of wfctl recorded the approval without it.
    """

    #: Path of a file → its SHA-256 in hexadecimal form.
    files: dict[str, str] | None = None
    #: Field → its value. Fields without a value are left out.
    fields: Document | None = None


class Caller(NamedTuple):
    """The author of a command, as ``kind:name``.

    ``claim`` is the code that identifies the author's reservation of a task, or None.
    """

    name: str = ""
    claim: str | None = None


class CommandContext(NamedTuple):
    """The context of a command: time (UTC, ISO 8601), facts about files, and author."""

    at: str
    files: Mapping[str, FileFact]
    caller: Caller = Caller()


@dataclass(slots=True)
class Lease:
    """The reservation of a task: its owner, as ``kind:name``, and its expiry time in UTC.

    The code ``handle`` identifies the owner, because many sessions can have the same name. A
    reservation without this code belongs to everyone with the owner's name.
    """

    by: str
    until: str
    handle: str | None = None

    def is_live(self, at: str) -> bool:
        """Return whether the reservation has not expired at the given time."""
        return at < self.until

    def is_blocking_caller(self, caller: Caller, at: str) -> bool:
        """Return whether the reservation prevents the caller from changing the task.

        This is the case if it has another owner and has not expired.
        """
        own = self.by == caller.name if self.handle is None else self.handle == caller.claim
        return not own and self.is_live(at)


@dataclass(slots=True)
class Handoff:
    """The summary and the next steps that one session left for the next session."""

    summary: str
    next: list[str]
    phase: str
    at: str


@dataclass(slots=True)
class Machine:
    """The state of a phase machine at the version ``head`` of its event stream."""

    id: str
    definition: Definition
    phase: str
    status: str | None
    created: str
    updated: str
    document: Document = field(default_factory=dict)
    head: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    #: Loop → the limit that a person set, which overrides the definition.
    limits: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    visits: dict[str, Visit] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    given: list[GivenApproval] = field(default_factory=list)
    #: Approvals that were given since the machine entered the current phase.
    approvals: list[str] = field(default_factory=list)
    #: Approval given in the current phase → the fields and files that it covers.
    bound: dict[str, ApprovalScope] = field(default_factory=dict)
    #: Recorded events that do not belong to a phase: name, time and data.
    notes: list[Document] = field(default_factory=list)
    handoff: Handoff | None = None
    cancelled_at: str | None = None
    consent: str = "terminal"
    signers: list[str] = field(default_factory=list)
    #: Whether the list of signers still needs the acceptance of a person at a terminal.
    has_new_signers: bool = False
    #: Whether a person accepted a user-defined definition. None if no acceptance is needed.
    definition_agreed: bool | None = None
    drifts: list[Drift] = field(default_factory=list)
    #: Manual edits that were decided: ``file``, ``how`` (adopted or reverted), ``by`` and
    #: ``policy``.
    edits: list[Document] = field(default_factory=list)
    #: Files that the fields name → their SHA-256 when the fields were recorded.
    digests: dict[str, str] = field(default_factory=dict)
    findings: list[Document] = field(default_factory=list)
    #: Task → its output files that existed before the task started, with their marks.
    task_earlier: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Task → its last reservation, until the reservation is released or the task is done.
    leases: dict[str, Lease] = field(default_factory=dict)
    #: Events that were ignored because they were invalid: ``version``, ``type`` and ``why``.
    set_aside: list[Document] = field(default_factory=list)

    def draft(self) -> Machine:
        """Return a copy that can be changed without affecting this object.

        Values that are only replaced as a whole are shared between both objects.
        """
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        changed = {name: copy(one) for name, one in held.items() if isinstance(one, dict | list)}
        changed["visits"] = {phase: visit.draft() for phase, visit in self.visits.items()}
        return replace(self, **{**changed, "document": _json_copy(self.document)})

    @property
    def is_final(self) -> bool:
        """Return whether the phase has no transitions to other phases."""
        return self.definition.is_final(self.phase)

    @property
    def visit(self) -> Visit:
        """The visit of the current phase."""
        return self.visits[self.phase]

    @property
    def last_move(self) -> Move | None:
        """The change of phase that led to the current phase, or None in the first phase."""
        return self.moves[-1] if self.moves else None

    @property
    def diverted_by(self) -> str | None:
        """The loop whose limit led to the current phase, or None."""
        move = self.last_move
        return move.loop if move is not None and move.is_diverted else None

    @property
    def working_phase(self) -> str:
        """The phase of the current work.

        If the machine is cancelled or a loop reached its limit, this is the last working phase
        before.
        """
        phases = self.definition.phases
        exits = {loop.on_limit for loop in self.definition.loops.values()}
        places = (self.phase, *(move.source for move in reversed(self.moves)))
        return next((one for one in places if one in phases and one not in exits), self.phase)

    @property
    def ways(self) -> list[Transition]:
        """The transitions from the current phase.

        If a user-defined definition still waits for its approval, each transition requires this
        approval.
        """
        ways = self.definition.ways(self.phase)
        if self.definition_agreed is not False:
            return ways
        agreed = Approved(approved=DEFINITION)
        return [
            way.model_copy(update={"guard": All(all=[agreed, *([way.guard] if way.guard else [])])})
            for way in ways
        ]

    def limit_of(self, loop: str) -> int:
        """Return the limit of a loop.

        This is the limit that a person set, or else the limit in the definition.
        """
        return self.limits.get(loop) or self.definition.limit_of(loop, self.document)

    @property
    def known_approvals(self) -> dict[str, Approval]:
        """All approvals that can be given, including that of a user-defined definition."""
        if self.definition_agreed is None:
            return self.definition.approvals
        asks = f"May {self.id} use its own definition {self.definition.id}?"
        return {DEFINITION: Approval(phase=self.phase, asks=asks), **self.definition.approvals}

    def facts(self, files: Mapping[str, FileFact]) -> Facts:
        """Return the facts that the guards of the machine can read."""
        return Facts(
            document=self.document,
            defaults=self.definition.defaults,
            counts=self.counts,
            events=self.events,
            approvals=frozenset(
                one for one in self.approvals if self.is_approval_up_to_date(one, files)
            ),
            outdated={
                one: why
                for one in self.approvals
                if (why := self._explain_outdated_approval(one, files))
            },
            status=self.status,
            files=files,
            earlier=self.visit.earlier,
            written=self.visit.written,
            diverted_by=self.diverted_by,
        )

    def is_approval_up_to_date(self, approval: str, files: Mapping[str, FileFact]) -> bool:
        """Return whether an approval was given and fits the current fields and files."""
        if approval == DEFINITION and self.definition_agreed is not None:
            return self.definition_agreed
        return (
            approval in self.approvals and self._explain_outdated_approval(approval, files) is None
        )

    def _explain_outdated_approval(
        self, approval: str, files: Mapping[str, FileFact]
    ) -> str | None:
        """Return the reason why an approval is outdated, or None if it is still valid.

        A file that did not exist when the approval was given is accepted if its content equals that
        of the chosen file.
        """
        if others := self.list_changed_fields(approval):
            return f"the approval names other values: {', '.join(others)}"
        bound = self.bound.get(approval, ApprovalScope()).files
        if bound is None:
            return None
        given = (one.choice for one in reversed(self.given) if one.approval == approval)
        chosen = next(given, None)
        there = self.collect_approval_files(approval, chosen, files)
        same = all(
            sha256 in (bound.get(path), bound.get(chosen or "")) for path, sha256 in there.items()
        )
        gone = set(bound) - set(there)
        return None if same and not gone else "the approval names other files"

    def list_changed_fields(self, approval: str) -> list[str]:
        """Return the fields whose values changed since an approval was given."""
        then, now = (
            self.bound.get(approval, ApprovalScope()).fields,
            self.collect_approval_values(approval),
        )
        if then is None:
            return []
        # Compare the values as JSON, because 1 == True in Python.
        told = [{k: json.dumps(v, sort_keys=True) for k, v in one.items()} for one in (then, now)]
        return sorted(path for path in {*then, *now} if told[0].get(path) != told[1].get(path))

    def collect_approval_values(self, approval: str) -> Document:
        """Return the fields that an approval covers, with their values.

        Fields without a value are left out.
        """
        paths = self.definition.list_approval_fields(approval)
        known = {path: get_value(self.document, parse_path(path)) for path in paths}
        return {path: value for path, value in known.items() if value is not None}

    def named_commits(self) -> set[str]:
        """Return the commit ids in the fields that the guards of the current phase read."""
        guards = [part for way in self.ways for part in iterate_conditions(way.guard)]
        asked = [
            get_value(self.document, parse_path(g.commit))
            for g in guards
            if isinstance(g, HasCommit)
        ]
        return {id_ for id_ in asked if isinstance(id_, str)}

    def list_possible_paths(self) -> set[str]:
        """Return every string in the fields that approvals of the current phase cover.

        Any of these strings may be the path of a file.
        """
        here = [name for name, one in self.definition.approvals.items() if one.phase == self.phase]
        return {
            text for name in here for text in iterate_strings(self.collect_approval_values(name))
        }

    def collect_approval_files(
        self, approval: str, chosen: str | None, files: Mapping[str, FileFact]
    ) -> dict[str, str]:
        """Return the files that an approval in the current phase covers.

        The result maps paths to SHA-256 digests. It contains the files that the transitions from
        the phase require, the files that the covered fields name, and the file that the person
        chose.
        """
        patterns = self.definition.list_guard_files(self.phase)
        patterns |= set(map(escape, iterate_strings(self.collect_approval_values(approval))))
        known = [files[one] for one in patterns & set(files)]
        asked = {path: fact.digest(path) for fact in known for path in fact.found}
        among = self.definition.phases[self.phase].options if not self.is_final else None
        options = files.get(among or "")
        if chosen is not None and options is not None and chosen in options.found:
            asked[chosen] = options.digest(chosen)
        return asked

    @property
    def tasks(self) -> list[Document]:
        """The tasks in the state, without entries that are not objects."""
        kept = self.definition.tasks
        return tasks_in(self.document, kept) if kept is not None else []

    def task(self, id_: str) -> Document | None:
        """Return the task with the given id, or None if it does not exist."""
        return next((task for task in self.tasks if task.get("id") == id_), None)

    def find_task_path(self, task: Document) -> Steps:
        """Return the path of a task in the state of this machine."""
        path = self.definition.tasks.path if self.definition.tasks is not None else ""
        return (path, next(n for n, one in enumerate(self.document[path]) if one is task))


def _json_copy(value: Any) -> Any:
    """Return a deep copy of JSON values, faster than `deepcopy`."""
    if isinstance(value, dict):
        return {key: _json_copy(child) for key, child in value.items()}
    return [_json_copy(child) for child in value] if isinstance(value, list) else value


def tasks_in(document: Mapping[str, Any], kept: Tasks) -> list[Document]:
    """Return the tasks in a document, without entries that are not objects."""
    found = document.get(kept.path)
    return [task for task in found if isinstance(task, dict)] if isinstance(found, list) else []


def iterate_strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, including nested ones."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from iterate_strings(child)
