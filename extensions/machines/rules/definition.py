"""A definition: a phase machine as closed data; the engine runs it, the docs are made from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from extensions.machines.rules.errors import InvalidDefinition
from extensions.machines.rules.field_shapes import suggest_name
from extensions.machines.rules.guard import (
    Approved,
    FileFact,
    Guard,
    HasCommit,
    HasFile,
    iterate_conditions,
    path_of,
)
from extensions.machines.rules.path import COMMITS, get_value, parse_path
from lifecycle.words.values import explain_problem, parse_span

#: A final phase of every machine, reachable from every other phase that is not final.
CANCELLED = "cancelled"
#: The approval with which a person accepts a user-defined definition.
DEFINITION = "definition"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
#: A duration: ``90s``, ``30m``, ``12h``, ``7d``, ``2w``.
Span = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5} ?[smhdw]$")]
Words = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


_KEEPS = "wfctl sets this field once; wfctl machine init ID creates another machine"
_WRITES = "only wfctl writes this field"
_MOVES = "wfctl machine transition {id} PHASE"
_STANDS = "wfctl machine append {id} TYPE"
_LIMITS = (
    "the limit is set at the start; wfctl machine limit {id} LOOP N --reason TEXT changes the limit"
)
#: The fields that only wfctl writes, by protocol, and the command to use instead.
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


#: Data of a phase that only the engine writes, by protocol; open events do not accept it.
_OF_VISIT: dict[str, frozenset[str]] = {
    "conductor": frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
}


#: Maximum limit of a loop.
MOST_ROUNDS = 1_000
#: Default path of a task's output, by protocol.
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
        """Return the number of seconds after which progress is late, None if never."""
        if isinstance(self.due, str):
            found = parse_span(self.due)
            return int(found.total_seconds()) if found is not None else None
        return self.due * 60 if self.due is not None else None


class Transition(_Part):
    """A transition from one phase to another.

    ``loop`` counts the transition; ``resets`` names loops whose count restarts after the decision
    of a person. ``unbounded`` states that the protocol does not limit a cycle through this
    transition.
    """

    source: Annotated[Name, Field(alias="from")]
    to: Name
    guard: Guard | None = None
    loop: Name | None = None
    resets: list[Name] = []
    unbounded: bool = False


class Loop(_Part):
    """A cycle that can repeat ``limit`` times; the next repetition leads to ``on_limit`` instead.

    ``limit_from`` is a field with another limit for a single machine. ``count_from`` is a field of
    the published file in which other programs count; an import continues from this count.
    """

    limit: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    on_limit: Name
    limit_from: str | None = None
    count_from: str | None = Field(default=None, exclude_if=lambda it: it is None)


class Approval(_Part):
    """The decision of a person in a phase."""

    phase: Name
    asks: Words


class Statuses(_Part):
    """The possible statuses of a phase, and the initial one."""

    initial: str
    values: list[str]


class EventKind(_Part):
    """An event that can be recorded: the shape of its data, and its effect.

    ``status`` is the new status of the phase, if the current one is in ``after``. ``starts`` and
    ``completes`` state that the event starts or completes the phase's work. The data of an event
    ``of_phase`` belongs to the current phase. An ``open`` event also accepts other data.
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
    """The place and the statuses of the tasks. ``*_field`` are the names of their fields.

    ``beyond`` is the approval that allows a task more than ``most_attempts`` attempts.
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
        """Return whether a task can have this id."""
        return re.fullmatch(self.pattern.removeprefix("^").removesuffix("$"), text) is not None


class Blocker(_Part):
    """A problem that blocks the work while its guard is met."""

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
        """Return the fields that only wfctl may write, including those of the protocol."""
        limits = {loop.limit_from: _LIMITS for loop in self.loops.values() if loop.limit_from}
        counts = {loop.count_from: _WRITES for loop in self.loops.values() if loop.count_from}
        return {**self.reserved, **limits, **counts, **_ENGINE[self.protocol], **self.reserved}

    def data_that_fits(self, kind: EventKind, name: str) -> bool:
        """Return whether an event may contain data of this name."""
        own = {
            *_OF_VISIT.get(self.protocol, ()),
            *(parse_path(one)[-1] for one in self.all_reserved()),
        }
        return name in kind.data or (kind.open and name not in own and not name.startswith("_"))

    def outputs_of(self, task: Mapping[str, Any]) -> list[str]:
        """Return the paths where a task's output may be: the task's own, and the protocol's."""
        named, place = task.get("output"), _OUTPUT_OF_TASK.get(self.protocol)
        published = [place.format(id=task.get("id"))] if place is not None else []
        return [*([str(named)] if named else []), *published]

    def ways(self, phase: str) -> list[Transition]:
        """Return the transitions from a phase, in the order of the definition."""
        return [way for way in self.transitions if way.source == phase]

    def conditions(self, phase: str) -> list[Guard]:
        """Return each condition of the guards of the transitions from a phase."""
        return [part for way in self.ways(phase) for part in iterate_conditions(way.guard)]

    def is_final(self, phase: str) -> bool:
        """Return whether the phase has no transitions to other phases."""
        return phase == CANCELLED or self.phases[phase].final

    def approval_in(self, phase: str) -> str | None:
        """Return the approval that is given in a phase; None if the phase has no approval."""
        return next((name for name, one in self.approvals.items() if one.phase == phase), None)

    def files_looked_at(self, phase: str) -> set[str]:
        """Return the patterns of the files that guards of a phase read; `COMMITS` for git."""
        looking = self.conditions(phase)
        of_git = {COMMITS for part in looking if isinstance(part, HasCommit) and part.newer_than}
        return of_git | {part.file for part in looking if isinstance(part, HasFile)}

    def ways_of(self, approval: str) -> list[Transition]:
        """Return the transitions that require an approval."""
        return [
            way
            for way in self.transitions
            if Approved(approved=approval) in iterate_conditions(way.guard)
        ]

    def fields_at_stake(self, approval: str) -> list[str]:
        """Return the sorted fields that an approval covers, none if no transition requires it.

        These are the fields that guards read: of the transitions into the phase, whose values a
        person sees; of the transitions from the phase; and of the next transitions, which the
        approval allows.
        """
        if not self.ways_of(approval):
            return []
        phase = self.approvals[approval].phase
        out = self.ways(phase)
        near = [way for way in self.transitions if way.to == phase] + out
        near += [way for leads in out for way in self.ways(leads.to)]
        looked_at = {path_of(part) for way in near for part in iterate_conditions(way.guard)}
        return sorted(path for path in looked_at if path is not None)

    def files_from_here(self, phase: str) -> set[str]:
        """Return the patterns for a phase, and for the phases that may come next."""
        ways = self.ways(phase)
        exits = {self.loops[way.loop].on_limit for way in ways if way.loop is not None}
        near = {phase, *(way.to for way in ways), *exits}
        return set().union(*map(self._all_files_of, near))

    def _all_files_of(self, phase: str) -> set[str]:
        """Return the files that guards of a phase read, and its options for a person."""
        options = self.phases[phase].options if phase in self.phases else None
        return self.files_looked_at(phase) | ({options} if options is not None else set())

    def marks_on_entry(
        self, phase: str, files: Mapping[str, FileFact], *, options: bool = True
    ) -> dict[str, str]:
        """Return the marks of the files that must be written again during the phase.

        Without ``options``, the options for a person are left out.
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
        """Return the maximum number of repetitions of a loop."""
        known = self.loops[loop]
        own = get_value(document, parse_path(known.limit_from)) if known.limit_from else None
        usable = isinstance(own, int) and not isinstance(own, bool) and own >= 1
        return own if usable and own is not None else known.limit

    def source(self) -> dict[str, Any]:
        """Return the definition as its file would contain it, without default values."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def dumped(self) -> dict[str, Any]:
        """Return the definition as data that `soundness.load_definition` reads."""
        return self.model_dump(mode="json", by_alias=True)


def load_trusted_definition(data: Any, name: str = "given") -> Definition:
    """Return a definition that was checked before, for example one from the log."""
    try:
        return Definition.model_validate(data)
    except ValidationError as error:
        raise InvalidDefinition(
            name, [_explain_definition_problem(e) for e in error.errors()]
        ) from error


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


def _explain_definition_problem(error: ErrorDetails) -> str:
    """Return the problem as text; for an unknown key, suggest a similar known key."""
    if error["type"] != "extra_forbidden":
        return explain_problem(error)
    *place, key = error["loc"]
    kind = _PARTS.get((*place[:1], *("*" for _ in place[1:])))
    known = [field.alias or name for name, field in kind.model_fields.items()] if kind else []
    return explain_problem(error) + suggest_name(key, known)
