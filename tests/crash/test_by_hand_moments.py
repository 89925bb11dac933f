"""A job that a person launched manually runs only once, whenever wfctl finds it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.keeping import test_by_hand_jobs as by_hand
from tests.keeping.support import made, stage
from tests.keeping.test_by_hand import OUT, SESSION
from tests.keeping.test_by_hand import place as tmux_place
from tests.keeping.test_claims import edit
from tests.reconciler.support import until

pytestmark = [pytest.mark.slow, pytest.mark.long]
tmux = tmux_place

#: The command writes its start and its end to the file `trace` of the root.
_JOB = (
    "echo start >> {root}/trace; while [ ! -e {root}/go ]; do sleep 0.05; done; "
    "echo by hand > a.txt; echo end >> {root}/trace; [ ! -e {root}/fail ] || exit 3"
)


@pytest.fixture
def place(tmux: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Create a workflow of one stage whose command waits until it is released."""
    command = _JOB.format(root=tmp_path / "w/root")
    monkeypatch.setattr(by_hand, "COMMAND", command)
    found = made(tmp_path / "w", stage(1, command, outputs=OUT))
    assert str(found.path) in command
    return found


def claim(place: Place, status: str) -> None:
    """Edit the status in the state file, as the protocol requires for a manual launch."""

    def change(document: dict[str, Any]) -> None:
        document["stages"][0]["status"] = status
        if status == "running":
            document["stages"][0]["running_process"] = {"tmux_session": SESSION}

    edit(place, change)


def end_session(place: Place) -> None:
    """Launch a job and kill its session, while the job continues."""
    by_hand.launch(place)
    by_hand.kill_session()


def end_job(place: Place, *, failed: bool = False) -> None:
    """Launch a job that ends within its session, successfully or not."""
    by_hand.launch(place)
    if failed:
        (place.path / "fail").touch()
    (place.path / "go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)


def leave_marker(place: Place) -> None:
    """Launch a job next to the marker of an earlier job, and kill its session."""
    end_session(place)
    for name, text in (("DPDISP_EXIT_CODE", "3\n"), ("DPDISP_DONE", "")):
        (place.path / "stage-1" / name).write_text(text)
        os.utime(place.path / "stage-1" / name, (0, 0))


#: From a moment to its preparation, the status in the state file, and the outcome of the stage.
#: "held": a submission that nobody launched and that differs from the definition waits for a
#: person.
MOMENTS = {
    "planned": (by_hand.prepare, "ready", "held"),
    "preparing": (by_hand.prepare, "preparing", "held"),
    "running": (by_hand.launch, "running", "completed"),
    "session dead": (end_session, "running", "completed"),
    "DONE 0": (end_job, "running", "completed"),
    "DONE 1": (lambda place: end_job(place, failed=True), "running", "failed"),
    "stale marker": (leave_marker, "running", "completed"),
}


def lives(place: Place) -> list[str]:
    """Return the starts and ends of the job's command, in order."""
    path = place.path / "trace"
    return path.read_text().split() if path.exists() else []


def check_never_doubled(place: Place, count: int) -> None:
    """Check that the command ran ``count`` times, one run after another."""
    assert lives(place) == ["start", "end"] * count


def go_on(place: Place) -> None:
    """Do as `run` suggests: remove the submission and, if the stage failed, retry it."""
    (place.path / "fail").unlink(missing_ok=True)
    (place.path / "stage-1/submission.json").unlink()
    if place.done("show", "stage-1")["status"] == "failed":
        place.done("stage", "retry", "stage-1", "--fix", "It is warm now.")
    place.done("run")


@pytest.mark.parametrize("claimed", [False, True], ids=["unsaid", "claimed"])
@pytest.mark.parametrize("imported", [False, True], ids=["own", "imported"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_manually_launched_job_runs_once_at_every_moment(
    place: Place, moment: str, imported: bool, claimed: bool
) -> None:
    """wfctl finds the running job and waits for its end. A retry starts only afterwards."""
    make, status, outcome = MOMENTS[moment]
    make(place)
    if claimed or imported:
        claim(place, status)
    if imported:
        subprocess.run(["rm", "-r", place.path / ".wfctl"], check=True)
        place.done("import", str(place.path), "--consent", "trust")
    elif claimed:
        place.json("drift", "adopt")
    place.done("reconcile")
    # DPDispatcher itself restarts a failed job within its session.
    starts = 0 if outcome == "held" else lives(place).count("start")
    (place.path / "go").touch()
    answer = place.json("run")
    assert answer.code == (0 if outcome == "completed" else 6), answer
    check_never_doubled(place, starts)
    if outcome != "completed":
        go_on(place)
        check_never_doubled(place, starts + 1)
    assert place.done("show", "stage-1")["status"] == "completed"


@pytest.mark.parametrize("moment", ["running", "session dead", "stale marker"])
def test_retry_waits_for_a_manually_launched_job(place: Place, moment: str) -> None:
    """A person marks the running job as failed, and the retry waits for the end of the job."""
    MOMENTS[moment][0](place)
    place.done("reconcile")
    place.done("stage", "fail", "stage-1", "--error", "I gave it up")
    place.done("stage", "retry", "stage-1", "--fix", "again")
    place.json("run", "--time-limit", "5")
    assert lives(place) == ["start"]
    (place.path / "go").touch()
    until(lambda: lives(place) == ["start", "end"])
    subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    place.json("run")
    assert lives(place) in (["start", "end"], ["start", "end"] * 2)
