"""The cost of a session: what a stage's work weighs, and what the budget still allows.

Source of classes, weights and the estimate: the staged-workflow protocol ("A session").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lifecycle.document import default_session_config
from lifecycle.payload import CostCharged
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow

WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]

#: Of classes of the same weight the first one is named.
_CLASSES: tuple[WorkClass, ...] = ("diagnostic", "error_cycle", "async", "sync")


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return what a class costs: as ``session_config.stage_weights`` says, else as usual."""
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    return _number(own, usual[work_class])


def budget_of(state: Workflow) -> float:
    """Return what a session may cost."""
    return _number(
        state.session_config.get("session_budget"), default_session_config()["session_budget"]
    )


def _number(found: Any, otherwise: float) -> float:
    """Return what was found where it is a number; an imported file may hold anything."""
    return found if _is_number(found) else otherwise


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a ``session_config``, as far as it steers sessions."""
    weights = config.get("stage_weights", {})
    named = {"session_budget": config.get("session_budget", 0)}
    if isinstance(weights, dict):
        named |= {f"stage_weights.{name}": weight for name, weight in weights.items()}
    problems = [
        f"session_config.{place}: expected a number, 0 or more (found {value!r:.80})"
        for place, value in named.items()
        if not _is_number(value) or value < 0
    ]
    if not isinstance(weights, dict):
        problems.append(f"session_config.stage_weights: expected an object (found {weights!r:.80})")
    autonomous = config.get("autonomous", False)
    if not isinstance(autonomous, bool):
        expected = "expected true or false"
        problems.append(f"session_config.autonomous: {expected} (found {autonomous!r:.80})")
    return problems


def class_of(state: Workflow, stage: Stage) -> WorkClass:
    """Return the class of the stage's work that has just ended; of several, the heaviest.

    sync: local, without an error, in one attempt that nobody waited for elsewhere; async: remote
    or waited for; error_cycle: it failed or was retried; diagnostic: a diagnostic run.
    """
    found = [name for name in _CLASSES if _is_of(state, stage, name)]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def _is_of(state: Workflow, stage: Stage, work_class: WorkClass) -> bool:
    attempt = stage.attempt
    match work_class:
        case "diagnostic":
            return attempt is not None and attempt.diagnostic
        case "error_cycle":
            return stage.retry_count > 0 or stage.status is Status.FAILED
        case "async":
            waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
            return state.backend_type(stage) == "remote" or waited
        case "sync":
            return False  # what is left where nothing else holds


def charges(state: Workflow) -> list[CostCharged]:
    """Return the charges that are due: each end of a stage in an open session is charged once."""
    if not state.session.is_open:
        return []
    due = [stage for stage in state.stages.values() if stage.uncharged]
    return [_charge(state, stage) for stage in due]


def _charge(state: Workflow, stage: Stage) -> CostCharged:
    work_class = class_of(state, stage)
    return CostCharged(stage=stage.id, weight=weight_of(state, work_class), work_class=work_class)


def estimate(state: Workflow, stage: Stage) -> float:
    """Return what the stage will cost, as far as its backend tells: local sync, remote async."""
    remote = state.backend_type(stage) == "remote"
    return weight_of(state, "async" if remote else "sync")


def affords(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Whether the stage may be begun in this session, beside those that are under way."""
    reserved = sum(estimate(state, other) for other in under_way)
    return state.session.cost + reserved + estimate(state, stage) <= budget_of(state)
