"""A track's ``metadata.json`` as its agents write it: steps that began, went on and passed."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.decide import open_ways
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.path import look, merged
from lifecycle.machines.payload import MachineRecorded, MachineTaskChanged, MachineTransitioned
from projections.machines import documents as shown
from service.machines.evidence import evidence, output_at, status_of_output
from service.machines.writers.walk import Path_, Walk, is_recordable, same

OWN, CHECKPOINTS = shown.OWN, "checkpoints"
#: Fields of a checkpoint that follow from the events.
OF_VISIT = frozenset({"status", "started_at", "completed_at", "last_updated", "history"})
#: Names that the protocol's own writers have for a step.
ALIASES = {"PARALLEL_EXECUTE": "EXECUTE"}
#: Parts of the loop that the engine keeps; all else in it is others' own.
_ENGINE = frozenset(
    {
        *("current_step", "step_status", "step_started_at"),
        *("fix_cycle_count", "max_fix_cycles", CHECKPOINTS),
    }
)
_WHEN = {"IN_PROGRESS": "started_at"}


def take_in(walk: Walk) -> None:
    """Take the machine on to where the file says that the track is."""
    _fields_of_others(walk)
    target = aliased(_loop(walk).get("current_step"))
    for _ in walk.state.definition.phases:
        _step(walk)
        if not walk.changed(OWN, "current_step") or walk.state.phase == target:
            break
        if walk.refused or not _goes_on(walk, target):
            break
    changes: dict[Path_, Any] = {}
    for step, checkpoint in _listed(walk).items():
        kept = _kept(walk, step, checkpoint if isinstance(checkpoint, dict) else {})
        changes |= {(OWN, CHECKPOINTS, step, key): value for key, value in kept.items()}
    present = shown.metadata(walk.state)
    walk.fields({path: v for path, v in changes.items() if look(present, path) != v})


def aliased(step: Any) -> Any:
    """Return the step that a name stands for."""
    return ALIASES.get(step, step) if isinstance(step, str) else step


def _loop(walk: Walk) -> Document:
    found = walk.found.get(OWN)
    return found if isinstance(found, dict) else {}


def _listed(walk: Walk) -> Document:
    found = _loop(walk).get(CHECKPOINTS)
    return found if isinstance(found, dict) else {}


def _key(walk: Walk, step: str) -> str:
    others = [name for name, meant in ALIASES.items() if meant == step and name in _listed(walk)]
    return others[0] if others and step not in _listed(walk) else step


def _checkpoint(walk: Walk, step: str) -> Document:
    found = _listed(walk).get(_key(walk, step))
    return found if isinstance(found, dict) else {}


def _field(walk: Walk, step: str, name: str) -> Path_:
    return (OWN, CHECKPOINTS, _key(walk, step), name)


def _fields_of_others(walk: Walk) -> None:
    held = shown.recorded_blockers(walk.state)
    changes: dict[Path_, Any] = {}
    for key, value in walk.found.items():
        if key not in (OWN, "track_id") and walk.changed(key):
            changes[(key,)] = without(value, held) if key == "blockers" else value
    for key, value in _loop(walk).items():
        if key not in _ENGINE and walk.changed(OWN, key):
            changes[OWN, key] = value
    known = shown.metadata(walk.state)
    walk.fields({p: v for p, v in changes.items() if without(look(known, p), held) != v})


def without(value: Any, held: list[Document]) -> Any:
    """Return blockers without those that the log itself says."""
    return [one for one in value if one not in held] if isinstance(value, list) else value


def _step(walk: Walk) -> None:
    step = walk.state.phase
    wanted, path = _wanted(walk, step)
    began_again = wanted == walk.state.status == "IN_PROGRESS" and _is_later(
        walk, step, "started_at"
    )
    names = ["step.started"] if began_again else walk.route(wanted, path)
    data = _data(walk, step)
    if names is None:
        return
    is_alive = data or _is_later(walk, step, "last_updated")
    if not names and walk.state.status == "IN_PROGRESS" and is_alive:
        names = ["step.progressed"]
    for number, name in enumerate(names, 1):
        told = data if number == len(names) else {}
        at = _time(walk, step, name)
        command = MachineRecorded(name=name, data=_sound(walk, name, told))
        if not walk.tries(command, path, at):
            return


def _is_later(walk: Walk, step: str, name: str) -> bool:
    said = _checkpoint(walk, step).get(name)
    return walk.changed(*_field(walk, step, name)) and (walk.time(said) or "") > walk.since


def _wanted(walk: Walk, step: str) -> tuple[Any, Path_]:
    """Return the status that the file gives the step, and which field of it says so."""
    own, whole = _field(walk, step, "status"), (OWN, "step_status")
    said: dict[Path_, Any] = {}
    if walk.changed(*own):
        said[own] = _checkpoint(walk, step).get("status")
    if walk.changed(*whole) and aliased(_loop(walk).get("current_step")) == step:
        said[whole] = _loop(walk).get("step_status")
    if len(set(map(repr, said.values()))) > 1:
        first, second = said.values()
        walk.refuses(own, first, f"step_status says {second!s:.40}")
        return walk.state.status, own
    path = next(iter(said), own)
    return said.get(path, walk.state.status), path


def _data(walk: Walk, step: str) -> Document:
    """Return what is new in the step's checkpoint, as far as the log can hold it."""
    visit = walk.state.visits.get(step)
    known = visit.data if visit is not None else {}
    return {
        key: value
        for key, value in _checkpoint(walk, step).items()
        if key not in OF_VISIT and walk.changed(*_field(walk, step, key)) and is_recordable(value)
        if key not in known or not same(merged(known[key], value), known[key])
    }


def _sound(walk: Walk, name: str, data: Document) -> Document:
    kind = walk.state.definition.events[name]
    if "notes" not in kind.required or data.get("notes"):
        return data
    items = data.get("failure_items")
    listed = "; ".join(map(str, items)) if isinstance(items, list) else ""
    return {**data, "notes": listed or f"{kind.status} in {walk.file}, which does not say why"}


def _time(walk: Walk, step: str, name: str) -> str | None:
    kind = walk.state.definition.events[name]
    field = _WHEN.get(kind.status or "", "completed_at" if kind.status else "last_updated")
    path = _field(walk, step, field)
    said = _checkpoint(walk, step).get(field) if walk.changed(*path) else None
    return walk.time(said)


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
    if target == "BUSINESS_SYNC" and _asks_for_sync(walk):
        walk.fields({("business_sync_required",): True})
    return walk.tries(MachineTransitioned(to=target), path) and walk.state.phase == target


def _asks_for_sync(walk: Walk) -> bool:
    said = _checkpoint(walk, "EVALUATE_EXECUTION").get("business_sync_required")
    return said is True and walk.state.document.get("business_sync_required") is None


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


TASKS = "tasks"
#: Fields of a task that follow from its status.
OF_TASK = frozenset({"started_at", "completed_at", "attempts"})
#: Fields of ``phase.json`` that the engine writes.
_DOTAGENT_ENGINE = frozenset(
    {
        *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
        *("completed_phases", "user_checkpoints", "interruption_safe", "cancelled_at", TASKS),
    }
)


def take_in_tasks(walk: Walk) -> None:
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
        if key not in (*OF_TASK, "id") and not same(known.get(key), value) and is_recordable(value)
    }
    if not changes and known:
        return
    lack = _lack_of_output(walk, id_, {**known, **changes}) if "status" in changes else None
    if lack is not None:
        walk.refused[path] = InvalidInput(f"{id_}: {lack}", task=id_)
        return
    status = changes.get("status")
    began = (
        walk.state.definition.tasks is not None and status == walk.state.definition.tasks.running
    )
    said = new.get("started_at" if began else "completed_at")
    walk.tries(MachineTaskChanged(task=id_, changes=changes), path, walk.time(said))


def _lack_of_output(walk: Walk, id_: str, task: Document) -> str | None:
    if task.get("status") not in ("pre_complete", "verified") or not task.get("output"):
        return None
    tasks = walk.state.definition.tasks
    fact = output_at(walk.root, task["output"])
    new = fact.since(walk.state.task_earlier.get(id_, {}))
    if not fact.found:
        return f"its output {task['output']} is not there"
    if not new.found:
        return f"its output {task['output']} is there only as it was before the task began"
    if tasks is not None and status_of_output(walk.root, new, tasks.statuses) is None:
        return f"its output {task['output']} was not written to its end"
    return None


def take_in_phase(walk: Walk) -> None:
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
        if is_here or not walk.changed("current_phase") or not _dotagent_goes_on(walk, target):
            return


def _status(walk: Walk, wanted: Any, path: Path_) -> bool:
    """Lead the phase to a status; False where the rules have no way there."""
    is_said = walk.changed("phase_status") or walk.changed("current_phase")
    if not is_said or wanted == walk.state.status:
        return True
    for name in walk.route(wanted, path) or []:
        kind = walk.state.definition.events[name]
        data: Document = {"error": f"{walk.file} says so"} if "error" in kind.required else {}
        if not walk.tries(MachineRecorded(name=name, data=data), path, _completed_at(walk)):
            return False
    return bool(walk.state.status == wanted)


def _dotagent_goes_on(walk: Walk, target: Any) -> bool:
    """Take the way to the next phase, if it is open; what a person decides is not."""
    order = list(walk.state.definition.phases)
    here = walk.state.phase
    path = ("current_phase",)
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
