"""Real jobs through the real DPDispatcher: launched, ended, collected, refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from reconciler.attempt.markers import clear_stale
from reconciler.context import Mode
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.errors import (
    LaunchFailed,
    ProgramMissing,
    RejectedSubmission,
)
from reconciler.evidence.collect import collect
from reconciler.host import processes
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
def test_a_job_that_ends_well_is_collected(stage: Stage, mode: Mode) -> None:
    """In either way the output comes back, the markers say 0 and whose, and it ran once."""
    attempt = stage.prepare(SHORT)
    launched = stage.runner().launch(attempt, mode)
    assert stage.runner().wait(attempt, 60)
    assert (launched.mode, launched.note) == (mode, None)
    assert (stage.root / OUTPUT).read_text() == "hi\n"
    assert attempt.exit_code_marker.read_bytes() == b"0\n"
    assert attempt.exit_code_record.read_text().split()[:2] == ["0", attempt.tag]
    assert attempt.done_marker.read_text().split()[:2] == ["0", attempt.tag]
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_a_job_shorter_than_the_first_look_is_collected_once(stage: Stage) -> None:
    """A job that is over when DPDispatcher first looks is not submitted again."""
    attempt = stage.prepare(WRITE)
    assert stage.run(attempt) == 0
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_a_task_that_fails_runs_once_and_says_why(stage: Stage) -> None:
    """A failed task is not tried again, and its last words are told with the job's id."""
    attempt = stage.prepare("sleep 1.5; echo 'no convergence' >&2; exit 3")
    assert stage.run(attempt) == 1
    assert (judged(attempt).name, stage.runs(attempt)) == ("TASK_FAILED", 1)
    found = diagnose(attempt, collect(attempt, NOW), "TASK_FAILED")
    assert "no convergence" in (found.output or "")
    assert stage.runner().facts(attempt).job_ids[0] in found.jobs[0]
    assert list(stage.root.glob("*_last_err_file")) == []


def test_facts_come_from_the_files_of_the_attempt(stage: Stage) -> None:
    """Submission, job, place, host and version are known after the scratch copy is gone."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    facts = stage.runner().facts(attempt)
    assert facts.work_dir == str(attempt.work / str(facts.submission_hash))
    assert len(facts.job_ids) == len(facts.job_hashes) == 1
    assert (facts.host, facts.boot_id) == (processes.host(), processes.boot_id())
    assert str(facts.dpdispatcher_version).startswith("1.1.")
    assert json.loads(json.dumps(facts.to_dict()))["job_ids"] == list(facts.job_ids)


def test_a_second_attempt_computes_anew(stage: Stage) -> None:
    """The same command in a new attempt is another submission and runs again."""
    first = stage.prepare(WRITE)
    stage.run(first)
    clear_stale(stage.root, "stage-1", [OUTPUT], first.id)
    second = stage.prepare(WRITE, "att-0002")
    stage.run(second)
    assert (stage.runs(first), stage.runs(second)) == (1, 1)
    hashes = {stage.runner().facts(attempt).submission_hash for attempt in (first, second)}
    assert len(hashes) == 2


def test_without_tmux_the_monitor_is_detached_and_says_so(stage: Stage, tmp_path: Path) -> None:
    """No tmux on the path: nothing is lost but the session, and the caller is told."""
    environ = {**stage.environ, "PATH": path_without("tmux", tmp_path / "tools")}
    attempt = Stage(stage.root, environ).prepare(WRITE)
    launched = DPDispatcherRunner(environ=environ).launch(attempt, Mode.TMUX)
    assert (launched.mode, launched.session) == (Mode.SETSID, None)
    assert "tmux" in str(launched.note)
    assert stage.runner().wait(attempt, 60)
    assert judged(attempt).name == "SUCCEEDED"


def test_a_detached_monitor_leads_a_session_of_its_own(stage: Stage) -> None:
    """What closes the caller's terminal does not reach the monitor."""
    attempt = stage.prepare(LONG)
    launched = stage.runner().launch(attempt, Mode.SETSID)
    assert launched.pid is not None
    assert os.getsid(launched.pid) == launched.pid != os.getsid(0)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)


def test_a_session_carries_workflow_and_stage(stage: Stage) -> None:
    """The session is found by the exact name that the attempt spells."""
    attempt = stage.prepare(LONG)
    launched = stage.runner().launch(attempt, Mode.TMUX)
    assert launched.session == "dpdisp_stage-1_wf"
    assert processes.is_live("dpdisp_stage-1_wf", stage.environ)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    until(lambda: not processes.is_live("dpdisp_stage-1_wf", stage.environ))


def test_waiting_ends_after_its_time(stage: Stage) -> None:
    """A wait that is too short says so, and the monitor goes on."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    assert not stage.runner().wait(attempt, 0.2)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)


def test_an_input_of_another_stage_lies_beside_the_job(stage: Stage) -> None:
    """A command reads ../stage-0/x.json, and what it does to the copy leaves the input alone."""
    (stage.root / "stage-0").mkdir()
    (stage.root / "stage-0/x.json").write_text("42\n")
    attempt = stage.attempt()
    command = "cp ../stage-0/x.json out.txt; echo spoilt > ../stage-0/x.json"
    job = StageJob("stage-1", command, inputs=("stage-0/x.json",), outputs=(OUTPUT,))
    stage.runner().prepare(attempt, submission.build(job, PROFILE))
    assert stage.run(attempt) == 0
    assert (stage.root / OUTPUT).read_text() == "42\n"
    assert (stage.root / "stage-0/x.json").read_text() == "42\n"


def test_a_forward_file_that_went_away_is_rejected_before_it_runs(stage: Stage) -> None:
    """DPDispatcher refuses the submission, and the reason is in the attempt's log."""
    attempt = stage.attempt()
    job = StageJob("stage-1", WRITE, forward_files=("no.py",), outputs=(OUTPUT,))
    attempt.stage_folder.mkdir(exist_ok=True)
    sent = attempt.stage_folder / "no.py"
    sent.touch()
    stage.runner().prepare(attempt, submission.build(job, PROFILE))
    sent.unlink()
    assert stage.run(attempt) == 1
    assert judged(attempt).name == "REJECTED"
    assert "no.py" in (diagnose(attempt, collect(attempt, NOW), "REJECTED").output or "")


def test_an_output_that_was_never_written_is_found_missing(stage: Stage) -> None:
    """A job that ends well without its output has failed, and says which one."""
    attempt = stage.prepare("true")
    assert stage.run(attempt) == 1
    assert judged(attempt).name == "OUTPUT_MISSING"
    assert collect(attempt, NOW).backward_missing == (OUTPUT,)


def test_a_misspelt_key_is_refused_with_the_checkers_words(stage: Stage) -> None:
    """What DPDispatcher itself would pass over in silence stops the launch."""
    given = submission.build(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    given["forward_comon_files"] = []
    with pytest.raises(RejectedSubmission, match="forward_comon_files"):
        stage.runner().prepare(stage.attempt(), given)


def test_a_refusal_is_one_sentence_with_field_expectation_and_finding(stage: Stage) -> None:
    """The checker's own words, and nothing of how it came to them."""
    given = submission.build(StageJob("stage-1", WRITE, outputs=(OUTPUT,)), PROFILE)
    given["resources"]["number_node"] = "two"
    with pytest.raises(RejectedSubmission) as refused:
        stage.runner().check(stage.attempt(), given)
    assert refused.value.data["output"] == (
        "[at location `resources`] key `number_node` gets wrong value type, "
        "requires <int> but str is not an instance of int"
    )
    assert "\n" not in refused.value.message
    assert not stage.attempt().folder.exists()


def test_a_missing_program_says_what_to_do(stage: Stage, tmp_path: Path) -> None:
    """No dpdisp where WFCTL_DPDISP points: the error names the place and the way out."""
    environ = {**stage.environ, "WFCTL_DPDISP": str(tmp_path / "dpdisp")}
    given = submission.build(StageJob("stage-1", WRITE), PROFILE)
    with pytest.raises(ProgramMissing, match="WFCTL_DPDISP"):
        DPDispatcherRunner(environ=environ).prepare(stage.attempt(), given)


def test_a_monitor_that_cannot_start_says_why(stage: Stage, tmp_path: Path) -> None:
    """A record that cannot be written is an error with what the wrapper printed."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sync").write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    (tmp_path / "bin/sync").chmod(0o755)
    full = Stage(stage.root, {**stage.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    attempt = full.prepare(WRITE)
    with pytest.raises(LaunchFailed, match="no space left"):
        full.runner().launch(attempt, Mode.SETSID)


def test_what_is_no_lock_is_moved_out_of_the_way(stage: Stage) -> None:
    """A folder in its place is kept aside, and the job runs."""
    attempt = stage.prepare(WRITE)
    attempt.monitor_lock.unlink()
    attempt.monitor_lock.mkdir()
    stage.runner().launch(attempt, Mode.SETSID)
    assert stage.runner().wait(attempt, 60)
    assert (attempt.folder / "stale/.monitor.lock.0").is_dir()


def test_the_wrapper_is_a_script_that_anybody_may_run(stage: Stage) -> None:
    """bash finds no fault with it, and it is executable."""
    attempt = stage.prepare(WRITE)
    assert attempt.wrapper.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", attempt.wrapper], check=True)
    assert subprocess.run([attempt.wrapper], env=stage.environ, check=False).returncode == 0
