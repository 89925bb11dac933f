"""`wfctl run` and the background runner retry a stage that temporarily cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.crash.support import until
from tests.sessions.support import answer, events, stage, started, statuses, workflow
from tests.sessions.test_night_ends import notices, receiver
from tests.sessions.test_runner import BRISK, GO, ended, own_tmux  # noqa: F401 - pytest uses this fixture

pytestmark = pytest.mark.slow


def hinder(place: Place) -> Path:
    """Create a file at the path of the folder of stage-1, so that it cannot start."""
    path = place.path / "stage-1"
    path.write_text("in the way\n")
    return path


def test_temporary_hindrance_ends_an_attended_run(tmp_path: Path) -> None:
    """The run exits with 6 and gives the reason, and no stage fails."""
    place = workflow(tmp_path, stage(1))
    path = hinder(place)
    blocked = place.json("run")
    assert blocked.code == 6
    [found] = blocked.data["blocked"]
    assert (found["stage"], found["may_pass"]) == ("stage-1", True)
    assert "stage-1" in found["why"]
    path.unlink()
    place.done("run")
    assert statuses(place) == ["completed"]


@pytest.mark.long
def test_hindered_stage_is_tried_again_during_the_run(tmp_path: Path) -> None:
    """The stage starts as soon as the hindrance is gone, while another stage still runs."""
    place = workflow(tmp_path, stage(1), stage(2, GO))
    path = hinder(place)
    run = started(place, "run", "--max-parallel", "2")
    until(lambda: events(place, "stage.launched"))
    path.unlink()
    until(lambda: statuses(place)[0] == "completed")
    assert statuses(place)[1] == "running"
    (place.path / "go").touch()
    assert answer(run)["exit_reason"] == "completed"


@pytest.mark.long
def test_runner_continues_after_a_temporary_hindrance(tmp_path: Path) -> None:
    """The runner sends one notice, tries again, and completes the workflow."""
    place = workflow(tmp_path, stage(1), stage(2, after=[1]))
    path = hinder(place)
    place.done("run", "--autonomous", "--notify", receiver(tmp_path), *BRISK)
    until(lambda: len(events(place, "session.ended")) > 1)
    [told] = notices(tmp_path)
    assert told["kind"] == "failure"
    assert "the autonomous runner is waiting: blocked: stage-1: " in told["text"]
    path.unlink()
    assert ended(place) == "completed"
    until(lambda: [one["kind"] for one in notices(tmp_path)] == ["failure", "end"])
