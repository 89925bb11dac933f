"""A definition: a phase machine as closed data; the engine runs it, the docs are made from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from lifecycle.machines.errors import InvalidDefinition
from lifecycle.machines.guard import Approved, FileFact, Guard, HasCommit, HasFile, parts, path_of
from lifecycle.machines.path import COMMITS, look, parse
from lifecycle.machines.shape import meant
from lifecycle.words.values import problem, span

#: Every machine has this final phase; any phase that is not final leads to it.
CANCELLED = "cancelled"
#: The approval of a definition of one's own: a person agrees that a machine goes by it.
DEFINITION = "definition"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
#: A length of time: ``90s``, ``30m``, ``12h``, ``7d``, ``2w``.
Span = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5} ?[smhdw]$")]
Words = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


_KEEPS = "a machine keeps it; wfctl machine init ID begins another"
_WRITES = "the engine writes it"
_MOVES = "wfctl machine transition {id} PHASE"
_STANDS = "wfctl machine append {id} TYPE"
_LIMITS = "the machine begins with it; a limit is not changed on the way"
#: The fields of a protocol's files that nobody else writes, and what is done instead.
_ENGINE: dict[str, dict[str, str]] = {
    "exarchos": {
        "phase": _MOVES,
        **dict.fromkeys(("workflowType", "featureId"), _KEEPS),
        **dict.fromkeys(("createdAt", "updatedAt", "version"), _WRITES),
    },
    "dotagent": {
        **dict.fromkeys(("current_phase", "completed_phases"), _MOVES),
        **dict.fromkeys(("workflow_id", "started_at"), _KEEPS),
        **dict.fromkeys(("last_updated", "interruption_safe"), _WRITES),
        "phase_status": _STANDS,
        "user_checkpoints": "wfctl machine approve {id} APPROVAL",
    },
    "conductor": {
        "track_id": _KEEPS,
        "loop_state.current_step": _MOVES,
        "loop_state.fix_cycle_count": _WRITES,
        **{f"loop_state.{name}": _STANDS for name in ("step_status", "step_started_at")},
        "loop_state.checkpoints": _STANDS,
    },
}


#: What of the data of a phase the engine writes, by protocol: an open event does not take it.
_OF_VISIT: dict[str, frozenset[str]] = {
    "conductor": frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
}


#: The highest limit that a loop may have.
MOST_ROUNDS = 1_000
#: Where a task's output lies where the task names no other place.
_OUTPUT_OF_TASK = {"dotagent": "memory/tasks/{id}/output.json"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Phase(_Part):
    """A phase; ``track`` names the group it belongs to.

    ``person``: a person is expected here. Where one ``decides``, each way out that no loop counts
    takes an approval of the phase; where one ``advises``, nothing holds the work up; true is as
    ``advises``, and was written before the two were told apart. ``status`` is the phase's status
    on entry where it is not the usual one. ``output`` is the file that the phase yields,
    ``options`` the pattern of the files that a person chooses among. ``due``: minutes, or a
    time such as ``7d``, after which progress is late; that is told, and leads to nothing.
    """

    asks: str = ""
    final: bool = False
    track: Name | None = None
    person: bool | Literal["advises", "decides"] = False
    agent: str | None = None
    status: str | None = None
    output: str | None = None
    options: str | None = None
    due: Annotated[int, Field(gt=0)] | Span | None = None

    @property
    def due_seconds(self) -> int | None:
        """After how many seconds progress is late, None if it never is."""
        if isinstance(self.due, str):
            found = span(self.due)
            return int(found.total_seconds()) if found is not None else None
        return self.due * 60 if self.due is not None else None


class Transition(_Part):
    """A way from one phase to another.

    ``loop`` counts it; ``resets`` names loops whose count begins anew, where a person decided.
    ``unbounded`` says that the protocol sets no limit to a cycle through here.
    """

    source: Annotated[Name, Field(alias="from")]
    to: Name
    guard: Guard | None = None
    loop: Name | None = None
    resets: list[Name] = []
    unbounded: bool = False


class Loop(_Part):
    """A cycle that may be taken ``limit`` times; once more leads to ``on_limit`` instead.

    ``limit_from`` is a field that holds another limit for one machine.
    """

    limit: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    on_limit: Name
    limit_from: str | None = None


class Approval(_Part):
    """What a person decides in a phase."""

    phase: Name
    asks: Words


class Statuses(_Part):
    """How a phase may stand: the statuses, and the one it begins with."""

    initial: str
    values: list[str]


class EventKind(_Part):
    """An event that may be recorded: the shape of its data and what it does.

    ``status`` is what it sets the phase's status to, where that is one of ``after``. ``starts``
    and ``completes`` say that the phase's work begins or is done with it. The data of an event
    ``of_phase`` belongs to the phase it was recorded in. One that is ``open`` takes other data too.
    """

    says: str
    data: dict[str, JsonValue] = {}
    required: list[str] = []
    status: str | None = None
    after: list[str] = []
    of_phase: bool = False
    starts: bool = False
    completes: bool = False
    open: bool = False


class Tasks(_Part):
    """Where the tasks are and what they go through. ``*_field`` are the names of their fields.

    ``beyond`` is the approval with which a task may run more than ``most_attempts`` times.
    """

    path: str = "tasks"
    pattern: str = r"^\S+$"
    statuses: list[str]
    running: str
    done: str
    failed: str
    started_field: str = "started_at"
    completed_field: str = "completed_at"
    attempts_field: str | None = None
    most_attempts: int | None = None
    beyond: Name | None = None

    def is_id(self, text: str) -> bool:
        """Whether a task may be named so."""
        return re.fullmatch(self.pattern.removeprefix("^").removesuffix("$"), text) is not None


class Blocker(_Part):
    """What holds the work up while its guard is met; it clears when that is solved."""

    when: Guard
    says: Words


class Definition(_Part):
    """A whole machine."""

    id: Name
    version: Annotated[int, Field(ge=1)] = 1
    title: Words
    protocol: Literal["exarchos", "dotagent", "conductor"] = "exarchos"
    id_pattern: str = r"^[a-z0-9-]+$"
    initial: Name
    phases: dict[Name, Phase]
    transitions: list[Transition]
    loops: dict[Name, Loop] = {}
    approvals: dict[Name, Approval] = {}
    fields: dict[str, JsonValue] = {}
    defaults: dict[str, JsonValue] = {}
    reserved: dict[str, str] = {}
    statuses: Statuses | None = None
    events: dict[str, EventKind] = {}
    tasks: Tasks | None = None
    blockers: list[Blocker] = []
    files: dict[str, str]

    def all_reserved(self) -> dict[str, str]:
        """Return the fields that only the engine writes, those of the protocol too."""
        limits = {loop.limit_from: _LIMITS for loop in self.loops.values() if loop.limit_from}
        return {**self.reserved, **limits, **_ENGINE[self.protocol], **self.reserved}

    def data_that_fits(self, kind: EventKind, name: str) -> bool:
        """Whether an event may hold data of this name."""
        own = {*_OF_VISIT.get(self.protocol, ()), *(parse(one)[-1] for one in self.all_reserved())}
        return name in kind.data or (kind.open and name not in own and not name.startswith("_"))

    def outputs_of(self, task: Mapping[str, Any]) -> list[str]:
        """Return where a task's output may lie: where the task says, and the protocol's place."""
        named, place = task.get("output"), _OUTPUT_OF_TASK.get(self.protocol)
        published = [place.format(id=task.get("id"))] if place is not None else []
        return [*([str(named)] if named else []), *published]

    def ways(self, phase: str) -> list[Transition]:
        """Return the transitions from a phase, in the order they are written."""
        return [way for way in self.transitions if way.source == phase]

    def conditions(self, phase: str) -> list[Guard]:
        """Return what the guards of the ways from a phase ask for, each by itself."""
        return [part for way in self.ways(phase) for part in parts(way.guard)]

    def is_final(self, phase: str) -> bool:
        """Whether nothing leaves the phase."""
        return phase == CANCELLED or self.phases[phase].final

    def approval_in(self, phase: str) -> str | None:
        """Return the approval that is given in a phase; None if the phase has no approval."""
        return next((name for name, one in self.approvals.items() if one.phase == phase), None)

    def files_looked_at(self, phase: str) -> set[str]:
        """Return the patterns of the files that guards of a phase look at; `COMMITS` for git."""
        looking = self.conditions(phase)
        of_git = {COMMITS for part in looking if isinstance(part, HasCommit) and part.newer_than}
        return of_git | {part.file for part in looking if isinstance(part, HasFile)}

    def ways_of(self, approval: str) -> list[Transition]:
        """Return the ways that ask for an approval."""
        return [way for way in self.transitions if Approved(approved=approval) in parts(way.guard)]

    def fields_at_stake(self, approval: str) -> list[str]:
        """Return the fields that an approval is of, sorted; none where no way asks for it.

        Guards look at them: of the ways into its phase, as that is what a person is shown; of the
        ways out of it; and of the ways on from there, as that is what the approval lets begin.
        """
        if not self.ways_of(approval):
            return []
        phase = self.approvals[approval].phase
        out = self.ways(phase)
        near = [way for way in self.transitions if way.to == phase] + out
        near += [way for leads in out for way in self.ways(leads.to)]
        looked_at = {path_of(part) for way in near for part in parts(way.guard)}
        return sorted(path for path in looked_at if path is not None)

    def files_from_here(self, phase: str) -> set[str]:
        """Return the patterns for a phase, and for the phases that may come next."""
        ways = self.ways(phase)
        exits = {self.loops[way.loop].on_limit for way in ways if way.loop is not None}
        near = {phase, *(way.to for way in ways), *exits}
        return set().union(*map(self._all_files_of, near))

    def _all_files_of(self, phase: str) -> set[str]:
        """Return what guards of a phase look at, and what a person chooses among in it."""
        options = self.phases[phase].options if phase in self.phases else None
        return self.files_looked_at(phase) | ({options} if options is not None else set())

    def marks_on_entry(
        self, phase: str, files: Mapping[str, FileFact], *, options: bool = True
    ) -> dict[str, str]:
        """Return the marks of the files that count in the phase only once they are written anew.

        Without ``options`` those that a person chooses among are left out.
        """
        looking = [one for one in self.conditions(phase) if isinstance(one, HasFile | HasCommit)]
        if all(part.newer_than is None for part in looking):
            return {}
        patterns = self._all_files_of(phase) if options else self.files_looked_at(phase)
        known = [files[one] for one in sorted(patterns) if one in files]
        return {name: mark for fact in known for name, mark in fact.marks.items()}

    def with_limits(self, limits: Mapping[str, int]) -> Definition:
        """Return the definition with other limits of its loops."""
        loops = {
            name: loop.model_copy(update={"limit": limits.get(name, loop.limit)})
            for name, loop in self.loops.items()
        }
        return self.model_copy(update={"loops": loops})

    def limit_of(self, loop: str, document: Mapping[str, Any]) -> int:
        """Return how often a loop may be taken."""
        known = self.loops[loop]
        own = look(document, parse(known.limit_from)) if known.limit_from else None
        usable = isinstance(own, int) and not isinstance(own, bool) and own >= 1
        return own if usable and own is not None else known.limit

    def source(self) -> dict[str, Any]:
        """Return the definition as its file would hold it: without what is left to its default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def dumped(self) -> dict[str, Any]:
        """Return the definition as data that `lifecycle.machines.soundness.load` reads."""
        return self.model_dump(mode="json", by_alias=True)


def trusted(data: Any, name: str = "given") -> Definition:
    """Return a definition that was found sound before, as from the log."""
    try:
        return Definition.model_validate(data)
    except ValidationError as error:
        raise InvalidDefinition(name, [_problem(e) for e in error.errors()]) from error


#: A place in a definition, by the names of objects with any keys and of lists → its part.
_PARTS: dict[tuple[object, ...], type[_Part]] = {
    (): Definition,
    ("statuses",): Statuses,
    ("tasks",): Tasks,
    ("phases", "*"): Phase,
    ("transitions", "*"): Transition,
    ("loops", "*"): Loop,
    ("approvals", "*"): Approval,
    ("events", "*"): EventKind,
    ("blockers", "*"): Blocker,
}


def _problem(error: ErrorDetails) -> str:
    """Return what is wrong; of a key that there is not, with the nearest that there is."""
    if error["type"] != "extra_forbidden":
        return problem(error)
    *place, key = error["loc"]
    kind = _PARTS.get((*place[:1], *("*" for _ in place[1:])))
    known = [field.alias or name for name, field in kind.model_fields.items()] if kind else []
    return problem(error) + meant(key, known)
