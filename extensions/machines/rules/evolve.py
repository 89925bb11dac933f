"""Compute the state of a phase machine from its events.

The functions are pure and never refuse an event. An event that is invalid in its state is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from extensions.machines.rules.definition import (
    CANCELLED,
    DEFINITION,
    Definition,
    load_trusted_definition,
)
from extensions.machines.rules.guard import has_required_approvals
from extensions.machines.rules.machine import (
    ApprovalScope,
    Caller,
    GivenApproval,
    Handoff,
    Lease,
    Machine,
    Move,
    Visit,
)
from extensions.machines.rules.path import (
    iterate_written_paths,
    merge_deep,
    parse_path,
    remove_field,
    resolve_appended_items,
    set_value,
)
from lifecycle.errors import NoWorkflow
from lifecycle.event import SET_ASIDE, Event, apply_or_ignore_event
from lifecycle.fold.evolve import close_drift
from lifecycle.state.workflow import Drift
from lifecycle.words.document import restore_key_order

#: Version of this computation. A stored state of another version is not used.
REDUCER = 2

E = TypeVar("E", bound=Event)
Apply = Callable[[Machine, Event], None]


def evolve(
    state: Machine | None, events: Iterable[Event], accepted: Container[str] = frozenset()
) -> Machine | None:
    """Return the state after the events, without changing ``state``.

    ``accepted`` contains the hashes of the decisions whose proof of consent was verified.
    """
    result = state.draft() if state is not None else None
    for _, folded in iterate_states(result, events, accepted):
        result = folded
    return result


def iterate_states(
    draft: Machine | None, events: Iterable[E], accepted: Container[str] = frozenset()
) -> Iterator[tuple[E, Machine]]:
    """Yield each event with the state after it. ``draft`` is changed in place.

    Raises `NoWorkflow` if the first event does not create a machine.
    """
    for event in events:
        if draft is None:
            draft = _create_first_state(event)
        else:
            why = (
                event.data["why"] if event.type == SET_ASIDE else _explain_unfit_event(draft, event)
            )
            apply_or_ignore_event(draft, event, why, partial(_apply_event, draft, event, accepted))
        draft.head = event.version
        draft.updated = max(draft.updated, event.occurred_at)
        yield event, draft


def _explain_unfit_event(draft: Machine, event: Event) -> str | None:
    """Return the reason why an event is invalid in this state, or None if it is valid."""
    data, definition = event.data, draft.definition
    match event.type:
        case "machine.task_changed":
            return _explain_invalid_task_change(definition, data)
        case "machine.task_claimed":
            held = draft.leases.get(data["task"])
            if not data["by"] or not data["until"]:
                return "the claim lacks the owner or the expiry time"
            caller = Caller(data["by"], data.get("handle"))
            if held is not None and held.is_blocking_caller(caller, event.occurred_at):
                return f"{data['task']!r:.80} is claimed by {held.by} until {held.until}"
        case "machine.limited" if data["loop"] not in definition.loops:
            return f"the machine has no loop {data['loop']!r:.80}"
        case "machine.transitioned" if data.get("to") not in (CANCELLED, *definition.phases):
            return f"the machine has no phase {data.get('to')!r:.80}"
    return None


def _explain_invalid_task_change(definition: Definition, data: Mapping[str, Any]) -> str | None:
    """Return the reason why a change does not refer to a valid task, or None if it does."""
    tasks, id_, changes = definition.tasks, data["task"], data["changes"]
    if tasks is None:
        return f"machines of the type {definition.id} have no tasks"
    if not tasks.is_id(id_) or changes.get("id", id_) != id_:
        return f"task: expected an id that matches {tasks.pattern}, found {id_!r:.80}"
    status = changes.get("status", tasks.running)
    return None if status in tasks.statuses else f"status: unknown status {status!r:.80}"


def _apply_event(draft: Machine, event: Event, accepted: Container[str]) -> None:
    apply = _JUDGED.get(event.type) or _APPLY.get(event.type)
    if event.type in _JUDGED:
        if event.hash not in accepted or event.data.get("phase", draft.phase) != draft.phase:
            return
        # A person at a terminal gave this approval and saw the list of signers, so the list is no
        # longer new.
        draft.has_new_signers = False
    if apply is not None:
        apply(draft, event)


def _create_first_state(event: Event) -> Machine:
    if event.type not in ("machine.created", "machine.imported"):
        raise NoWorkflow(
            f"the first event of the log has the type {event.type}, but the log of a machine must "
            "start with machine.created or machine.imported.",
            type=event.type,
        )
    data = event.data
    definition = load_trusted_definition(
        restore_key_order(data["definition"], data["definition_layout"]), data["machine"]
    )
    phase = data.get("phase", definition.initial)
    if phase not in (CANCELLED, *definition.phases):
        why = f"version {event.version}: {definition.id} has no phase {phase!r:.80}"
        raise NoWorkflow(why, type=event.type)
    machine = Machine(
        id=data["machine"],
        definition=definition,
        phase=phase,
        status=None,
        created=data.get("created") or event.occurred_at,
        updated=event.occurred_at,
        document=restore_key_order(data["document"], data["layout"]),
        consent=data["consent"],
        signers=data["signers"],
        has_new_signers=data.get("proposed", False) and data["consent"] == "signature",
        definition_agreed=False if data.get("own") and data["consent"] != "trust" else None,
    )
    _enter_phase(machine, phase, event.occurred_at, data.get("earlier"))
    if event.type == "machine.imported":
        for visit in data["visits"]:
            machine.visits.pop(visit["phase"], None)
            machine.visits[visit["phase"]] = Visit(**visit)
        machine.status = machine.visit.status = data["status"]
        machine.visit.earlier = dict(data["earlier"])
        machine.task_earlier = {task: dict(marks) for task, marks in data["task_earlier"].items()}
        machine.counts = dict(data["counts"])
        machine.findings = list(data["findings"])
        machine.given = [GivenApproval(None, one["phase"], one["at"]) for one in data["given"]]
    # The initial or imported fields are new for the first phase. Without this entry, guards would
    # require that they are written again.
    machine.visit.written.add(())
    return machine


def _enter_phase(
    draft: Machine, phase: str, at: str, earlier: Mapping[str, str] | None = None
) -> None:
    statuses, known = draft.definition.statuses, draft.definition.phases.get(phase)
    status = statuses.initial if statuses is not None else None
    if known is not None and known.status is not None:
        status = known.status
    draft.phase, draft.status = phase, None if phase == CANCELLED else status
    before = draft.visits.pop(phase, None)
    went = [] if before is None else before.went
    if before is not None and before.has_recorded_events:
        went = [*went, before.record()]
    draft.visits[phase] = Visit(
        phase, at, draft.status, earlier=dict(earlier or {}), went=list(went)
    )
    draft.approvals, draft.bound = [], {}


def _apply_update(draft: Machine, event: Event) -> None:
    for change in restore_key_order(event.data["changes"], event.data["layout"]):
        set_value(draft.document, parse_path(change["path"]), change["value"])
        steps = resolve_appended_items(draft.document, parse_path(change["path"]))
        draft.visit.written.update(iterate_written_paths(steps, change["value"]))
    for path in event.data["removed"]:
        remove_field(draft.document, parse_path(path))
    draft.digests.update(event.data["digests"])


def _apply_transition(draft: Machine, event: Event) -> None:
    data, at = event.data, event.occurred_at
    if explain_closed_transition(draft, data) is not None:
        return
    told = {name: data[name] for name in ("reason", "loop", "count", "limit", "asked")}
    move = Move(draft.phase, data["to"], at, **told)
    if move.loop is not None and move.count is not None:
        draft.counts[move.loop] = move.count
    for loop in data["resets"]:
        draft.counts.pop(loop, None)
    draft.moves.append(move)
    draft.visit.left_at = at
    _enter_phase(draft, data["to"], at, data["earlier"])


def _apply_record(draft: Machine, event: Event) -> None:
    name, at = event.data["name"], event.occurred_at
    draft.events[name] = draft.events.get(name, 0) + 1
    kind = draft.definition.events.get(name)
    if kind is None or not kind.of_phase:
        draft.notes.append({"name": name, "at": at, "data": event.data["data"]})
        return
    visit = draft.visit
    if kind.starts:
        same = [one for one in draft.definition.events.values() if one.status == visit.status]
        of_fault = [name for one in same for name in one.required]
        if of_fault and visit.has_recorded_events:
            # The work of the phase starts again. Keep the record of the earlier work, but drop the
            # fields that explain its failure.
            visit.went.append(visit.record())
            visit.data = {key: one for key, one in visit.data.items() if key not in of_fault}
        visit.started_at, visit.completed_at = at, None
    visit.data = merge_deep(visit.data, event.data["data"])
    visit.updated_at = at
    if kind.completes:
        visit.completed_at = at
    if kind.status is not None:
        draft.status = visit.status = kind.status


def _task_changed(draft: Machine, event: Event) -> None:
    tasks, id_, changes = draft.definition.tasks, event.data["task"], event.data["changes"]
    if tasks is None:  # The event was already ignored.
        return
    found = draft.task(id_)
    begins = changes.get("status") == tasks.running
    if begins and (found is None or found.get("status") != tasks.running):
        draft.task_earlier[id_] = dict(event.data["earlier"])
    if found is None:
        listed = draft.document.get(tasks.path)
        found = {"id": id_, **changes}
        draft.document[tasks.path] = [*(listed if isinstance(listed, list) else []), found]
    else:
        found.update(merge_deep(found, changes))
    draft.visit.written.update(iterate_written_paths(draft.find_task_path(found), changes))
    if changes.get("status") == tasks.done:
        draft.leases.pop(id_, None)


def _task_claimed(draft: Machine, event: Event) -> None:
    draft.leases[event.data["task"]] = Lease(
        event.data["by"], event.data["until"], event.data.get("handle")
    )


def _task_released(draft: Machine, event: Event) -> None:
    draft.leases.pop(event.data["task"], None)


def _apply_checkpoint(draft: Machine, event: Event) -> None:
    data = event.data
    draft.handoff = Handoff(data["summary"], data["next"], draft.phase, event.occurred_at)


def _apply_approval(draft: Machine, event: Event) -> None:
    data, name = event.data, event.data["approval"]
    if name == DEFINITION and draft.definition_agreed is not None:
        # The definition is approved once, for the lifetime of the machine. Ignore any further
        # approval.
        if draft.definition_agreed:
            return
        draft.definition_agreed = True
    elif name in draft.approvals and data.get("files") is None:
        return
    else:
        draft.approvals += [name] if name not in draft.approvals else []
        draft.bound[name] = ApprovalScope(data.get("files"), data.get("fields"))
    by, choice = data["approved_by"], data["choice"]
    draft.given.append(GivenApproval(name, draft.phase, event.occurred_at, by, choice))


def _apply_withdrawal(draft: Machine, event: Event) -> None:
    name, since = event.data["approval"], draft.visit.entered_at
    draft.approvals = [one for one in draft.approvals if one != name]
    draft.bound.pop(name, None)
    draft.given = [one for one in draft.given if one.approval != name or one.at < since]


def _apply_limit(draft: Machine, event: Event) -> None:
    draft.limits[event.data["loop"]] = event.data["to"]


def _apply_cancellation(draft: Machine, event: Event) -> None:
    at = event.occurred_at
    if not event.data["anew"]:
        draft.moves.append(Move(draft.phase, CANCELLED, at, event.data["reason"]))
        draft.visit.left_at = draft.cancelled_at = at
        _enter_phase(draft, CANCELLED, at)
        return
    # The machine starts again from its first phase. The log and the archive keep its old state, and
    # pending manual edits stay pending.
    draft.created, draft.handoff = at, None
    kept: tuple[Any, ...] = (
        *(draft.document, draft.counts, draft.limits, draft.events, draft.visits, draft.digests),
        *(draft.task_earlier, draft.moves, draft.given, draft.notes, draft.findings, draft.leases),
    )
    for one in kept:
        one.clear()
    _enter_phase(draft, draft.definition.initial, at, event.data["earlier"])


def _drift_detected(draft: Machine, event: Event) -> None:
    data = event.data
    if data["kept_as"] is not None:
        drift = Drift(event.version, data["file"], data["kind"], data["base"], data["kept_as"])
        draft.drifts.append(drift)


def explain_closed_transition(state: Machine, data: Mapping[str, Any]) -> str | None:
    """Return the reason why a recorded change of phase is ignored, or None if it is valid.

    The definition must have this transition, and its approvals must have been given for the current
    values of the fields. The other conditions were checked before the event was recorded.
    """
    to, asked = data.get("to"), data.get("asked")
    if state.is_final:
        return f"the phase {state.phase} is final and has no transitions"
    ways = [way for way in state.ways if way.to == (asked or to)]
    exits = [state.definition.loops[way.loop].on_limit for way in ways if way.loop is not None]
    if not ways or (to == CANCELLED if asked is None else to not in exits):
        return f"the definition has no transition {state.phase} -> {to}"
    standing = [one for one in state.approvals if not state.list_changed_fields(one)]
    if not any(has_required_approvals(way.guard, standing) for way in ways):
        return (
            f"the transition {state.phase} -> {to} needs the approval of a person, and "
            "has no valid approval"
        )
    if not any(list(data.get("resets") or []) == list(way.resets) for way in ways):
        return f"the transition {state.phase} -> {to} does not restart these loops"
    return None


#: Decisions of persons. They are ignored unless their proof of consent was accepted.
_JUDGED: dict[str, Apply] = {
    "machine.approved": _apply_approval,
    "machine.withdrawn": _apply_withdrawal,
    "machine.limited": _apply_limit,
}
_APPLY: dict[str, Apply] = {
    "machine.updated": _apply_update,
    "machine.transitioned": _apply_transition,
    "machine.recorded": _apply_record,
    "machine.task_changed": _task_changed,
    "machine.task_claimed": _task_claimed,
    "machine.task_released": _task_released,
    "machine.checkpointed": _apply_checkpoint,
    "machine.cancelled": _apply_cancellation,
    "drift.detected": _drift_detected,
    "drift.adopted": close_drift,
    "drift.reverted": close_drift,
}
