"""Read the progress of running stages repeatedly, but the tasks of a large sweep only rarely."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lifecycle.state.workflow import Stage, Workflow
from projections.words.stage_progress import StageProgress
from reconciler.sweep.stage_tasks import get_stage_tasks

#: Minimum number of seconds between two reads of a sweep's tasks. If a read takes longer, the time
#: until the next read is the given multiple of its duration.
_PAUSE, _TIMES = 1.0, 20


class ProgressReader:
    """Reads the progress of running stages, for a display that is updated often."""

    def __init__(self, root: Path, clock: Callable[[], datetime]) -> None:
        self._root = root
        self._clock = clock
        #: Attempt → its progress at the last read, and the time of the next read.
        self._known: dict[tuple[str, str], tuple[StageProgress, float]] = {}

    def read(self, state: Workflow, stage: Stage) -> StageProgress:
        """Return the progress of a stage. Its task counts may be some seconds old."""
        key = stage.id, stage.attempt.id if stage.attempt is not None else ""
        known, due = self._known.get(key, (None, 0.0))
        start = time.monotonic()
        if known is None or start >= due:
            known = get_stage_tasks(self._root, state, stage).measure(self._clock())
            end = time.monotonic()
            self._known[key] = known, end + max(_PAUSE, _TIMES * (end - start))
        return known

    def read_running(self, state: Workflow) -> dict[str, StageProgress]:
        """Return the progress of each stage with a running attempt, by stage id."""
        stages = [stage for stage in state.stages.values() if stage.open_attempt is not None]
        return {stage.id: self.read(state, stage) for stage in stages}
