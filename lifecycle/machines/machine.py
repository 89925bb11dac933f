"""The state of one phase machine: what its events add up to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from glob import escape
from typing import Any, NamedTuple

from lifecycle.machines.definition import DEFINITION, Approval, Definition, Tasks, Transition
from lifecycle.machines.guard import All, Approved, Facts, FileFact, HasCommit, parts
from lifecycle.machines.path import Steps, look, parse
from lifecycle.state.workflow import Drift

Document = dict[str, Any]


@dataclass(slots=True)
class Visit:
    """A stay in a phase. Times are UTC; ``data`` is what was recorded of the phase."""

    phase: str
    entered_at: str
    status: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    updated_at: str | None = None
    left_at: str | None = None
    data: Document = field(default_factory=dict)
    #: File that a guard of the phase looks at → its mark when the phase was entered.
    earlier: dict[str, str] = field(default_factory=dict)
    #: The paths of the fields that were written in this stay; ``()`` stands for all of them.
    written: set[Steps] = field(default_factory=set)
    #: What the work on the phase went through before it began anew: status, times, data.
    went: list[Document] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        """Whether anything was recorded of the phase in this stay."""
        return self.started_at is not None or bool(self.data)

    @property
    def ended_at(self) -> str | None:
        """When the work came to its end, a failure too; None while it goes on."""
        is_over = self.status in ("FAILED", "BLOCKED", "failed")
        return self.completed_at or (self.updated_at if is_over else None)

    def draft(self) -> Visit:
        """Return a copy that a fold may change without touching this one."""
        return replace(self, written=set(self.written), went=list(self.went))

    def record(self) -> Document:
        """Return what this stay was, to be kept once the work begins anew."""
        times = {"started_at": self.started_at or self.entered_at, "completed_at": self.ended_at}
        return {"status": self.status, **times, **self.data}


@dataclass(slots=True)
class Move:
    """A change of phase; ``loop`` with ``count`` and ``limit`` where one was counted."""

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
        """Whether a limit led here instead of where it was asked for."""
        return self.asked is not None


@dataclass(slots=True)
class Given:
    """An approval that a person gave, with what was chosen."""

    approval: str | None
    phase: str
    at: str
    by: str | None = None
    choice: str | None = None


class Bound(NamedTuple):
    """What an approval was given for; None if its event is of a time that recorded none."""

    #: Path → SHA-256 in hex.
    files: dict[str, str] | None = None
    #: Field → its value; one without a value is left out.
    fields: Document | None = None


class Caller(NamedTuple):
    """Who asks, as kind:name, and the handle of the claim that is shown."""

    name: str = ""
    claim: str | None = None


class Asked(NamedTuple):
    """When something is asked for (UTC, ISO 8601), what was found of files, and who asks."""

    at: str
    files: Mapping[str, FileFact]
    caller: Caller = Caller()


@dataclass(slots=True)
class Lease:
    """Who has claimed a task, as kind:name, and until when (UTC).

    Who shows the ``handle`` is the claimer: many sessions have one name. A claim of a time that
    gave none is its name's.
    """

    by: str
    until: str
    handle: str | None = None

    def is_live(self, at: str) -> bool:
        """Whether it has not run out by then."""
        return at < self.until

    def is_against(self, caller: Caller, at: str) -> bool:
        """Whether it keeps somebody from the task then: it is live, and of somebody else."""
        own = self.by == caller.name if self.handle is None else self.handle == caller.claim
        return not own and self.is_live(at)


@dataclass(slots=True)
class Handoff:
    """What a checkpoint says to anyone who comes next."""

    summary: str
    next: list[str]
    phase: str
    at: str


@dataclass(slots=True)
class Machine:
    """A machine as of version ``head`` of its stream."""

    id: str
    definition: Definition
    phase: str
    status: str | None
    created: str
    updated: str
    document: Document = field(default_factory=dict)
    head: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    #: Loop → the limit that a person gave it since.
    limits: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    visits: dict[str, Visit] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    #: Approvals that count in the present stay.
    approvals: list[str] = field(default_factory=list)
    #: Approval of the present stay → what it was given for.
    bound: dict[str, Bound] = field(default_factory=dict)
    #: The log of what the definition's events said, but those of phases: name, at, data.
    notes: list[Document] = field(default_factory=list)
    handoff: Handoff | None = None
    cancelled_at: str | None = None
    consent: str = "terminal"
    signers: list[str] = field(default_factory=list)
    #: Nobody at a terminal has agreed to the signers yet.
    has_new_signers: bool = False
    #: Whether a person agreed to a definition of one's own; None if nobody was to be asked.
    definition_agreed: bool | None = None
    drifts: list[Drift] = field(default_factory=list)
    #: Hand edits that were decided: ``file``, ``how`` (adopted or reverted), ``by``, ``policy``.
    edits: list[Document] = field(default_factory=list)
    #: Files that artifacts name → their SHA-256 when they were recorded.
    digests: dict[str, str] = field(default_factory=dict)
    findings: list[Document] = field(default_factory=list)
    #: Task → its outputs that were there when it began to run: file → mark.
    task_earlier: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Task → the last lease of it, until that is released or the task is done.
    leases: dict[str, Lease] = field(default_factory=dict)
    #: Events that are ignored, as they cannot be what their type says: ``version``, ``type``,
    #: ``why``.
    set_aside: list[Document] = field(default_factory=list)

    def draft(self) -> Machine:
        """Return a copy that a fold may change without touching this one.

        What a fold replaces and never changes in place is shared.
        """
        held = {one.name: getattr(self, one.name) for one in fields(self)}
        changed = {name: copy(one) for name, one in held.items() if isinstance(one, dict | list)}
        changed["visits"] = {phase: visit.draft() for phase, visit in self.visits.items()}
        return replace(self, **{**changed, "document": _json_copy(self.document)})

    @property
    def is_final(self) -> bool:
        """Whether nothing leaves the phase."""
        return self.definition.is_final(self.phase)

    @property
    def visit(self) -> Visit:
        """The present stay."""
        return self.visits[self.phase]

    @property
    def last_move(self) -> Move | None:
        """How the machine came into its phase, None if it began there."""
        return self.moves[-1] if self.moves else None

    @property
    def diverted_by(self) -> str | None:
        """The loop whose limit led into the phase, None if the machine came in otherwise."""
        move = self.last_move
        return move.loop if move is not None and move.is_diverted else None

    @property
    def working_phase(self) -> str:
        """The phase whose work is in hand: where it was cancelled or held up, the one before."""
        phases = self.definition.phases
        exits = {loop.on_limit for loop in self.definition.loops.values()}
        places = (self.phase, *(move.source for move in reversed(self.moves)))
        return next((one for one in places if one in phases and one not in exits), self.phase)

    @property
    def ways(self) -> list[Transition]:
        """The ways out of the phase; while the definition waits each takes its approval too."""
        ways = self.definition.ways(self.phase)
        if self.definition_agreed is not False:
            return ways
        agreed = Approved(approved=DEFINITION)
        return [
            way.model_copy(update={"guard": All(all=[agreed, *([way.guard] if way.guard else [])])})
            for way in ways
        ]

    def limit_of(self, loop: str) -> int:
        """Return how often a loop may be taken: as a person said last, else as it began."""
        return self.limits.get(loop) or self.definition.limit_of(loop, self.document)

    @property
    def known_approvals(self) -> dict[str, Approval]:
        """All that a person approves of the machine: what its phases wait for, its definition."""
        if self.definition_agreed is None:
            return self.definition.approvals
        asks = f"May {self.id} go by its own definition {self.definition.id}?"
        return {DEFINITION: Approval(phase=self.phase, asks=asks), **self.definition.approvals}

    def facts(self, files: Mapping[str, FileFact]) -> Facts:
        """Return what guards look at."""
        return Facts(
            document=self.document,
            defaults=self.definition.defaults,
            counts=self.counts,
            events=self.events,
            approvals=frozenset(one for one in self.approvals if self.stands(one, files)),
            outdated={one: why for one in self.approvals if (why := self._departed(one, files))},
            status=self.status,
            files=files,
            earlier=self.visit.earlier,
            written=self.visit.written,
            diverted_by=self.diverted_by,
        )

    def stands(self, approval: str, files: Mapping[str, FileFact]) -> bool:
        """Whether an approval was given, for the fields and files that are there now."""
        if approval == DEFINITION and self.definition_agreed is not None:
            return self.definition_agreed
        return approval in self.approvals and self._departed(approval, files) is None

    def _departed(self, approval: str, files: Mapping[str, FileFact]) -> str | None:
        """Return what an approval is of instead of what is there now, None if it is of that.

        A file that came later counts if it is the same as the one that was chosen.
        """
        if others := self.fields_departed(approval):
            return f"an approval of other values than these: {', '.join(others)}"
        bound = self.bound.get(approval, Bound()).files
        if bound is None:
            return None
        given = (one.choice for one in reversed(self.given) if one.approval == approval)
        chosen = next(given, None)
        there = self.files_at_stake(approval, chosen, files)
        same = all(
            sha256 in (bound.get(path), bound.get(chosen or "")) for path, sha256 in there.items()
        )
        gone = set(bound) - set(there)
        return None if same and not gone else "an approval of other files than these"

    def fields_departed(self, approval: str) -> list[str]:
        """Return the fields that have other values now than when an approval was given."""
        then, now = self.bound.get(approval, Bound()).fields, self.values_at_stake(approval)
        if then is None:
            return []
        # As JSON: 1 is not true.
        told = [{k: json.dumps(v, sort_keys=True) for k, v in one.items()} for one in (then, now)]
        return sorted(path for path in {*then, *now} if told[0].get(path) != told[1].get(path))

    def values_at_stake(self, approval: str) -> Document:
        """Return the fields that an approval is of, each with its value; not those without one."""
        paths = self.definition.fields_at_stake(approval)
        known = {path: look(self.document, parse(path)) for path in paths}
        return {path: value for path, value in known.items() if value is not None}

    def named_commits(self) -> set[str]:
        """Return the ids of commits that the ways out of the phase ask for."""
        guards = [part for way in self.ways for part in parts(way.guard)]
        asked = [look(self.document, parse(g.commit)) for g in guards if isinstance(g, HasCommit)]
        return {id_ for id_ in asked if isinstance(id_, str)}

    def named_files(self) -> set[str]:
        """Return each text of the fields that approvals of the phase are of: it may be a path."""
        here = [name for name, one in self.definition.approvals.items() if one.phase == self.phase]
        return {text for name in here for text in texts(self.values_at_stake(name))}

    def files_at_stake(
        self, approval: str, chosen: str | None, files: Mapping[str, FileFact]
    ) -> dict[str, str]:
        """Return what an approval in the present phase is of: path → SHA-256 in hex.

        These are the files that the ways out of the phase ask for, those that the fields at stake
        name, and the one that is chosen.
        """
        patterns = self.definition.files_looked_at(self.phase)
        patterns |= set(map(escape, texts(self.values_at_stake(approval))))
        known = [files[one] for one in patterns & set(files)]
        asked = {path: fact.digest(path) for fact in known for path in fact.found}
        among = self.definition.phases[self.phase].options if not self.is_final else None
        options = files.get(among or "")
        if chosen is not None and options is not None and chosen in options.found:
            asked[chosen] = options.digest(chosen)
        return asked

    @property
    def tasks(self) -> list[Document]:
        """The tasks, those that are objects."""
        kept = self.definition.tasks
        return tasks_in(self.document, kept) if kept is not None else []

    def task(self, id_: str) -> Document | None:
        """Return a task; None for an unknown id."""
        return next((task for task in self.tasks if task.get("id") == id_), None)

    def steps_to(self, task: Document) -> Steps:
        """Return the path of a task that the state holds."""
        path = self.definition.tasks.path if self.definition.tasks is not None else ""
        return (path, next(n for n, one in enumerate(self.document[path]) if one is task))


def _json_copy(value: Any) -> Any:
    """Return a copy of JSON values; `deepcopy` asks each of them how it is to be copied."""
    if isinstance(value, dict):
        return {key: _json_copy(child) for key, child in value.items()}
    return [_json_copy(child) for child in value] if isinstance(value, list) else value


def tasks_in(document: Mapping[str, Any], kept: Tasks) -> list[Document]:
    """Return the tasks of a document, those that are objects."""
    found = document.get(kept.path)
    return [task for task in found if isinstance(task, dict)] if isinstance(found, list) else []


def texts(value: Any) -> Iterator[str]:
    """Yield the texts that a value holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from texts(child)
