"""``execution.json`` and ``phase.json`` as executors and orchestrators write them.

Source: the dotagent checkpoint protocol. Approvals are a person's, and never taken from a file.
"""

from __future__ import annotations

from typing import Any

from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.payload import MachineRecorded, MachineTaskChanged, MachineTransitioned
from service.machines.evidence import output_at, status_of_output
from service.machines.writers.walk import Path_, Walk, is_recordable, same

TASKS = "tasks"
#: Fields of a task that follow from its status.
OF_TASK = frozenset({"started_at", "completed_at", "attempts"})
#: Fields of ``phase.json`` that the engine writes.
_ENGINE = frozenset(
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
    """Record a task's new fields; a status that speaks of an output needs that."""
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
    """Say what is wrong with the output of a task that claims to be done with it."""
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
    walk.fields({(k,): v for k, v in walk.found.items() if k not in _ENGINE and walk.changed(k)})
    target = walk.found.get("current_phase")
    for _ in walk.state.definition.phases:
        is_here = target == walk.state.phase
        path = "phase_status" if is_here else "current_phase"
        if not _status(walk, walk.found.get(path) if is_here else "complete", (path,)):
            return
        if is_here or not walk.changed("current_phase") or not _goes_on(walk, target):
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


def _goes_on(walk: Walk, target: Any) -> bool:
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
    """Return when the file says that the present phase was completed."""
    done = walk.found.get("completed_phases")
    for one in done if isinstance(done, list) else []:
        if isinstance(one, dict) and one.get("phase") == walk.state.phase:
            return walk.time(one.get("completed_at"))
    return None
