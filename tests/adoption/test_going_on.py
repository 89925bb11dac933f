"""A partially completed workflow continues under wfctl after an import."""

from __future__ import annotations

import json
import os
import shutil
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
    """Return a running stage that was launched without wfctl."""
    fields = {"submission_json": "stage-1/submission.json", "done_marker": "stage-1/DONE"}
    fields |= {"exit_code_file": "stage-1/CODE", "launched_at": "2026-03-31T10:02:00Z"}
    return runnable(1, "running", running_process={**fields, **process})


def status_of(root: Place, number: int = 1) -> str:
    """Return the status of a stage."""
    status: str = root.done("status")["stages"][number - 1]["status"]
    return status


def ended(folder: Path, code: int, *, output: bool = True) -> None:
    """Write the files that the wrapper script of a job writes when the job ends."""
    stage = folder / "stage-1"
    stage.mkdir(exist_ok=True)
    (stage / "CODE").write_text(f"{code}\n", "utf-8")
    (stage / "DONE").touch()
    if output:
        (stage / "out.txt").write_text("hi\n", "utf-8")


@pytest.mark.slow
def test_partially_completed_workflow_runs_to_its_end(tmp_path: Path) -> None:
    """After the import, `run` completes the stages that were ready or pending."""
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
def test_workflow_without_a_started_stage_runs_from_its_first_stage(tmp_path: Path) -> None:
    """All stages are pending, and `run` makes the first one ready."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(runnable(1), runnable(2))))
    actions = root.json("status").envelope["next_actions"]
    assert actions[0]["command"] == "wfctl stage ready stage-1"
    assert root.json("run").code == 0
    assert status_of(root, 2) == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("name", s.STATES)
def test_real_workflow_continues_after_an_import(name: str, tmp_path: Path) -> None:
    """A completed workflow stays completed. Otherwise `run` names what the first stage lacks."""
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
def test_stage_with_a_submission_runs_and_one_without_is_named(tmp_path: Path) -> None:
    """`run` completes the stage with a submission, and names the other one as blocked."""
    second = s.stage(2, outputs=["stage-2/out.txt"], parameters={"software": "lmp"})
    folder = s.write_files(tmp_path / "w", s.document(runnable(1), second))
    root = s.imported(folder)
    answer = root.json("run")
    assert answer.code == 6
    assert (status_of(root), status_of(root, 2)) == ("completed", "ready")
    assert [one["stage"] for one in answer.data["blocked"]] == ["stage-2"]


@pytest.mark.slow
def test_imported_failed_stage_keeps_its_retry_count(tmp_path: Path) -> None:
    """A stage with two retries before the import has three after the next retry."""
    failed = runnable(1, "failed", retry_count=2, last_error="out of memory")
    root = s.imported(s.write_files(tmp_path / "w", s.document(failed)))
    root.done("stage", "retry", "stage-1", "--fix", "more memory")
    root.done("dispatch", "stage-1", "--sync")
    stage = root.done("show", "stage-1")
    assert (stage["status"], stage["retry_count"]) == ("post_processing", 3)
    root.done("stage", "complete", "stage-1")


def test_running_stage_that_succeeded_is_collected(tmp_path: Path) -> None:
    """Done marker, exit code 0 and outputs exist."""
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
def test_running_stage_that_failed_is_failed(
    code: int, output: bool, name: str, tmp_path: Path
) -> None:
    """The exit code is not 0, or an output is missing."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    ended(folder, code, output=output)
    root = s.imported(folder)
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == name
    assert status_of(root) == "failed"


@pytest.mark.parametrize("stage", [running(), runnable(1, "running")])
def test_running_stage_without_evidence_is_stale(stage: dict[str, Any], tmp_path: Path) -> None:
    """A running stage without a tmux session or a marker file is stale and fails."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(stage)))
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "STALE"
    assert status_of(root) == "failed"
    assert "the attempt is older than the import" in root.done("show", "stage-1")["last_error"]


def test_marker_older_than_the_launch_is_ignored(tmp_path: Path) -> None:
    """After a retry, old markers do not count as the result of the new attempt."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    ended(folder, 0)
    for marker in ("CODE", "DONE"):
        os.utime(folder / "stage-1" / marker, (0, 0))
    root = s.imported(folder)
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "STALE"


def test_imported_remote_job_is_not_called_failed(tmp_path: Path) -> None:
    """A remote job outlives its session, so a person must check it."""
    profiles = {"hpc": {"type": "remote", "batch_type": "Slurm"}}
    stage = running() | {"backend": "hpc"}
    root = s.imported(s.write_files(tmp_path / "w", s.document(stage, backend_profiles=profiles)))
    assert root.done("reconcile")["findings"][0]["action"] == "unknown"
    assert status_of(root) == "running"
    root.done("stage", "fail", "stage-1", "--error", "scancelled")
    assert status_of(root) == "failed"


def test_import_into_another_root_leaves_the_running_job_alone(tmp_path: Path) -> None:
    """The new root neither collects nor fails the job of the original."""
    folder = s.write_files(tmp_path / "w", s.document(running()))
    answer = s.import_(folder, "--into", str(tmp_path / "new"))
    assert answer.code == 0
    root = Place(tmp_path / "new")
    assert root.done("reconcile")["findings"][0]["verdict"]["name"] == "ELSEWHERE"
    assert status_of(root) == "running"


def test_interrupted_preparation_is_reported_by_rehydrate(tmp_path: Path) -> None:
    """`rehydrate` fails a stage that is preparing and has no running_process."""
    root = s.imported(s.write_files(tmp_path / "w", s.document(runnable(1, "preparing"))))
    root.done("rehydrate")
    assert status_of(root) == "failed"


@pytest.fixture
def session() -> Iterator[str]:
    """Start a tmux session without wfctl, and kill it at the end."""
    need_programs("tmux")
    name = f"wfctl-test-{uuid4().hex[:12]}"
    subprocess.run(["tmux", "new-session", "-d", "-s", name, "sleep 600"], check=True)
    yield name
    subprocess.run(["tmux", "kill-session", "-t", f"={name}"], check=False, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("status", ["running", "preparing"])
def test_live_session_of_an_imported_stage_is_awaited(
    status: str, session: str, tmp_path: Path
) -> None:
    """The stage stays running until the session ends, and then its markers decide."""
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


@pytest.mark.slow
def test_files_written_by_wfctl_import_without_findings(tmp_path: Path) -> None:
    """Files of a completed wfctl workflow with a retry and extra fields cause no finding."""
    # The job takes over a second because the state file has times in whole seconds, and a stage
    # that starts and ends in the same second is an import finding.
    command = f"test -e {tmp_path}/go && sleep 1.1 && echo hi > out.txt"
    failing = {**runnable(1)["parameters"], "command": command}
    first = {**runnable(1), "parameters": failing, "description": "One file.", "x-own": 1}
    first.pop("status")
    plan = {"workflow_id": "melt-2026-03-31", "purpose": "p", "tags": ["t"], "stages": [first]}
    root = tmp_path / "root"
    root.mkdir()
    (root / "plan.json").write_text(json.dumps(plan), "utf-8")
    place = Place(root)
    place.done("init", str(root / "plan.json"), "--consent", "trust")
    place.call("run")
    (tmp_path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made the file")
    place.done("run")
    assert status_of(place) == "completed"
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".wfctl"))
    answer = s.import_(copy, "--dry-run")
    assert (answer.code, answer.data["findings"]) == (0, [])


@pytest.mark.slow
def test_manually_prepared_stage_is_dispatched(tmp_path: Path) -> None:
    """`run` uses the imported submission and wrapper, and counts no retry."""
    messages = ("stage-1 (S1): status -> ready", "stage-1 (S1): status -> preparing")
    stage = runnable(1, "preparing", started_at="2026-03-31T10:01:00Z")
    folder = s.write_files(tmp_path / "root", s.document(stage), s.log_of(*messages))
    task: dict[str, Any] = {
        "command": "echo hi > out.txt",
        "task_work_path": "stage-1",
        "outlog": "log",
    }
    task |= {"errlog": "err", "forward_files": [], "backward_files": ["out.txt", "log", "err"]}
    machine = {"batch_type": "Shell", "context_type": "LocalContext"}
    submission = {"work_base": ".", "machine": machine, "resources": {}, "task_list": [task]}
    (folder / "stage-1").mkdir()
    (folder / "stage-1/submission.json").write_text(json.dumps(submission), "utf-8")
    wrapper = "#!/bin/bash\ndpdisp submit stage-1/submission.json\n"
    (folder / "stage-1/dpdisp-run.sh").write_text(wrapper, "utf-8")
    root = s.imported(folder)
    root.done("run")
    assert (status_of(root), root.done("show", "stage-1")["retry_count"]) == ("completed", 0)
    assert "interrupted during preparation" not in (folder / s.LOG).read_text("utf-8")


@pytest.mark.slow
def test_report_counts_the_retries_before_a_rerun(tmp_path: Path) -> None:
    """After a retry and a rerun, the report still counts the earlier retry."""
    command = f"test -e {tmp_path}/go && echo hi > out.txt"
    parameters = {**runnable(1)["parameters"], "command": command}
    folder = s.write_files(tmp_path / "root", s.document({**runnable(1), "parameters": parameters}))
    root = s.imported(folder)
    root.call("run")
    (tmp_path / "go").touch()
    root.done("stage", "retry", "stage-1", "--fix", "made the file")
    root.done("run")
    root.done("rerun", "stage-1", "--reason", "again")
    for id_ in [
        one["id"] for one in root.done("audit", "amendments") if one["state"] == "proposed"
    ]:
        root.done("amend", "approve", id_)
    root.done("run")
    report = root.call("report", "-").out
    assert "| stage-1 | S1 | completed | 3 | 1 |" in report, report
