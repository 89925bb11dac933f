"""A workflow that was imported half-way goes on under wfctl."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.adoption import support as s
from tests.cli.support import Place
from tests.need import need_programs

COMMAND = {
    "command": "echo hi > out.txt",
    "expected_seconds": 1,
    "verify": "test -s stage-N/out.txt",
}


def runnable(number: int, status: str = "pending", **more: Any) -> dict[str, Any]:
    """Return a stage that writes one file."""
    parameters = {**COMMAND, "verify": f"test -s stage-{number}/out.txt"}
    outputs = [f"stage-{number}/out.txt"]
    return s.stage(number, status, outputs=outputs, parameters=parameters, **more)


def running(**process: Any) -> dict[str, Any]:
    """Return a stage that somebody else launched."""
    fields = {"submission_json": "stage-1/submission.json", "done_marker": "stage-1/DONE"}
    fields |= {"exit_code_file": "stage-1/CODE", "launched_at": "2026-03-31T10:02:00Z"}
    return runnable(1, "running", running_process={**fields, **process})


def status_of(root: Place, number: int = 1) -> str:
    """Return where a stage stands."""
    status: str = root.done("status")["stages"][number - 1]["status"]
    return status


def ended(folder: Path, code: int, *, output: bool = True) -> None:
    """Leave what a wrapper leaves when it is through."""
    stage = folder / "stage-1"
    stage.mkdir(exist_ok=True)
    (stage / "CODE").write_text(f"{code}\n", "utf-8")
    (stage / "DONE").touch()
    if output:
        (stage / "out.txt").write_text("hi\n", "utf-8")


@pytest.mark.slow
def test_a_half_done_workflow_is_run_to_its_end(tmp_path: Path) -> None:
    """One stage was completed by somebody else, one is ready, one waits: run does the rest."""
    done = runnable(1, "completed", completed_at="2026-03-31T10:03:00Z")
    state = s.document(done, runnable(2, "ready"), runnable(3), owner="me")
    root = s.imported(s.write_files(tmp_path / "w", state))
    ended(root.path, 0)
    answer = root.json("run")
    assert (answer.code, answer.data["exit_reason"]) == (0, "completed")
    rendered = json.loads((root.path / s.STATE).read_bytes())
    assert [stage["status"] for stage in rendered["stages"]] == ["completed"] * 3
    assert rendered["owner"] == "me"
    assert rendered["stages"][0] == done
    assert root.json("replay", "--check").code == 0


@pytest.mark.slow
def test_a_workflow_that_nobody_began_is_run_from_its_first_stage(tmp_path: Path) -> None:
    """All stages were pending, the first one too: run makes it ready."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(runnable(1), runnable(2))))
    actions = root.json("status").envelope["next_actions"]
    assert actions[0]["command"] == "wfctl stage ready stage-1"
    assert root.json("run").code == 0
    assert status_of(root, 2) == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("name", s.STATES)
def test_a_real_workflow_is_gone_on_with(name: str, tmp_path: Path) -> None:
    """Completed it stays so; else its first stage waits, and it is said for what."""
    root = s.imported(s.copied(s.history(name), tmp_path / "root"))
    over = all(stage["status"] == "completed" for stage in root.done("status")["stages"])
    answer = root.json("run")
    assert answer.code == (0 if over else 6)
    if not over:
        assert answer.data["exit_reason"] == "blocked"
        [blocked] = answer.data["blocked"]
        assert (blocked["stage"], status_of(root)) == ("stage-1", "ready")
        assert "stage-1/submission.json" in blocked["why"]


@pytest.mark.slow
def test_what_has_a_submission_is_run_and_what_has_none_is_named(tmp_path: Path) -> None:
    """They were prepared stage after stage: the first has its own, the second not yet."""
    second = s.stage(2, outputs=["stage-2/out.txt"], parameters={"software": "lmp"})
    folder = s.write_files(tmp_path / "w", s.document(runnable(1), second))
    root = s.imported(folder)
    answer = root.json("run")
    assert answer.code == 6
    assert (status_of(root), status_of(root, 2)) == ("completed", "ready")
    assert [one["stage"] for one in answer.data["blocked"]] == ["stage-2"]


@pytest.mark.slow
def test_a_failed_stage_is_retried_and_counts_on(tmp_path: Path) -> None:
    """Two retries were used before the import; the limit still holds."""
    failed = runnable(1, "failed", retry_count=2, last_error="out of memory")
    root = s.imported(s.write_files(tmp_path / "w", s.document(failed)))
    root.done("stage", "retry", "stage-1", "--fix", "more memory")
    root.done("dispatch", "stage-1", "--sync")
    stage = root.done("show", "stage-1")
    assert (stage["status"], stage["retry_count"]) == ("post_processing", 3)
    root.done("stage", "complete", "stage-1")


def test_a_running_stage_that_ended_well_is_collected(tmp_path: Path) -> None:
    """Done marker, exit code 0 and outputs: its results count."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    ended(folder, 0)
    root = s.imported(folder)
    found = root.done("reconcile")["findings"][0]
    assert (found["verdict"]["name"], status_of(root)) == ("SUCCEEDED", "post_processing")
    root.done("stage", "complete", "stage-1")
    assert status_of(root) == "completed"


@pytest.mark.parametrize(
    ("code", "output", "name"), [(1, True, "TASK_FAILED"), (0, False, "OUTPUT_MISSING")]
)
def test_a_running_stage_that_ended_badly_has_failed(
    code: int, output: bool, name: str, tmp_path: Path
) -> None:
    """An exit code that is not 0, or an output that is not there."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    ended(folder, code, output=output)
    root = s.imported(folder)
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == name
    assert status_of(root) == "failed"


@pytest.mark.parametrize("stage", [running(), runnable(1, "running")])
def test_a_running_stage_without_evidence_is_stale(stage: dict[str, Any], tmp_path: Path) -> None:
    """Neither session nor marker: it failed, and a retry launches it anew."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(stage)))
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "STALE"
    assert status_of(root) == "failed"
    assert "stale from before the import" in root.done("show", "stage-1")["last_error"]


def test_a_marker_from_before_the_launch_is_another_s(tmp_path: Path) -> None:
    """A retry that did not clear the old markers is not taken for its predecessor's success."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    ended(folder, 0)
    for marker in ("CODE", "DONE"):
        os.utime(folder / "stage-1" / marker, (0, 0))
    root = s.imported(folder)
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "STALE"


def test_what_may_run_on_a_cluster_is_not_called_failed(tmp_path: Path) -> None:
    """A remote job outlives its session, so a person has to look."""
    profiles = {"hpc": {"type": "remote", "batch_type": "Slurm"}}
    stage = running() | {"backend": "hpc"}
    root = s.imported(s.write_files(tmp_path / "w", s.document(stage, backend_profiles=profiles)))
    assert root.done("reconcile")["findings"][0]["action"] == "unknown"
    assert status_of(root) == "running"
    root.done("stage", "fail", "stage-1", "--error", "scancelled")
    assert status_of(root) == "failed"


def test_what_runs_where_it_came_from_is_left_alone(tmp_path: Path) -> None:
    """A root made elsewhere neither collects nor fails the original's job."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    answer = s.import_(folder, "--into", str(tmp_path / "new"))
    assert answer.code == 0
    root = Place(tmp_path / "new")
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "ELSEWHERE"
    assert status_of(root) == "running"


def test_a_stage_whose_preparation_died_is_told_by_rehydrate(tmp_path: Path) -> None:
    """preparing without running_process: it died while it was prepared."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(runnable(1, "preparing"))))
    root.done("rehydrate")
    assert status_of(root) == "failed"


@pytest.fixture
def session() -> Iterator[str]:
    """Start a tmux session as somebody else did, and end it."""
    need_programs("tmux")
    name = f"wfctl-test-{uuid4().hex[:12]}"
    subprocess.run(["tmux", "new-session", "-d", "-s", name, "sleep 600"], check=True)
    yield name
    subprocess.run(["tmux", "kill-session", "-t", f"={name}"], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("status", ["running", "preparing"])
def test_a_session_that_is_alive_is_waited_for(status: str, session: str, tmp_path: Path) -> None:
    """The stage stays running until the session is gone; then its markers decide."""
    stage = running(tmux_session=session) | {"status": status}
    folder = s.write_files(tmp_path / "w", s.document(stage))
    root = s.imported(folder)
    assert root.done("reconcile")["findings"][0]["action"] == "wait"
    assert status_of(root) == "running"
    begun = time.monotonic()
    root.json("wait", "stage-1", "--timeout", "0.2")
    assert time.monotonic() - begun < 60
    ended(folder, 0)
    subprocess.run(["tmux", "kill-session", "-t", f"={session}"], check=True)
    root.done("reconcile")
    assert status_of(root) == "post_processing"
