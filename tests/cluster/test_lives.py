"""Workflows with the same id, ended monitors and edited files, with jobs on other backends.

The tests check facts outside every root: the commands that started, and their outputs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.cluster.support import Sshd
from tests.crash.cells import Backend
from tests.crash.damage import strike as damage
from tests.crash.placing import at_work, machine_of
from tests.crash.support import Workflow, until
from tests.crash.test_lives import begin, begin_anew, begun, left_uncollected, let_go, orphaned
from tests.crash.test_upgrades import earlier as earlier_dpdispatcher
from tests.crash.victims import Victim, strike
from tests.rounds import rounds

pytestmark = pytest.mark.slow
ELSEWHERE = [Backend.SLURM_FAR, Backend.SLURM, Backend.SHELL_FAR]
#: Each kind of damage to DPDispatcher's recovery file, combined with each backend.
DAMAGED = list(product(["empty", "half", "list", "folder"], ELSEWHERE))

earlier = earlier_dpdispatcher
Machine = Callable[[Backend], str]


@pytest.fixture
def machine(workflow: Workflow, sshd: Sshd) -> Machine:
    """Return a function that writes the machine file of a backend with one shared work folder."""

    def made(backend: Backend) -> str:
        path = machine_of(workflow, backend, sshd if backend.is_far else None, shared=True)
        assert path is not None
        return path

    return made


def check_completed(workflow: Workflow, content: str) -> None:
    """Check that the stage is completed with the given output."""
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("completed", 0), found
    assert (workflow.root / "stage-1/out.txt").read_text() == f"{content}\n"
    workflow.succeed("fsck")


@pytest.mark.parametrize("backend", rounds(ELSEWHERE, few=2))
def test_the_result_of_an_earlier_workflow_is_not_used(
    workflow: Workflow, machine: Machine, backend: Backend
) -> None:
    """A new workflow ignores an earlier workflow's result below the same `remote_root`.

    The remote folder with the old result stays unchanged.
    """
    path = machine(backend)
    begin(workflow, "old", machine=path, waits=True)
    left_uncollected(workflow)
    waiting = _results(workflow)
    assert [one.read_text() for one in waiting] == ["old\n"]
    begin_anew(workflow, "root" if backend is Backend.SLURM else "log")
    begin(workflow, "new", machine=path)
    workflow.succeed("run")
    check_completed(workflow, "new")
    assert begun(workflow) == ["w-lives/stage-1/att-0001 old", "w-lives/stage-1/att-0001 new"]
    assert [one.read_text() for one in waiting] == ["old\n"]


def _results(workflow: Workflow) -> list[Path]:
    return list((workflow.root.parent / "work").rglob("out.txt"))


@pytest.mark.parametrize("backend", rounds(ELSEWHERE, few=2))
def test_copy_shares_no_job_with_its_original(
    workflow: Workflow, machine: Machine, backend: Backend
) -> None:
    """A copy of a root runs its own job, and its cancel does not stop the original's job."""
    begin(workflow, "original", machine=machine(backend), waits=True)
    copy = replace(workflow, root=workflow.root.with_name("copy"))
    shutil.copytree(workflow.root, copy.root)
    (copy.root / "in.txt").write_text("copy\n")
    orphaned(workflow)
    before = set(at_work(workflow))
    copy.succeed("--root-is", "copied", "dispatch", "stage-1")
    until(lambda: len(begun(workflow)) == 2)
    assert sorted(begun(workflow)) == [
        "w-lives/stage-1/att-0001 copy",
        "w-lives/stage-1/att-0001 original",
    ]
    copy.succeed("stage", "cancel", "stage-1")
    # Only the shells of the original's job are compared, because their children are short-lived.
    assert {pid for pid in before if _is_shell(pid)} <= set(at_work(workflow))
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, "original")


def _is_shell(pid: int) -> bool:
    place = Path(f"/proc/{pid}/comm")
    return place.exists() and place.read_text().strip() in ("bash", "slurm_script")


def recorded(workflow: Workflow, machine: str) -> None:
    """Launch the stage, and kill its monitors once DPDispatcher has stored the job id."""
    begin(workflow, "old", machine=machine, waits=True)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: list((workflow.root.parent / "work").rglob(f"{'?' * 40}.json")))
    strike(workflow, Victim.SESSION)


@pytest.mark.parametrize(("how", "backend"), rounds(DAMAGED, few=1))
def test_monitors_that_fail_on_a_damaged_recovery_file_are_limited(
    workflow: Workflow, machine: Machine, backend: Backend, how: str
) -> None:
    """After three monitors have failed, wfctl collects the result without a monitor."""
    recorded(workflow, machine(backend))
    let_go(workflow)
    until(lambda: not at_work(workflow))
    [folder] = (workflow.root.parent / "work/w-lives/stage-1").glob("att-*")
    damage(folder, f"*/{'?' * 40}.json", how)
    for command in ("rehydrate", "run", "rehydrate", "run"):
        done = workflow.call(command)
        assert done.returncode in (0, 5, 6), done
    assert len(begun(workflow)) == 1
    assert len(workflow.events("attempt.observed")) < 12
    check_completed(workflow, "old")


@pytest.mark.parametrize("backend", rounds(ELSEWHERE, few=2))
def test_edited_submission_is_not_submitted(
    workflow: Workflow, machine: Machine, backend: Backend
) -> None:
    """If the submission file was edited, the job still runs the command from the log."""
    begin(workflow, "old", machine=machine(backend), waits=True)
    orphaned(workflow)
    [path] = workflow.root.glob("stage-1/.attempts/*/submission.json")
    path.write_text(path.read_text().replace("cp ../in.txt out.txt", "echo FORGED > out.txt"))
    workflow.succeed("rehydrate")
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, "old")
    assert len(begun(workflow)) == 1
    assert "FORGED" in next(path.parent.glob("stale/submission.json*")).read_text()


@pytest.mark.parametrize("backend", rounds(ELSEWHERE, few=1))
def test_downgrade_of_dpdispatcher_loses_nothing(
    workflow: Workflow, machine: Machine, backend: Backend, earlier: Path
) -> None:
    """The earlier version cannot continue the submission, so wfctl collects the result itself."""
    recorded(workflow, machine(backend))
    workflow.succeed("rehydrate", WFCTL_DPDISP=str(earlier))
    let_go(workflow)
    workflow.succeed("run", WFCTL_DPDISP=str(earlier))
    check_completed(workflow, "old")
    assert len(begun(workflow)) == 1
