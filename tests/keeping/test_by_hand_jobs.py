"""A job that a user started through DPDispatcher continues after the end of its tmux session.

The stage gets the result of this job, and wfctl does not start a second job.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.keeping.support import made, stage
from tests.keeping.test_by_hand import OUT, SESSION, say_running
from tests.keeping.test_by_hand import place as tmux_place
from tests.keeping.test_claims import edit
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
tmux = tmux_place


@pytest.fixture
def place(tmux: Place, tmp_path: Path) -> Place:
    """Make a workflow of one stage whose command waits for a file `go`."""
    return made(tmp_path / "w", stage(1, COMMAND, outputs=OUT))


DPDISP = Path(sys.executable).with_name("dpdisp")
#: The command runs in ``scratch/HASH/stage-1``, so the root is three folders above.
COMMAND = (
    "echo start >> ../../../trace; while [ ! -e ../../../go ]; do sleep 0.05; done; "
    "echo by hand > a.txt; [ ! -e ../../../fail ] || { echo ERROR: it is cold >&2; exit 3; }"
)


def prepare(place: Place) -> None:
    """Write submission.json and the wrapper script for a launch by hand."""
    root = place.path
    (root / "stage-1").mkdir(exist_ok=True)
    task = {
        "command": COMMAND,
        "task_work_path": "stage-1",
        "forward_files": [],
        "backward_files": ["a.txt"],
        "outlog": "log",
        "errlog": "err",
    }
    machine = {
        "batch_type": "Shell",
        "context_type": "LocalContext",
        "local_root": "./",
        "remote_root": "scratch",
    }
    given = {
        "work_base": "./",
        "machine": machine,
        "resources": {
            "number_node": 1,
            "cpu_per_node": 1,
            "gpu_per_node": 0,
            "queue_name": "",
            "group_size": 1,
        },
        "task_list": [task],
    }
    (root / "stage-1/submission.json").write_text(json.dumps(given))
    (root / "stage-1/dpdisp-run.sh").write_text(
        f"#!/bin/bash\ncd {root}\n{DPDISP} submit stage-1/submission.json\n"
        "echo $? > stage-1/DPDISP_EXIT_CODE\ntouch stage-1/DPDISP_DONE\n"
    )


def launch(place: Place) -> None:
    """Start the stage's job through DPDispatcher in a tmux session, and wait until it runs."""
    prepare(place)
    root = place.path
    command = ["tmux", "new-session", "-d", "-s", SESSION, "bash stage-1/dpdisp-run.sh"]
    subprocess.run(command, cwd=root, env=dict(os.environ), check=True)
    until(lambda: (root / "trace").exists() and any(root.glob("scratch/*/????*.json")))


def kill_session() -> None:
    """End the tmux session with its wrapper script and DPDispatcher; the job continues to run."""
    subprocess.run(["tmux", "kill-session", "-t", SESSION], check=True)


def import_log(place: Place) -> None:
    """Delete wfctl's log, and import the workflow from its files."""
    edit(place, say_running)
    shutil.rmtree(place.path / ".wfctl")
    place.done("import", str(place.path), "--consent", "trust")


def end_job(place: Place) -> None:
    """Let the job end, and wait until DPDispatcher's folder shows the end."""
    (place.path / "go").touch()
    until(lambda: any(place.path.glob("scratch/*/*_job_tag_finished")) or is_flagged(place))


def is_flagged(place: Place) -> bool:
    """Return whether DPDispatcher's folder records that the task failed."""
    flags = place.path.glob("scratch/*/*_flag_if_job_task_fail")
    return any(flag.read_text().strip() == "1" for flag in flags)


def starts(place: Place) -> int:
    """Return the number of times that the job's command was started."""
    return len((place.path / "trace").read_text().splitlines())


def check_collected(place: Place) -> None:
    """Check that `wfctl run` completes the stage with the job's output and starts no second job."""
    answer = place.json("run")
    assert answer.code == 0, answer
    found = place.done("show", "stage-1")
    assert (found["status"], len(found["attempts"])) == ("completed", 1)
    assert (place.path / "stage-1/a.txt").read_text() == "by hand\n"
    assert starts(place) == 1


@pytest.mark.parametrize("launched_in", ["import", "root", "unseen"])
def test_job_that_outlives_its_session_gets_a_new_monitor(place: Place, launched_in: str) -> None:
    """After the tmux session is killed, wfctl finds the running job and monitors it again."""
    launch(place)
    if launched_in == "root":
        assert place.done("reconcile")["findings"][0]["verdict"]["name"] == "SESSION_ALIVE"
    kill_session()
    if launched_in == "import":
        import_log(place)
    (finding,) = place.done("reconcile")["findings"]
    assert (finding["verdict"]["name"], finding["action"]) == ("ORPHAN_RUNNING", "attach")
    (finding,) = place.done("reconcile")["findings"]
    assert finding["verdict"]["name"] == "SESSION_ALIVE"
    (place.path / "go").touch()
    check_collected(place)


@pytest.mark.parametrize("launched_in", ["import", "unseen"])
def test_result_of_an_unmonitored_job_is_collected(place: Place, launched_in: str) -> None:
    """If the job succeeds after its session was killed, wfctl uses its output.

    Marker files of an earlier launch are ignored.
    """
    launch(place)
    kill_session()
    end_job(place)
    for name, text in (("DPDISP_EXIT_CODE", "3\n"), ("DPDISP_DONE", "")):
        (place.path / "stage-1" / name).write_text(text)
        os.utime(place.path / "stage-1" / name, (0, 0))
    if launched_in == "import":
        import_log(place)
    check_collected(place)


def test_exit_code_of_a_killed_monitor_does_not_end_the_job(place: Place) -> None:
    """If only DPDispatcher is killed, wfctl ignores the wrapper's exit code; the job continues."""
    launch(place)
    place.done("reconcile")
    found = subprocess.run(
        ["pgrep", "-f", f"{DPDISP} submit stage-1/submission.json"],
        capture_output=True,
        text=True,
        check=True,
    )
    here = [pid for pid in found.stdout.split() if Path(f"/proc/{pid}/cwd").resolve() == place.path]
    for pid in here:
        os.kill(int(pid), signal.SIGKILL)
    until((place.path / "stage-1/DPDISP_DONE").exists)
    (finding,) = place.done("reconcile")["findings"]
    assert finding["verdict"]["name"] in ("ORPHAN_RUNNING", "SESSION_ALIVE")
    (place.path / "go").touch()
    check_collected(place)


def test_retry_is_refused_while_the_failed_job_still_runs(place: Place) -> None:
    """If a job of a stage declared as failed still runs, `wfctl dispatch` starts no second job."""
    launch(place)
    place.done("reconcile")
    kill_session()
    place.done("stage", "fail", "stage-1", "--error", "I gave it up")
    place.done("stage", "retry", "stage-1", "--fix", "again")
    answer = place.json("dispatch", "stage-1")
    assert (answer.code, answer.error["code"]) == (5, "not_stopped")
    assert starts(place) == 1
    end_job(place)


def test_failure_after_the_session_ended_is_recorded(place: Place) -> None:
    """If the job fails after its session was killed, wfctl records the failure, without a rerun."""
    launch(place)
    (place.path / "fail").touch()
    kill_session()
    import_log(place)
    end_job(place)
    (finding,) = place.done("reconcile")["findings"]
    assert (finding["verdict"]["name"], finding["action"]) == ("TASK_FAILED", "failed")
    found = place.done("show", "stage-1")
    assert found["status"] == "failed"
    assert "a task failed" in found["last_error"]
    assert starts(place) == 1


@pytest.mark.parametrize("watched", [True, False], ids=["session", "no session"])
def test_failure_of_a_job_launched_by_hand_names_its_cause(place: Place, watched: bool) -> None:
    """wfctl reads the error message from the job's stderr file in DPDispatcher's folder."""
    launch(place)
    place.done("reconcile")
    if not watched:
        kill_session()
    (place.path / "fail").touch()
    end_job(place)
    if watched:
        until((place.path / "stage-1/DPDISP_DONE").exists)
    assert place.json("run").code == 6
    found = place.done("show", "stage-1")
    assert found["last_error"].startswith("ERROR: it is cold; "), found["last_error"]
    [failed] = place.done("events", "--type", "stage.failed")
    assert failed["data"]["because"] == "err: ERROR: it is cold"
    if watched:
        assert failed["data"]["exit_code"] == 1
        assert "the wrapper script ended with exit code 1" in found["last_error"]
    told = place.call("stage", "diagnose", "stage-1").out
    assert "ERROR: it is cold" in told
