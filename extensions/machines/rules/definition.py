"""The definition of a phase machine as data, which the engine runs.

The documentation of the machine types is generated from their definitions.
"""

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
    find_field_path,
    iterate_conditions,
)
from extensions.machines.rules.path import COMMITS, get_value, parse_path
from lifecycle.words.validation_errors import explain_validation_error_at_path
from lifecycle.words.values import parse_span

#: Final phase of every machine. It can be reached from every phase that is not final.
CANCELLED = "cancelled"
#: Name of the approval with which a person accepts a user-defined definition.
DEFINITION = "definition"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
#: A duration such as ``90s``, ``30m``, ``12h``, ``7d`` or ``2w``.
Span = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5} ?[smhdw]$")]
Words = Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


_KEEPS = "wfctl sets this field once; wfctl machine init ID creates another machine"
_WRITES = "only wfctl writes this field"
_MOVES = "wfctl machine transition {id} PHASE"
_STANDS = "wfctl machine append {id} TYPE"
_LIMITS = (
    "the limit is set at the start; wfctl machine limit {id} LOOP N --reason TEXT changes the limit"
)
#: Protocol → the fields that only wfctl may write, each with the command to use instead.
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


#: Protocol → data of a phase that only wfctl may write. Events with free data must not contain
#: these names.
_OF_VISIT: dict[str, frozenset[str]] = {
    "conductor": frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
}


#: Maximum value for the limit of a loop.
MOST_ROUNDS = 1_000
#: Protocol → default path of the output file of a task.
_OUTPUT_OF_TASK = {"dotagent": "memory/tasks/{id}/output.json"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


class Phase(_Part):
    """A phase of a machine.

    - ``track`` names the group of the phase.
    - ``person`` states that a person is expected. With ``decides``, each transition from the phase
      that no loop counts needs an approval. With ``advises`` or true, the work does not wait.
    - ``status`` is the status at the start of the phase, if it is not the usual one.
    - ``output`` is the file that the phase must produce.
    - ``options`` is a pattern for the files from which a person chooses.
    - ``due`` is the time after which progress is late, in minutes or as a text such as ``7d``. Late
      progress is only reported.
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
        """Return the number of seconds after which progress is late, or None if never."""
        if isinstance(self.due, str):
            found = parse_span(self.due)
            return int(found.total_seconds()) if found is not None else None
        return self.due * 60 if self.due is not None else None


class Transition(_Part):
    """A transition from one phase to another.

    ``loop`` names the loop that counts the transition. ``resets`` names loops whose counts restart
    after a person has approved the transition. ``unbounded`` states that the protocol does not
    limit a cycle with this transition.
    """

    source: Annotated[Name, Field(alias="from")]
    to: Name
    guard: Guard | None = None
    loop: Name | None = None
    resets: list[Name] = []
    unbounded: bool = False


class Loop(_Part):
    """A cycle of phases that can repeat ``limit`` times.

    After that, the next repetition leads to the phase ``on_limit`` instead. ``limit_from`` is a
    field that can give a single machine another limit. ``count_from`` is a field of the published
    file in which other programs count; an import continues from this count.
    """

    limit: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    on_limit: Name
    limit_from: str | None = None
    count_from: str | None = Field(default=None, exclude_if=lambda it: it is None)


class Approval(_Part):
    """A decision that a person makes in a phase."""

    phase: Name
    asks: Words


class Statuses(_Part):
    """The possible statuses of a phase, and the status at its start."""

    initial: str
    values: list[str]


class EventKind(_Part):
    """A type of event that can be recorded: the structure of its data, and its effect.

    ``status`` is the new status of the phase; the event is accepted only if the current status is
    in ``after``. ``starts`` and ``completes`` state that the event starts or completes the work of
    the phase. With ``of_phase``, the data is stored with the current phase. With ``open``, other
    data is also accepted.
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
    """The place and the statuses of a machine's tasks.

    The attributes that end with ``_field`` contain names of task fields. A task may have
    ``most_attempts`` attempts. ``beyond`` is the approval that allows more.
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
        """Return whether the text is a valid task id."""
        return re.fullmatch(self.pattern.removeprefix("^").removesuffix("$"), text) is not None


class Blocker(_Part):
    """A problem that blocks the work as long as its condition is met."""

    when: Guard
    says: Words


class Definition(_Part):
    """The complete definition of a phase machine."""

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

    def reserved_field_commands(self) -> dict[str, str]:
        """Return the fields that only wfctl may write, with the commands to use instead.

        The fields of the protocol are included.
        """
        limits = {loop.limit_from: _LIMITS for loop in self.loops.values() if loop.limit_from}
        counts = {loop.count_from: _WRITES for loop in self.loops.values() if loop.count_from}
        return {**self.reserved, **limits, **counts, **_ENGINE[self.protocol], **self.reserved}

    def is_data_field_allowed(self, kind: EventKind, name: str) -> bool:
        """Return whether an event of this type may contain a data field with this name."""
        own = {
            *_OF_VISIT.get(self.protocol, ()),
            *(parse_path(one)[-1] for one in self.reserved_field_commands()),
        }
        return name in kind.data or (kind.open and name not in own and not name.startswith("_"))

    def outputs_of(self, task: Mapping[str, Any]) -> list[str]:
        """Return the possible paths of a task's output.

        These are the path that the task names, and the default path of the protocol.
        """
        named, place = task.get("output"), _OUTPUT_OF_TASK.get(self.protocol)
        published = [place.format(id=task.get("id"))] if place is not None else []
        return [*([str(named)] if named else []), *published]

    def ways(self, phase: str) -> list[Transition]:
        """Return the transitions from a phase, in the order of the definition."""
        return [way for way in self.transitions if way.source == phase]

    def conditions(self, phase: str) -> list[Guard]:
        """Return all conditions in the guards of the transitions from a phase."""
        return [part for way in self.ways(phase) for part in iterate_conditions(way.guard)]

    def is_final(self, phase: str) -> bool:
        """Return whether the phase has no transitions to other phases."""
        return phase == CANCELLED or self.phases[phase].final

    def find_phase_approval(self, phase: str) -> str | None:
        """Return the approval that can be given in a phase, or None without one."""
        return next((name for name, one in self.approvals.items() if one.phase == phase), None)

    def list_guard_files(self, phase: str) -> set[str]:
        """Return the patterns of the files that the guards of a phase read.

        If a guard requires a new commit, the key `COMMITS` is included.
        """
        looking = self.conditions(phase)
        of_git = {COMMITS for part in looking if isinstance(part, HasCommit) and part.newer_than}
        return of_git | {part.file for part in looking if isinstance(part, HasFile)}

    def list_approval_transitions(self, approval: str) -> list[Transition]:
        """Return the transitions that require an approval."""
        return [
            way
            for way in self.transitions
            if Approved(approved=approval) in iterate_conditions(way.guard)
        ]

    def list_approval_fields(self, approval: str) -> list[str]:
        """Return the sorted fields that an approval covers.

        The fields are those that three groups of guards read: of the transitions into the phase,
        whose values the person has seen; of the transitions from the phase; and of the next
        transitions, which the approval makes possible. If no transition requires the approval, the
        list is empty.
        """
        if not self.list_approval_transitions(approval):
            return []
        phase = self.approvals[approval].phase
        out = self.ways(phase)
        near = [way for way in self.transitions if way.to == phase] + out
        near += [way for leads in out for way in self.ways(leads.to)]
        looked_at = {
            find_field_path(part) for way in near for part in iterate_conditions(way.guard)
        }
        return sorted(path for path in looked_at if path is not None)

    def list_relevant_files(self, phase: str) -> set[str]:
        """Return the patterns of the files that matter in a phase and its next phases."""
        ways = self.ways(phase)
        exits = {self.loops[way.loop].on_limit for way in ways if way.loop is not None}
        near = {phase, *(way.to for way in ways), *exits}
        return set().union(*map(self._all_files_of, near))

    def _all_files_of(self, phase: str) -> set[str]:
        """Return the file patterns that a phase's guards read or a person chooses from."""
        options = self.phases[phase].options if phase in self.phases else None
        return self.list_guard_files(phase) | ({options} if options is not None else set())

    def marks_on_entry(
        self, phase: str, files: Mapping[str, FileFact], *, options: bool = True
    ) -> dict[str, str]:
        """Return the marks of the files that must be written again during the phase.

        A mark changes when the file is written. Without ``options``, the files from which a person
        chooses are left out.
        """
        looking = [one for one in self.conditions(phase) if isinstance(one, HasFile | HasCommit)]
        if all(part.newer_than is None for part in looking):
            return {}
        patterns = self._all_files_of(phase) if options else self.list_guard_files(phase)
        known = [files[one] for one in sorted(patterns) if one in files]
        return {name: mark for fact in known for name, mark in fact.marks.items()}

    def with_limits(self, limits: Mapping[str, int]) -> Definition:
        """Return a copy of the definition with other limits for its loops."""
        loops = {
            name: loop.model_copy(update={"limit": limits.get(name, loop.limit)})
            for name, loop in self.loops.items()
        }
        return self.model_copy(update={"loops": loops})

    def limit_of(self, loop: str, document: Mapping[str, Any]) -> int:
        """Return the maximum number of repetitions of a loop.

        A field of the machine's state can override the limit in the definition.
        """
        known = self.loops[loop]
        own = get_value(document, parse_path(known.limit_from)) if known.limit_from else None
        usable = isinstance(own, int) and not isinstance(own, bool) and own >= 1
        return own if usable and own is not None else known.limit

    def source(self) -> dict[str, Any]:
        """Return the definition as it would be written in a file, without default values."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def dumped(self) -> dict[str, Any]:
        """Return the definition as data with all default values.

        `soundness.load_definition` accepts this data.
        """
        return self.model_dump(mode="json", by_alias=True)


def load_trusted_definition(data: Any, name: str = "given") -> Definition:
    """Return the definition in data that was checked before, for example in the log.

    Raises `InvalidDefinition` if the data does not have the form of a definition.
    """
    try:
        return Definition.model_validate(data)
    except ValidationError as error:
        raise InvalidDefinition(
            name, [_explain_definition_problem(e) for e in error.errors()]
        ) from error


#: Place in the data of a definition → its model. ``*`` stands for any key of an object or any
#: index.
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
    """Return a validation error as text. For an unknown key, suggest a similar known key."""
    if error["type"] != "extra_forbidden":
        return explain_validation_error_at_path(error)
    *place, key = error["loc"]
    kind = _PARTS.get((*place[:1], *("*" for _ in place[1:])))
    known = [field.alias or name for name, field in kind.model_fields.items()] if kind else []
    return explain_validation_error_at_path(error) + suggest_name(key, known)
