"""Print lines about the progress of awaited stages from time to time, without a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from lifecycle.state.workflow import Stage, Workflow
from projections.words.stage_progress import StageProgress, compute_done_share

#: Seconds before the first line, and maximum number of seconds between two lines, if no task of a
#: sweep is running. The time between two lines is doubled each time.
_FIRST, _LONGEST = 30.0, 1800.0
#: Seconds between two lines while tasks of a sweep are running. A line is printed sooner, but not
#: before ``_SOONEST`` seconds, if the share of done tasks has grown by ``_SHARE``.
_REGULAR, _SOONEST, _SHARE = 60.0, 10.0, 0.1
#: Maximum number of stages in a line.
_SHOWN = 3


class ProgressSource(Protocol):
    """Provides the progress of stages, and describes it."""

    def read(self, state: Workflow, stage: Stage) -> StageProgress:
        """Return the progress of a stage."""

    def describe(self, state: Workflow, stage: Stage, progress: StageProgress) -> str:
        """Return one line that describes the progress of a stage."""


def list_awaited_stages(state: Workflow, ids: Collection[str]) -> list[Stage]:
    """Return the stages with the given ids that have a running attempt, in the plan's order."""
    going = (stage for stage in state.stages.values() if stage.id in ids)
    return [stage for stage in going if stage.open_attempt is not None]


class ProgressLines:
    """Prints a line about the awaited stages if enough time has passed or tasks are done.

    The function ``say`` prints the line.
    """

    def __init__(self, source: ProgressSource, say: Callable[[str], None]) -> None:
        self._source = source
        self._say = say
        self._subjects: tuple[str, ...] = ()
        self._pause = _FIRST
        self._told_at = 0.0
        #: Share of done tasks in the last line, by stage id.
        self._shares: dict[str, float] = {}

    def show(self, state: Workflow, ids: Collection[str]) -> None:
        """Print a line about the stages, if one is due."""
        stages = list_awaited_stages(state, ids)
        subjects = tuple(f"{stage.id}/{stage.attempts[-1].id}" for stage in stages)
        if subjects != self._subjects:
            self._subjects = subjects
            self._pause, self._told_at, self._shares = _FIRST, time.monotonic(), {}
        passed = time.monotonic() - self._told_at
        if not stages or passed < min(_SOONEST, self._pause):
            return
        progress = {stage.id: self._source.read(state, stage) for stage in stages}
        if not self._is_due(progress, passed):
            return
        told = [self._source.describe(state, one, progress[one.id]) for one in stages[:_SHOWN]]
        told += [f"and {len(stages) - _SHOWN} more"] if len(stages) > _SHOWN else []
        self._say(f"waiting: {'; '.join(told)}")
        self._told_at, self._pause = time.monotonic(), min(2 * self._pause, _LONGEST)
        self._shares = {id_: compute_done_share(one) for id_, one in progress.items()}

    def clear(self) -> None:
        """Do nothing, because printed lines are permanent."""

    def _is_due(self, progress: Mapping[str, StageProgress], passed: float) -> bool:
        sweeps = {id_: one for id_, one in progress.items() if one.is_sweep}
        is_running = any(one.counts["running"] for one in sweeps.values())
        grown = (
            round(compute_done_share(one) - self._shares.get(id_, 0.0), 6)
            for id_, one in sweeps.items()
        )
        is_further = passed >= _SOONEST and any(share >= _SHARE for share in grown)
        return is_further or passed >= (_REGULAR if is_running else self._pause)
