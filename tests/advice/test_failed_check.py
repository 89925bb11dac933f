"""After the check of a sweep's results failed, each command suggests a useful step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Place
from tests.sweeps.support import begun, sweep

pytestmark = pytest.mark.slow

WIDTH = ("amend", "propose", "--stage", "stage-1", "--reason", "too wide")


@built_once
def failed_sweep(folder: Path) -> Place:
    """Run a sweep of five points, of which T=1 and T=2 fail their check."""
    check = "python3 -c \"import json; t = json.load(open('e.json'))['e']; assert t > 2, f'e {t}'\""
    parameters: dict[str, Any] = {"width": 2.5, "task_verify": check}
    one = sweep(folder / "trace", {"grid": {"T": [1, 2, 3, 4, 5]}}, **parameters)
    one["success_criteria"] = "every e is above 2"
    two = {"id": "stage-2", "name": "Fit", "depends_on": ["stage-1"]}
    place = begun(folder, one, two)
    assert place.call("run").code == 6
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a workflow whose only sweep has failed its check."""
    return failed_sweep(tmp_path)


def test_cause_names_each_failed_task_once(place: Place) -> None:
    """The cause names both failed tasks, because their messages differ."""
    error = place.done("show", "stage-1")["last_error"]
    assert error.startswith("task_verify: AssertionError: e 1")
    assert error.endswith(" in task T=1; other messages in T=2; 2 of 5 tasks failed")


def test_next_step_does_not_repeat_the_cause(place: Place) -> None:
    """`status` suggests a new parameter value, because a retry would not help."""
    text = place.call("status").out
    [line] = [one for one in text.splitlines() if one.startswith("next: ")]
    assert "a retry would give the same results; change its parameters (width)" in line
    assert "AssertionError" not in line
    assert "retries used" not in text


def test_diagnosis_names_the_failed_check(place: Place) -> None:
    """The diagnosis suggests no change of the program, because the program did not fail."""
    text = place.call("stage", "diagnose", "stage-1").out
    assert text.startswith("stage-1 att-0001: failed check\n")
    assert "next     a retry would give the same results. Propose other parameters" in text


def test_metrics_of_a_failed_stage_refer_to_its_tasks(place: Place) -> None:
    """`metrics` refers to `wfctl tasks`, which lists the metrics of the finished tasks."""
    text = place.call("metrics").out
    assert "stage-1 is failed; `wfctl tasks stage-1` lists the metrics of its 3 finished" in text


def test_each_line_of_the_log_shows_its_version(place: Place) -> None:
    """Each line of `wfctl log` shows the version of its event."""
    versions = [line.split()[0] for line in place.call("log").out.splitlines()]
    assert versions[:3] == ["v1", "v2", "v3"]


def test_pending_proposal_replaces_the_failure_in_every_list(place: Place) -> None:
    """While an amendment is pending, the lists show only the decision on the amendment."""
    place.done(*WIDTH, "--set", "parameters.width=1.5")
    kinds = [one["kind"] for one in place.done("inbox")]
    assert kinds == ["amendment"]
    text = place.call("run", "--dry-run").out
    assert text.startswith("waits for a person: wfctl amend show amend-1")
    assert "amend propose" not in text


def test_tasks_of_an_amended_sweep_are_not_shown_as_done(place: Place) -> None:
    """After the amendment, no task counts as done, because all five tasks run again."""
    place.done(*WIDTH, "--set", "parameters.width=1.5")
    place.done("amend", "approve", "amend-1")
    text = place.call("rehydrate").out
    assert "3 of 5 done" not in text
    assert "3 of 5 done" not in place.call("status").out


def test_misspelled_parameter_causes_a_question(place: Place) -> None:
    """wfctl accepts a new parameter name, and asks whether a similar one is meant."""
    answer = place.call(*WIDTH, "--set", "parameters.widht=1.5")
    assert answer.code == 0
    assert "did you mean parameters.width?" in answer.err


def test_path_from_the_top_of_the_plan_suggests_the_right_options(place: Place) -> None:
    """The message suggests `--stage` for the stage and a path within the stage."""
    answer = place.call(*WIDTH[:2], *WIDTH[4:], "--set", "stages.stage-1.parameters.width=1")
    assert answer.code == 5
    assert "--stage stage-1 --set parameters.width=VALUE" in answer.err


def test_new_criteria_warn_about_the_old_check(place: Place) -> None:
    """Changed criteria cause a warning, because `task_verify` still checks the old ones."""
    answer = place.call(*WIDTH, "--set", "success_criteria=every e is above 0")
    assert "but parameters.task_verify still checks the old criteria" in answer.err


def test_metrics_of_a_failed_fit_are_shown_as_unverified(tmp_path: Path) -> None:
    """`results` shows the metrics of a failed stage and marks them as not verified."""
    one = {
        "id": "stage-1",
        "name": "Fit",
        "outputs": ["stage-1/fit.json"],
        "success_criteria": "r2 is at least 0.98",
        "parameters": {
            "command": "echo '{\"r2\": 0.95}' > fit.json",
            "verify": "false",
            "metrics": {"r2": "fit.json#/r2"},
        },
    }
    place = begun(tmp_path, one)
    assert place.call("run").code == 6
    assert "r2 = 0.95 (stage-1 failed: not verified)" in place.call("results").out
    shown = place.call("show", "stage-1").out
    assert "job SUCCEEDED: " in shown
    assert "; then its results failed their check" in shown
