"""Amendments that stop real running jobs, and stages that run again afterwards."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from reconciler.host import processes
from reconciler.host.file_locks import is_lock_held
from tests.amendments.support import Place, make

pytestmark = pytest.mark.slow

PLAN: dict[str, Any] = {
    "workflow_id": "long-2026-03-31",
    "stages": [
        {
            "id": "stage-1",
            "name": "Wait",
            "outputs": ["stage-1/out.txt"],
            "parameters": {
                "command": "sleep $WFCTL_PARAM_seconds && echo $WFCTL_PARAM_seconds > out.txt",
                "seconds": 300,
            },
        }
    ],
}
SHORTER = ("--stage", "stage-1", "--set", "parameters.seconds=0", "--reason", "too long")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Create a workflow with a long job, without tmux."""
    monkeypatch.setattr("reconciler.host.tmux_sessions.is_installed", lambda *_: False)
    return make(tmp_path / "root", "--consent", "trust", plan=PLAN)


def at_work(place: Place) -> bool:
    """Return whether a process runs below the root, or a monitor holds its lock."""
    inside = processes.find_processes_below(processes.list_user_processes(), place.path)
    return bool(inside) or bool(is_lock_held(place.path / "stage-1/.monitor.lock"))


def started(place: Place) -> None:
    """Wait until the job has started."""
    deadline = time.monotonic() + 60
    while not list(place.path.glob("stage-1/.attempts/att-0001-*/job-*.started")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_superseded_job_is_stopped_and_the_stage_runs_again(place: Place) -> None:
    """The approval ends monitor and job, and the next attempt uses the new value."""
    place.done("dispatch", "stage-1")
    started(place)
    assert at_work(place)
    assert place.propose(*SHORTER)["impact"]["stopped"] == {"stage-1": "att-0001"}
    place.approve()
    assert not at_work(place)
    cause = "stopped, because the amendment amend-1 (parameter_change of stage-1) was approved"
    for sentence in (
        f"status -> failed ({cause}",
        "status -> ready (changed by amend-1)",
        "att-0001 stopped (because of an approved amendment): ",
    ):
        assert sentence in place.log()
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "0\n"
    assert len(list(place.path.glob("stage-1.v1/.attempts/att-0001-*/submission.json"))) == 1
    assert place.done("show", "stage-1")["retry_count"] == 0
    assert place.call("replay", "--check").code == 0


def test_next_dispatch_stops_a_job_that_an_approval_left_running(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the approving command died before it stopped the job, `dispatch` stops the job."""
    place.done("dispatch", "stage-1")
    started(place)
    place.propose(*SHORTER)
    with monkeypatch.context() as during:
        during.setattr("cli.commands.amend.stop_marked_attempts", lambda _: None)
        place.approve()
    assert at_work(place)
    place.done("dispatch", "stage-1", "--sync")
    assert (place.path / "stage-1/out.txt").read_text() == "0\n"


def test_attempt_on_another_host_blocks_the_dispatch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dispatch` is refused, because the attempt may still run on the other host."""
    fields = {"stage": "stage-1", "mode": "setsid", "root": str(place.path), "host": "elsewhere"}
    paths = {"work_dir": "w", "submission": "s", "wrapper": "x", "submission_sha256": "0" * 64}
    place.done("append", "attempt.started", "--data", json.dumps({**fields, **paths}))
    (place.path / "stage-1/.attempts/att-0001").mkdir(parents=True)
    place.propose(*SHORTER)
    answer = place.json("amend", "approve", "amend-1")
    assert (answer.code, answer.error["code"]) == (5, "not_stopped")
    assert place.document()["version"] == 2
    assert place.json("dispatch", "stage-1").error["code"] == "not_stopped"


@pytest.mark.long
def test_each_rerun_keeps_its_own_folder(place: Place) -> None:
    """Each rerun keeps old results in a numbered folder, and a user's file in place."""
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/notes.md").write_text("by hand")
    place.propose(*SHORTER)
    place.approve()
    place.done("run")
    for number in (1, 2):
        place.propose("--type", "stage_rerun", "--stage", "stage-1", "--reason", "unsure")
        place.approve(f"amend-{number + 1}")
        place.done("run")
        assert (place.path / f"stage-1.v{number}/out.txt").exists()
    assert (place.path / "stage-1/notes.md").read_text() == "by hand"


def test_submission_for_old_parameters_is_replaced(place: Place) -> None:
    """The rerun uses a new submission, and keeps the old file with the previous attempt."""
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/submission.json").write_text('{"made": "for 300 seconds"}')
    place.propose(*SHORTER)
    place.approve()
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "0\n"
    kept = place.path / "stage-1/.attempts/none/kept/stage-1/submission.json"
    assert kept.read_text() == '{"made": "for 300 seconds"}'
