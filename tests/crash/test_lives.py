"""Workflows with the same id: an earlier workflow in the same folder, and copies of a root.

The tests check facts outside every root: the commands that started, and their outputs.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.host.processes import start_ticks
from tests.crash.outliving import is_shell
from tests.crash.placing import at_work
from tests.crash.support import Workflow, unmarked, until
from tests.crash.victims import Victim, kill, strike
from tests.rounds import first

pytestmark = pytest.mark.slow


def begin(
    workflow: Workflow,
    word: str,
    *,
    shared: bool = False,
    waits: bool = False,
    machine: str | None = None,
    tasks: int = 0,
) -> None:
    """Create a workflow of one stage that copies its input and records each start.

    With ``shared``, jobs run in a folder outside the root. With ``waits``, they wait until they are
    released. ``machine`` is the machine file of the jobs instead of the local shell. ``tasks`` is
    the number of parallel tasks of a sweep.
    """
    workflow.root.mkdir(exist_ok=True)
    (workflow.root / "in.txt").write_text(f"{word}\n")
    outside = workflow.root.parent
    gate = f'until [ -e "{outside}/go" ]; do sleep 0.02; done; ' if waits else ""
    given = "../../../in.txt" if tasks else "../in.txt"
    name = "$WFCTL_ATTEMPT${WFCTL_TASK:+/$WFCTL_TASK}"
    trace = f'echo "{name} $(cat {given})" >> "{outside}/begun"'
    parameters: dict[str, Any] = {"command": f"{trace}; {gate}cp {given} out.txt"}
    if tasks:
        points = {"points": [{"T": number} for number in range(tasks)]}
        parameters |= {"map": points, "task_outputs": ["out.txt"], "at_once": tasks}
    one = {
        "id": "stage-1",
        "name": "one",
        "inputs": ["in.txt"],
        "outputs": ["stage-1/tasks.csv" if tasks else "stage-1/out.txt"],
        "parameters": parameters,
    }
    plan = {
        "workflow_id": "w-lives",
        "purpose": "live",
        "default_backend": "here",
        "backend_profiles": {"here": _profile(outside, machine, shared=shared)},
        "stages": [one],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")


def _profile(outside: Path, machine: str | None, *, shared: bool) -> dict[str, Any]:
    if machine is not None:
        resources = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
        given = {"config_path": machine, "resource_defaults": resources}
        return {"type": "remote", "batch_type": "Slurm", **given}
    config = {"batch_type": "Shell", "context_type": "LocalContext"}
    if shared:
        (outside / "work").mkdir(exist_ok=True)
        config["remote_root"] = str(outside / "work")
    return {"type": "local", "config": config}


def begun(workflow: Workflow) -> list[str]:
    """Return a line for each started attempt: its name without the mark, and its input."""
    path = workflow.root.parent / "begun"
    return unmarked(path.read_text()).splitlines() if path.exists() else []


def orphaned(workflow: Workflow) -> None:
    """Launch the stage, and kill its monitor and orchestrator."""
    before = len(begun(workflow))
    workflow.succeed("dispatch", "stage-1")
    until(lambda: len(begun(workflow)) > before)
    strike(workflow, Victim.SESSION)


def left_uncollected(workflow: Workflow) -> None:
    """Let an orphaned job end without a monitor that collects its result."""
    orphaned(workflow)
    let_go(workflow)
    until(lambda: not at_work(workflow))


def leave_only_command(workflow: Workflow) -> None:
    """Kill all shells of the job except the innermost shell, which executes the command."""
    shells = sorted(pid for pid in at_work(workflow) if is_shell(pid))
    assert len(shells) > 1
    kill(shells[:-1])
    until(lambda: not any(start_ticks(pid) for pid in shells[:-1]))


def let_go(workflow: Workflow) -> None:
    """Let the waiting jobs end."""
    (workflow.root.parent / "go").touch()


def begin_anew(workflow: Workflow, what: str) -> None:
    """Remove the root, or only its log and generated files."""
    if what == "root":
        shutil.rmtree(workflow.root)
        return
    shutil.rmtree(workflow.root / ".wfctl")
    for name in ("workflow-state.json", "progress.log"):
        (workflow.root / name).unlink()


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "shared"),
    first([("root", True), ("log", False), ("root", False), ("log", True)], 2),
)
def test_the_result_of_an_earlier_workflow_is_not_used(
    workflow: Workflow, what: str, shared: bool
) -> None:
    """A new workflow in the folder of an earlier one computes its own result."""
    begin(workflow, "old", shared=shared, waits=True)
    left_uncollected(workflow)
    begin_anew(workflow, what)
    begin(workflow, "new", shared=shared)
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "new\n"
    assert begun(workflow) == ["w-lives/stage-1/att-0001 old", "w-lives/stage-1/att-0001 new"]
    assert workflow.stage("stage-1")["status"] == "completed"


@pytest.mark.long
def test_dispatch_next_to_a_job_of_an_earlier_workflow_is_refused(workflow: Workflow) -> None:
    """The error names the processes of the job. After the job ends, its result is not used."""
    begin(workflow, "old", waits=True)
    orphaned(workflow)
    begin_anew(workflow, "log")
    begin(workflow, "new", waits=True)
    refused = workflow.call("dispatch", "stage-1", "-o", "json")
    assert refused.returncode == 5
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "stranger_at_work"
    assert any(f"process {pid}" in error["message"] for pid in at_work(workflow))
    let_go(workflow)
    until(lambda: not at_work(workflow))
    said = workflow.call("dispatch", "stage-1", "--sync")
    assert (said.returncode, "not used" in said.stderr) == (0, True)
    assert (workflow.root / "stage-1/out.txt").read_text() == "new\n"


@pytest.mark.long
def test_a_copy_shares_no_folder_with_its_original(workflow: Workflow) -> None:
    """A copy of a root runs its own job, and its cancel does not stop the original's job."""
    begin(workflow, "original", shared=True, waits=True)
    copy = replace(workflow, root=workflow.root.with_name("copy"))
    shutil.copytree(workflow.root, copy.root)
    (copy.root / "in.txt").write_text("copy\n")
    orphaned(workflow)
    copy.succeed("--root-is", "copied", "dispatch", "stage-1")
    until(lambda: len(begun(workflow)) == 2)
    assert sorted(begun(workflow)) == [
        "w-lives/stage-1/att-0001 copy",
        "w-lives/stage-1/att-0001 original",
    ]
    copy.succeed("stage", "cancel", "stage-1")
    assert at_work(workflow) != []
    let_go(workflow)
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "original\n"


@pytest.mark.long
def test_a_copy_says_how_to_run_its_stages(workflow: Workflow) -> None:
    """A copy does not touch the attempt of the original, and suggests working commands."""
    begin(workflow, "original", waits=True)
    orphaned(workflow)
    copy = replace(workflow, root=workflow.root.with_name("copy"))
    shutil.copytree(workflow.root, copy.root)
    copy.succeed("--root-is", "copied", "rehydrate")
    assert f"a copy of {workflow.root}" in copy.succeed("status")
    [observed] = copy.events("attempt.observed")
    assert observed["data"]["verdict"] == "ELSEWHERE"
    assert "`wfctl stage fail stage-1 --error copied`" in observed["data"]["reason"]
    copy.succeed("stage", "fail", "stage-1", "--error", "copied")
    copy.succeed("stage", "retry", "stage-1", "--fix", "computed here")
    copy.succeed("dispatch", "stage-1")
    until(lambda: len(begun(workflow)) == 2)
    assert len(at_work(workflow)) >= 2
    let_go(workflow)
    copy.succeed("run")
    workflow.succeed("run")
    assert "a copy" not in workflow.succeed("status")
    assert len(begun(workflow)) == 2


def backed_up(workflow: Workflow) -> Path:
    """Write a copy of the log next to the root, and return its path."""
    kept = workflow.root.parent / "backup.db"
    workflow.succeed("db", "backup", str(kept))
    return kept


def roll_back(workflow: Workflow, kept: Path, *, whole: bool = False) -> None:
    """Replace the log with an older copy. With ``whole``, also remove newer files of ``.wfctl``."""
    for path in workflow.root.glob(".wfctl/events.db*"):
        path.unlink()
    if whole:
        shutil.rmtree(workflow.root / ".wfctl/starts")
        shutil.rmtree(workflow.root / ".wfctl/submissions")
    workflow.succeed("db", "restore", str(kept))
    behind = workflow.call("rehydrate", "-o", "json")
    assert json.loads(behind.stdout)["error"]["code"] == "log_behind"
    workflow.succeed("replay", "--rebuild")


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "collected", "whole"),
    [("rehydrate", True, True), ("dispatch", False, False), ("run", True, False)],
)
def test_finished_attempt_missing_in_the_log_is_recorded_again(
    workflow: Workflow, command: str, collected: bool, whole: bool
) -> None:
    """After an older log was restored, wfctl records the attempt again without a new run."""
    begin(workflow, "own", waits=True)
    kept = backed_up(workflow)
    left_uncollected(workflow)
    if collected:
        workflow.succeed("run")
    roll_back(workflow, kept, whole=whole)
    said = workflow.call(command, *(["stage-1"] if command == "dispatch" else []))
    assert "computes nothing again" in said.stderr
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert begun(workflow) == ["w-lives/stage-1/att-0001 own"]
    assert (workflow.root / "stage-1/out.txt").read_text() == "own\n"
    # The only finding is the restored log, which no person has accepted yet.
    found = json.loads(workflow.call("-o", "json", "replay", "--check").stdout)["data"]["findings"]
    assert {one["kind"] for one in found} == {"anchor"}


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("has_shells", [True, False])
def test_no_job_starts_next_to_a_job_without_log_and_folder(
    workflow: Workflow, shared: bool, has_shells: bool
) -> None:
    """The claim to start remains, so wfctl names the processes of the job and starts no other."""
    begin(workflow, "own", shared=shared, waits=True)
    kept = backed_up(workflow)
    orphaned(workflow)
    if not has_shells:
        leave_only_command(workflow)
    shutil.rmtree(workflow.root / "stage-1")
    roll_back(workflow, kept)
    refused = workflow.call("dispatch", "stage-1", "-o", "json")
    assert refused.returncode == 5
    error = json.loads(refused.stdout)["error"]
    assert error["code"] == "stranger_at_work"
    assert any(f"process {pid}" in error["message"] for pid in at_work(workflow))
    assert ".wfctl/starts/stage-1.att-0001-" in error["message"]
    assert workflow.call("run").returncode == 6
    assert workflow.stage("stage-1")["status"] == "ready"
    assert begun(workflow) == ["w-lives/stage-1/att-0001 own"]
    let_go(workflow)
    until(lambda: not at_work(workflow))
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert len(begun(workflow)) == 2


@pytest.mark.long
@pytest.mark.parametrize("changed", ["in.txt", "stage-1/out.txt"])
def test_finished_attempt_with_changed_files_is_not_used(workflow: Workflow, changed: str) -> None:
    """If files changed after the attempt, wfctl does not use it and runs the stage again."""
    begin(workflow, "own", waits=True)
    kept = backed_up(workflow)
    left_uncollected(workflow)
    workflow.succeed("run")
    roll_back(workflow, kept)
    (workflow.root / changed).write_text("other\n")
    said = workflow.call("run")
    assert (said.returncode, "not used" in said.stderr) == (0, True)
    assert len(begun(workflow)) == 2
    given = (workflow.root / "in.txt").read_text()
    assert (workflow.root / "stage-1/out.txt").read_text() == given


@pytest.mark.long
def test_a_job_that_the_log_lost_is_recorded_again(workflow: Workflow) -> None:
    """After an older log was restored, wfctl waits for the running job."""
    begin(workflow, "own", waits=True)
    kept = backed_up(workflow)
    orphaned(workflow)
    roll_back(workflow, kept)
    assert "wfctl records it again" in workflow.call("rehydrate").stderr
    [attempt] = workflow.attempts("stage-1")
    let_go(workflow)
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert begun(workflow) == ["w-lives/stage-1/att-0001 own"]
    assert workflow.attempts("stage-1") == [attempt]
