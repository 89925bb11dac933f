"""What a proof is to show: the event that recorded a thing, and the events that it rests on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import PLAN, Workflow
from service.errors import NotFound
from service.reading.log import WorkflowLog

_OUTPUT = re.compile(r"(?P<stage>[^/]+)\.outputs/(?P<file>.+)")
_VERSION = re.compile(r"v?([1-9][0-9]{0,18})", re.ASCII)
_RESULTS = frozenset({"stage.completed", "results.adopted"})
_COMPLETED = "completed"
_UNDECIDED = frozenset({"proposed", "rejected"})


@dataclass(frozen=True, slots=True)
class Grounds:
    """Roles and versions of events, that of what is proven first; and the file that is claimed."""

    events: tuple[tuple[str, int], ...]
    claim: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """The event that recorded what a stage found, and the attempt that computed it."""

    version: int
    stage: str
    attempt: str | None
    outputs: list[dict[str, Any]]


@dataclass(slots=True)
class _Seen:
    """Where the events stand that a proof may show."""

    results: dict[str, _Result] = field(default_factory=dict)
    attempts: dict[tuple[str, str], int] = field(default_factory=dict)
    proposals: dict[str, int] = field(default_factory=dict)
    approvals: dict[str, int] = field(default_factory=dict)
    touched: dict[str, set[str]] = field(default_factory=dict)

    def take(self, event: RecordedEvent) -> None:
        data = event.data
        if event.type in _RESULTS:
            before = self.results.get(data["stage"])
            attempt = data.get("attempt") or (before.attempt if before is not None else None)
            self.results[data["stage"]] = _Result(
                event.version, data["stage"], attempt, list(data["outputs"])
            )
        elif event.type == "attempt.started":
            self.attempts[data["stage"], data["attempt"]] = event.version
        elif event.type == "amendment.proposed":
            self.proposals[data["amendment"]] = event.version
            self.touched[data["amendment"]] = {
                str(data.get("stage")),
                *data["rewired"],
                str((data.get("insert") or {}).get("id")),
            }
        elif event.type == "amendment.approved":
            self.approvals[data["amendment"]] = event.version


def grounds_of(log: WorkflowLog, what: str, upto: int) -> Grounds:
    """Return what proves ``what`` among the first ``upto`` events; raises `NotFound`.

    ``what`` is ``stage-3.outputs/FILE``, an output's path, a stage, an amendment, or a version.
    """
    version = _VERSION.fullmatch(what)
    if version is not None:
        log.require(int(version[1]))
        return Grounds((("event", int(version[1])),))
    seen, state = _Seen(), None
    for event, state in log.steps(upto=upto):  # noqa: B007 - the last state is looked at
        seen.take(event)
    if state is None:
        raise NotFound("the log holds no workflow, of which something could be proven")
    if what in seen.proposals or (what == PLAN and state.plan is not None):
        return Grounds(_of_amendment(seen, state, what))
    return _of_result(seen, state, what)


def _of_amendment(seen: _Seen, state: Workflow, id_: str) -> tuple[tuple[str, int], ...]:
    proposal = ("definition", 1) if id_ == PLAN else ("proposal", seen.proposals[id_])
    if state.amendments[id_].status in _UNDECIDED or id_ not in seen.approvals:
        return (proposal,)
    return (("consent", seen.approvals[id_]), proposal)


def _of_result(seen: _Seen, state: Workflow, what: str) -> Grounds:
    result, claim = _named(seen, what)
    status = state.stage(result.stage).status
    if status != _COMPLETED:
        raise NotFound(
            f"{result.stage} is {status}: its result counts no longer. `wfctl prove "
            f"{result.version}` proves that it was recorded.",
            stage=result.stage,
            status=status,
        )
    events = [("result", result.version)]
    started = seen.attempts.get((result.stage, result.attempt or ""))
    if started is not None:
        events.append(("attempt", started))
    counting = [id_ for id_, stages in seen.touched.items() if result.stage in stages]
    for id_ in counting:
        before = (started or result.version) > seen.approvals.get(id_, result.version)
        if before and state.amendments[id_].status not in _UNDECIDED:
            events += _of_amendment(seen, state, id_)
    if state.is_plan_agreed:
        events.append(("consent", seen.approvals[PLAN]))
    return Grounds((*events, ("definition", 1)), claim)


def _named(seen: _Seen, what: str) -> tuple[_Result, dict[str, Any] | None]:
    """Return the result that holds the file, and the file; a stage alone has no file."""
    if what in seen.results:
        return seen.results[what], None
    asked = _OUTPUT.fullmatch(what)
    paths = (f"{asked['stage']}/{asked['file']}", asked["file"]) if asked is not None else (what,)
    for path in paths:
        for result in seen.results.values():
            if asked is not None and asked["stage"] != result.stage:
                continue
            found = [one for one in result.outputs if one["path"] == path]
            if found:
                return result, found[0]
    known = ", ".join(one["path"] for result in seen.results.values() for one in result.outputs)
    raise NotFound(
        f"expected an output of a completed stage ({known or 'none yet'}), a stage, an amendment "
        f"or a version, found {what!r}",
        what=what,
    )
