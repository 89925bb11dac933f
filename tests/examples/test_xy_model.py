"""The XY example: a study with a failing point, a kill, and changes of its plan."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, wfctl

EXAMPLE = HERE / "examples/xy-model"
#: Replacements that make the plan small.
SMALL = {"sweeps = 3000": "sweeps = 400", "largest_error = 0.005": "largest_error = 0.05"}


@pytest.fixture
def study(tmp_path: Path) -> Place:
    """Return the folder of a small copy of the example, without a workflow."""
    place = Place(tmp_path / "xy")
    shutil.copytree(EXAMPLE, place.path)
    for old, new in SMALL.items():
        edit(place, old, new)
    return place


def edit(place: Place, old: str, new: str) -> None:
    """Replace a text that occurs once in the plan."""
    plan = place.path / "plan.toml"
    text = plan.read_text()
    assert text.count(old) == 1
    plan.write_text(text.replace(old, new))


def apply_plan(place: Place) -> None:
    """Apply the edited plan, and run the workflow."""
    place.done("plan", "apply", str(place.path / "plan.toml"), "--reason", "the next step")
    place.done("run")


def tasks_computed(place: Place) -> int:
    """Return the number of tasks that all attempts together computed."""
    events: list[dict[str, Any]] = place.done("events", "--type", "attempt.started")
    return sum(event["data"].get("tasks") or 0 for event in events)


def test_plan_is_short() -> None:
    """The plan has at most 50 lines."""
    assert len((EXAMPLE / "plan.toml").read_text().splitlines()) <= 50


@pytest.mark.long
def test_one_more_temperature_computes_two_tasks(study: Place) -> None:
    """A new point costs one task in each sweep, and a new criterion costs none."""
    study.done("init", str(study.path / "plan.toml"), "--consent", "trust")
    study.done("run")
    before = tasks_computed(study)

    edit(study, "0.94, 0.98", "0.94, 0.96, 0.98")
    apply_plan(study)
    after = tasks_computed(study)
    edit(study, "largest_error = 0.05", "largest_error = 0.06")
    apply_plan(study)

    assert (before, after - before, tasks_computed(study) - after) == (28, 2, 0)
    assert study.done("results")["results"][0]["number"]["name"] == "T_x"


@pytest.mark.long
def test_failing_first_temperature_stops_the_study(study: Place) -> None:
    """The model has no temperature 0. The other tasks run only after the plan is corrected."""
    edit(study, "[0.70, ", "[0.0, ")
    study.done("init", str(study.path / "plan.toml"), "--consent", "trust")
    assert study.json("run").code == 6
    assert tasks_computed(study) == 1

    edit(study, "[0.0, ", "[0.70, ")
    apply_plan(study)

    assert study.done("status")["status"] == "completed"


@pytest.mark.long
def test_killed_study_computes_no_finished_task_again(study: Place) -> None:
    """A study whose processes were all killed continues with the next `wfctl run`."""
    study.done("init", str(study.path / "plan.toml"), "--consent", "trust")
    line = [sys.executable, "-m", "cli.main", "--root", str(study.path), "run"]
    run = subprocess.Popen(line, cwd=HERE, start_new_session=True)
    while len(list(study.path.glob("simulate/tasks/T=*"))) < 5:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in study.path.glob("simulate/tasks/T=*")}

    study.done("run")

    assert study.done("status")["status"] == "completed"
    assert all(
        (study.path / "simulate/tasks" / name).stat().st_mtime_ns == at for name, at in kept.items()
    )


@pytest.mark.long
def test_second_variant_is_made_from_the_exported_plan(study: Place, tmp_path: Path) -> None:
    """The exported plan with another size gives another study, and the first is unchanged."""
    study.done("init", str(study.path / "plan.toml"), "--consent", "trust")
    study.done("run")
    first = study.done("results")["results"][0]["number"]["value"]

    other = Place(tmp_path / "other")
    shutil.copytree(EXAMPLE, other.path)
    (other.path / "plan.toml").write_text(wfctl("--root", str(study.path), "export", "plan").out)
    edit(other, "L = 10", "L = 6")
    other.done("init", str(other.path / "plan.toml"), "--consent", "trust")
    other.done("run")

    assert other.done("results")["results"][0]["number"]["value"] != first
    assert study.done("results")["results"][0]["number"]["value"] == first
