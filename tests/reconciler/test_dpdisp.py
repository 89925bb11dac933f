"""Real jobs run by a real DPDispatcher: launch, end, results and refusals."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from reconciler.attempt.markers import move_stale_files_aside
from reconciler.context import Mode
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.errors import (
    LaunchFailed,
    ProgramMissing,
    RejectedSubmission,
)
from reconciler.evidence.collect import collect_evidence
from reconciler.host import processes, tmux_sessions
from reconciler.submission import build as submission
from reconciler.submission.build import StageJob
from reconciler.verdict.diagnosis import diagnose
from tests.programs import path_without
from tests.reconciler.support import (
    LONG,
    NOW,
    OUTPUT,
    PROFILE,
    SHORT,
    WRITE,
    Stage,
    judged,
    let_go,
    until,
)

pytestmark = pytest.mark.slow


@pytest.mark.few(2)
@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.SYNC])
def test_successful_job_is_collected(stage: Stage, mode: Mode) -> None:
    """The output is copied back, both markers have exit code 0, and the command ran once."""
    attempt = stage.prepare(SHORT)
    launched = stage.runner().launch(attempt, mode)
    assert stage.runner().wait(attempt, 60)
    assert (launched.mode, launched.note) == (mode, None)
    assert (stage.root / OUTPUT).read_text() == "hi\n"
    assert attempt.exit_code_marker.read_bytes() == b"0\n"
    assert attempt.exit_code_record.read_text().split()[:2] == ["0", attempt.tag]
    assert attempt.done_marker.read_text().split()[:2] == ["0", attempt.tag]
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_very_short_job_is_collected_once(stage: Stage) -> None:
    """A job that ends before DPDispatcher first checks is not submitted again."""
    attempt = stage.prepare(WRITE)
    assert stage.run(attempt) == 0
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_failed_task_is_not_repeated(stage: Stage) -> None:
    """The command runs once, and the diagnosis has the end of stderr and the job id."""
    attempt = stage.prepare("sleep 1.5; echo 'no convergence' >&2; exit 3")
    assert stage.run(attempt) == 1
    assert (judged(attempt).name, stage.runs(attempt)) == ("TASK_FAILED", 1)
    found = diagnose(attempt, collect_evidence(attempt, NOW), "TASK_FAILED")
    assert "no convergence" in (found.output or "")
    assert stage.runner().facts(attempt).job_ids[0] in found.jobs[0]
    assert list(stage.root.glob("*_last_err_file")) == []


def test_facts_are_read_from_the_files_of_the_attempt(stage: Stage) -> None:
    """Facts such as job ids are still known after the scratch copy is deleted."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    facts = stage.runner().facts(attempt)
    assert facts.work_dir == str(attempt.work / str(facts.submission_hash))
    assert len(facts.job_ids) == len(facts.job_hashes) == 1
    assert (facts.host, facts.boot_id) == (processes.host(), processes.boot_id())
    assert str(facts.dpdispatcher_version).startswith("1.1.")
    assert json.loads(json.dumps(facts.to_dict()))["job_ids"] == list(facts.job_ids)


def test_second_attempt_runs_again(stage: Stage) -> None:
    """In a new attempt, the same command has another submission hash and runs again."""
    first = stage.prepare(WRITE)
    stage.run(first)
    move_stale_files_aside(stage.root, "stage-1", [OUTPUT], first.id)
    second = stage.prepare(WRITE, "att-0002")
    stage.run(second)
    assert (stage.runs(first), stage.runs(second)) == (1, 1)
    hashes = {stage.runner().facts(attempt).submission_hash for attempt in (first, second)}
    assert len(hashes) == 2


def test_launch_without_tmux_uses_a_detached_monitor(stage: Stage, tmp_path: Path) -> None:
    """The answer reports that there is no tmux session, and the job succeeds."""
    environ = {**stage.environ, "PATH": path_without("tmux", tmp_path / "tools")}
    attempt = Stage(stage.root, environ).prepare(WRITE)
    launched = DPDispatcherRunner(environ=environ).launch(attempt, Mode.TMUX)
    assert (launched.mode, launched.session) == (Mode.SETSID, None)
    assert "tmux" in str(launched.note)
    assert stage.runner().wait(attempt, 60)
    assert judged(attempt).name == "SUCCEEDED"


def test_detached_monitor_has_its_own_session(stage: Stage) -> None:
    """Closing the terminal of the caller does not end the monitor."""
    attempt = stage.prepare(LONG)
    launched = stage.runner().launch(attempt, Mode.SETSID)
    assert launched.pid is not None
    assert os.getsid(launched.pid) == launched.pid != os.getsid(0)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)


def test_tmux_session_is_named_after_workflow_and_stage(stage: Stage) -> None:
    """The session exists until the job has ended."""
    attempt = stage.prepare(LONG)
    launched = stage.runner().launch(attempt, Mode.TMUX)
    assert launched.session == "dpdisp_stage-1_wf"
    assert tmux_sessions.is_live("dpdisp_stage-1_wf", stage.environ)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    until(lambda: not tmux_sessions.is_live("dpdisp_stage-1_wf", stage.environ))


def test_wait_returns_after_its_timeout(stage: Stage) -> None:
    """`wait` returns false after its timeout, and the monitor continues."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    assert not stage.runner().wait(attempt, 0.2)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)


def test_input_of_another_stage_is_copied_to_the_job(stage: Stage) -> None:
    """The job reads a copy of the input, and changing the copy does not affect the input."""
    (stage.root / "stage-0").mkdir()
    (stage.root / "stage-0/x.json").write_text("42\n")
    attempt = stage.attempt()
    command = "cp ../stage-0/x.json out.txt; echo spoilt > ../stage-0/x.json"
    job = StageJob("stage-1", command, inputs=("stage-0/x.json",), outputs=(OUTPUT,))
    stage.runner().prepare(attempt, submission.build_submission(job, PROFILE))
    assert stage.run(attempt) == 0
    assert (stage.root / OUTPUT).read_text() == "42\n"
    assert (stage.root / "stage-0/x.json").read_text() == "42\n"


def test_missing_forward_file_rejects_the_submission(stage: Stage) -> None:
    """DPDispatcher refuses the submission, so no job runs, and its log has the reason."""
    attempt = stage.attempt()
    job = StageJob("stage-1", WRITE, forward_files=("no.py",), outputs=(OUTPUT,))
    attempt.stage_folder.mkdir(exist_ok=True)
    sent = attempt.stage_folder / "no.py"
    sent.touch()
    stage.runner().prepare(attempt, submission.build_submission(job, PROFILE))
    sent.unlink()
    assert stage.run(attempt) == 1
    assert judged(attempt).name == "REJECTED"
    assert "no.py" in (diagnose(attempt, collect_evidence(attempt, NOW), "REJECTED").output or "")


def test_missing_output_is_reported(stage: Stage) -> None:
    """A job that exits with 0 but writes no output gets the verdict OUTPUT_MISSING."""
    attempt = stage.prepare("true")
    assert stage.run(attempt) == 1
    assert judged(attempt).name == "OUTPUT_MISSING"
    assert collect_evidence(attempt, NOW).backward_missing == (OUTPUT,)


def test_misspelt_key_of_a_submission_is_refused(stage: Stage) -> None:
    """wfctl refuses the launch, because DPDispatcher itself would ignore the wrong key."""
    given = submission.build_submission(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    given["forward_comon_files"] = []
    with pytest.raises(RejectedSubmission, match="forward_comon_files"):
        stage.runner().prepare(stage.attempt(), given)


def test_refusal_names_field_expected_type_and_value(stage: Stage) -> None:
    """The refusal is one line, and wfctl creates no folder for the attempt."""
    given = submission.build_submission(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    given["resources"]["number_node"] = "two"
    with pytest.raises(RejectedSubmission) as refused:
        stage.runner().check(stage.attempt(), given)
    assert refused.value.data["output"] == (
        "[at location `resources`] key `number_node` gets wrong value type, "
        "requires <int> but str is not an instance of int"
    )
    assert "\n" not in refused.value.message
    assert not stage.attempt().folder.exists()


def test_missing_dpdisp_program_is_reported(stage: Stage, tmp_path: Path) -> None:
    """The error names the variable WFCTL_DPDISP."""
    environ = {**stage.environ, "WFCTL_DPDISP": str(tmp_path / "dpdisp")}
    given = submission.build_submission(StageJob("stage-1", WRITE), PROFILE)
    with pytest.raises(ProgramMissing, match="WFCTL_DPDISP"):
        DPDispatcherRunner(environ=environ).prepare(stage.attempt(), given)


def test_failing_monitor_start_is_reported(stage: Stage, tmp_path: Path) -> None:
    """If the monitor cannot write its record, the error contains the monitor's output."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sync").write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    (tmp_path / "bin/sync").chmod(0o755)
    full = Stage(stage.root, {**stage.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    attempt = full.prepare(WRITE)
    with pytest.raises(LaunchFailed, match="no space left"):
        full.runner().launch(attempt, Mode.SETSID)


def test_folder_in_place_of_the_lock_is_moved_away(stage: Stage) -> None:
    """wfctl moves the folder to `stale`, and the job runs."""
    attempt = stage.prepare(WRITE)
    attempt.monitor_lock.unlink()
    attempt.monitor_lock.mkdir()
    stage.runner().launch(attempt, Mode.SETSID)
    assert stage.runner().wait(attempt, 60)
    assert (attempt.folder / "stale/.monitor.lock.0").is_dir()


def test_wrapper_is_a_valid_executable_script(stage: Stage) -> None:
    """bash accepts the syntax of the wrapper script, and its file is executable."""
    attempt = stage.prepare(WRITE)
    assert attempt.wrapper.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", attempt.wrapper], check=True)
    assert subprocess.run([attempt.wrapper], env=stage.environ, check=False).returncode == 0
