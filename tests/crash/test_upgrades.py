"""An upgrade, or a step back, while jobs are under way: of DPDispatcher, and of wfctl itself."""

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

#: The release before the one that wfctl is installed with; its files have other fields.
EARLIER = "1.0.3"
ROOMS = (
    "agents",
    "cli",
    "eventstore",
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
    """Install an earlier DPDispatcher in an environment of its own; return its program."""
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
    # What it needs itself is the same in both.
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
    """Lay out the wfctl from before its script that watches jobs was last changed.

    Where this clone has no history it is the present one in another place, as in an environment
    of its own.
    """
    for number, commit in enumerate(_commits()):
        folder = tmp_path_factory.mktemp(f"other{number}")
        archive = ["git", "-C", str(SOURCES), "archive", commit]
        made = subprocess.run(archive, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
        if _works(folder, tmp_path_factory.mktemp("tried")):
            return folder
    folder = tmp_path_factory.mktemp("same")
    for name in ROOMS:
        subprocess.run(["cp", "-r", str(SOURCES / name), str(folder)], check=True)
    return folder


def _commits() -> list[str]:
    """Return the commits from before the script was changed, the newest first; few of them."""
    path = "reconciler/dpdispatcher/wrapper.py"
    changed = _git("log", "--format=%H", "-n", "1", "--", path).strip()
    return _git("log", "--format=%H", "-n", "20", f"{changed}^").split() if changed else []


def _works(folder: Path, root: Path) -> bool:
    """Whether a workflow can be begun and run: of several commits only the last may be whole."""
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
    """Launch a stage and kill its watchers; ``over``: its job ends before anybody looks."""
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
    """Check that the stage is completed by the one attempt that it had."""
    assert workflow.stage("stage-1")["status"] == "completed"
    assert workflow.trace() == ["w-crash/stage-1/att-0001"]
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    workflow.succeed("fsck")
    workflow.succeed("replay", "--check")


@pytest.mark.parametrize("over", [False, True], ids=["the job runs", "the job is over"])
def test_a_step_back_to_an_earlier_dpdispatcher_loses_nothing(
    workflow: Workflow, earlier: Path, over: bool
) -> None:
    """It cannot take up what the later one has submitted: the result is brought back without it."""
    launched(workflow, over=over)
    workflow.succeed("rehydrate", WFCTL_DPDISP=str(earlier))
    let_go(workflow)
    workflow.succeed("run", WFCTL_DPDISP=str(earlier))
    check_computed_once(workflow)


def test_what_an_earlier_dpdispatcher_refused_is_run_after_the_upgrade(
    workflow: Workflow, earlier: Path
) -> None:
    """It does not know what it is asked for: its words are told, and nothing was computed."""
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
def test_a_later_wfctl_takes_up_what_an_earlier_one_launched(
    workflow: Workflow, other_wfctl: Path, over: bool
) -> None:
    """Its files and its log are read as they are."""
    launched(workflow, over=over, PYTHONPATH=str(other_wfctl))
    workflow.succeed("rehydrate")
    let_go(workflow)
    recover(workflow)
    check_computed_once(workflow)


def test_a_step_back_to_an_earlier_wfctl_harms_nothing(
    workflow: Workflow, other_wfctl: Path
) -> None:
    """It goes on, or says that the log is newer than itself; the later one finishes the work."""
    launched(workflow, over=False)
    with ending(workflow.start("rehydrate", PYTHONPATH=str(other_wfctl))) as rehydrate:
        code = rehydrate.wait(90)
    newer = ("upgrade the program", "update wfctl")  # of the database, of an event
    assert code == 0 or any(words in workflow.said() for words in newer)
    assert "Traceback" not in workflow.said()
    let_go(workflow)
    recover(workflow)
    check_computed_once(workflow)
