"""What an amendment would do if it were approved now. Pure, over the state alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lifecycle.dependencies import downstream
from lifecycle.evolve_amendments import apply
from lifecycle.status import ACTIVE, Status
from lifecycle.workflow import Amendment, Attempt, Stage, Workflow

#: Fields that say what a stage is called or means, not what it computes.
_HARMLESS = frozenset({"name"})


@dataclass(frozen=True, slots=True)
class Impact:
    """What an approval brings about; stages in array order.

    ``seconds`` is the computing time thrown away by stage, from the recorded attempts.
    """

    #: Every stage that is transitively affected, whatever its status.
    affected: tuple[str, ...] = ()
    #: Completed stages that become invalidated.
    invalidated: tuple[str, ...] = ()
    #: Stages under way that are stopped: stage → attempt, None where none was started.
    stopped: Mapping[str, str | None] = field(default_factory=dict)
    #: Stages under way that go on, though what they started from becomes stale.
    outdated: tuple[str, ...] = ()
    #: Stage → the folder that its outputs are kept as before it runs again.
    kept: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def binding(self) -> dict[str, Any]:
        """Return what an approval is bound to: everything but the time, which runs on."""
        return {
            "affected": list(self.affected),
            "invalidated": list(self.invalidated),
            "stopped": dict(self.stopped),
            "outdated": list(self.outdated),
            "kept": dict(self.kept),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self.binding(), "seconds_thrown_away": dict(self.seconds)}


def impact_of(
    state: Workflow,
    amendment: Amendment,
    found: Mapping[str, int] | None = None,
    now: str | None = None,
) -> Impact:
    """Return the impact of approving the amendment in ``state``.

    ``found`` gives by stage the highest K of the ``stage-N.vK`` on the disk; ``now`` (UTC,
    ISO 8601) ends the time of what is still running.
    """
    changed = state.draft()
    apply(changed, amendment)
    direct = _direct(state, changed, amendment)
    reached = direct | downstream(_graph(state), direct) | downstream(_graph(changed), direct)
    if amendment.kind == "stage_skip":
        reached.discard(str(amendment.stage))
    affected = [stage for stage in state.stages.values() if stage.id in reached]
    stopped = [s for s in state.stages.values() if s.id in direct and s.status in ACTIVE]
    invalidated = [stage for stage in affected if stage.status is Status.COMPLETED]
    return Impact(
        affected=_ids(affected),
        invalidated=_ids(invalidated),
        stopped={s.id: s.attempts[-1].id if s.attempts else None for s in stopped},
        outdated=_ids([s for s in affected if s.status in ACTIVE and s not in stopped]),
        kept=_kept(_to_be_kept(amendment, affected, direct), found or {}),
        seconds=_seconds([*invalidated, *stopped], now),
    )


def _ids(stages: list[Stage]) -> tuple[str, ...]:
    return tuple(stage.id for stage in stages)


def _graph(state: Workflow) -> dict[str, list[str]]:
    return {stage.id: stage.depends_on for stage in state.stages.values()}


def _direct(state: Workflow, changed: Workflow, amendment: Amendment) -> set[str]:
    """Return the stages whose own definition is no longer what their results came from."""
    found = set(amendment.rewired)
    if amendment.stage is not None:
        harmless = bool(amendment.changes) and set(amendment.changes) <= _HARMLESS
        return found if harmless else found | {amendment.stage}
    return found | {
        stage.id
        for stage in state.stages.values()
        if _backend(state, stage) != _backend(changed, changed.stages[stage.id])
    }


def _backend(state: Workflow, stage: Stage) -> Any:
    return (stage.backend or state.default_backend, state.profile(stage))


def _to_be_kept(amendment: Amendment, affected: list[Stage], direct: set[str]) -> list[Stage]:
    """Return the stages that run again and have something to keep."""
    rerun = amendment.stage if amendment.kind == "stage_rerun" else None
    return [
        stage
        for stage in affected
        if stage.status is Status.COMPLETED
        or (stage.status in ACTIVE and stage.id in direct and _has_run(stage))
        or (stage.status is Status.FAILED and stage.id == rerun and _has_run(stage))
    ]


def _has_run(stage: Stage) -> bool:
    return bool(stage.attempts) and stage.keep_as is None


def _kept(stages: list[Stage], found: Mapping[str, int]) -> dict[str, str]:
    return {s.id: f"{s.id}.v{max(s.kept, found.get(s.id, 0)) + 1}" for s in stages}


def _seconds(stages: list[Stage], now: str | None) -> dict[str, float]:
    return {s.id: _span(s.attempts[-1], now) for s in stages if s.attempts}


def _span(attempt: Attempt, now: str | None) -> float:
    end = attempt.ended_at or now or attempt.started_at
    span = datetime.fromisoformat(end) - datetime.fromisoformat(attempt.started_at)
    return max(0.0, span.total_seconds())
