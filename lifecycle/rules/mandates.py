"""The rules of mandates: which amendment is within one, and what an attempt may use by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lifecycle.errors import NeedsConsent
from lifecycle.fold.evolve import apply
from lifecycle.payload import models as p
from lifecycle.rules.impact import Impact, foresee, stages_by_task
from lifecycle.state.conditions import cores
from lifecycle.state.effort import cost_problems, task_count, used
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.mandates import (
    GRACE,
    MISSING,
    Mandate,
    is_for,
    is_over,
    outside_at,
    time_limit,
)

_KINDS = ("parameter_change", "stage_rerun")


def covering(
    state: Workflow, amendment: Amendment, impact: Impact, actor: str, at: str
) -> tuple[str | None, dict[str, list[str]]]:
    """Return the name of a mandate that covers an amendment, and by name why others do not."""
    why: dict[str, list[str]] = {}
    for name in sorted(state.mandates):
        why[name] = objections(state, name, amendment, impact, actor, at)
        if not why[name]:
            return name, why
    return None, why


def objections(
    state: Workflow, name: str, amendment: Amendment, impact: Impact, actor: str, at: str
) -> list[str]:
    """Return why a mandate does not cover an amendment that ``actor`` decides; empty: it does."""
    mandate = state.mandate(name)
    if mandate is None:
        return [f"there is no mandate {name!r:.60} in force"]
    found = [*_out_of_force(state, mandate, at)]
    if not is_for(mandate, actor):
        found.append(f"it is for {', '.join(mandate.by)}, and not for {actor}")
    found += _of_amendment(mandate, amendment)
    reached = {*amendment.targets, *impact.invalidated, *impact.stopped}
    for id_ in sorted(reached - {*mandate.stages}):
        found.append(f"{id_} would be computed again, and it is not for that stage")
    return found or [*_beyond(state, mandate, amendment, impact)]


def _out_of_force(state: Workflow, mandate: Mandate, at: str) -> Iterator[str]:
    if state.plan is not None and state.plan.is_open:
        yield "no person has agreed to the plan yet"
    if is_over(mandate, at):
        yield f"it was in force until {mandate.until}"


def _of_amendment(mandate: Mandate, amendment: Amendment) -> Iterator[str]:
    rewires = amendment.rewired or amendment.insert is not None
    if amendment.kind not in _KINDS or amendment.stage is None or rewires:
        yield "a mandate is for other values of a stage, and for reruns"
        return
    if amendment.from_round is not None:
        yield "a person decides which earlier rounds count on (from_round)"
    for field, leaves in amendment.changes.items():
        if field != "parameters":
            yield f"{amendment.stage}.{field}: no bounds are given for it"
            continue
        for key, leaf in leaves.items():
            was, new = leaf.get("old", MISSING), leaf.get("new", MISSING)
            yield from outside_at(f"{amendment.stage}.parameters", key, was, new, mandate.values)


def _beyond(
    state: Workflow, mandate: Mandate, amendment: Amendment, impact: Impact
) -> Iterator[str]:
    """Say what of the mandate is used up, or would be by the amendment."""
    so_far = used(state, mandate.name)
    if so_far.amendments + 1 > mandate.amendments:
        yield f"all of its {mandate.amendments} amendments are used"
    reruns = len(amendment.targets) if amendment.kind == "stage_rerun" else 0
    if reruns and so_far.reruns + reruns > mandate.reruns:
        yield f"{so_far.reruns} of its {mandate.reruns} reruns are used, and {reruns} are asked for"
    yield from cost_problems(mandate, so_far, *ahead(state, amendment, impact))


def ahead(state: Workflow, amendment: Amendment, impact: Impact) -> tuple[int, float | None]:
    """Return the tasks that an amendment has computed, and the most seconds of cores for them.

    None if a stage has no time limit.
    """
    changed = state.draft()
    apply(changed, amendment)
    known = {one.stage: one.computed for one in foresee(state, amendment, impact).tasks}
    tasks, seconds = 0, 0.0
    unknown = False
    by_task = stages_by_task(state, amendment, impact)
    for id_ in dict.fromkeys([*amendment.targets, *impact.again, *by_task]):
        stage = changed.stages[id_]
        count = known[id_] if id_ in known else task_count(changed, stage)
        limit = time_limit(stage.parameters)
        unknown = unknown or limit is None
        tasks, seconds = (
            tasks + count,
            seconds + count * cores(changed, stage) * ((limit or 0) + GRACE),
        )
    return tasks, None if unknown else seconds


def check_start(state: Workflow, command: p.AttemptStarted, at: str) -> None:
    """Raise `NeedsConsent` unless the mandate by which a stage is computed allows an attempt.

    A stage that no mandate changed since a person agreed is computed without one.
    """
    stage = state.stage(command.stage)
    name = state.mandate_of(stage)
    tasks = command.tasks if command.tasks is not None else 1
    why = refusals(state, stage, tasks, at, command.scripts)
    if why:
        raise NeedsConsent(
            f"{stage.id} is computed within {name}, which does not allow this attempt: "
            f"{'; '.join(why)}. A person allows more: `{widening(str(name))}`.",
            stage=stage.id,
            mandate=name,
            why=why,
        )


def widening(name: str) -> str:
    """Return the command by which a person allows more than a mandate does; words stay to give."""
    loop = name.removeprefix("rounds.")
    if loop == name:
        return f"wfctl mandate grant {name} FILE"
    return f"wfctl amend propose --set rounds.{loop}.NAME=VALUE --reason TEXT"


def refusals(
    state: Workflow, stage: Stage, tasks: int, at: str, scripts: Mapping[str, str] | None = None
) -> list[str]:
    """Return why the mandate of a stage does not allow an attempt; empty: it does, or has no part.

    A clock that is set back gives no time: the log had come as far as its last event.
    """
    name = state.mandate_of(stage)
    if name is None:
        return []
    return [*_start(state, stage, name, tasks, max(at, state.updated), scripts or {})]


def _start(
    state: Workflow, stage: Stage, name: str, tasks: int, at: str, scripts: Mapping[str, str]
) -> Iterator[str]:
    mandate = state.mandate(name)
    if mandate is None:
        yield "a person took it back"
        return
    yield from _out_of_force(state, mandate, at)
    if stage.id not in mandate.stages:
        yield f"it is not for {stage.id} any more"
    agreed = state.scripts
    for path, digest in scripts.items():
        if digest not in (agreed.get(path), *mandate.scripts.get(path, ())):
            yield f"{path} is not the file that a person agreed to"
    limit = time_limit(stage.parameters)
    seconds = tasks * cores(state, stage) * (limit + GRACE) if limit else None
    yield from cost_problems(mandate, used(state, mandate.name), tasks, seconds)
