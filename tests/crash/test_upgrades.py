"""Upgrades and downgrades of DPDispatcher and wfctl while jobs run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.crash.aftermath import recover
from tests.crash.support import SOURCES, Workflow, ending, stage, until
from tests.crash.victims import Victim, is_job, processes, strike
from tests.need import need

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: The release before the installed DPDispatcher. Its files have other fields.
EARLIER = "1.0.3"
PACKAGES = (
    "cli",
    "eventstore",
    "extensions",
    "lifecycle",
    "migrations",
    "projections",
    "reconciler",
    "service",
    "wording",
)
WAITS = "until [ -e ../../../../../../go ]; do sleep 0.05; done; echo 1 > out.txt"


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install an earlier DPDispatcher in a separate environment, and return its program."""
    folder = tmp_path_factory.mktemp("earlier")
    venv.create(folder, with_pip=False, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    done = subprocess.run(
        [*pip, str(packages), f"dpdispatcher=={EARLIER}"],
        capture_output=True,
        text=True,
        check=False,
    )
    need(done.returncode == 0, f"no dpdispatcher {EARLIER} from the package index")
    # The earlier version uses the installed dependencies, because both versions need the same.
    others = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (packages / "others.pth").write_text(f"{others}\n")
    for name, module in (("dargs", "dargs.cli"), ("dpdisp", "dpdispatcher.dpdisp")):
        lines = [f"#!{folder}/bin/python", "import sys", f"from {module} import main"]
        path = folder / "bin" / name
        path.write_text("\n".join([*lines, "sys.exit(main())", ""]))
        path.chmod(0o755)
    return folder / "bin" / "dpdisp"


@pytest.fixture(scope="session")
def other_wfctl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Extract the wfctl version before the last change of its monitor script.

    Without git history, copy the current version to another folder.
    """
    for number, commit in enumerate(_commits()):
        folder = tmp_path_factory.mktemp(f"other{number}")
        archive = ["git", "-C", str(SOURCES), "archive", commit]
        made = subprocess.run(archive, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
        if _works(folder, tmp_path_factory.mktemp("tried")):
            return folder
    folder = tmp_path_factory.mktemp("same")
    for name in PACKAGES:
        subprocess.run(["cp", "-r", str(SOURCES / name), str(folder)], check=True)
    return folder


def _commits() -> list[str]:
    """Return commits from before the last change of the monitor script, newest first."""
    path = "reconciler/dpdispatcher/wrapper.py"
    changed = _git("log", "--format=%H", "-n", "1", "--", path).strip()
    return _git("log", "--format=%H", "-n", "20", f"{changed}^").split() if changed else []


def _works(folder: Path, root: Path) -> bool:
    """Return whether a version can create and run a workflow. Single commits may be broken."""
    plan = {"workflow_id": "tried", "stages": [{"id": "stage-1", "name": "Nothing"}]}
    (root / "plan.json").write_text(json.dumps(plan))
    for line in (["init", "plan.json", "--consent", "trust"], ["run"]):
        program = [sys.executable, "-m", "cli.main", "--root", str(root), *line]
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(program, cwd=root, env=environ, capture_output=True, check=False)
        if done.returncode not in (0, 5, 6):
            return False
    return True


def _git(*arguments: str) -> str:
    words = ["git", "-C", str(SOURCES), *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def launched(workflow: Workflow, *, over: bool, **environ: str) -> None:
    """Launch a stage and kill its monitors. With ``over``, let the job end first."""
    workflow.plan(stage("stage-1", WAITS))
    for line in (("init", "plan.json", "--consent", "trust"), ("dispatch", "stage-1")):
        with ending(workflow.start(*line, **environ)) as program:
            assert program.wait(90) == 0, workflow.said()
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    if over:
        let_go(workflow)
        until(lambda: not [pid for pid in processes(workflow) if is_job(pid)])


def let_go(workflow: Workflow) -> None:
    """Let the job end."""
    (workflow.root / "go").touch()


def check_computed_once(workflow: Workflow) -> None:
    """Check that the stage was completed by its only attempt."""
    assert workflow.stage("stage-1")["status"] == "completed"
    assert workflow.trace() == ["w-crash/stage-1/att-0001"]
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    workflow.succeed("fsck")
    workflow.succeed("replay", "--check")


@pytest.mark.parametrize("over", [False, True], ids=["the job runs", "the job is over"])
def test_downgrade_of_dpdispatcher_loses_nothing(
    workflow: Workflow, earlier: Path, over: bool
) -> None:
    """The earlier version cannot continue the submission, so wfctl collects the result itself."""
    launched(workflow, over=over)
    workflow.succeed("rehydrate", WFCTL_DPDISP=str(earlier))
    let_go(workflow)
    workflow.succeed("run", WFCTL_DPDISP=str(earlier))
    check_computed_once(workflow)


def test_stage_refused_by_an_old_dpdispatcher_runs_after_an_upgrade(
    workflow: Workflow, earlier: Path
) -> None:
    """The failure shows the error message of the old version, and nothing ran."""
    workflow.init(stage("stage-1", WAITS))
    workflow.call("dispatch", "stage-1", "--sync", WFCTL_DPDISP=str(earlier))
    workflow.succeed("rehydrate", WFCTL_DPDISP=str(earlier))
    found = workflow.stage("stage-1")
    assert found["status"] == "failed"
    assert "unrecognized arguments" in found["last_error"]
    assert workflow.trace() == []
    workflow.succeed("stage", "retry", "stage-1", "--fix", "upgraded")
    let_go(workflow)
    workflow.succeed("run")
    assert workflow.trace() == ["w-crash/stage-1/att-0002"]


@pytest.mark.parametrize("over", [False, True], ids=["the job runs", "the job is over"])
def test_a_later_wfctl_continues_an_attempt_of_an_earlier_one(
    workflow: Workflow, other_wfctl: Path, over: bool
) -> None:
    """The new version of wfctl reads the files and the log of the old version."""
    launched(workflow, over=over, PYTHONPATH=str(other_wfctl))
    workflow.succeed("rehydrate")
    let_go(workflow)
    recover(workflow)
    check_computed_once(workflow)


def test_downgrade_of_wfctl_harms_nothing(workflow: Workflow, other_wfctl: Path) -> None:
    """The old version works or reports that the log is newer, and the new version finishes."""
    launched(workflow, over=False)
    with ending(workflow.start("rehydrate", PYTHONPATH=str(other_wfctl))) as rehydrate:
        code = rehydrate.wait(90)
    newer = ("Update wfctl", "update wfctl")  # messages about the database and about an event
    assert code == 0 or any(words in workflow.said() for words in newer)
    assert "Traceback" not in workflow.said()
    let_go(workflow)
    recover(workflow)
    check_computed_once(workflow)
