"""The cost of a session: what a stage's work weighs, and what the budget still allows.

Source of classes, weights and the estimate: the staged-workflow protocol ("A session").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.document import default_session_config
from lifecycle.words.values import MAX_WEIGHT

if TYPE_CHECKING:
    from lifecycle.payload import models as p

WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return what a class costs: as ``session_config.stage_weights`` says, else as usual."""
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    # An imported file may hold anything, and what is charged has bounds.
    return own if _is_number(own) and 0 <= own <= MAX_WEIGHT else usual[work_class]


def budget_of(state: Workflow) -> float:
    """Return what a session may cost."""
    found = state.session_config.get("session_budget")
    return found if _is_number(found) else default_session_config()["session_budget"]


def _is_number(found: Any) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a ``session_config``, as far as it steers sessions."""
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


def class_of(state: Workflow, stage: Stage) -> WorkClass:
    """Return the class of the stage's work that has just ended; of several, the heaviest.

    sync: local, without an error, in one attempt that nobody waited for elsewhere; async: remote
    or waited for; error_cycle: it failed or was retried; diagnostic: a diagnostic run.
    """
    attempt = None if stage.reused else stage.attempt
    remote = state.backend_type(stage) == "remote" and not stage.reused
    waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
    # Of classes of the same weight the first one is named.
    is_of: dict[WorkClass, bool] = {
        "diagnostic": attempt is not None and attempt.diagnostic,
        "error_cycle": stage.retry_count > 0 or stage.status is Status.FAILED,
        "async": remote or waited,
    }
    found: list[WorkClass] = [name for name, holds in is_of.items() if holds]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def charges(state: Workflow) -> list[p.CostCharged]:
    """Return the charges that are due: each end of a stage is charged once.

    What ended while no session was open is charged to the next one.
    """
    if not state.session.is_open:
        return []
    due = {s.id: class_of(state, s) for s in state.stages.values() if s.uncharged}
    if not due:
        return []  # a read that weighs a stage charges nothing, and needs no model
    from lifecycle.payload import models as p

    return [
        p.CostCharged(stage=id_, weight=weight_of(state, work), work_class=work)
        for id_, work in due.items()
    ]


#: Seconds below which a local stage that says how long it takes is waited for in place.
_SYNC_BELOW = 120


def is_short(state: Workflow, stage: Stage) -> bool:
    """Whether the stage is computed in place: local, and said to take less than two minutes."""
    expected: Any = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and _is_number(expected) and bool(expected < _SYNC_BELOW)


def estimate(state: Workflow, stage: Stage) -> float:
    """Return what the end of the stage will be charged, if it goes well.

    By the class that it will be of: retried before, waited for elsewhere, or computed in place.
    """
    found = weight_of(state, "sync" if is_short(state, stage) else "async")
    return max(found, weight_of(state, "error_cycle")) if stage.retry_count else found


def affords(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Whether the stage may be begun in this session, beside those that are under way."""
    reserved = sum(estimate(state, other) for other in under_way)
    return state.session.cost + reserved + estimate(state, stage) <= budget_of(state)


def is_beyond(state: Workflow, stage: Stage) -> bool:
    """Whether no session, however new, can afford the stage."""
    return estimate(state, stage) > budget_of(state)
