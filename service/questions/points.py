"""Where a point of a sweep comes from: its round, its proposer, the data, and who agreed to it."""

from __future__ import annotations

from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.conditions import partners_of
from lifecycle.state.loops import Round
from lifecycle.state.workflow import PLAN, Workflow
from lifecycle.sweeps.definition import MAP
from lifecycle.words.rounds import LoopDefinition
from service.errors import NotFound
from service.questions.audit import records
from service.questions.blame import blame
from service.reading.log import WorkflowLog
from service.reading.moment import Moment
from service.reading.stream_log import At

Record = dict[str, Any]


def origin_of(log: WorkflowLog, stage: str, number: int, at: At = None) -> Record:
    """Return where the points come from that a sweep has since a round of its loop.

    Those of round 1, and of a stage in no loop, are those of the map: of a stage that follows
    others by `like`, the map of the stage that leads them.
    """
    state = log.current(at)
    name = state.loop_of(stage)
    leading = [stage, *(partner.id for partner in partners_of(state, state.stage(stage)))][-1]
    if name is None:
        return {"loop": None, "round": None, **_of_map(log, leading, at)}
    if number < 2:
        found = _of_map(log, leading, at)
        return {"loop": name, "round": 1, **found, "envelope": _envelope(log, state, name, at)}
    event = _began(log, state, name, state.loops[name].rounds[number - 1], at)
    before = log.current(Moment(version=event.version - 1))
    found = _proposed(before, before.loop(name), event)
    envelope = _envelope(log, before, name, Moment(version=event.version - 1))
    return {"loop": name, "round": number, **found, "envelope": envelope}


def _of_map(log: WorkflowLog, stage: str, at: At) -> Record:
    return {"proposed": None, "map": stage, "agreed": _agreed(log, f"{stage}.parameters.{MAP}", at)}


def _began(log: WorkflowLog, state: Workflow, name: str, one: Round, at: At) -> RecordedEvent:
    """Return the event by which a round began; one that began nothing stands in no state."""
    for event, after in log.steps(upto=at):
        standing = after.loops.get(name)
        if (
            event.type == "round.begun"
            and event.occurred_at == one.began_at
            and standing is not None
            and standing.round.number == one.number == event.data["round"]
        ):
            return event
    raise NotFound(f"{state.id} has no event that began round {one.number} of {name}", loop=name)


def _proposed(before: Workflow, loop: LoopDefinition, event: RecordedEvent) -> Record:
    """Return who proposed the points of a round, and from which data."""
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
    for attempt in before.stages[loop.asked].attempts if source else ():
        left = {(one["path"], one["sha256"]) for one in attempt.results}
        if (source, told["sha256"]) in left:
            read = {one["path"]: one["sha256"] for one in attempt.inputs}
            told |= {"attempt": f"{loop.asked}/{attempt.id}", "read": read}
    return {"proposed": told}


def _envelope(log: WorkflowLog, state: Workflow, name: str, at: At) -> Record:
    """Return the bounds of a loop as they stood at a moment, and who agreed to them."""
    loop = state.loop(name)
    return {
        "within": dict(loop.within),
        "each": loop.each,
        "at_most": loop.at_most,
        "tasks": loop.tasks,
        "core_hours": loop.core_hours,
        "agreed": _agreed(log, f"rounds.{name}", at),
    }


def _agreed(log: WorkflowLog, field: str, at: At) -> Record:
    """Return by which event a field stands as it does, and who agreed to that."""
    newest = max(blame(log, field, at), key=lambda one: one.change.event.version)
    plan = next((one for one in records(log, at) if one.id == PLAN and one.decided_by), None)
    record = newest.amendment or plan
    return {
        "version": newest.change.event.version,
        "amendment": record and record.id,
        "by": record and (record.signer or record.decided_by),
        "policy": record.policy if record else log.current(at).consent,
    }
