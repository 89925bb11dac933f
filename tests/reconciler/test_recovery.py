"""Real jobs whose monitors, shells or servers are killed: no result is lost or repeated."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from reconciler.attempt.markers import MarkerState
from reconciler.context import Mode
from reconciler.errors import (
    AlreadyMonitored,
    LaunchFailed,
)
from reconciler.evidence.collect import collect_evidence
from reconciler.host.processes import start_ticks
from reconciler.verdict.table import Action
from tests.need import need_programs
from tests.reconciler.support import (
    LONG,
    NOW,
    OUTPUT,
    SHORT,
    WRITE,
    Stage,
    children,
    end,
    end_tenants,
    judged,
    kill_monitor,
    let_go,
    recorded,
    started,
    until,
)

pytestmark = pytest.mark.slow


def attempt_of(marker: Path) -> str:
    """Return the tag of the attempt that a marker names."""
    return marker.read_text().split()[1]


def command_of(pid: int) -> str:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("mode", [Mode.TMUX, Mode.SETSID])
def test_monitor_killed_during_the_job_can_be_replaced(stage: Stage, mode: Mode) -> None:
    """The job continues without a monitor, and a second monitor collects its result."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, mode)
    until(lambda: started(attempt) and recorded(attempt))
    kill_monitor(attempt)
    until(lambda: judged(attempt).name == "ORPHAN_RUNNING")
    stage.runner().launch(attempt, mode)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def deadly_flock(folder: Path, times: int) -> str:
    """Return a PATH whose flock kills the calling monitor the given number of times."""
    folder.mkdir()
    for number in range(times):
        (folder / f"blow-{number}").touch()
    real = shutil.which("flock")
    lines = [
        "#!/bin/bash",
        'if [ "$*" = "-w 1 8" ]; then',
        f'    for blow in "{folder}"/blow-*; do',
        '        [ -e "$blow" ] && rm "$blow" && kill -KILL $PPID && exit 1',
        "    done",
        "fi",
        f'exec {real} "$@"',
    ]
    (folder / "flock").write_text("\n".join(lines) + "\n")
    (folder / "flock").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("mode", [Mode.TMUX, Mode.SETSID])
def test_monitor_killed_at_its_start_is_started_once_again(
    stage: Stage, tmp_path: Path, mode: Mode
) -> None:
    """The launch starts a second monitor, which succeeds, and the job runs once."""
    mortal = Stage(stage.root, {**stage.environ, "PATH": deadly_flock(tmp_path / "bin", 1)})
    attempt = mortal.prepare(WRITE)
    assert mortal.runner().launch(attempt, mode).mode is mode
    assert mortal.runner().wait(attempt, 60)
    assert list((tmp_path / "bin").glob("blow-*")) == []
    assert (judged(attempt).name, mortal.runs(attempt)) == ("SUCCEEDED", 1)


@pytest.mark.parametrize("mode", [Mode.TMUX, Mode.SETSID])
def test_monitor_killed_twice_at_its_start_fails_the_launch(
    stage: Stage, tmp_path: Path, mode: Mode
) -> None:
    """The launch raises an error without submitting a job, and a later launch succeeds."""
    mortal = Stage(stage.root, {**stage.environ, "PATH": deadly_flock(tmp_path / "bin", 2)})
    attempt = mortal.prepare(WRITE)
    with pytest.raises(LaunchFailed, match="printed nothing: the system or a person killed it"):
        mortal.runner().launch(attempt, mode)
    assert judged(attempt).name == "NEVER_STARTED"
    mortal.runner().launch(attempt, mode)
    assert mortal.runner().wait(attempt, 60)
    assert (judged(attempt).name, mortal.runs(attempt)) == ("SUCCEEDED", 1)


def test_job_survives_the_end_of_the_tmux_server(stage: Stage) -> None:
    """The monitor ends with the tmux server, and a new monitor collects the job's result."""
    need_programs("tmux")
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.TMUX)
    until(lambda: started(attempt) and recorded(attempt))
    subprocess.run(["tmux", "kill-server"], env=stage.environ, check=True)
    until(lambda: judged(attempt).name == "ORPHAN_RUNNING")
    let_go(attempt)
    until(lambda: judged(attempt).name == "FINISHED_NOT_COLLECTED")
    stage.runner().launch(attempt, Mode.TMUX)
    assert stage.runner().wait(attempt, 60)
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


@pytest.mark.parametrize("over", [True, False])
def test_unrecorded_submission_runs_once(stage: Stage, over: bool) -> None:
    """The next monitor writes the missing recovery file without a second submission."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: started(attempt) and recorded(attempt))
    kill_monitor(attempt)
    # Delete the recovery file, as if the monitor was killed before it wrote the file.
    for path in attempt.folder.glob("work/*/*.json"):
        path.unlink()
    until(lambda: judged(attempt).name == "ORPHAN_RUNNING_UNRECORDED")
    if over:
        let_go(attempt)
        until(lambda: judged(attempt).name == "FINISHED_NOT_COLLECTED")
    stage.runner().launch(attempt, Mode.SETSID)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)
    assert attempt.log.read_text().count("was submitted; job_id is") == 1


def test_killed_job_is_lost_and_not_failed(stage: Stage) -> None:
    """A job whose processes were all killed has no exit code, so its verdict is JOB_LOST."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    end_tenants(attempt)
    assert stage.runner().wait(attempt, 60)
    assert attempt.exit_code_marker.read_text().startswith("1\n")
    assert (judged(attempt).name, judged(attempt).action) == ("JOB_LOST", Action.LOST)
    assert stage.runs(attempt) == 1


def test_failure_flag_of_a_killed_job_is_not_trusted(stage: Stage) -> None:
    """Without an exit code, DPDispatcher's failure flag does not prove a failure."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    end_tenants(attempt)
    assert stage.runner().wait(attempt, 60)
    [record] = attempt.folder.glob("job-*.started")
    record.with_suffix(".killed").touch()
    for copy in attempt.folder.glob("work/*"):
        name = record.stem.removeprefix("job-")
        (copy / f"{name}_flag_if_job_task_fail").write_text("1\n")
    assert (judged(attempt).name, judged(attempt).action) == ("JOB_KILLED", Action.LOST)


@pytest.mark.few(2)
@pytest.mark.parametrize("told", [True, False], ids=["the shell tells", "the shell dies too"])
@pytest.mark.parametrize("depth", [1, 2], ids=["it is tagged", "it is flagged"])
def test_task_killed_before_it_reports_its_command_is_lost(
    stage: Stage, depth: int, told: bool
) -> None:
    """The job is lost, whether DPDispatcher's script marked it as finished or failed."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    # Wait for the job id, because the command may start before DPDispatcher has recorded the id.
    until(lambda: stage.runner().facts(attempt).job_ids)
    [shell] = stage.runner().facts(attempt).job_ids
    end(_descendant(int(shell), depth))
    until(lambda: list(attempt.folder.glob("job-*.exit")))
    end_tenants(attempt)
    assert stage.runner().wait(attempt, 60)
    if not told:
        [said] = attempt.folder.glob("job-*.exit")
        said.unlink()
    # If the command was seen running after the end of its shell, the shell's exit code is ignored.
    outlived = list(attempt.folder.glob("job-*.alone"))
    name = "JOB_KILLED" if told and not outlived else "JOB_LOST"
    assert (judged(attempt).name, judged(attempt).action) == (name, Action.LOST)


def _descendant(pid: int, depth: int) -> int:
    for _ in range(depth):
        [pid] = children(pid)
    return pid


def test_command_that_outlives_its_shell_is_still_running(stage: Stage) -> None:
    """The command still holds the job's lock, so the verdict is to attach a new monitor."""
    attempt = stage.prepare(f"exec python3 -c 'import time; time.sleep(600)'; {WRITE}")
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    # Wait for the job id, because the command may start before DPDispatcher has recorded the id.
    until(lambda: stage.runner().facts(attempt).job_ids)
    [shell] = stage.runner().facts(attempt).job_ids
    end(int(shell))
    until(lambda: start_ticks(int(shell)) is None)
    kill_monitor(attempt)
    [job] = collect_evidence(attempt, NOW).jobs
    assert (job.id_alive, job.lock_held) == (False, True)
    until(lambda: judged(attempt).action is Action.ATTACH)
    end_tenants(attempt)
    assert judged(attempt).name == "JOB_LOST"


def test_collected_results_without_markers_are_accepted(stage: Stage) -> None:
    """If the monitor is killed after collecting the results, the job does not run again."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    for marker in (attempt.exit_code_record, attempt.exit_code_marker, attempt.done_marker):
        marker.unlink()
    assert judged(attempt).name == "COLLECTED_UNMARKED"
    assert stage.run(attempt) == 0
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_relaunched_finished_attempt_computes_nothing(stage: Stage) -> None:
    """A second launch leaves the output unchanged, and the command ran only once."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    before = (stage.root / OUTPUT).stat().st_mtime_ns
    stage.run(attempt)
    assert (stage.root / OUTPUT).stat().st_mtime_ns == before
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_markers_of_an_earlier_attempt_are_moved_aside(stage: Stage) -> None:
    """The new monitor ignores the old markers and keeps them in `stale`."""
    first = stage.prepare(WRITE)
    stage.run(first)
    second = stage.prepare(WRITE, "att-0002")
    assert collect_evidence(second, NOW).exit_marker.seen is MarkerState.OTHER
    stage.run(second)
    assert (second.folder / "stale/DPDISP_EXIT_CODE").read_text() == "0\n"
    assert attempt_of(second.folder / "stale/DPDISP_DONE") == first.tag
    assert attempt_of(second.exit_code_record) == second.tag


def test_second_monitor_of_a_job_exits(stage: Stage) -> None:
    """While a monitor runs, a second one exits with code 75, and the job runs once."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.TMUX)
    until(lambda: started(attempt))
    second = subprocess.run(["bash", attempt.wrapper], env=stage.environ, check=False)
    assert second.returncode == 75
    with pytest.raises(AlreadyMonitored):
        stage.runner().launch(attempt, Mode.SETSID)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_parallel_wrappers_run_the_job_once(stage: Stage) -> None:
    """Of three wrappers, one monitors the job, and the others exit with code 75."""
    attempt = stage.prepare(SHORT)
    codes: list[int] = []

    def run() -> None:
        done = subprocess.run(["bash", attempt.wrapper], env=stage.environ, check=False)
        codes.append(done.returncode)

    racers = [threading.Thread(target=run) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(codes) == [0, 75, 75]
    assert stage.runs(attempt) == 1


def test_job_does_not_hold_the_lock_of_its_monitor(stage: Stage) -> None:
    """When a monitor is killed, its lock becomes free, although its job continues."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: started(attempt) and recorded(attempt))
    kill_monitor(attempt)
    until(lambda: collect_evidence(attempt, NOW).monitor_locked is False)
    assert collect_evidence(attempt, NOW).jobs[0].lock_held is True
    let_go(attempt)
    until(lambda: not collect_evidence(attempt, NOW).jobs[0].lock_held)


def test_dpdispatcher_of_a_killed_wrapper_continues(stage: Stage) -> None:
    """While the DPDispatcher of the killed wrapper lives, the attempt counts as monitored."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    wrapper_pid = json.loads(attempt.monitor_record.read_text())["pid"]
    until(lambda: stage.runs(attempt) == 1)
    watched = [pid for pid in children(wrapper_pid) if "dpdisp" in command_of(pid)]
    assert watched, "DPDispatcher looks at a new job for a second"
    end(wrapper_pid)
    assert judged(attempt).name == "MONITORED"
    until(lambda: judged(attempt).name == "ORPHAN_RUNNING")
    stage.runner().launch(attempt, Mode.SETSID)
    let_go(attempt)
    assert stage.runner().wait(attempt, 60)
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_evidence_in_a_copied_root_leads_to_no_action(stage: Stage) -> None:
    """In a copy of the workflow folder, the verdict is ELSEWHERE with no action."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    other = stage.root.with_name("copy")
    subprocess.run(["cp", "-a", stage.root, other], check=True)
    copied = Stage(other, stage.environ).attempt()
    assert (judged(copied).name, judged(copied).action) == ("ELSEWHERE", Action.UNKNOWN)
