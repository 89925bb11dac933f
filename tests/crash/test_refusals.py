"""Refused dispatches: nothing runs, nothing is recorded, and no file remains."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.paths import KEPT
from tests.crash.support import Workflow, stage, until
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.slow


def tree(root: Path) -> set[str]:
    """Return every path below a root, without the lock file that all stages share."""
    paths = {str(path.relative_to(root)) for path in root.rglob("*")}
    return {path for path in paths if not path.startswith(".wfctl/")} | {
        path for path in paths if path.startswith(".wfctl/stage-")
    }


def contents(root: Path) -> dict[str, str]:
    """Return the digest of every file below a root, without the shared-memory files of SQLite."""
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".db-shm")
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def rehearsed(workflow: Workflow, id_: str) -> tuple[int, str | None]:
    """Dispatch a stage with ``--dry-run``, check that nothing is written; return code and error."""
    before = contents(workflow.root)
    done = workflow.call("dispatch", id_, "--dry-run", "-o", "json")
    assert contents(workflow.root) == before
    return done.returncode, json.loads(done.stdout).get("error", {}).get("code")


def refused(workflow: Workflow, id_: str) -> str:
    """Check that a dispatch is refused, also with ``--dry-run``, and return the error code."""
    code, told = rehearsed(workflow, id_)
    before, events = tree(workflow.root), workflow.committed("attempt.started")
    done = workflow.call("dispatch", id_, "-o", "json")
    assert done.returncode in (1, 5, 6)
    assert tree(workflow.root) == before
    assert workflow.committed("attempt.started") == events
    said = str(json.loads(done.stdout)["error"]["code"])
    assert (code, told) == (done.returncode, said)
    return said


def test_dry_run_of_a_possible_dispatch_writes_nothing(workflow: Workflow) -> None:
    """`dispatch --dry-run` exits with code 0 and creates no stage folder."""
    workflow.init(stage("stage-1", "echo 1 > out.txt"))
    assert rehearsed(workflow, "stage-1") == (0, None)
    assert not (workflow.root / "stage-1").exists()


@pytest.mark.parametrize(
    ("code", "parameters", "fields"),
    [
        ("missing_input", {}, {"inputs": ["in.txt"]}),
        ("missing_input", {"forward_files": ["mesh.dat"]}, {}),
        ("missing_input", {"forward_files": ["*.dat"]}, {}),
        ("unusable_submission", {"resource_overrides": {"custom_flags": ["#SBATCH -t 1"]}}, {}),
        ("rejected_submission", {"resource_overrides": {"group_size": "many"}}, {}),
        ("unusable_path", {}, {"inputs": ["../in.txt"]}),
    ],
)
def test_refused_dispatch_leaves_no_file(
    workflow: Workflow, code: str, parameters: dict[str, Any], fields: dict[str, Any]
) -> None:
    """A refused dispatch creates no stage folder, no lock and no event."""
    if fields.get("inputs") == ["../in.txt"]:
        (workflow.root.parent / "in.txt").write_text("1\n")
    workflow.init({**stage("stage-1", "echo 1 > out.txt", **parameters), **fields})
    assert refused(workflow, "stage-1") == code
    assert not (workflow.root / "stage-1").exists()


@pytest.mark.long
@pytest.mark.parametrize("left", [None, ""])
def test_dispatch_requires_the_results_of_dependencies(
    workflow: Workflow, left: str | None
) -> None:
    """A changed result is refused even if the stage does not list it as an input."""
    after = {**stage("stage-2", "echo 2 > out.txt"), "depends_on": ["stage-1"]}
    workflow.init(stage("stage-1", "echo 1 > out.txt"), after)
    workflow.succeed("dispatch", "stage-1", "--sync")
    workflow.succeed("stage", "complete", "stage-1")
    output = workflow.root / "stage-1/out.txt"
    output.unlink()
    if left is not None:
        output.write_text(left)
    assert refused(workflow, "stage-2") == "changed_result"
    output.write_text("1\n")
    workflow.succeed("dispatch", "stage-2", "--sync")
    started = workflow.events("attempt.started")[-1]["data"]
    assert [one["path"] for one in started["inputs"]] == ["stage-1/out.txt"]


def test_forwarded_files_are_recorded_with_their_digests(workflow: Workflow) -> None:
    """The log has the digest of each file that the submission forwards, also by a pattern."""
    folder = workflow.root / "stage-1"
    folder.mkdir()
    for name in ("a.dat", "b.dat"):
        (folder / name).write_text(name)
    workflow.init(stage("stage-1", "cat *.dat > out.txt", forward_files=["*.dat"]))
    workflow.succeed("dispatch", "stage-1", "--sync")
    [started] = workflow.events("attempt.started")
    recorded = {one["path"]: one["sha256"] for one in started["data"]["inputs"]}
    assert recorded == {
        f"stage-1/{name}": sha256(name.encode()).hexdigest() for name in ("a.dat", "b.dat")
    }


def lost(workflow: Workflow, id_: str) -> None:
    """Dispatch a stage, kill all of its processes, and allow its next attempt to finish."""
    before = len(workflow.trace())
    workflow.succeed("dispatch", id_)
    until(lambda: len(workflow.trace()) > before)
    strike(workflow, Victim.EVERYTHING)
    (workflow.root / "go").touch()


def check_not_replaced(workflow: Workflow, id_: str, *words: str) -> None:
    """Check that no command starts a new attempt, and that each command states the reason."""
    ended = workflow.call("run")
    printed = [ended.stdout, workflow.call("rehydrate").stdout, workflow.succeed("status")]
    for text in printed:
        assert all(word in text for word in words), text
    assert ended.returncode != 0
    assert workflow.stage(id_)["status"] == "running"
    assert [one["data"]["verdict"] for one in workflow.events("attempt.observed")][-1] == "HINDERED"
    recorded = workflow.committed("attempt.observed")
    workflow.call("reconcile")
    assert workflow.committed("attempt.observed") == recorded


WAITS = "until [ -e ../../../../../../go ]; do sleep 0.02; done; "


@pytest.mark.long
@pytest.mark.parametrize("read", ["in.txt", "stage-1/mesh.dat"])
def test_lost_attempt_with_a_changed_input_is_not_replaced(workflow: Workflow, read: str) -> None:
    """wfctl starts no new attempt until the input is restored or a person retries."""
    (workflow.root / "stage-1").mkdir()
    for name in ("in.txt", "stage-1/mesh.dat"):
        (workflow.root / name).write_text("1\n")
    command = f"{WAITS}cat ../in.txt mesh.dat > out.txt"
    one = stage("stage-1", command, forward_files=["mesh.dat"])
    workflow.init({**one, "inputs": ["in.txt"]})
    lost(workflow, "stage-1")
    (workflow.root / read).write_text("2\n")
    check_not_replaced(
        workflow, "stage-1", f"{read} changed since it started", "stage fail", "stage retry"
    )
    (workflow.root / read).write_text("1\n")
    workflow.succeed("run")
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n1\n"
    assert workflow.committed("attempt.started") == 2


@pytest.mark.long
def test_lost_attempt_with_a_changed_dependency_is_not_replaced(workflow: Workflow) -> None:
    """After the result of the earlier stage is restored, the next `run` continues."""
    workflow.init(
        stage("stage-1", "echo 1 > out.txt", verify="true"),
        stage("stage-2", f"{WAITS}cp ../stage-1/out.txt out.txt", after="stage-1"),
    )
    workflow.succeed("dispatch", "stage-1", "--sync")
    workflow.succeed("stage", "complete", "stage-1")
    lost(workflow, "stage-2")
    (workflow.root / "stage-1/out.txt").write_text("9\n")
    check_not_replaced(workflow, "stage-2", "stage-1/out.txt", "--adopt")
    (workflow.root / "stage-1/out.txt").write_text("1\n")
    workflow.succeed("run")
    assert (workflow.root / "stage-2/out.txt").read_text() == "1\n"


@pytest.mark.long
def test_reason_of_a_failed_replacement_is_reported(
    workflow: Workflow,
) -> None:
    """If wfctl cannot start the new attempt, `run` and `status` name the cause."""
    workflow.init(stage("stage-1", f"{WAITS}echo 1 > out.txt"))
    lost(workflow, "stage-1")
    copies, aside = workflow.root / ".wfctl/submissions", workflow.root / "aside"
    copies.rename(aside)
    copies.touch()
    ended = workflow.call("run", "-o", "json")
    [found] = json.loads(ended.stdout)["data"]["blocked"]
    assert (ended.returncode, found["stage"], found["may_pass"]) == (6, "stage-1", True)
    assert "submissions" in found["why"]
    assert "submissions" in workflow.succeed("status")
    copies.unlink()
    aside.rename(copies)
    workflow.succeed("run")
    assert workflow.committed("attempt.started") == 2


@pytest.mark.long
def test_autonomous_run_waits_until_a_lost_attempt_can_be_replaced(workflow: Workflow) -> None:
    """The runner tries again, and continues once the changed input is restored."""
    (workflow.root / "in.txt").write_text("1\n")
    workflow.init({**stage("stage-1", f"{WAITS}cat ../in.txt > out.txt"), "inputs": ["in.txt"]})
    lost(workflow, "stage-1")
    (workflow.root / "in.txt").write_text("2\n")
    workflow.succeed("run", "--autonomous", "--between", "0.1")
    until(lambda: workflow.committed("session.ended") > 1)
    (workflow.root / "in.txt").write_text("1\n")
    until(lambda: workflow.stage("stage-1")["status"] == "completed", 120)
    assert workflow.committed("attempt.started") == 2


@pytest.mark.long
def test_failed_launch_of_a_replacement_blocks_only_its_stage(workflow: Workflow) -> None:
    """The new attempt is recorded before its launch fails, and the next `run` launches it."""
    workflow.init(stage("stage-1", f"{WAITS}echo 1 > out.txt"))
    lost(workflow, "stage-1")
    (workflow.root / "stage-1/out.txt").write_text("earlier\n")
    [attempt] = (workflow.root / "stage-1/.attempts").glob("att-0001-*")
    in_the_way = attempt / KEPT / "stage-1"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.touch()
    ended = workflow.call("run", "-o", "json")
    assert ended.returncode == 6, ended.stdout
    [found] = json.loads(ended.stdout)["data"]["blocked"]
    assert found["stage"] == "stage-1"
    in_the_way.unlink()
    workflow.succeed("run")
    assert workflow.committed("attempt.started") == 2
