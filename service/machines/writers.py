"""What the protocols' own writers wrote into the files, as the events that it amounts to.

A machine is taken on by the rules, as far as a file of others leads.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventstore.chain import canonical
from eventstore.errors import InvalidData
from lifecycle.errors import LifecycleError
from lifecycle.machines.decide import after, decide, open_ways, targets
from lifecycle.machines.errors import InvalidInput, InvalidTransition
from lifecycle.machines.machine import Document, Machine
from lifecycle.machines.path import look, marks_before, merged
from lifecycle.machines.payload import (
    Change,
    MachineRecorded,
    MachineTaskChanged,
    MachineTransitioned,
    MachineUpdated,
)
from lifecycle.payload.base import Payload
from lifecycle.words.document import layout_of
from projections.files.document_diff import FieldDifference
from projections.machines import documents as shown
from service.machines.completing import completed
from service.machines.evidence import evidence, output_at, status_of_output

Path_ = tuple[str, ...]
"""A field of a file: its keys from the outside in."""


@dataclass(slots=True)
class Walk:
    """A machine on its way: where it stands, what was recorded for it, which rules refused what.

    ``base`` is the file as wfctl last left it, ``found`` as it is now; ``now`` is UTC in the
    log's form.
    """

    root: Path
    state: Machine
    file: str
    base: Document
    found: Document
    now: str
    #: The file as the log has it now.
    present: Document = field(default_factory=dict)
    #: When the log's last event was: what the file says of times before that does not count.
    since: str = ""
    taken: list[tuple[Payload, str]] = field(default_factory=list)
    refused: dict[Path_, LifecycleError] = field(default_factory=dict)
    #: The commands that the rules took.
    asked: list[Payload] = field(default_factory=list)
    #: What of the change is not taken over, each with the rule that does not allow it.
    left: list[tuple[FieldDifference, str]] = field(default_factory=list)

    def changed(self, *path: str) -> bool:
        """Whether others changed what stands at a path, and the log does not have it so."""
        value = look(self.found, path)
        return not (same(look(self.base, path), value) or same(look(self.present, path), value))

    def object(self, *path: str) -> Document:
        """Return the object that the file has at a path, an empty one for anything else."""
        value = look(self.found, path)
        return value if isinstance(value, dict) else {}

    def tries(self, command: Payload, path: Path_, at: str | None = None) -> bool:
        """Carry a command out, as if it had been asked for; False if the rules refuse it.

        ``at`` is when the file says that it was so, None if it does not say.
        """
        state, moment = self.state, at or self.now
        try:
            told = completed(self.root, self.file, command, state)
            decided = decide(state, told, moment, evidence(self.root, state))
        except LifecycleError as refusal:
            self.refused[path] = refusal
            return False
        self.asked.append(command)
        self.facts([self._with_older(one, at or self.since) for one in decided], moment)
        return True

    def _with_older(self, payload: Payload, began: str) -> Payload:
        """What was written since the work began is of that work, though it is recorded later."""
        earlier = getattr(payload, "earlier", None)
        if not earlier:
            return payload
        return payload.model_copy(update={"earlier": marks_before(earlier, began)})

    def facts(self, payloads: list[Payload], at: str | None = None) -> None:
        """Record what is so whatever the rules say."""
        if payloads:
            self.state = after(self.state, payloads, at or self.now)
            self.taken += [(payload, at or self.now) for payload in payloads]

    def fields(self, changes: dict[Path_, Any]) -> None:
        """Record fields that are others' own."""
        listed = [
            Change(path=".".join(path), value=value)
            for path, value in changes.items()
            if all(map(is_field, path)) and _is_recordable(value)
        ]
        if listed:
            layout = layout_of([change.model_dump(mode="json") for change in listed])
            self.facts([MachineUpdated(changes=listed, layout=layout)])

    def refuses(self, path: Path_, target: Any, why: str) -> None:
        """Say why a change is not taken over: where it would lead, and what there is instead."""
        named = f"{target!s:.60}"
        self.refused[path] = InvalidTransition(self.state.phase, named, why, targets(self.state))

    def route(self, wanted: Any, path: Path_) -> list[str] | None:
        """Return the events that lead the phase to a status, None if the rules have no such way."""
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
        self.refuses(path, wanted, f"no event leads there from {self.state.status}")
        return None

    def time(self, said: Any) -> str | None:
        """Return a time that the file gives, if it can be: not before the log's last, nor to come.

        Files give whole seconds.
        """
        moment = log_time(said)
        if moment is None or moment > self.now or moment[:19] < self.since[:19]:
            return None
        return max(moment, self.since)


def same(one: Any, other: Any) -> bool:
    """Whether two values are written the same: 1, 1.0 and true differ."""
    return one is other or json.dumps(one) == json.dumps(other)


def is_field(key: str) -> bool:
    """Whether a key can be a part of a dot path."""
    return bool(key) and not any(letter in key for letter in ".[] \t\n")


def _is_recordable(value: Any) -> bool:
    """Whether the log can hold a value: no number too large, no half letter, not too deep."""
    try:
        change = Change(path="theirs", value=value).model_dump(mode="json")
        canonical({"data": {"changes": [change]}})
    except (ValueError, InvalidData):
        return False
    return True


def log_time(said: Any) -> str | None:
    """Return a time with an offset in the log's form, None for anything else."""
    try:
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
        if moment is None or moment.tzinfo is None:
            return None
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return None


# A track's ``metadata.json`` as its agents write it: steps that began, went on and passed.

OWN, CHECKPOINTS = shown.OWN, "checkpoints"
#: Fields of a checkpoint that follow from the events.
OF_VISIT = frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
#: Names that the protocol's own writers have for a step.
ALIASES = {"PARALLEL_EXECUTE": "EXECUTE"}
#: Parts of the loop that the engine keeps; all else in it is others' own.
_ENGINE = (
    *("current_step", "step_status", "step_started_at"),
    *("fix_cycle_count", "max_fix_cycles", CHECKPOINTS),
)


def aliased(step: Any) -> Any:
    """Return the step that a name stands for."""
    return ALIASES.get(step, step) if isinstance(step, str) else step


def _take_in_track(walk: Walk) -> None:
    """Take the machine on to where the file says that the track is."""
    _fields_of_others(walk)
    target = aliased(walk.object(OWN).get("current_step"))
    for _ in walk.state.definition.phases:
        _step(walk)
        if not walk.changed(OWN, "current_step") or walk.state.phase == target:
            break
        if walk.refused or not _goes_on(walk, target):
            break
    changes: dict[Path_, Any] = {}
    for step in walk.object(OWN, CHECKPOINTS):
        kept = _kept(walk, step, walk.object(OWN, CHECKPOINTS, step))
        changes |= {(OWN, CHECKPOINTS, step, key): value for key, value in kept.items()}
    present = shown.metadata(walk.state)
    walk.fields({path: v for path, v in changes.items() if look(present, path) != v})


def _at(walk: Walk, step: str) -> Path_:
    """Return where the checkpoint of a step is, under whichever of its names."""
    listed = walk.object(OWN, CHECKPOINTS)
    others = [name for name, meant in ALIASES.items() if meant == step and name in listed]
    return OWN, CHECKPOINTS, others[0] if others and step not in listed else step


def _fields_of_others(walk: Walk) -> None:
    held = shown.recorded_blockers(walk.state)
    others: list[Path_] = [(key,) for key in walk.found if key not in (OWN, "track_id")]
    others += [(OWN, key) for key in walk.object(OWN) if key not in _ENGINE]
    changes = {path: look(walk.found, path) for path in others if walk.changed(*path)}
    if ("blockers",) in changes:
        changes["blockers",] = without(changes["blockers",], held)
    known = shown.metadata(walk.state)
    walk.fields({p: v for p, v in changes.items() if without(look(known, p), held) != v})


def without(value: Any, held: list[Document]) -> Any:
    """Return blockers without those that the log itself says."""
    return [one for one in value if one not in held] if isinstance(value, list) else value


def _step(walk: Walk) -> None:
    step, status = walk.state.phase, walk.state.status
    at = _at(walk, step)
    wanted, path = _wanted(walk, step)
    is_at_work = status == "IN_PROGRESS"
    began_again = wanted == status and is_at_work and _is_later(walk, (*at, "started_at"))
    names = ["step.started"] if began_again else walk.route(wanted, path)
    data = _data(walk, step)
    if names is None:
        return
    if not names and is_at_work and (data or _is_later(walk, (*at, "last_updated"))):
        names = ["step.progressed"]
    for number, name in enumerate(names, 1):
        kind = walk.state.definition.events[name]
        when = {"IN_PROGRESS": "started_at", None: "last_updated"}.get(kind.status, "completed_at")
        moment = (*at, when)
        said = walk.time(look(walk.found, moment) if walk.changed(*moment) else None)
        told = _sound(walk, name, data if number == len(names) else {})
        if not walk.tries(MachineRecorded(name=name, data=told), path, said):
            return


def _is_later(walk: Walk, path: Path_) -> bool:
    return walk.changed(*path) and (walk.time(look(walk.found, path)) or "") > walk.since


def _wanted(walk: Walk, step: str) -> tuple[Any, Path_]:
    """Return the status that the file gives the step, and which field of it says so."""
    own, whole = (*_at(walk, step), "status"), (OWN, "step_status")
    is_here = aliased(walk.object(OWN).get("current_step")) == step
    fields: list[Path_] = [own, whole] if is_here else [own]
    said = {path: look(walk.found, path) for path in fields if walk.changed(*path)}
    if len(set(map(repr, said.values()))) > 1:
        walk.refuses(own, said[own], f"step_status says {said[whole]!s:.40}")
        return walk.state.status, own
    return next(((value, path) for path, value in said.items()), (walk.state.status, own))


def _data(walk: Walk, step: str) -> Document:
    """Return what is new in the step's checkpoint, as far as the log can hold it."""
    visit, at = walk.state.visits.get(step), _at(walk, step)
    known = visit.data if visit is not None else {}
    return {
        key: value
        for key, value in walk.object(*at).items()
        if key not in OF_VISIT and walk.changed(*at, key) and _is_recordable(value)
        if key not in known or not same(merged(known[key], value), known[key])
    }


def _sound(walk: Walk, name: str, data: Document) -> Document:
    kind = walk.state.definition.events[name]
    if "notes" not in kind.required or data.get("notes"):
        return data
    items = data.get("failure_items")
    listed = "; ".join(map(str, items)) if isinstance(items, list) else ""
    return {**data, "notes": listed or f"{kind.status} in {walk.file}, which does not say why"}


def _goes_on(walk: Walk, target: Any) -> bool:
    """Take the way that the file went: to its step, else the only one that is open."""
    state = walk.state
    path = (OWN, "current_step")
    ways = [way.to for way in state.definition.ways(state.phase)] if not state.is_final else []
    if target not in ways:
        ways = [way.to for way in open_ways(state, evidence(walk.root, state))]
        if len(ways) != 1 or target not in state.definition.phases:
            walk.refuses(path, target, "no way that is open leads there")
            return False
        target = ways[0]
    said = walk.object(*_at(walk, "EVALUATE_EXECUTION")).get("business_sync_required")
    is_unknown = walk.state.document.get("business_sync_required") is None
    if target == "BUSINESS_SYNC" and said is True and is_unknown:
        walk.fields({("business_sync_required",): True})
    return walk.tries(MachineTransitioned(to=target), path) and walk.state.phase == target


def _kept(walk: Walk, step: str, checkpoint: Document) -> Document:
    """Return what of a checkpoint is others' own: all of a step that the track has not come to."""
    new = {k: v for k, v in checkpoint.items() if walk.changed(OWN, CHECKPOINTS, step, k)}
    if step not in walk.state.definition.phases:
        return new
    visit = walk.state.visits.get(step)
    is_here = visit is not None and (visit.has_begun or bool(visit.went))
    known = {name for kind in walk.state.definition.events.values() for name in kind.data}
    left = {k: v for k, v in new.items() if k not in OF_VISIT and not (is_here and k in known)}
    if visit is not None:
        left = {key: value for key, value in left.items() if visit.data.get(key) != value}
    is_open = not is_here and new.get("status") == "NOT_STARTED"
    return {**left, "status": "NOT_STARTED"} if is_open else left


# Phased development: ``execution.json`` and ``phase.json``.

TASKS = "tasks"
#: Fields of a task that follow from its status.
_OF_TASK = frozenset({"started_at", "completed_at", "attempts"})
#: Fields of ``phase.json`` that the engine writes.
_DOTAGENT_ENGINE = (
    *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
    *("completed_phases", "user_checkpoints", "interruption_safe", "cancelled_at", TASKS),
)


def _take_in_tasks(walk: Walk) -> None:
    """Take over what ``execution.json`` says of tasks, one by one, and the fields of others."""
    others = [key for key in walk.found if key != TASKS and walk.changed(key)]
    walk.fields({("execution", key): walk.found[key] for key in others})
    before = {str(task.get("id")): task for task in listed(walk.base)}
    for task in listed(walk.found):
        id_ = str(task.get("id"))
        new = {k: v for k, v in task.items() if not same(v, before.get(id_, {}).get(k))}
        if new:
            _task(walk, id_, new)


def listed(document: Document) -> list[Document]:
    """Return the tasks of a document, those that are objects."""
    found = document.get(TASKS)
    return [task for task in found if isinstance(task, dict)] if isinstance(found, list) else []


def _task(walk: Walk, id_: str, new: Document) -> None:
    path = (TASKS, id_)
    known = walk.state.task(id_) or {}
    changes = {
        key: value
        for key, value in new.items()
        if key not in (*_OF_TASK, "id") and not same(known.get(key), value)
        if _is_recordable(value)
    }
    if not changes and known:
        return
    lack = _lack_of_output(walk, id_, {**known, **changes}) if "status" in changes else None
    if lack is not None:
        walk.refused[path] = InvalidInput(f"{id_}: {lack}", task=id_)
        return
    tasks = walk.state.definition.tasks
    began = tasks is not None and changes.get("status") == tasks.running
    said = new.get("started_at" if began else "completed_at")
    walk.tries(MachineTaskChanged(task=id_, changes=changes), path, walk.time(said))


def _lack_of_output(walk: Walk, id_: str, task: Document) -> str | None:
    if task.get("status") not in ("pre_complete", "verified") or not task.get("output"):
        return None
    tasks, named = walk.state.definition.tasks, f"its output {task['output']}"
    fact = output_at(walk.root, task["output"])
    new = fact.since(walk.state.task_earlier.get(id_, {}))
    if not fact.found:
        return f"{named} is not there"
    if not new.found:
        return f"{named} is there only as it was before the task began"
    is_torn = tasks is not None and status_of_output(walk.root, new, tasks.statuses) is None
    return f"{named} was not written to its end" if is_torn else None


def _take_in_phase(walk: Walk) -> None:
    """Take over what ``phase.json`` says: that the phase began, is done, and the next one is."""
    walk.fields(
        {(k,): v for k, v in walk.found.items() if k not in _DOTAGENT_ENGINE and walk.changed(k)}
    )
    target = walk.found.get("current_phase")
    for _ in walk.state.definition.phases:
        is_here = target == walk.state.phase
        path = "phase_status" if is_here else "current_phase"
        if not _status(walk, walk.found.get(path) if is_here else "complete", (path,)):
            return
        if is_here or not walk.changed("current_phase") or not _goes_to_next(walk, target):
            return


def _status(walk: Walk, wanted: Any, path: Path_) -> bool:
    """Lead the phase to a status; False if the rules have no way there."""
    is_said = walk.changed("phase_status") or walk.changed("current_phase")
    if not is_said or wanted == walk.state.status:
        return True
    for name in walk.route(wanted, path) or []:
        kind = walk.state.definition.events[name]
        data: Document = {"error": f"{walk.file} says so"} if "error" in kind.required else {}
        if not walk.tries(MachineRecorded(name=name, data=data), path, _completed_at(walk)):
            return False
    return bool(walk.state.status == wanted)


def _goes_to_next(walk: Walk, target: Any) -> bool:
    """Take the way to the next phase, if it is open; what a person decides is not."""
    order, here, path = list(walk.state.definition.phases), walk.state.phase, ("current_phase",)
    if target not in order or here not in order or order.index(target) < order.index(here):
        walk.refuses(path, target, "no way leads there")
        return False
    ways = walk.state.definition.ways(here)
    return bool(ways) and walk.tries(MachineTransitioned(to=ways[0].to), path, _completed_at(walk))


def _completed_at(walk: Walk) -> str | None:
    done = walk.found.get("completed_phases")
    for one in done if isinstance(done, list) else []:
        if isinstance(one, dict) and one.get("phase") == walk.state.phase:
            return walk.time(one.get("completed_at"))
    return None


#: What takes each kind of file over; of any other only fields are told.
TAKE_IN: dict[str, Callable[[Walk], None]] = {
    "metadata": _take_in_track,
    "execution": _take_in_tasks,
    "phase": _take_in_phase,
}
