"""In a sweep, only the tasks that had too little of a resource run again with more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.growth.support import GROWTH, create_workflow, get_stage, list_requests

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: A task needs as many GB as its value ``T``. The task with the value 9 has an error of its own.
COMMAND = (
    'echo "$WFCTL_PARAM_T" >> {trace}; [ "$WFCTL_PARAM_T" != 9 ] || exit 3; '
    '[ "$WFCTL_MEMORY_GB" -ge "$WFCTL_PARAM_T" ] || {end}; echo ok > out.txt'
)


def make_sweep(trace: Path, end: str, points: list[int], **parameters: Any) -> dict[str, Any]:
    """Return a sweep whose tasks need different amounts of memory."""
    return {
        "id": "stage-1",
        "name": "Sweep",
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {
            "command": COMMAND.format(trace=trace, end=end),
            "verify": "true",
            "map": {"grid": {"T": points}},
            "task_outputs": ["out.txt"],
            "resources": {"memory_gb": GROWTH},
            **parameters,
        },
    }


@pytest.mark.parametrize("end", ["exit 137", "{ echo MemoryError >&2; exit 1; }"])
def test_only_the_tasks_that_needed_more_memory_run_again(tmp_path: Path, end: str) -> None:
    """Finished tasks stay, and the others get 2 and then 4 GB."""
    trace = tmp_path / "trace"
    place = create_workflow(tmp_path, make_sweep(trace, end, [1, 2, 3, 4]))
    assert place.call("run").code == 0, get_stage(place)
    assert Counter(trace.read_text().split()) == {"1": 1, "2": 2, "3": 3, "4": 3}
    assert list_requests(place) == [1, 2, 4]


def test_killed_tasks_do_not_run_again_at_the_ceiling(tmp_path: Path) -> None:
    """The stage fails as soon as a task had the most memory that the plan allows."""
    trace, growth = tmp_path / "trace", {"start": 1, "times": 2, "at_most": 2}
    sweep = make_sweep(trace, "exit 137", [1, 2, 3, 4], resources={"memory_gb": growth})
    place = create_workflow(tmp_path, sweep)
    assert place.call("run").code == 6
    assert Counter(trace.read_text().split()) == {"1": 1, "2": 2, "3": 2, "4": 2}
    assert list_requests(place) == [1, 2]


def test_task_with_another_error_is_not_repeated_by_the_growth(tmp_path: Path) -> None:
    """The plan tolerates the failure of this task, so the stage is completed."""
    trace = tmp_path / "trace"
    sweep = make_sweep(trace, "exit 137", [1, 2, 3, 9], tolerate=0.3)
    place = create_workflow(tmp_path, sweep)
    assert place.call("run").code == 0, get_stage(place)
    assert Counter(trace.read_text().split()) == {"1": 1, "2": 2, "3": 3, "9": 1}


def test_tasks_at_their_time_limit_get_more_time(tmp_path: Path) -> None:
    """The time limit applies to each task."""
    sweep = make_sweep(tmp_path / "trace", "false", [1, 8])
    growth = {"start": 2, "times": 20, "at_most": 60}
    sweep["parameters"] |= {
        "command": 'sleep "$WFCTL_PARAM_T"; echo ok > out.txt',
        "resources": {"time_limit": growth},
    }
    place = create_workflow(tmp_path, sweep)
    assert place.call("run").code == 0, get_stage(place)
    assert list_requests(place, "time_limit") == [2, 40]
