"""A stage requests more of a resource after an attempt that had too little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, Place, agree, write_plan
from tests.crash.support import until
from tests.growth.support import (
    GROWTH,
    LOCAL,
    NEEDS,
    approve_change,
    create_workflow,
    get_stage,
    list_attempts,
    list_requests,
    make_plan,
    make_stage,
)

pytestmark = pytest.mark.slow

#: Ways in which a command reports that memory ran out, each with the output that a person sees.
ENDS = {
    "killed": "exit 137",
    "Python": "{ echo 'MemoryError' >&2; exit 1; }",
    "C++": "{ echo \"terminate called after throwing 'std::bad_alloc'\" >&2; exit 134; }",
    "kernel": "{ echo 'Out of memory: Killed process 7' >&2; exit 1; }",
}


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize("end", ENDS)
def test_job_that_runs_out_of_memory_ends_at_8_gb_with_one_approval(
    tmp_path: Path, end: str
) -> None:
    """The attempts request 1, 2, 4 and 8 GB, without a retry by a person."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=8, end=ENDS[end])
    place = Place(tmp_path / "root")
    place.path.mkdir()
    plan = make_plan(make_stage(command, {"memory_gb": GROWTH}))
    place.done("init", str(write_plan(tmp_path, plan)))
    agree(place.path)
    assert place.call("run").code == 0
    assert (tmp_path / "trace").read_text().split() == ["1", "2", "4", "8"]
    assert list_requests(place) == [1, 2, 4, 8]
    assert place.types("--type", "amendment.approved") == ["amendment.approved"]
    assert place.types("--type", "stage.retried") == []
    assert get_stage(place)["retry_count"] == 0
    assert place.call("fsck", "--protocol").code == 0
    assert "att-0003 ran out of memory with 4 GB; the next attempt requests 8 GB" in place.log()


@pytest.mark.long
def test_job_that_is_killed_at_the_ceiling_does_not_run_again(tmp_path: Path) -> None:
    """Each amount is requested once, as for other messages about memory."""
    growth = {"start": 1, "times": 4, "at_most": 4}
    place = create_workflow(tmp_path, make_stage("exit 137", {"memory_gb": growth}))
    assert place.call("run").code == 6
    assert list_requests(place) == [1, 4]


@pytest.mark.long
def test_job_that_is_killed_with_a_fixed_request_does_not_run_again(tmp_path: Path) -> None:
    """The plan states the memory, so SIGKILL means that it was not enough."""
    place = create_workflow(tmp_path, make_stage("exit 137", {"memory_gb": 1}))
    assert place.call("run").code == 6
    assert list_requests(place) == [1]


@pytest.mark.long
def test_person_is_asked_at_the_ceiling_and_can_raise_it(tmp_path: Path) -> None:
    """The message names the ceiling, and a higher ceiling lets the stage continue."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=3, end="exit 137")
    growth = {"start": 1, "plus": 1, "at_most": 2}
    place = create_workflow(tmp_path, make_stage(command, {"memory_gb": growth}))
    assert place.call("run").code == 6
    stage = get_stage(place)
    assert stage["status"] == "failed"
    assert "already requested 2 GB of memory per node" in stage["last_error"]
    change = "--set parameters.resources.memory_gb.at_most=NUMBER"
    command = f"wfctl amend propose --stage stage-1 {change} --reason TEXT"
    for words in (("run",), ("status",), ("why", "stage-1")):
        assert f"next: {command}" in place.call(*words).out
        assert "stage retry" not in place.call(*words).out
    approve_change(place, "resources.memory_gb.at_most", 5)
    assert place.call("run").code == 0
    assert list_requests(place)[-1] == 3
    assert (tmp_path / "trace").read_text().split()[-1] == "3"


@pytest.mark.long
def test_time_limit_grows_until_the_command_has_enough_time(tmp_path: Path) -> None:
    """The first attempt ends at its time limit, and the second has more time."""
    growth = {"time_limit": {"start": 2, "times": 20, "at_most": 60}}
    place = create_workflow(tmp_path, make_stage("sleep 8", growth))
    assert place.call("run").code == 0
    assert list_requests(place, "time_limit") == [2, 40]


@pytest.mark.long
def test_more_cores_help_if_the_time_limit_cannot_grow(tmp_path: Path) -> None:
    """The command gets the number of cores in a variable."""
    growth = {"time_limit": 2, "cores": {"start": 1, "times": 2, "at_most": 4}}
    command = '[ "$WFCTL_CORES" = 2 ] || sleep 30'
    place = create_workflow(tmp_path, make_stage(command, growth))
    assert place.call("run").code == 0
    assert list_requests(place, "cores") == [1, 2]


def test_other_failure_does_not_grow(tmp_path: Path) -> None:
    """A stage that fails for another reason waits for a person."""
    stage = make_stage("echo 'ValueError: no' >&2; exit 1", {"memory_gb": GROWTH})
    place = create_workflow(tmp_path, stage)
    assert place.call("run").code == 6
    assert list_requests(place) == [1]
    assert get_stage(place)["status"] == "failed"


def test_memory_of_a_graphics_card_does_not_grow(tmp_path: Path) -> None:
    """More memory of the machine does not help a full graphics card."""
    command = "echo 'RuntimeError: CUDA out of memory' >&2; exit 1"
    place = create_workflow(tmp_path, make_stage(command, {"memory_gb": GROWTH}))
    assert place.call("run").code == 6
    assert len(list_attempts(place)) == 1


@pytest.mark.long
def test_stage_continues_after_kills_between_its_attempts(tmp_path: Path) -> None:
    """A killed run loses no attempt, and the next run requests the next amount."""
    trace = tmp_path / "trace"
    command = NEEDS.format(trace=trace, gb=4, end="exit 137")
    place = create_workflow(tmp_path, make_stage(command, {"memory_gb": GROWTH}))
    line = [sys.executable, "-m", "cli.main", "--root", str(place.path), "run"]
    environ = {**os.environ, "PYTHONPATH": str(HERE)}
    for attempts in (1, 2):
        running = subprocess.Popen(line, env=environ, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if trace.exists() and len(trace.read_text().split()) >= attempts:
                break
            time.sleep(0.05)
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert place.call("run").code == 0
    assert trace.read_text().split() == ["1", "2", "4"]


@pytest.mark.long
def test_stage_that_runs_again_requests_what_was_enough(tmp_path: Path) -> None:
    """A rerun does not repeat the attempts that had too little memory."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=2, end="exit 137")
    place = create_workflow(tmp_path, make_stage(command, {"memory_gb": GROWTH}))
    assert place.call("run").code == 0
    place.done("rerun", "stage-1", "--reason", "Again.")
    assert place.call("run").code == 0
    assert list_requests(place) == [1, 2, 2]


@pytest.mark.long
def test_change_of_resources_computes_nothing_again(tmp_path: Path) -> None:
    """Other resources do not make the results of a completed stage invalid."""
    place = create_workflow(tmp_path, make_stage("true", {"memory_gb": GROWTH}))
    assert place.call("run").code == 0
    approve_change(place, "resources.memory_gb.start", 4)
    assert place.call("run").code == 0
    assert len(list_attempts(place)) == 1


@pytest.mark.long
@pytest.mark.parametrize("way", [{}, {"map": {"points": [{"T": 1}]}, "task_outputs": ["out.txt"]}])
def test_change_of_resources_does_not_touch_a_running_attempt(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    """The attempt continues, and the impact announces no check and no computation."""
    command = f"echo >> {tmp_path}/trace; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    stage = make_stage(command, {"memory_gb": GROWTH}, **way)
    stage["outputs"] = ["stage-1/tasks.csv"] if way else stage["outputs"]
    place = create_workflow(tmp_path, stage)
    place.done("dispatch", "stage-1")
    until((tmp_path / "trace").exists)
    change = ("--stage", "stage-1", "--set", "parameters.resources.memory_gb.at_most=128")
    place.done("amend", "propose", *change, "--reason", "More.")
    shown = place.call("amend", "show", "amend-1").out
    assert "lets stage-1 (att-0001) continue" in shown
    assert "checks it" not in shown
    assert "again" not in shown
    place.done("amend", "approve", "amend-1")
    (tmp_path / "go").touch()
    assert place.call("run").code == 0
    assert (tmp_path / "trace").read_text() == "\n"
    assert len(list_attempts(place)) == 1


@pytest.mark.long
def test_larger_start_that_is_approved_during_an_attempt_applies_to_the_next_one(
    tmp_path: Path,
) -> None:
    """The running attempt ends with its own request, although the plan has a new ceiling."""
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    command = f"{wait}; {NEEDS.format(trace=tmp_path / 'trace', gb=8, end='exit 137')}"
    place = create_workflow(tmp_path, make_stage(command, {"memory_gb": 1}))
    place.done("dispatch", "stage-1")
    approve_change(place, "resources.memory_gb", 8)
    (tmp_path / "go").touch()
    assert place.call("run").code == 0
    assert list_requests(place) == [1, 8]


@pytest.mark.long
def test_requested_and_used_resources_are_shown(tmp_path: Path) -> None:
    """``audit costs``, ``show``, the report and ``plan check`` name the resources."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=2, end="exit 137")
    stage = make_stage(command, {"memory_gb": GROWTH})
    place = create_workflow(tmp_path, stage)
    assert place.call("run").code == 0
    assert place.done("audit", "costs")[-1]["requested_memory_gb"] == 2
    assert "requested 2 GB of memory per node" in place.call("show", "stage-1").out
    assert "requested 2 GB of memory per node; used" in place.call("report").out
    plan = write_plan(tmp_path, make_plan(stage))
    checked = place.call("plan", "check", str(plan))
    assert "with a start of 2, the first attempt could succeed" in checked.out


@pytest.mark.long
@pytest.mark.parametrize("way", [("wait", "stage-1"), ("reconcile",)])
def test_growth_is_printed_and_shown_by_status(tmp_path: Path, way: tuple[str, ...]) -> None:
    """One line names the attempt, the amount that it had, and the amount of the next one."""
    growth = {"start": 1, "times": 2, "at_most": 2}
    place = create_workflow(tmp_path, make_stage("exit 137", {"memory_gb": growth}))
    place.done("dispatch", "stage-1")
    line = "stage-1: att-0001 ran out of memory with 1 GB; the next attempt requests 2 GB"
    printed: list[str] = []

    def has_ended() -> bool:
        printed.append(place.call(*way).err)
        return bool(get_stage(place)["status"] == "ready")

    until(has_ended)
    assert "".join(printed).count(line) == 1
    assert "ready           the next attempt requests 2 GB" in place.call("status").out
    ran = place.call("run").err
    assert "the next attempt requests" not in ran


@pytest.mark.long
def test_run_prints_each_growth_of_a_time_limit(tmp_path: Path) -> None:
    """The message also names cores that grow because time ran out."""
    growth = {"time_limit": 2, "cores": {"start": 1, "times": 2, "at_most": 2}}
    command = '[ "$WFCTL_CORES" = 2 ] || sleep 30'
    place = create_workflow(tmp_path, make_stage(command, growth))
    line = (
        "stage-1: att-0001 exceeded its time limit with 1 core per node; the next attempt "
        "requests 2 cores per node"
    )
    assert place.call("run").err.count(line) == 1


@pytest.mark.long
def test_request_that_is_added_after_a_failure_lets_the_stage_continue(tmp_path: Path) -> None:
    """After the approval, the next attempt requests the start, and later ones more."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=8, end="exit 137")
    stage = make_stage(f'WFCTL_MEMORY_GB="${{WFCTL_MEMORY_GB:-0}}"\n{command}', {})
    place = create_workflow(tmp_path, stage)
    assert place.call("run").code == 6
    approve_change(place, "resources", {"memory_gb": {**GROWTH, "start": 4}})
    assert place.call("run").code == 0
    assert (tmp_path / "trace").read_text().split()[-2:] == ["4", "8"]


@pytest.mark.long
def test_ceiling_of_a_profile_is_named(tmp_path: Path) -> None:
    """The message proposes to edit the plan, because the profile has the ceiling."""
    command = NEEDS.format(trace=tmp_path / "trace", gb=3, end="exit 137")
    resources = {"memory_gb": {"start": 1, "times": 2, "at_most": 2}}
    profiles = {"local": {"type": "local", "config": LOCAL, "resources": resources}}
    place = create_workflow(tmp_path, make_stage(command, {}), backend_profiles=profiles)
    assert place.call("run").code == 6
    assert list_requests(place)[:2] == [1, 2]
    assert "`wfctl plan apply FILE --reason TEXT`" in place.call("run").out
    assert "allow a larger resources.memory_gb.at_most" in place.call("status").out
