"""A submission is checked by DPDispatcher unless one of the same form was accepted before."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from reconciler.errors import RejectedSubmission
from reconciler.submission import build as submission
from reconciler.submission.build import StageJob
from reconciler.submission.form import describe_form
from tests.reconciler.support import OUTPUT, PROFILE, WRITE, Stage

ODD = "\N{SNOWMAN} $x '\" \\ {a} 1.5 Shell"
#: Field of a submission → another value of it that is a free text, as a path of keys.
FREE = [
    ("machine", "local_root"),
    ("machine", "remote_root"),
    ("resources", "prepend_script"),
    ("resources", "envs"),
    ("task_list", "command"),
    ("task_list", "task_work_path"),
    ("task_list", "forward_files"),
    ("task_list", "backward_files"),
    ("task_list", "outlog"),
]
#: Changes after which DPDispatcher may judge a submission differently.
OTHER: list[tuple[tuple[str, ...], Any]] = [
    (("machine", "batch_type"), "Slurm"),
    (("machine", "retry_count"), "2"),
    (("resources", "number_node"), "two"),
    (("resources", "prepend_script"), [1]),
    (("resources", "envs"), ["A"]),
    (("task_list", "command"), 3),
    (("task_list", "outlgo"), "log"),
    (("forward_comon_files",), []),
]


def build() -> dict[str, Any]:
    """Return a submission as wfctl builds it for an ordinary stage."""
    given = submission.build_submission(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    given["machine"]["local_root"] = given["machine"]["remote_root"] = "."
    given["resources"]["prepend_script"] = ["true"]
    given["resources"]["envs"] = {"A": "b"}
    given["task_list"][0]["forward_files"] = ["in.txt"]
    return given


def change(given: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a copy of a submission with another value of one field."""
    changed = copy.deepcopy(given)
    place: Any = changed
    for key in path[:-1]:
        place = place[key][0] if key == "task_list" else place[key]
    place[path[-1]] = value
    return changed


def replace_texts(value: Any) -> Any:
    """Return a value with all texts replaced by an odd one."""
    if isinstance(value, dict):
        return dict.fromkeys(("ODD", "OTHER"), ODD)
    return [ODD, ODD] if isinstance(value, list) else ODD


def read(given: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Return the value of one field of a submission."""
    place: Any = given
    for key in path:
        place = place[key][0] if key == "task_list" else place[key]
    return place


@pytest.mark.parametrize("path", FREE, ids=".".join)
def test_another_free_text_gives_the_same_form(path: tuple[str, ...]) -> None:
    """A text that may have any value needs no new check."""
    given = build()
    assert describe_form(change(given, path, replace_texts(read(given, path)))) == describe_form(
        given
    )


@pytest.mark.parametrize(("path", "value"), OTHER, ids=str)
def test_another_field_or_type_gives_another_form(path: tuple[str, ...], value: Any) -> None:
    """A changed setting, type or name of a field needs a new check."""
    assert describe_form(change(build(), path, value)) != describe_form(build())


def test_dpdispatcher_accepts_odd_free_texts(stage: Stage) -> None:
    """DPDispatcher does not look at the contents of free texts."""
    given = build()
    for path in FREE[2:]:
        given = change(given, path, replace_texts(read(given, path)))
    given["task_list"][0]["forward_files"] = []  # wfctl itself requires that these files exist
    stage.runner().check(stage.attempt(), given)


def test_wrong_type_is_rejected_after_a_submission_of_another_form(stage: Stage) -> None:
    """An accepted submission does not vouch for one of another form."""
    runner = stage.runner()
    given = submission.build_submission(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    runner.check(stage.attempt(), given)
    given["resources"]["number_node"] = "two"
    with pytest.raises(RejectedSubmission):
        runner.check(stage.attempt(), given)


def test_second_submission_of_a_form_is_not_checked_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow check runs once for all stages of the same form."""
    runner, checked = stage.runner(), []
    check = runner._check_with_dpdispatcher

    def count(*arguments: Any) -> None:
        checked.append(arguments)
        check(*arguments)

    monkeypatch.setattr(runner, "_check_with_dpdispatcher", count)
    for command in ("echo 1 > out", "echo 2 > out"):
        job = StageJob("stage-1", command, outputs=(OUTPUT,))
        runner.check(stage.attempt(), submission.build_submission(job, PROFILE))
    assert len(checked) == 1
