"""Real jobs whose monitors, shells and servers are killed: nothing is lost or run twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from reconciler.attempt.markers import SeenMarker
from reconciler.context import Mode
from reconciler.errors import (
    AlreadyMonitored,
    LaunchFailed,
)
from reconciler.evidence.collect import collect
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
def test_a_monitor_killed_while_the_job_runs_is_replaced(stage: Stage, mode: Mode) -> None:
    """The job runs on alone, is seen to, and a second monitor brings its result back."""
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
    """Return a PATH on which so many monitors are killed before they have said who they are."""
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
def test_a_monitor_killed_before_it_says_who_it_is_is_started_once_more(
    stage: Stage, tmp_path: Path, mode: Mode
) -> None:
    """One blow as it starts is no reason to give up, and the job runs once."""
    mortal = Stage(stage.root, {**stage.environ, "PATH": deadly_flock(tmp_path / "bin", 1)})
    attempt = mortal.prepare(WRITE)
    assert mortal.runner().launch(attempt, mode).mode is mode
    assert mortal.runner().wait(attempt, 60)
    assert list((tmp_path / "bin").glob("blow-*")) == []
    assert (judged(attempt).name, mortal.runs(attempt)) == ("SUCCEEDED", 1)


@pytest.mark.parametrize("mode", [Mode.TMUX, Mode.SETSID])
def test_a_monitor_that_is_killed_twice_as_it_starts_is_told_of(
    stage: Stage, tmp_path: Path, mode: Mode
) -> None:
    """Somebody has to look; nothing was submitted, and a later launch goes through."""
    mortal = Stage(stage.root, {**stage.environ, "PATH": deadly_flock(tmp_path / "bin", 2)})
    attempt = mortal.prepare(WRITE)
    with pytest.raises(LaunchFailed, match="printed nothing: something kills it"):
        mortal.runner().launch(attempt, mode)
    assert judged(attempt).name == "NEVER_STARTED"
    mortal.runner().launch(attempt, mode)
    assert mortal.runner().wait(attempt, 60)
    assert (judged(attempt).name, mortal.runs(attempt)) == ("SUCCEEDED", 1)


def test_a_whole_tmux_server_may_die(stage: Stage) -> None:
    """Killing the server ends the monitor, not the job, and the result is collected after."""
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
def test_a_submission_that_was_never_written_down_runs_once(stage: Stage, over: bool) -> None:
    """Killed before the recovery file, it is written down at last, and nothing is sent again."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: started(attempt) and recorded(attempt))
    kill_monitor(attempt)
    # What is killed in the instant between submitting and writing it down leaves just this.
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


def test_a_killed_job_is_lost_and_not_failed(stage: Stage) -> None:
    """Every process of the job killed leaves no exit code, and nothing says it failed."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    end_tenants(attempt)
    assert stage.runner().wait(attempt, 60)
    assert attempt.exit_code_marker.read_text().startswith("1\n")
    assert (judged(attempt).name, judged(attempt).action) == ("JOB_LOST", Action.LOST)
    assert stage.runs(attempt) == 1


def test_a_shell_killed_before_it_told_of_its_killed_command_is_lost_too(stage: Stage) -> None:
    """DPDispatcher's flag is there, the job's exit code is not: no failure of the command."""
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
def test_a_task_that_is_killed_before_it_can_tell_of_its_command_is_lost(
    stage: Stage, depth: int, told: bool
) -> None:
    """DPDispatcher's script tags or flags the job, by which of its shells is hit."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    # The command may be at work before DPDispatcher has written down the id of its job.
    until(lambda: stage.runner().facts(attempt).job_ids)
    [shell] = stage.runner().facts(attempt).job_ids
    end(_descendant(int(shell), depth))
    until(lambda: list(attempt.folder.glob("job-*.exit")))
    end_tenants(attempt)
    assert stage.runner().wait(attempt, 60)
    if not told:
        [said] = attempt.folder.glob("job-*.exit")
        said.unlink()
    # Seen at work after its shell, it is no longer the shell's word that counts.
    outlived = list(attempt.folder.glob("job-*.alone"))
    name = "JOB_KILLED" if told and not outlived else "JOB_LOST"
    assert (judged(attempt).name, judged(attempt).action) == (name, Action.LOST)


def _descendant(pid: int, depth: int) -> int:
    for _ in range(depth):
        [pid] = children(pid)
    return pid


def test_a_command_that_outlives_its_shell_is_waited_for(stage: Stage) -> None:
    """The job's own bash killed, its command holds the lock and still computes."""
    attempt = stage.prepare(f"exec python3 -c 'import time; time.sleep(600)'; {WRITE}")
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: stage.runs(attempt) == 1)
    # The command may be at work before DPDispatcher has written down the id of its job.
    until(lambda: stage.runner().facts(attempt).job_ids)
    [shell] = stage.runner().facts(attempt).job_ids
    end(int(shell))
    until(lambda: start_ticks(int(shell)) is None)
    kill_monitor(attempt)
    [job] = collect(attempt, NOW).jobs
    assert (job.id_alive, job.lock_held) == (False, True)
    until(lambda: judged(attempt).action is Action.ATTACH)
    end_tenants(attempt)
    assert judged(attempt).name == "JOB_LOST"


def test_results_collected_by_a_monitor_that_left_no_marker_count(stage: Stage) -> None:
    """Killed between DPDispatcher's end and the exit code, nothing has to be run again."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    for marker in (attempt.exit_code_record, attempt.exit_code_marker, attempt.done_marker):
        marker.unlink()
    assert judged(attempt).name == "COLLECTED_UNMARKED"
    assert stage.run(attempt) == 0
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_a_finished_attempt_launched_again_computes_nothing(stage: Stage) -> None:
    """Attaching to what is through changes nothing but the time in the markers."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    before = (stage.root / OUTPUT).stat().st_mtime_ns
    stage.run(attempt)
    assert (stage.root / OUTPUT).stat().st_mtime_ns == before
    assert (judged(attempt).name, stage.runs(attempt)) == ("SUCCEEDED", 1)


def test_markers_of_an_earlier_attempt_are_kept_aside(stage: Stage) -> None:
    """A new attempt's monitor neither believes nor destroys what an earlier one wrote."""
    first = stage.prepare(WRITE)
    stage.run(first)
    second = stage.prepare(WRITE, "att-0002")
    assert collect(second, NOW).exit_marker.seen is SeenMarker.OTHER
    stage.run(second)
    assert (second.folder / "stale/DPDISP_EXIT_CODE").read_text() == "0\n"
    assert attempt_of(second.folder / "stale/DPDISP_DONE") == first.tag
    assert attempt_of(second.exit_code_record) == second.tag


def test_two_monitors_at_once_are_one(stage: Stage) -> None:
    """The second wrapper leaves with 75, the runner says so, and the job runs once."""
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


def test_wrappers_racing_from_the_start_run_the_job_once(stage: Stage) -> None:
    """Started in the same instant, one watches and the others leave with 75."""
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


def test_the_job_does_not_hold_the_lock_of_its_monitor(stage: Stage) -> None:
    """With the monitor killed its lock is free, though the job runs on."""
    attempt = stage.prepare(LONG)
    stage.runner().launch(attempt, Mode.SETSID)
    until(lambda: started(attempt) and recorded(attempt))
    kill_monitor(attempt)
    until(lambda: collect(attempt, NOW).monitor_locked is False)
    assert collect(attempt, NOW).jobs[0].lock_held is True
    let_go(attempt)
    until(lambda: not collect(attempt, NOW).jobs[0].lock_held)


def test_the_wrapper_alone_killed_leaves_its_dpdispatcher_in_charge(stage: Stage) -> None:
    """While the DPDispatcher of a killed wrapper lives, no second one starts beside it."""
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


def test_a_copied_root_is_somebody_elses(stage: Stage) -> None:
    """Evidence collected in a copy of the root never leads to an action."""
    attempt = stage.prepare(WRITE)
    stage.run(attempt)
    other = stage.root.with_name("copy")
    subprocess.run(["cp", "-a", stage.root, other], check=True)
    copied = Stage(other, stage.environ).attempt()
    assert (judged(copied).name, judged(copied).action) == ("ELSEWHERE", Action.UNKNOWN)
