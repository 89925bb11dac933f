"""The fold of machines: (state, event) → state. Pure; it never refuses."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from lifecycle.errors import NoWorkflow
from lifecycle.event import Event
from lifecycle.fold.evolve import with_decision
from lifecycle.fold.foldable import SET_ASIDE, fold_in
from lifecycle.machines.definition import CANCELLED, DEFINITION, Definition, trusted
from lifecycle.machines.machine import Bound, Caller, Given, Handoff, Lease, Machine, Move, Visit
from lifecycle.machines.path import merged, parse, placed, put, said, take_away
from lifecycle.machines.transition import closed_to
from lifecycle.state.workflow import Drift
from lifecycle.words.document import restore

#: The fold's own version: a stored state folded by another is not used.
REDUCER = 1

E = TypeVar("E", bound=Event)
Apply = Callable[[Machine, Event], None]


def evolve(
    state: Machine | None, events: Iterable[Event], accepted: Container[str] = frozenset()
) -> Machine | None:
    """Return the state after ``events``; ``state`` itself is left as it was.

    ``accepted`` holds the hashes of the decisions whose proof of consent was verified.
    """
    result = state.draft() if state is not None else None
    for _, folded in steps(result, events, accepted):
        result = folded
    return result


def steps(
    draft: Machine | None, events: Iterable[E], accepted: Container[str] = frozenset()
) -> Iterator[tuple[E, Machine]]:
    """Yield each event with the state after it: one object, changed in place, the caller's own.

    Raises `NoWorkflow` where the first event begins no machine.
    """
    for event in events:
        if draft is None:
            draft = _begun(event)
        else:
            why = event.data["why"] if event.type == SET_ASIDE else _unfit(draft, event)
            fold_in(draft, event, why, partial(_apply, draft, event, accepted))
        draft.head = event.version
        draft.updated = max(draft.updated, event.occurred_at)
        yield event, draft


def _unfit(draft: Machine, event: Event) -> str | None:
    """Return why an event means nothing in this state, None where it may mean something."""
    if event.type == "machine.task_changed":
        return _no_task(draft, event)
    if event.type == "machine.task_claimed":
        return _not_free(draft, event)
    if event.type == "machine.limited" and event.data["loop"] not in draft.definition.loops:
        return f"no loop {event.data['loop']!r:.80}"
    to = event.data.get("to") if event.type == "machine.transitioned" else CANCELLED
    return None if to == CANCELLED or to in draft.definition.phases else f"no phase {to!r:.80}"


def _no_task(draft: Machine, event: Event) -> str | None:
    """Return why a change is of nothing that can be a task here."""
    tasks, id_, changes = draft.definition.tasks, event.data["task"], event.data["changes"]
    if tasks is None:
        return f"{draft.definition.id} keeps no tasks"
    if not tasks.is_id(id_) or changes.get("id", id_) != id_:
        return f"task: expected an id of the form {tasks.pattern}, found {id_!r:.80}"
    status = changes.get("status", tasks.running)
    return None if status in tasks.statuses else f"status: there is no status {status!r:.80}"


def _not_free(draft: Machine, event: Event) -> str | None:
    """Return why a claim counts for nothing: it has no end, or somebody else holds the task."""
    task, by, until = (event.data[name] for name in ("task", "by", "until"))
    if not by or not until:
        return "a claim says by whom it is, and until when"
    held = draft.leases.get(task)
    if held is not None and held.is_against(
        Caller(by, event.data.get("handle")), event.occurred_at
    ):
        return f"{task!r:.80} is claimed by {held.by} until {held.until}"
    return None


def _apply(draft: Machine, event: Event, accepted: Container[str]) -> None:
    judged = _JUDGED.get(event.type)
    if judged is None:
        apply = _APPLY.get(event.type)
        if apply is not None:
            apply(draft, event)
    elif event.hash in accepted and event.data.get("phase", draft.phase) == draft.phase:
        draft.has_new_signers = False  # it was accepted: somebody at a terminal saw who they are
        judged(draft, event)


def _begun(event: Event) -> Machine:
    if event.type not in ("machine.created", "machine.imported"):
        raise NoWorkflow(
            f"the first event is {event.type}; expected machine.created or machine.imported",
            type=event.type,
        )
    data = event.data
    definition = trusted(restore(data["definition"], data["definition_layout"]), data["machine"])
    phase = data.get("phase", definition.initial)
    machine = Machine(
        id=data["machine"],
        definition=definition,
        phase=phase,
        status=None,
        created=data.get("created") or event.occurred_at,
        updated=event.occurred_at,
        document=restore(data["document"], data["layout"]),
        consent=data["consent"],
        signers=data["signers"],
        has_new_signers=data.get("proposed", False) and data["consent"] == "signature",
        definition_agreed=False if data.get("own") and data["consent"] != "trust" else None,
    )
    _enter(machine, phase, event.occurred_at, data.get("earlier"))
    # What it begins with, or was taken over with, counts for the phase that it is in.
    machine.visit.written.add(())
    if event.type == "machine.imported":
        _take_over(machine, event)
    return machine


def _take_over(machine: Machine, event: Event) -> None:
    data = event.data
    for visit in data["visits"]:
        machine.visits.pop(visit["phase"], None)
        machine.visits[visit["phase"]] = Visit(**visit)
    machine.status = machine.visit.status = data["status"]
    machine.visit.earlier = dict(data["earlier"])
    machine.task_earlier = {task: dict(marks) for task, marks in data["task_earlier"].items()}
    machine.visit.written.add(())
    machine.counts = dict(data["counts"])
    machine.findings = list(data["findings"])
    machine.given = [Given(None, one["phase"], one["at"]) for one in data["given"]]


def _enter(draft: Machine, phase: str, at: str, earlier: Mapping[str, str] | None = None) -> None:
    definition = draft.definition
    status = definition.statuses.initial if definition.statuses is not None else None
    if phase != CANCELLED and definition.phases[phase].status is not None:
        status = definition.phases[phase].status
    draft.phase, draft.status = phase, None if phase == CANCELLED else status
    before = draft.visits.pop(phase, None)
    went = (
        [] if before is None else [*before.went, *([before.record()] if before.has_begun else [])]
    )
    draft.visits[phase] = Visit(phase, at, draft.status, earlier=dict(earlier or {}), went=went)
    draft.approvals = []
    draft.bound = {}


def _updated(draft: Machine, event: Event) -> None:
    for change in restore(event.data["changes"], event.data["layout"]):
        put(draft.document, parse(change["path"]), change["value"])
        steps = placed(draft.document, parse(change["path"]))
        draft.visit.written.update(said(steps, change["value"]))
    for path in event.data["removed"]:
        take_away(draft.document, parse(path))
    draft.digests.update(event.data["digests"])


def _transitioned(draft: Machine, event: Event) -> None:
    data, at = event.data, event.occurred_at
    if closed_to(draft, data) is not None:
        return
    told = [data[name] for name in ("reason", "loop", "count", "limit", "asked")]
    move = Move(draft.phase, data["to"], at, *told)
    if move.loop is not None and move.count is not None:
        draft.counts[move.loop] = move.count
    for loop in data["resets"]:
        draft.counts.pop(loop, None)
    draft.moves.append(move)
    draft.visit.left_at = at
    _enter(draft, data["to"], at, data["earlier"])


def _recorded(draft: Machine, event: Event) -> None:
    name, at = event.data["name"], event.occurred_at
    draft.events[name] = draft.events.get(name, 0) + 1
    kind = draft.definition.events.get(name)
    if kind is None or not kind.of_phase:
        draft.notes.append({"name": name, "at": at, "data": event.data["data"]})
        return
    visit = draft.visit
    if kind.starts:
        _begin_anew(draft.definition, visit)
    visit.data = merged(visit.data, event.data["data"])
    visit.updated_at = at
    if kind.starts:
        visit.started_at, visit.completed_at = at, None
    if kind.completes:
        visit.completed_at = at
    if kind.status is not None:
        draft.status = visit.status = kind.status


def _begin_anew(definition: Definition, visit: Visit) -> None:
    """Keep what the work came to before, and drop what only says why it did not go well."""
    said = [
        name
        for kind in definition.events.values()
        if kind.status == visit.status and kind.required
        for name in kind.required
    ]
    if said and visit.has_begun:
        visit.went.append(visit.record())
        visit.data = {key: value for key, value in visit.data.items() if key not in said}


def _task_changed(draft: Machine, event: Event) -> None:
    tasks = draft.definition.tasks
    if tasks is None:  # set aside before
        return
    found = draft.task(event.data["task"])
    begins = event.data["changes"].get("status") == tasks.running
    if begins and (found is None or found.get("status") != tasks.running):
        draft.task_earlier[event.data["task"]] = dict(event.data["earlier"])
    if found is None:
        listed = draft.document.get(tasks.path)
        items = listed if isinstance(listed, list) else []
        found = {"id": event.data["task"], **event.data["changes"]}
        draft.document[tasks.path] = [*items, found]
    else:
        found.update(merged(found, event.data["changes"]))
    draft.visit.written.update(said(draft.steps_to(found), event.data["changes"]))
    if event.data["changes"].get("status") == tasks.done:
        draft.leases.pop(event.data["task"], None)


def _task_claimed(draft: Machine, event: Event) -> None:
    draft.leases[event.data["task"]] = Lease(
        event.data["by"], event.data["until"], event.data.get("handle")
    )


def _task_released(draft: Machine, event: Event) -> None:
    draft.leases.pop(event.data["task"], None)


def _checkpointed(draft: Machine, event: Event) -> None:
    data = event.data
    draft.handoff = Handoff(data["summary"], data["next"], draft.phase, event.occurred_at)


def _approved(draft: Machine, event: Event) -> None:
    data = event.data
    if data["approval"] == DEFINITION and draft.definition_agreed is not None:
        _agreed(draft, event)
        return
    if data["approval"] not in draft.approvals:
        draft.approvals.append(data["approval"])
    elif data.get("files") is None:
        return
    draft.bound[data["approval"]] = Bound(data.get("files"), data.get("fields"))
    draft.given.append(_given(draft, event))


def _agreed(draft: Machine, event: Event) -> None:
    """The definition is agreed to, once and for as long as the machine lives."""
    if not draft.definition_agreed:
        draft.definition_agreed = True
        draft.given.append(_given(draft, event))


def _given(draft: Machine, event: Event) -> Given:
    data = event.data
    at, by, choice = event.occurred_at, data["approved_by"], data["choice"]
    return Given(data["approval"], draft.phase, at, by, choice)


def _withdrawn(draft: Machine, event: Event) -> None:
    name, since = event.data["approval"], draft.visit.entered_at
    draft.approvals = [one for one in draft.approvals if one != name]
    draft.bound.pop(name, None)
    draft.given = [one for one in draft.given if one.approval != name or one.at < since]


def _limited(draft: Machine, event: Event) -> None:
    draft.limits[event.data["loop"]] = event.data["to"]


def _cancelled(draft: Machine, event: Event) -> None:
    at = event.occurred_at
    if event.data["anew"]:
        _begin_again(draft, event)
        return
    draft.moves.append(Move(draft.phase, CANCELLED, at, event.data["reason"]))
    draft.visit.left_at = at
    _enter(draft, CANCELLED, at)
    draft.cancelled_at = at


def _begin_again(draft: Machine, event: Event) -> None:
    """Begin anew: what was is in the log and the archive; edits that wait go on waiting."""
    draft.created, draft.handoff = event.occurred_at, None
    kept: tuple[Any, ...] = (
        *(draft.document, draft.counts, draft.limits, draft.events, draft.visits, draft.digests),
        *(draft.task_earlier, draft.moves, draft.given, draft.notes, draft.findings, draft.leases),
    )
    for one in kept:
        one.clear()
    _enter(draft, draft.definition.initial, event.occurred_at, event.data["earlier"])


def _drift_detected(draft: Machine, event: Event) -> None:
    data = event.data
    if data["kept_as"] is not None:
        drift = Drift(event.version, data["file"], data["kind"], data["base"], data["kept_as"])
        draft.drifts.append(drift)


def _drift_closed(draft: Machine, event: Event) -> None:
    draft.edits = with_decision(draft.edits, event)
    draft.drifts = [drift for drift in draft.drifts if drift.version != event.data["detected"]]


#: What a person decides: it counts only where its proof was accepted.
_JUDGED: dict[str, Apply] = {
    "machine.approved": _approved,
    "machine.withdrawn": _withdrawn,
    "machine.limited": _limited,
}
_APPLY: dict[str, Apply] = {
    "machine.updated": _updated,
    "machine.transitioned": _transitioned,
    "machine.recorded": _recorded,
    "machine.task_changed": _task_changed,
    "machine.task_claimed": _task_claimed,
    "machine.task_released": _task_released,
    "machine.checkpointed": _checkpointed,
    "machine.cancelled": _cancelled,
    "drift.detected": _drift_detected,
    "drift.adopted": _drift_closed,
    "drift.reverted": _drift_closed,
}
