"""The fold of loops: a round begins, ends with numbers, and is the last one or is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lifecycle.event import Event
from lifecycle.state.loops import LoopState, Round
from lifecycle.state.status import FINISHED, Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep, without_result
from lifecycle.words.document import rewired_fields
from lifecycle.words.mandates import counted
from lifecycle.words.metrics import metrics_of
from lifecycle.words.rounds import LoopDefinition, envelope_of, is_met, loops_of, outside_of


def begun(draft: Workflow, event: Event) -> None:
    """A round begins: its stages are computed again, with its points beside those of before."""
    data = event.data
    if why_not_begun(draft, data) is not None:
        return
    loop = draft.loops[data["loop"]]
    loop.rounds.append(
        Round(
            number=data["round"],
            points=data["points"],
            by=data["by"],
            reason=data.get("reason"),
            source=data.get("source"),
            data=data.get("data", {}),
            began_at=event.occurred_at,
        )
    )
    stages = [draft.stages[id_] for id_ in loop.stages]
    for stage in stages:
        _again(stage)
    for stage in stages:
        if stage.status is Status.INVALIDATED and not draft.unmet(stage):
            stage.status = Status.READY


def why_not_begun(state: Workflow, data: Mapping[str, Any]) -> str | None:
    """Return why a round that is recorded has not begun; None if it has."""
    standing = state.loops.get(data["loop"])
    if standing is None:
        return "there is no such loop"
    loop = state.loop(data["loop"])
    if not standing.is_due or data["round"] != standing.round.number + 1:
        return "no such round was due"
    if not is_from_its_source(state, loop, data):
        return f"its points are not those of {loop.ask}"
    if not data["points"] or len(data["points"]) > (loop.each or len(data["points"])):
        return "it has another number of points than the envelope allows"
    outside = (why for point in data["points"] for why in outside_of(loop, point))
    return next(outside, None)


def is_from_its_source(state: Workflow, loop: LoopDefinition, data: Mapping[str, Any]) -> bool:
    """Whether points are those which a loop asks for: of a stage, its output as it left it."""
    results = {
        one["path"]: one["sha256"] for one in state.stages[loop.asked or loop.points].results
    }
    known = (data.get("data") or {}).get(loop.ask)
    own = data.get("source") == loop.ask and known is not None
    return loop.asks_somebody or (own and known == results.get(loop.ask))


def _again(stage: Stage) -> None:
    if stage.status is Status.SKIPPED:
        return
    stage.status, stage.changed, stage.rerun_by = Status.INVALIDATED, [], None
    stage.metrics, stage.retry_count, stage.fix = [], 0, None
    stage.started_at = stage.completed_at = None
    stage.running_process, stage.blocked_by = None, {}
    # Tasks of the rounds before go on to count.
    stage.keeps_tasks = is_sweep(stage.parameters)


def stopped(draft: Workflow, event: Event) -> None:
    """Somebody wants no further round."""
    loop = draft.loops.get(event.data["loop"])
    if loop is not None:
        loop.stopped = event.data["reason"]


def refresh(draft: Workflow, at: str) -> None:
    """Take up loops that are new, end rounds whose stages are all completed, and judge."""
    if not (draft.loops or draft.rounds):
        return
    defined = loops_of(draft.rounds)
    draft.loops = {name: one for name, one in draft.loops.items() if name in defined}
    for name, loop in defined.items():
        if any(id_ not in draft.stages for id_ in loop.stages):
            draft.loops.pop(name, None)
            continue
        standing = draft.loops.setdefault(name, LoopState([]))
        standing.stages = list(loop.stages)
        _end_round(draft, standing, at)
        standing.over = _why_over(draft, loop, standing)


def _end_round(draft: Workflow, loop: LoopState, at: str) -> None:
    stages = [draft.stages[id_] for id_ in loop.stages]
    done = all(stage.status in FINISHED for stage in stages)
    if done and loop.round.ended_at is None:
        found = {name: number for stage in stages for name, number in _numbers(stage)}
        loop.rounds[-1] = replace(loop.round, ended_at=at, numbers=found, plan=draft.version)
    elif not done and loop.round.ended_at is not None:
        loop.rounds[-1] = replace(loop.round, ended_at=None, numbers={}, plan=0)


def _numbers(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in stage.metrics:
        yield (
            f"{stage.id}.{one['name']}",
            {name: one.get(name) for name in ("value", "error", "unit")},
        )


def _why_over(draft: Workflow, loop: LoopDefinition, standing: LoopState) -> str | None:
    """Return why no further round begins; None if one does, or the last one has not ended."""
    if standing.round.ended_at is None:
        return None
    if standing.stopped is not None:
        return f"stopped: {standing.stopped}"
    numbers = [one.numbers for one in counting_rounds(draft, standing)]
    for until in loop.until:
        if is_met(until, numbers, better_of(draft, until.metric)):
            return str(until)
    if standing.round.number >= loop.at_most:
        return f"its limit of {counted(loop.at_most, 'round')}"
    return _used_up(draft, loop)


def _used_up(draft: Workflow, loop: LoopDefinition) -> str | None:
    """Return which limit of the loop leaves no room for a round of one point; None if none does."""
    envelope = envelope_of(loop)
    if envelope.tasks is None and envelope.core_hours is None:
        return None
    from lifecycle.state.effort import cost_problems, of_a_round, used  # few loops need it

    problems = cost_problems(envelope, used(draft, envelope.name), *of_a_round(draft, loop, 1))
    why = "; ".join(problems)
    return f"no further round is within its limits: {why}" if why else None


def counting_rounds(state: Workflow, loop: LoopState) -> list[Round]:
    """Return the rounds whose numbers count: those of the definition as it is now.

    An amendment may say that what earlier rounds computed goes on to count.
    """

    def counts(one: Round) -> bool:
        since = [a for a in state.amendments.values() if one.plan and _since(a, one.plan)]
        return not any(
            _is_computed_anew(state, amendment, loop.stages) and not _spares(amendment, one.number)
            for amendment in since
        )

    return [one for one in loop.rounds if counts(one)]


def counts_below(state: Workflow, stage: Stage, plan: int) -> int | None:
    """Return from which round on tasks computed by a version of the definition count no longer.

    0 if no round counts; None if no amendment since then says of rounds which ones count on.
    """
    since = [
        amendment.from_round
        for amendment in state.amendments.values()
        if _since(amendment, plan)
        and (
            (amendment.kind == "stage_rerun" and stage.id in amendment.targets)
            or _is_computed_anew(state, amendment, [stage.id])
        )
    ]
    return min(number or 0 for number in since) if any(since) else None


def points_since(state: Workflow, stage: str, number: int) -> list[dict[str, Any]]:
    """Return the points that a round and those behind it added to a stage's map."""
    loop = state.loops[state.loop_of(stage) or ""]
    return [point for one in loop.rounds if one.number >= number for point in one.points]


def _since(amendment: Amendment, plan: int) -> bool:
    return amendment.status == "approved" and (amendment.version or 0) > plan


def _spares(amendment: Amendment, number: int) -> bool:
    return amendment.from_round is not None and number < amendment.from_round


def _is_computed_anew(state: Workflow, amendment: Amendment, stages: Iterable[str]) -> bool:
    """Whether an amendment changes what results of one of these stages are computed from."""
    if amendment.record is not None or not {*stages} & {*amendment.invalidated_stages}:
        return False
    if amendment.kind in ("stage_insert", "stage_skip"):
        return True
    changes = {id_: rewired_fields(change) for id_, change in amendment.rewired.items()}
    if amendment.stage is not None:
        changes[amendment.stage] = amendment.changes
    return any(
        not _is_of_verdict(state, id_, field, change)
        for id_, fields in changes.items()
        for field, change in fields.items()
    )


def _is_of_verdict(state: Workflow, stage: str, field: str, change: Mapping[str, Any]) -> bool:
    """Whether the change of a field leaves what is computed: other points, another verdict."""
    if field != "parameters":
        return field in ("name", "success_criteria", "outputs")
    of = state.stages.get(stage)
    return of is not None and {*change} <= {MAP} | without_result(of.parameters)


def better_of(draft: Workflow, metric: str) -> str:
    """Return what is better of a number, ``stage-2.tc``: lower, higher, or nothing."""
    stage, _, name = metric.rpartition(".")
    known = metrics_of(draft.stages[stage].parameters) if stage in draft.stages else {}
    return known[name].better if name in known else ""
