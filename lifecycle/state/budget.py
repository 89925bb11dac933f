"""The cost of a session: what a stage's work weighs, and what the budget still allows.

Source of classes, weights and the estimate: the staged-workflow protocol ("A session").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.document import default_session_config
from lifecycle.words.values import MAX_WEIGHT

if TYPE_CHECKING:
    from lifecycle.payload import models as p

WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]

#: Of classes of the same weight the first one is named.
_CLASSES: tuple[WorkClass, ...] = ("diagnostic", "error_cycle", "async", "sync")


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return what a class costs: as ``session_config.stage_weights`` says, else as usual."""
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = _number(given.get(work_class) if isinstance(given, dict) else None, usual[work_class])
    # An imported file may hold anything, and what is charged has bounds.
    return own if 0 <= own <= MAX_WEIGHT else usual[work_class]


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
        f"session_config.{place}: expected a number from 0 to {MAX_WEIGHT:g} (found {value!r:.80})"
        for place, value in named.items()
        if not _is_number(value) or not 0 <= value <= MAX_WEIGHT
    ]
    if not isinstance(weights, dict):
        problems.append(f"session_config.stage_weights: expected an object (found {weights!r:.80})")
    reuse = config.get("reuse", "offer")
    if reuse not in ("offer", "take", "never"):
        expected = "expected offer, take or never"
        problems.append(f"session_config.reuse: {expected} (found {reuse!r:.80})")
    pin = config.get("pin", {})
    if not isinstance(pin, dict) or not all(isinstance(one, str) for one in pin.values()):
        expected = "expected scripts, or an object of files with their SHA-256"
        problems.append(f"session_config.pin: {expected} (found {pin!r:.80})")
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
    attempt = None if stage.reused else stage.attempt
    match work_class:
        case "diagnostic":
            return attempt is not None and attempt.diagnostic
        case "error_cycle":
            return stage.retry_count > 0 or stage.status is Status.FAILED
        case "async":
            waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
            remote = state.backend_type(stage) == "remote" and not stage.reused
            return remote or waited
        case "sync":
            return False  # what is left where nothing else holds


def charges(state: Workflow) -> list[p.CostCharged]:
    """Return the charges that are due: each end of a stage is charged once.

    What ended while no session was open is charged to the next one.
    """
    if not state.session.is_open:
        return []
    due = [stage for stage in state.stages.values() if stage.uncharged]
    return [_charge(state, stage) for stage in due]


def _charge(state: Workflow, stage: Stage) -> p.CostCharged:
    from lifecycle.payload import models as p  # a read that weighs a stage charges nothing

    work_class = class_of(state, stage)
    return p.CostCharged(stage=stage.id, weight=weight_of(state, work_class), work_class=work_class)


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
