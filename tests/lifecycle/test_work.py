"""The two kinds of work of a stage: a single job, or one task for each point of a map."""

from __future__ import annotations

import pytest

from lifecycle.sweeps.work import MappedWork, PlainWork, build_work
from reconciler.sweep.stage_tasks import NoTasks, StageTasks

_MAP = {"command": "true", "map": {"points": [{"i": 0}, {"i": 1}]}, "task_outputs": ["out"]}


@pytest.mark.parametrize("kinds", [(PlainWork, MappedWork), (NoTasks, StageTasks)])
def test_both_kinds_of_work_have_the_same_interface(kinds: tuple[type, type]) -> None:
    """Both classes have the same public names, so that callers need not distinguish them."""
    one, other = ({name for name in dir(kind) if not name.startswith("_")} for kind in kinds)
    assert one == other


def test_stage_without_a_map_has_no_task_files() -> None:
    """The stage has no task folder and no task table, and its job writes the outputs."""
    work = build_work("stage-1", {"command": "true", "task_outputs": ["out"]})
    assert (work.tables, work.task_folders, work.listed_points()) == ((), (), ())
    assert work.job_outputs(["stage-1/out"]) == ["stage-1/out"]
    assert work.command_parameters == {"command": "true", "task_outputs": ["out"]}
    assert not work.keeps_tasks(work)


def test_stage_with_a_map_has_a_task_folder_and_two_tables() -> None:
    """The stage has the folder tasks and the tables tasks.csv and tasks.json."""
    work = build_work("stage-1", _MAP)
    assert work.task_folders == ("stage-1/tasks",)
    assert work.tables == ("stage-1/tasks.csv", "stage-1/tasks.json")
    assert len(work.listed_points()) == 2
    assert not work.job_outputs(["stage-1/tasks.csv"])


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"map": {"points": [{"i": 2}]}}, True),
        ({"task_verify": "test -s out"}, True),
        ({"command": "false"}, False),
        ({"task_outputs": ["other"]}, False),
        ({"map": None}, False),
    ],
)
def test_finished_tasks_are_kept_unless_their_computation_changes(
    changes: dict[str, object], is_kept: bool
) -> None:
    """wfctl keeps finished tasks if the points or the check change, but not for a new command."""
    assert build_work("stage-1", _MAP).keeps_tasks(build_work("stage-1", _MAP | changes)) is is_kept
