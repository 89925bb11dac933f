"""The rules of mandates: permissions that a person gives in advance, with limits.

They decide which amendments a mandate covers, and whether its limits allow another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lifecycle.errors import NeedsConsent
from lifecycle.fold.evolve import apply_amendment
from lifecycle.payload import models as p
from lifecycle.rules.impact import Impact, find_partly_recomputed_sweeps, forecast_approval
from lifecycle.state.effort import compute_mandate_use, find_exceeded_mandate_limits, task_count
from lifecycle.state.requested_resources import cores_per_task, get_time_limit
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.mandates import (
    GRACE,
    MISSING,
    RULE,
    Mandate,
    can_actor_use_mandate,
    find_uncovered_at_key,
    is_mandate_expired,
)
from lifecycle.words.scripts import MISSING as MISSING_SCRIPT
from lifecycle.words.scripts import explain_unknown_digest, is_content_unknown
from wording import FirstReasons

_KINDS = ("parameter_change", "stage_rerun")


def find_covering_mandate(
    state: Workflow, amendment: Amendment, impact: Impact, actor: str, at: str
) -> tuple[str | None, dict[str, list[str]]]:
    """Return the name of a mandate that covers an amendment, or None if no mandate does.

    Also return the objections of each mandate that was examined. A mandate is a permission that a
    person gave in advance.
    """
    why: dict[str, list[str]] = {}
    for name in sorted(state.mandates):
        why[name] = list_objections(state, name, amendment, impact, actor, at)
        if not why[name]:
            return name, why
    return None, why


def list_objections(
    state: Workflow,
    name: str,
    amendment: Amendment,
    impact: Impact,
    actor: str,
    at: str,
    rule: int = RULE,
) -> list[str]:
    """Return the reasons why a mandate does not cover an amendment.

    The list is empty if the mandate covers it. ``actor`` decides the amendment at the time ``at``.
    ``rule`` is the version of the mandate rules that a recorded approval names in its proof.
    """
    mandate = state.mandate(name)
    if mandate is None:
        return [f"the workflow has no valid mandate {name!r:.60} (approval in advance)"]
    found = [*_find_validity_problems(state, mandate, at)]
    if not can_actor_use_mandate(mandate, actor):
        found.append(f"the mandate is for {', '.join(mandate.by)}, not for {actor}")
    found += _find_amendment_problems(mandate, amendment, rule)
    reached = {*amendment.targets, *impact.invalidated, *impact.stopped}
    for id_ in sorted(reached - {*mandate.stages}):
        found.append(
            f"the change would compute {id_} again, but the mandate does not include {id_}"
        )
    return FirstReasons(found or _find_exceeded_limits(state, mandate, amendment, impact, rule))


def _find_validity_problems(state: Workflow, mandate: Mandate, at: str) -> Iterator[str]:
    """Yield the reasons why a mandate is not valid at the time ``at``."""
    if state.plan is not None and state.plan.is_open:
        yield "no person has approved the plan yet"
    if is_mandate_expired(mandate, at):
        yield f"the mandate expired at {mandate.until}"


def _find_amendment_problems(mandate: Mandate, amendment: Amendment, rule: int) -> Iterator[str]:
    """Yield a problem for each change in an amendment that the mandate does not allow."""
    rewires = amendment.rewired or amendment.insert is not None
    if amendment.kind not in _KINDS or amendment.stage is None or rewires:
        yield "a mandate can allow only new values of a stage, and reruns"
        return
    if amendment.from_round is not None:
        yield "a person must decide which earlier rounds stay valid (from_round)"
    for field, leaves in amendment.changes.items():
        if field != "parameters":
            yield f"{amendment.stage}.{field}: the mandate gives no limits for this value"
            continue
        judge = find_uncovered_at_key if rule == RULE else _load_earlier_rule()
        for key, leaf in leaves.items():
            was, new = leaf.get("old", MISSING), leaf.get("new", MISSING)
            yield from judge(f"{amendment.stage}.parameters", key, was, new, mandate.values)


def _load_earlier_rule() -> Callable[..., Iterator[str]]:
    """Return the rule for changed values in its first version, for approvals recorded then."""
    from lifecycle.words import earlier_mandates  # few logs contain such approvals

    return earlier_mandates.find_uncovered_at_key


def _find_exceeded_limits(
    state: Workflow, mandate: Mandate, amendment: Amendment, impact: Impact, rule: int
) -> Iterator[str]:
    """Yield a problem for each limit of the mandate that the amendment would exceed."""
    so_far = compute_mandate_use(state, mandate.name, rule)
    if so_far.amendments + 1 > mandate.amendments:
        yield f"all {mandate.amendments} amendments of the mandate are used"
    reruns = len(amendment.targets) if amendment.kind == "stage_rerun" else 0
    if reruns and so_far.reruns + reruns > mandate.reruns:
        yield (
            f"{so_far.reruns} of {mandate.reruns} reruns of the mandate are used, but the "
            f"change needs {reruns} more"
        )
    yield from find_exceeded_mandate_limits(
        mandate, so_far, *compute_amendment_cost(state, amendment, impact)
    )


def compute_amendment_cost(
    state: Workflow, amendment: Amendment, impact: Impact
) -> tuple[int, float | None]:
    """Return the number of tasks that an amendment requires, and their maximum core seconds.

    The core seconds are None if a stage has no time limit.
    """
    changed = state.draft()
    apply_amendment(changed, amendment)
    known = {one.stage: one.computed for one in forecast_approval(state, amendment, impact).tasks}
    tasks, seconds = 0, 0.0
    unknown = False
    by_task = find_partly_recomputed_sweeps(state, amendment, impact)
    for id_ in dict.fromkeys([*amendment.targets, *impact.again, *by_task]):
        stage = changed.stages[id_]
        count = known[id_] if id_ in known else task_count(changed, stage)
        limit = get_time_limit(changed, stage)
        unknown = unknown or limit is None
        tasks, seconds = (
            tasks + count,
            seconds + count * cores_per_task(changed, stage) * ((limit or 0) + GRACE),
        )
    return tasks, None if unknown else seconds


def check_mandates_at_start(state: Workflow, command: p.AttemptStarted, at: str) -> None:
    """Raise `NeedsConsent` unless the mandates of the stage allow another attempt.

    These are the mandates under which the stage was changed since a person's last approval.
    """
    stage = state.stage(command.stage)
    tasks = command.tasks if command.tasks is not None else 1
    for name, why in list_refusing_mandates(state, stage, tasks, at, command.scripts).items():
        raise NeedsConsent(
            f"the limits of the mandate {name} do not allow another attempt of the stage "
            f"{stage.id}: {'; '.join(why)}. To allow more attempts, a person can run "
            f"`{command_to_widen(name)}`.",
            stage=stage.id,
            mandate=name,
            why=why,
        )


def command_to_widen(name: str) -> str:
    """Return the command with which a person extends the limits of a mandate.

    Words in capitals, such as FILE, are placeholders.
    """
    loop = name.removeprefix("rounds.")
    if loop == name:
        return f"wfctl mandate grant {name} FILE"
    return f"wfctl amend propose --set rounds.{loop}.NAME=VALUE --reason TEXT"


def list_refusing_mandates(
    state: Workflow, stage: Stage, tasks: int, at: str, scripts: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Return the mandates that do not allow an attempt of the stage, with their objections.

    If the clock was set back, the time of the last event is used instead of ``at``.
    """
    at = max(at, state.updated)
    found = {
        name: FirstReasons(_find_start_problems(state, stage, name, tasks, at, scripts or {}))
        for name in state.mandates_for(stage)
    }
    return {name: why for name, why in found.items() if why}


def _find_start_problems(
    state: Workflow, stage: Stage, name: str, tasks: int, at: str, scripts: Mapping[str, str]
) -> Iterator[str]:
    """Yield the reasons why a mandate does not allow another attempt of the stage."""
    mandate = state.mandate(name)
    if mandate is None:
        yield "a person withdrew the approval"
        return
    yield from _find_validity_problems(state, mandate, at)
    if stage.id not in mandate.stages:
        yield f"the mandate no longer includes {stage.id}"
    agreed = state.scripts
    for path, digest in scripts.items():
        if is_content_unknown(digest):
            yield explain_unknown_digest(path, digest)
        elif digest not in (agreed.get(path, MISSING_SCRIPT), *mandate.scripts.get(path, ())):
            yield f"{path} differs from the file that a person approved"
    limit = get_time_limit(state, stage)
    seconds = tasks * cores_per_task(state, stage) * (limit + GRACE) if limit else None
    yield from find_exceeded_mandate_limits(
        mandate, compute_mandate_use(state, mandate.name), tasks, seconds
    )
