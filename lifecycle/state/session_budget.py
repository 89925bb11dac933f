"""The budget of a session: the work that one session may start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from lifecycle.state.requested_resources import find_growing_resource
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.document import default_session_config
from lifecycle.words.limits import MAX_WEIGHT

if TYPE_CHECKING:
    from lifecycle.payload import models as p
from lifecycle.state.conditions import WorkClass


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return the cost of a class of work, as configured in ``session_config.stage_weights``.

    Without a valid configured value, return the default.
    """
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    # An imported file may contain any weight, but the log accepts only charges within limits.
    return own if _is_number(own) and 0 <= own <= MAX_WEIGHT else usual[work_class]


def maximum_session_cost(state: Workflow) -> float:
    """Return the maximum total cost of the work in one session."""
    found = state.session_config.get("session_budget")
    return found if _is_number(found) else default_session_config()["session_budget"]


def _is_number(found: Any) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return the problems of those fields of ``session_config`` that control sessions."""
    weights = config.get("stage_weights", {})
    named = {"session_budget": config.get("session_budget", 0)}
    if isinstance(weights, dict):
        named |= {f"stage_weights.{name}": weight for name, weight in weights.items()}
    problems = [
        f"session_config.{place}: expected a number from 0 to {MAX_WEIGHT:g} (found {value!r:.80})"
        for place, value in named.items()
        if not _is_number(value) or not 0 <= value <= MAX_WEIGHT
    ]
    if not isinstance(weights, dict):
        problems.append(f"session_config.stage_weights: expected an object (found {weights!r:.80})")
    reuse, pin = config.get("reuse", "offer"), config.get("pin", {})
    pins = isinstance(pin, dict) and all(isinstance(one, str) for one in pin.values())
    others = {
        "reuse": (reuse in ("offer", "take", "never"), "offer, take or never"),
        "pin": (pins, "scripts, or an object of files with their SHA-256"),
        "autonomous": (isinstance(config.get("autonomous", False), bool), "true or false"),
    }
    return problems + [
        f"session_config.{name}: expected {expected} (found {config[name]!r:.80})"
        for name, (fits, expected) in others.items()
        if not fits
    ]


def classify_ended_work(state: Workflow, stage: Stage) -> WorkClass:
    """Return the cost class of the work that a stage has just ended.

    The classes are "sync" (a successful local attempt that runs in the foreground), "async" (remote
    or in the background), "error_cycle" (failed or retried) and "diagnostic" (a diagnostic run). If
    several classes apply, return the most expensive one.
    """
    attempt = None if stage.reused else stage.attempt
    remote = state.backend_type(stage) == "remote" and not stage.reused
    waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
    # Order matters: if two classes have the same weight, the first one is used.
    is_of: dict[WorkClass, bool] = {
        "diagnostic": attempt is not None and attempt.diagnostic,
        "error_cycle": stage.retry_count > 0 or stage.status is Status.FAILED,
        "async": remote or waited,
    }
    found: list[WorkClass] = [name for name, holds in is_of.items() if holds]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def build_cost_charges(state: Workflow) -> list[p.CostCharged]:
    """Return the events that charge the costs of ended work to the open session.

    Each end of a stage is charged once. Work that ended while no session was open is charged to the
    next session. An attempt is not charged if the next one requests more of a resource, because the
    plan gives the ceiling. Return an empty list if no session is open.
    """
    if not state.session.is_open:
        return []
    due = {
        stage.id: classify_ended_work(state, stage)
        for stage in state.stages.values()
        if stage.uncharged and find_growing_resource(state, stage) is None
    }
    if not due:
        return []  # a read-only call charges nothing and needs no model
    from lifecycle.payload import models as p

    return [
        p.CostCharged(stage=id_, weight=weight_of(state, work), work_class=work)
        for id_, work in due.items()
    ]


#: A local stage with a lower expected run time, in seconds, runs in the foreground.
_SYNC_BELOW = 120


def is_foreground_stage(state: Workflow, stage: Stage) -> bool:
    """Return whether a stage runs in the foreground: a local stage of less than two minutes."""
    expected: Any = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and _is_number(expected) and bool(expected < _SYNC_BELOW)


def estimate_stage_cost(state: Workflow, stage: Stage) -> float:
    """Return the expected cost of a stage if it succeeds.

    The cost depends on whether the stage runs in the foreground and whether it is a retry.
    """
    found = weight_of(state, "sync" if is_foreground_stage(state, stage) else "async")
    return max(found, weight_of(state, "error_cycle")) if stage.retry_count else found


def can_afford_stage(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Return whether the rest of the session's budget covers the stage.

    The estimated costs of the running stages (``under_way``) are subtracted first.
    """
    reserved = sum(estimate_stage_cost(state, other) for other in under_way)
    return state.session.cost + reserved + estimate_stage_cost(
        state, stage
    ) <= maximum_session_cost(state)


def is_over_session_budget(state: Workflow, stage: Stage) -> bool:
    """Return whether the estimated cost of the stage exceeds the whole budget of a session."""
    return estimate_stage_cost(state, stage) > maximum_session_cost(state)
