"""Unexpected conditions: wrong clocks, end markers of other jobs, reboots, late checks."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.host.processes import identify
from tests.crash.aftermath import check_log, check_stage, recover
from tests.crash.support import Workflow, ending, stage, until
from tests.crash.victims import Victim, is_job, processes, strike
from tests.rounds import first

pytestmark = pytest.mark.slow

YEAR = 365 * 86_400
GATE = "while [ ! -e ../../../../../../go ]; do sleep 0.02; done; echo 1 > out.txt"


def collected(workflow: Workflow) -> Path:
    """Let a job end and its monitor collect the results; return the stage folder."""
    workflow.init(stage("stage-1", "echo 1 > out.txt"))
    workflow.succeed("dispatch", "stage-1")
    folder = workflow.root / "stage-1"
    until((folder / "DPDISP_DONE").exists)
    return folder


def orphaned(workflow: Workflow) -> Path:
    """Launch a job, kill its monitor, and return the folder of its attempt."""
    workflow.init(stage("stage-1", GATE))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    return workflow.attempts("stage-1")[0]


def end_record(folder: Path) -> Path:
    """Return the file in which the job recorded its own end."""
    [record] = folder.glob("**/job-*.exit")
    return record


def shift(paths: list[Path], seconds: float) -> None:
    """Shift the times of files, as if another clock had written them."""
    for path in paths:
        moved = path.stat().st_mtime + seconds
        os.utime(path, (moved, moved))


def moment(text: str) -> float:
    """Return a time of the log in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def kinds(workflow: Workflow) -> set[str]:
    """Return the kinds of contradictions that `rehydrate --dry-run` reports."""
    told = json.loads(workflow.succeed("rehydrate", "--dry-run", "-o", "json"))["data"]
    return {one["kind"] for one in told["contradictions"]}


def check_done_once(workflow: Workflow) -> None:
    """Check that the stage completes and that its job ran once."""
    recover(workflow)
    check_stage(workflow, "stage-1", 1)
    assert workflow.trace() == ["w-crash/stage-1/att-0001"]
    check_log(workflow)


def test_end_before_the_launch_is_accepted_and_reported(workflow: Workflow) -> None:
    """If the clock went backwards, the result is valid, with the time that the job wrote."""
    folder = collected(workflow)
    record = end_record(folder)
    shift([record, folder / "DPDISP_DONE", *folder.glob(".attempts/*/exit-code")], -YEAR)
    assert "clock" in kinds(workflow)
    workflow.succeed("rehydrate")
    [computed] = workflow.events("stage.computed")
    assert moment(computed["occurred_at"]) == pytest.approx(record.stat().st_mtime, abs=1e-3)
    check_done_once(workflow)


def test_end_in_the_future_is_recorded_as_now(workflow: Workflow) -> None:
    """If the job recorded an end in the future, wfctl records the current time."""
    folder = collected(workflow)
    ends = [end_record(folder), *folder.glob(".attempts/*/exit-code")]
    shift([*ends, folder / "DPDISP_DONE"], YEAR)
    workflow.succeed("rehydrate")
    [computed] = workflow.events("stage.computed")
    assert computed["occurred_at"] <= computed["recorded_at"]
    check_done_once(workflow)
    updated = json.loads((workflow.root / "workflow-state.json").read_bytes())["updated"]
    assert moment(updated) < datetime.now(UTC).timestamp() + 1


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "text"),
    first(
        [
            ("marker_unreadable", ""),
            ("marker_of_another", "1\nw-crash/stage-1/att-0007 2026-01-01T00:00:00.000000Z\n"),
            ("marker_unreadable", "x\n"),
            ("marker_of_another", "1\n"),
            ("marker_unreadable", "0\nw-crash/stage-1/att-0001"),
            ("marker_unreadable", "\0\0\0\0\0"),
            ("marker_of_another", "1\nw-other/stage-1/att-0001 2026-01-01T00:00:00.000000Z\n"),
        ],
        now=2,
    ),
    ids=["empty", "attempt", "no number", "number", "cut after the tag", "zeros", "workflow"],
)
def test_marker_of_another_attempt_decides_nothing(
    workflow: Workflow, kind: str, text: str
) -> None:
    """wfctl reports a foreign or unreadable end marker, and uses the job's own record."""
    folder = collected(workflow)
    (folder / "DPDISP_EXIT_CODE").write_text(text)
    assert kind in kinds(workflow)
    check_done_once(workflow)


def test_marker_that_names_its_attempt_is_accepted(workflow: Workflow) -> None:
    """wfctl reads markers of earlier versions, whose second line names the attempt."""
    folder = collected(workflow)
    [record] = folder.glob(".attempts/*/exit-code")
    record.rename(folder / "DPDISP_EXIT_CODE")
    assert kinds(workflow) == set()
    workflow.succeed("rehydrate")
    observed = workflow.events("attempt.observed")[-1]["data"]
    assert observed["verdict"] == "SUCCEEDED"
    assert observed["evidence"]["exit_marker"]["seen"] == "own"
    check_done_once(workflow)


@pytest.mark.long
def test_foreign_marker_does_not_end_a_running_job(workflow: Workflow) -> None:
    """If another job's end marker exists, the job continues and its own result counts."""
    orphaned(workflow)
    text = "1\nw-other/stage-1/att-0001 2026-01-01T00:00:00.000000Z\n"
    for name in ("DPDISP_EXIT_CODE", "DPDISP_DONE"):
        (workflow.root / "stage-1" / name).write_text(text)
    workflow.succeed("rehydrate")
    assert workflow.stage("stage-1")["status"] == "running"
    (workflow.root / "go").touch()
    check_done_once(workflow)


@pytest.mark.long
def test_end_time_is_that_of_the_job_record(workflow: Workflow) -> None:
    """The stage ended when the job recorded its end, not when wfctl noticed the end."""
    folder = orphaned(workflow)
    (workflow.root / "go").touch()
    until(lambda: list(folder.glob("job-*.exit")))
    time.sleep(1.5)
    workflow.succeed("rehydrate")
    workflow.succeed("wait", "stage-1")
    [computed] = workflow.events("stage.computed")
    ended = end_record(folder).stat().st_mtime
    assert moment(computed["occurred_at"]) == pytest.approx(ended, abs=1e-3)
    assert moment(computed["recorded_at"]) > ended + 1
    check_done_once(workflow)


@pytest.mark.long
def test_concurrent_reconcilers_record_an_end_once(workflow: Workflow) -> None:
    """Four commands find the same end. One records the end, and none fails."""
    collected(workflow)
    with (
        ending(workflow.start("reconcile")) as one,
        ending(workflow.start("rehydrate")) as two,
        ending(workflow.start("reconcile")) as three,
        ending(workflow.start("rehydrate")) as four,
    ):
        assert [each.wait(60) for each in (one, two, three, four)] == [0] * 4
    assert workflow.committed("stage.computed") == 1
    check_done_once(workflow)


def of_another_boot(folder: Path, alive: int) -> None:
    """Change the attempt's records as if they were of an earlier boot, with reused process ids."""
    stranger = identify(alive)
    assert stranger is not None
    launch = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps({**launch, "boot_id": "an-earlier-boot"}))
    monitor = {"pid": stranger.pid, "ticks": stranger.ticks, "boot_id": "an-earlier-boot"}
    (folder / "monitor.json").write_text(json.dumps(monitor))
    for record in folder.glob("job-*.started/record"):
        *scratch, _, _, _, host, end = record.read_text().split("\n")
        own = [*scratch, str(stranger.pid), str(stranger.ticks), "an-earlier-boot", host, end]
        record.write_text("\n".join(own))


@pytest.mark.long
def test_a_job_that_a_reboot_ended_is_lost_and_runs_again(workflow: Workflow) -> None:
    """wfctl does not take a process with a reused id for the job, and runs the job again."""
    folder = orphaned(workflow)
    strike(workflow, Victim.EVERYTHING)
    of_another_boot(folder, os.getpid())
    assert "the machine was restarted" in workflow.succeed("rehydrate", "--dry-run")
    (workflow.root / "go").touch()
    workflow.succeed("rehydrate")
    [observed] = [e["data"]["verdict"] for e in workflow.events("attempt.observed")][:1]
    assert observed == "JOB_LOST"
    recover(workflow)
    assert workflow.trace() == ["w-crash/stage-1/att-0001", "w-crash/stage-1/att-0002"]
    assert workflow.stage("stage-1")["retry_count"] == 0


@pytest.mark.long
def test_result_from_before_a_reboot_is_collected(workflow: Workflow) -> None:
    """If the job had ended before the reboot, wfctl collects its result without a new run."""
    folder = orphaned(workflow)
    (workflow.root / "go").touch()
    until(lambda: list(folder.glob("job-*.exit")))
    strike(workflow, Victim.EVERYTHING)
    of_another_boot(folder, os.getpid())
    check_done_once(workflow)


def moved(workflow: Workflow) -> Workflow:
    """Move the root, and record the move."""
    there = replace(workflow, root=workflow.root.with_name("moved"))
    workflow.root.rename(there.root)
    there.succeed("--root-is", "moved", "note", "it lies here now")
    return there


def test_running_job_of_a_moved_root_is_awaited(workflow: Workflow) -> None:
    """The job continues after its root was moved, and wfctl collects its result."""
    orphaned(workflow)
    there = moved(workflow)
    there.succeed("rehydrate")
    assert there.stage("stage-1")["status"] == "running"
    assert verdicts(there)[-1] == "RUNS_ON_AFTER_MOVE"
    (there.root / "go").touch()
    until(lambda: not any(is_job(pid) for pid in processes(there)))
    recover(there)
    check_stage(there, "stage-1", 1)
    assert there.trace() == ["w-crash/stage-1/att-0001"]
    assert "FINISHED_NOT_COLLECTED" not in verdicts(there)


@pytest.mark.long
def test_job_that_died_after_a_move_runs_again(workflow: Workflow) -> None:
    """If no process of the job exists on this machine, the job has ended and runs again."""
    orphaned(workflow)
    there = moved(workflow)
    strike(there, Victim.EVERYTHING)
    (there.root / "go").touch()
    recover(there)
    check_stage(there, "stage-1", 1)
    assert there.trace() == ["w-crash/stage-1/att-0001", "w-crash/stage-1/att-0002"]
    assert there.stage("stage-1")["retry_count"] == 0


def verdicts(workflow: Workflow) -> list[str]:
    """Return the names of the recorded verdicts, in order."""
    return [event["data"]["verdict"] for event in workflow.events("attempt.observed")]
