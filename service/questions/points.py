"""Find the origin of a sweep's point: its round, proposer, data and approval.

A point is a set of parameter values, for which a sweep runs one task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from eventstore.event import RecordedEvent
from lifecycle.state.conditions import find_point_source_stages
from lifecycle.state.loops import Round
from lifecycle.state.workflow import PLAN, Stage, Workflow
from lifecycle.sweeps.definition import MAP
from lifecycle.words.rounds import LoopDefinition
from service.errors import NotFound
from service.questions.audit import list_amendment_records
from service.questions.blame import amendment_of, find_blame, is_same_json
from service.reading.log import WorkflowLog
from service.reading.point_in_history import Moment
from service.reading.stream_log import At

Record = dict[str, Any]
#: Function that returns the keys of the points that a map (definition of a sweep's points)
#: contains. Its arguments are the stage and a version of its map.
KeysOf: TypeAlias = Callable[[Stage, Record], Collection[str]]


def describe_point_origin(
    log: WorkflowLog, stage: str, key: str, number: int, keys_of: KeysOf, at: At = None
) -> Record:
    """Return the origin of a task's point (set of parameter values).

    ``number`` is the round that first computed the point. A point of round 1, or of a stage without
    a loop, comes from the map in the plan, which defines the points of the sweep. If the stage uses
    the points of another stage (`like`), this is the map of the other stage.
    """
    state = log.current(at)
    name = state.loop_of(stage)
    leading = [state.stage(stage), *find_point_source_stages(state, state.stage(stage))][-1]
    if name is None:
        return {"loop": None, "round": None, **_describe_map_origin(log, leading, key, keys_of, at)}
    if number < 2:
        found = _describe_map_origin(log, leading, key, keys_of, at)
        return {
            "loop": name,
            "round": 1,
            **found,
            "envelope": _describe_loop_limits(log, state, name, at),
        }
    event = _find_round_start(log, state, name, state.loops[name].rounds[number - 1], at)
    before = log.current(Moment(version=event.version - 1))
    found = _describe_proposal(before, before.loop(name), event)
    envelope = _describe_loop_limits(log, before, name, Moment(version=event.version - 1))
    return {"loop": name, "round": number, **found, "envelope": envelope}


def _describe_map_origin(
    log: WorkflowLog, leading: Stage, key: str, keys_of: KeysOf, at: At
) -> Record:
    event = _find_listing_event(log, leading, key, keys_of, at)
    return {"proposed": None, "map": leading.id, "agreed": _describe_event_approval(log, event, at)}


def _find_listing_event(
    log: WorkflowLog, leading: Stage, key: str, keys_of: KeysOf, at: At
) -> RecordedEvent:
    """Return the event since which the map of a stage has always contained a point.

    A map is the definition of a sweep's points. Raises `NotFound` if it never contained the point.
    """
    found: RecordedEvent | None = None
    before: Any = None
    for event, after in log.steps(upto=at):
        stage = after.stages.get(leading.id)
        given = stage.parameters.get(MAP) if stage is not None else None
        if given is before or is_same_json(given, before):
            continue
        before = given
        is_listed = given is not None and key in keys_of(leading, given)
        found = (found or event) if is_listed else None
    if found is None:
        raise NotFound(
            f"the stage {leading.id} has no task {key!r} in any version of its map",
            stage=leading.id,
            task=key,
        )
    return found


def _find_round_start(
    log: WorkflowLog, state: Workflow, name: str, one: Round, at: At
) -> RecordedEvent:
    """Return the event that started a round.

    Events that wfctl ignored, so that they started no round, are skipped. Raises `NotFound` if
    there is no such event.
    """
    for event, after in log.steps(upto=at):
        standing = after.loops.get(name)
        if (
            event.type == "round.begun"
            and event.occurred_at == one.began_at
            and standing is not None
            and standing.round.number == one.number == event.data["round"]
        ):
            return event
    raise NotFound(f"{state.id} has no event that started round {one.number} of {name}", loop=name)


def _describe_proposal(before: Workflow, loop: LoopDefinition, event: RecordedEvent) -> Record:
    """Return a record of the person or program that proposed the points of a round.

    The record includes the data from which the points were computed.
    """
    data = event.data
    source, digests = data.get("source"), data.get("data") or {}
    told = {
        "by": data["by"],
        "actor": str(event.actor),
        "reason": data.get("reason"),
        "version": event.version,
        "at": event.occurred_at,
        "source": source,
        "sha256": digests.get(source),
        "attempt": None,
        "read": digests,
    }
    for attempt in before.stages[loop.points_source_stage].attempts if source else ():
        left = {(one["path"], one["sha256"]) for one in attempt.results}
        if (source, told["sha256"]) in left:
            read = {one["path"]: one["sha256"] for one in attempt.inputs}
            told |= {"attempt": f"{loop.points_source_stage}/{attempt.id}", "read": read}
    return {"proposed": told}


def _describe_loop_limits(log: WorkflowLog, state: Workflow, name: str, at: At) -> Record:
    """Return the limits of an optimization loop at a moment, and their approval."""
    loop = state.loop(name)
    return {
        "within": dict(loop.within),
        "each": loop.each,
        "at_most": loop.at_most,
        "tasks": loop.tasks,
        "core_hours": loop.core_hours,
        "agreed": _describe_field_approval(log, f"rounds.{name}", at),
    }


def _describe_field_approval(log: WorkflowLog, field: str, at: At) -> Record:
    """Return a record of the event that last changed a field, and of its approval."""
    newest = max(find_blame(log, field, at), key=lambda one: one.change.event.version)
    return _describe_event_approval(log, newest.change.event, at)


def _describe_event_approval(log: WorkflowLog, event: RecordedEvent, at: At) -> Record:
    """Return a record of the approval of an event.

    This is the approval of its amendment, or else of the plan.
    """
    known = {one.id: one for one in list_amendment_records(log, at)}
    plan = known.get(PLAN)
    record = known.get(amendment_of(event) or "") or (plan if plan and plan.decided_by else None)
    return {
        "version": event.version,
        "amendment": record and record.id,
        "by": record and (record.signer or record.decided_by),
        "policy": record.policy if record else log.current(at).consent,
        "database_user": record and record.database_user,
    }
