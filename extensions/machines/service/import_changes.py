"""Convert changes of other programs to a machine's files into events of the machine.

A change is adopted as far as the rules of the machine allow.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventstore.chain import canonical_json
from eventstore.errors import InvalidData
from extensions.machines.rules.decide import (
    compute_state_after,
    decide,
    list_next_phases,
    list_open_transitions,
)
from extensions.machines.rules.errors import InvalidInput, InvalidTransition
from extensions.machines.rules.machine import Document, Machine
from extensions.machines.rules.path import get_value, marks_before, merge_deep
from extensions.machines.rules.payload import (
    Change,
    MachineRecorded,
    MachineTaskChanged,
    MachineTransitioned,
    MachineUpdated,
)
from extensions.machines.service.complete_command import complete_command
from extensions.machines.service.guard_facts import (
    collect_guard_facts,
    output_at,
    read_output_status,
)
from extensions.machines.views import documents as shown
from lifecycle.errors import LifecycleError
from lifecycle.payload.base import Payload
from lifecycle.words.document import record_key_order
from projections.files.document_diff import FieldDifference

Path_ = tuple[str, ...]
"""A field of a file: its keys from the outside in."""


@dataclass(slots=True)
class ChangeReplay:
    """The replay of a change of a file by another program.

    The state of the machine is advanced by commands that correspond to the change. ``base`` is the
    document that wfctl last wrote, and ``found`` the current document. ``now`` is a UTC time in the
    log's form.
    """

    root: Path
    state: Machine
    file: str
    base: Document
    found: Document
    now: str
    #: The document that wfctl would write now.
    present: Document = field(default_factory=dict)
    #: Time of the newest event in the log. Earlier times in the file are ignored.
    since: str = ""
    taken: list[tuple[Payload, str]] = field(default_factory=list)
    refused: dict[Path_, LifecycleError] = field(default_factory=dict)
    #: The commands that the rules accepted.
    asked: list[Payload] = field(default_factory=list)
    #: The changes that were not adopted, each with the rule that forbids it.
    left: list[tuple[FieldDifference, str]] = field(default_factory=list)

    def changed(self, *path: str) -> bool:
        """Return whether another program made a change that the log does not contain.

        ``path`` leads to the changed value in the file.
        """
        value = get_value(self.found, path)
        return not (
            is_same_json(get_value(self.base, path), value)
            or is_same_json(get_value(self.present, path), value)
        )

    def object(self, *path: str) -> Document:
        """Return the object at a path of the file, or an empty object for a missing path."""
        value = get_value(self.found, path)
        return value if isinstance(value, dict) else {}

    def try_command(self, command: Payload, path: Path_, at: str | None = None) -> bool:
        """Run a command as if it were requested. Return False if the rules refuse it.

        ``at`` is the time that the file states for the change, or None.
        """
        state, moment = self.state, at or self.now
        try:
            told = complete_command(self.root, self.file, command, state)
            decided = decide(state, told, moment, collect_guard_facts(self.root, state))
        except LifecycleError as refusal:
            self.refused[path] = refusal
            return False
        self.asked.append(command)
        self.facts([self._keep_older_marks(one, at or self.since) for one in decided], moment)
        return True

    def _keep_older_marks(self, payload: Payload, began: str) -> Payload:
        """Return the event without the marks of files that were written after ``began``.

        Such files are new in the phase or task, so they need not be written again.
        """
        earlier = getattr(payload, "earlier", None)
        if not earlier:
            return payload
        return payload.model_copy(update={"earlier": marks_before(earlier, began)})

    def facts(self, payloads: list[Payload], at: str | None = None) -> None:
        """Record events without checking the rules."""
        if payloads:
            self.state = compute_state_after(self.state, payloads, at or self.now)
            self.taken += [(payload, at or self.now) for payload in payloads]

    def fields(self, changes: dict[Path_, Any]) -> None:
        """Record values of fields that belong to other programs."""
        listed = [
            Change(path=".".join(path), value=value)
            for path, value in changes.items()
            if all(map(is_valid_path_part, path)) and _is_recordable(value)
        ]
        if listed:
            layout = record_key_order([change.model_dump(mode="json") for change in listed])
            self.facts([MachineUpdated(changes=listed, layout=layout)])

    def add_refusal(self, path: Path_, target: Any, why: str) -> None:
        """Record the reason why a change of a phase or status is not adopted."""
        named = f"{target!s:.60}"
        self.refused[path] = InvalidTransition(
            self.state.phase, named, why, list_next_phases(self.state)
        )

    def find_event_route(self, wanted: Any, path: Path_) -> list[str] | None:
        """Return the names of the events that lead the phase to the wanted status.

        Returns None, and records a refusal, if no events lead there.
        """
        kinds = {n: k for n, k in self.state.definition.events.items() if k.of_phase and k.status}
        seen: set[Any] = {self.state.status}
        open_: deque[tuple[Any, list[str]]] = deque([(self.state.status, [])])
        while open_:
            status, way = open_.popleft()
            if status == wanted:
                return way
            for name, kind in kinds.items():
                if status in kind.after and kind.status not in seen:
                    seen.add(kind.status)
                    open_.append((kind.status, [*way, name]))
        self.add_refusal(
            path, wanted, f"no event changes the status {self.state.status} to this value"
        )
        return None

    def time(self, said: Any) -> str | None:
        """Return a time from the file, or None if it is not plausible.

        A plausible time is between the newest event and now.

        Files contain only whole seconds, so the result may be moved to the time of the newest
        event.
        """
        moment = log_time(said)
        if moment is None or moment > self.now or moment[:19] < self.since[:19]:
            return None
        return max(moment, self.since)


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values have the same JSON text, so that 1, 1.0 and true differ."""
    return one is other or json.dumps(one) == json.dumps(other)


def is_valid_path_part(key: str) -> bool:
    """Return whether a key can be a part of a dot path."""
    return bool(key) and not any(letter in key for letter in ".[] \t\n")


def _is_recordable(value: Any) -> bool:
    """Return whether an event can store a value.

    Invalid text, huge numbers and deep nesting cannot be stored.
    """
    try:
        change = Change(path="theirs", value=value).model_dump(mode="json")
        canonical_json({"data": {"changes": [change]}})
    except (ValueError, InvalidData):
        return False
    return True


def log_time(said: Any) -> str | None:
    """Return a time in the log's form, or None if it is invalid or has no UTC offset."""
    try:
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
        if moment is None or moment.tzinfo is None:
            return None
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return None


# The following functions adopt changes in the ``metadata.json`` of a conductor track.

OWN, CHECKPOINTS = shown.OWN, "checkpoints"
#: Fields of a checkpoint that wfctl derives from events.
OF_VISIT = frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
#: Other names that the programs of the protocol use for a step → its name in the definition.
ALIASES = {"PARALLEL_EXECUTE": "EXECUTE"}
#: Names of statuses in newer versions of other programs → name in the definition.
STATUS_ALIASES = {"PASSED_WITH_WARNINGS": "PASSED"}
#: Parts of the loop object that wfctl writes. All other parts belong to other programs.
_ENGINE = (
    *("current_step", "step_status", "step_started_at"),
    *("fix_cycle_count", "max_fix_cycles", CHECKPOINTS),
    *("plan_revision_count", "max_plan_revisions"),
)


def resolve_alias(step: Any) -> Any:
    """Return the name of a step in the definition for a name that the file uses."""
    return ALIASES.get(step, step) if isinstance(step, str) else step


def _take_in_track(walk: ChangeReplay) -> None:
    """Advance the machine to the step and status that the file of the track states."""
    _record_fields_of_programs(walk)
    target = resolve_alias(walk.object(OWN).get("current_step"))
    for _ in walk.state.definition.phases:
        _adopt_current_step_change(walk)
        if not walk.changed(OWN, "current_step") or walk.state.phase == target:
            break
        if walk.refused or not _advance_to_step(walk, target):
            break
    changes: dict[Path_, Any] = {}
    for step in (one for one in walk.object(OWN, CHECKPOINTS) if one not in ALIASES):
        kept = _select_foreign_fields(walk, step, walk.object(OWN, CHECKPOINTS, step))
        changes |= {(OWN, CHECKPOINTS, step, key): value for key, value in kept.items()}
    present = shown.build_metadata(walk.state)
    walk.fields({path: v for path, v in changes.items() if get_value(present, path) != v})


def _checkpoint_path(walk: ChangeReplay, step: str) -> Path_:
    """Return the path of a step's checkpoint, with the step's name in the file."""
    listed = walk.object(OWN, CHECKPOINTS)
    others = [name for name, meant in ALIASES.items() if meant == step and name in listed]
    is_theirs = bool(others) and not walk.changed(OWN, CHECKPOINTS, step)
    return OWN, CHECKPOINTS, others[0] if others and (step not in listed or is_theirs) else step


def _record_fields_of_programs(walk: ChangeReplay) -> None:
    held = shown.recorded_blockers(walk.state)
    others: list[Path_] = [(key,) for key in walk.found if key not in (OWN, "track_id")]
    others += [(OWN, key) for key in walk.object(OWN) if key not in _ENGINE]
    changes = {path: get_value(walk.found, path) for path in others if walk.changed(*path)}
    if ("blockers",) in changes:
        changes["blockers",] = remove_derived_blockers(changes["blockers",], held)
    known = shown.build_metadata(walk.state)
    walk.fields(
        {
            p: v
            for p, v in changes.items()
            if remove_derived_blockers(get_value(known, p), held) != v
        }
    )


def remove_derived_blockers(value: Any, held: list[Document]) -> Any:
    """Return a list of blockers without those that wfctl derives from the log."""
    return [one for one in value if one not in held] if isinstance(value, list) else value


def _adopt_current_step_change(walk: ChangeReplay) -> None:
    step, status = walk.state.phase, walk.state.status
    at = _checkpoint_path(walk, step)
    wanted, path = _find_wanted_status(walk, step)
    is_at_work = status == "IN_PROGRESS"
    began_again = wanted == status and is_at_work and _is_later(walk, (*at, "started_at"))
    names = ["step.started"] if began_again else walk.find_event_route(wanted, path)
    data = _collect_new_data(walk, step)
    if names is None:
        return
    if not names and is_at_work and (data or _is_later(walk, (*at, "last_updated"))):
        names = ["step.progressed"]
    for number, name in enumerate(names, 1):
        kind = walk.state.definition.events[name]
        when = {"IN_PROGRESS": "started_at", None: "last_updated"}.get(kind.status, "completed_at")
        moment = (*at, when)
        said = walk.time(get_value(walk.found, moment) if walk.changed(*moment) else None)
        told = _add_required_notes(walk, name, data if number == len(names) else {})
        if not walk.try_command(MachineRecorded(name=name, data=told), path, said):
            return


def _is_later(walk: ChangeReplay, path: Path_) -> bool:
    return walk.changed(*path) and (walk.time(get_value(walk.found, path)) or "") > walk.since


def _find_wanted_status(walk: ChangeReplay, step: str) -> tuple[Any, Path_]:
    """Return the status that the file states for a step, and the path of this field."""
    own, whole = (*_checkpoint_path(walk, step), "status"), (OWN, "step_status")
    is_here = resolve_alias(walk.object(OWN).get("current_step")) == step
    fields: list[Path_] = [own, whole] if is_here else [own]
    said = {path: get_value(walk.found, path) for path in fields if walk.changed(*path)}
    for path, value in said.items():
        said[path] = STATUS_ALIASES.get(value, value) if isinstance(value, str) else value
    if len(set(map(repr, said.values()))) > 1:
        walk.add_refusal(own, said[own], f"step_status has another value: {said[whole]!s:.40}")
        return walk.state.status, own
    return next(((value, path) for path, value in said.items()), (walk.state.status, own))


def _collect_new_data(walk: ChangeReplay, step: str) -> Document:
    """Return the new data in the checkpoint of a step that an event can store."""
    visit, at = walk.state.visits.get(step), _checkpoint_path(walk, step)
    known = visit.data if visit is not None else {}
    return {
        key: value
        for key, value in walk.object(*at).items()
        if key not in OF_VISIT and walk.changed(*at, key) and _is_recordable(value)
        if key not in known or not is_same_json(merge_deep(known[key], value), known[key])
    }


def _add_required_notes(walk: ChangeReplay, name: str, data: Document) -> Document:
    kind = walk.state.definition.events[name]
    if "notes" not in kind.required or data.get("notes"):
        return data
    items = data.get("failure_items")
    listed = "; ".join(map(str, items)) if isinstance(items, list) else ""
    return {**data, "notes": listed or f"{kind.status} in {walk.file}, without a reason"}


def _advance_to_step(walk: ChangeReplay, target: Any) -> bool:
    """Advance the machine to the step in the file, or along the only possible transition.

    Returns whether the machine changed its phase.
    """
    state = walk.state
    path = (OWN, "current_step")
    ways = [way.to for way in state.definition.ways(state.phase)] if not state.is_final else []
    if target not in ways:
        ways = [
            way.to for way in list_open_transitions(state, collect_guard_facts(walk.root, state))
        ]
        if len(ways) != 1 or target not in state.definition.phases:
            walk.add_refusal(path, target, "no possible transition leads to this phase")
            return False
        target = ways[0]
    said = walk.object(*_checkpoint_path(walk, "EVALUATE_EXECUTION")).get("business_sync_required")
    is_unknown = walk.state.document.get("business_sync_required") is None
    if target == "BUSINESS_SYNC" and said is True and is_unknown:
        walk.fields({("business_sync_required",): True})
    return walk.try_command(MachineTransitioned(to=target), path) and walk.state.phase == target


def _select_foreign_fields(walk: ChangeReplay, step: str, checkpoint: Document) -> Document:
    """Return the fields of a checkpoint that belong to other programs.

    If the machine has not reached the step, these are all fields.
    """
    new = {k: v for k, v in checkpoint.items() if walk.changed(OWN, CHECKPOINTS, step, k)}
    if step not in walk.state.definition.phases:
        return new
    visit = walk.state.visits.get(step)
    is_here = visit is not None and (visit.has_recorded_events or bool(visit.went))
    known = {name for kind in walk.state.definition.events.values() for name in kind.data}
    left = {k: v for k, v in new.items() if k not in OF_VISIT and not (is_here and k in known)}
    if visit is not None:
        left = {key: value for key, value in left.items() if visit.data.get(key) != value}
    is_open = not is_here and new.get("status") == "NOT_STARTED"
    return {**left, "status": "NOT_STARTED"} if is_open else left


# The following functions adopt changes in ``execution.json`` and ``phase.json`` of phased
# development.

TASKS = "tasks"
#: Fields of a task that wfctl derives from changes of its status.
_OF_TASK = frozenset({"started_at", "completed_at", "attempts"})
#: Fields of ``phase.json`` that only wfctl writes.
_DOTAGENT_ENGINE = (
    *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
    *("completed_phases", "user_checkpoints", "interruption_safe", "cancelled_at", TASKS),
)


def _take_in_tasks(walk: ChangeReplay) -> None:
    """Record each changed task in ``execution.json``, and fields of other programs."""
    others = [key for key in walk.found if key != TASKS and walk.changed(key)]
    walk.fields({("execution", key): walk.found[key] for key in others})
    before = {str(task.get("id")): task for task in list_tasks(walk.base)}
    for task in list_tasks(walk.found):
        id_ = str(task.get("id"))
        new = {k: v for k, v in task.items() if not is_same_json(v, before.get(id_, {}).get(k))}
        if new:
            _take_in_task(walk, id_, new)


def list_tasks(document: Document) -> list[Document]:
    """Return the tasks in a document, without entries that are not objects."""
    found = document.get(TASKS)
    return [task for task in found if isinstance(task, dict)] if isinstance(found, list) else []


def _take_in_task(walk: ChangeReplay, id_: str, new: Document) -> None:
    path = (TASKS, id_)
    known = walk.state.task(id_) or {}
    changes = {
        key: value
        for key, value in new.items()
        if key not in (*_OF_TASK, "id") and not is_same_json(known.get(key), value)
        if _is_recordable(value)
    }
    if not changes and known:
        return
    lack = _explain_missing_output(walk, id_, {**known, **changes}) if "status" in changes else None
    if lack is not None:
        walk.refused[path] = InvalidInput(f"{id_}: {lack}", task=id_)
        return
    tasks = walk.state.definition.tasks
    began = tasks is not None and changes.get("status") == tasks.running
    said = new.get("started_at" if began else "completed_at")
    walk.try_command(MachineTaskChanged(task=id_, changes=changes), path, walk.time(said))


def _explain_missing_output(walk: ChangeReplay, id_: str, task: Document) -> str | None:
    if task.get("status") not in ("pre_complete", "verified") or not task.get("output"):
        return None
    tasks, named = walk.state.definition.tasks, f"the output {task['output']}"
    fact = output_at(walk.root, task["output"])
    new = fact.since(walk.state.task_earlier.get(id_, {}))
    if not fact.found:
        return f"{named} is missing"
    if not new.found:
        return f"{named} is older than the start of the task"
    is_torn = tasks is not None and read_output_status(walk.root, new, tasks.statuses) is None
    return f"{named} is incomplete" if is_torn else None


def _take_in_phase(walk: ChangeReplay) -> None:
    """Record the progress that ``phase.json`` states: start, end and next phase."""
    walk.fields(
        {(k,): v for k, v in walk.found.items() if k not in _DOTAGENT_ENGINE and walk.changed(k)}
    )
    target = walk.found.get("current_phase")
    for _ in walk.state.definition.phases:
        is_here = target == walk.state.phase
        path = "phase_status" if is_here else "current_phase"
        if not _take_in_status(walk, walk.found.get(path) if is_here else "complete", (path,)):
            return
        if is_here or not walk.changed("current_phase") or not _advance_to_next_phase(walk, target):
            return


def _take_in_status(walk: ChangeReplay, wanted: Any, path: Path_) -> bool:
    """Advance the phase to a status. Return False if the rules do not allow this."""
    is_said = walk.changed("phase_status") or walk.changed("current_phase")
    if not is_said or wanted == walk.state.status:
        return True
    for name in walk.find_event_route(wanted, path) or []:
        kind = walk.state.definition.events[name]
        data: Document = (
            {"error": f"{walk.file} reports the failure"} if "error" in kind.required else {}
        )
        if not walk.try_command(MachineRecorded(name=name, data=data), path, _completed_at(walk)):
            return False
    return bool(walk.state.status == wanted)


def _advance_to_next_phase(walk: ChangeReplay, target: Any) -> bool:
    """Change to the next phase if the rules of the machine allow this.

    Returns whether the phase changed.
    """
    order, here, path = list(walk.state.definition.phases), walk.state.phase, ("current_phase",)
    if target not in order or here not in order or order.index(target) < order.index(here):
        walk.add_refusal(path, target, "no transition leads to this phase")
        return False
    ways = walk.state.definition.ways(here)
    return bool(ways) and walk.try_command(
        MachineTransitioned(to=ways[0].to), path, _completed_at(walk)
    )


def _completed_at(walk: ChangeReplay) -> str | None:
    done = walk.found.get("completed_phases")
    for one in done if isinstance(done, list) else []:
        if isinstance(one, dict) and one.get("phase") == walk.state.phase:
            return walk.time(one.get("completed_at"))
    return None


#: Key of a file → the function that adopts changes of this file. In other files, changes are only
#: reported.
TAKE_IN: dict[str, Callable[[ChangeReplay], None]] = {
    "metadata": _take_in_track,
    "execution": _take_in_tasks,
    "phase": _take_in_phase,
}
