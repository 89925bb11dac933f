"""A job has the environment of its caller, not of anyone who started the tmux server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.support import Workflow, stage, until
from tests.crash.victims import Victim, strike
from tests.need import need_programs
from tests.programs import path_without

pytestmark = pytest.mark.slow

SAY = "FOO=$FOO OPT=$PYTHONOPTIMIZE"
#: From the scratch copy of a job, the root.
ROOT = "../../../../../.."
CLIENT, OTHER = {"FOO": "client"}, {"FOO": "other", "PYTHONOPTIMIZE": "2"}
EXPECTED = "FOO=client OPT="


@pytest.fixture
def old_server(workflow: Workflow) -> Iterator[Workflow]:
    """Start a tmux server whose environment is another one, as weeks ago."""
    need_programs("tmux")
    environ = {**workflow.environ, "FOO": "server", "PYTHONOPTIMIZE": "1"}
    subprocess.run(["tmux", "new-session", "-d", "sleep", "600"], env=environ, check=True)
    yield workflow
    ended = subprocess.run(["tmux", "kill-server"], env=environ, capture_output=True, check=False)
    assert ended.returncode in (0, 1)  # it may have been struck


def single() -> dict[str, Any]:
    """Return a stage whose job and check say what they see."""
    return stage("stage-1", f'echo "{SAY}" > out.txt', verify=f'echo "{SAY}" > check.txt')


def sweep(root: Path) -> dict[str, Any]:
    """Return a sweep whose task, and the check of it, say what they see."""
    made = stage("stage-1", "", map={"grid": {"T": [1]}}, task_outputs=["out.txt"])
    at = shlex.quote(str(root))
    own = {
        "command": f'echo "{SAY}" > out.txt',
        "task_verify": f'cp out.txt {at}/task.txt; echo "{SAY}" > {at}/task-check.txt',
        "verify": f'echo "{SAY}" > check.txt',
    }
    return {**made, "outputs": ["stage-1/tasks.csv"], "parameters": made["parameters"] | own}


def said(workflow: Workflow) -> dict[str, str]:
    """Return what a job and the checks have said."""
    names = ["check.txt", "task.txt", "task-check.txt", "stage-1/out.txt"]
    paths = [workflow.root / name for name in names]
    return {path.name: path.read_text().strip() for path in paths if path.exists()}


def environment_of(workflow: Workflow) -> Path:
    """Return where the environment of the only attempt is kept."""
    [folder] = workflow.attempts("stage-1")
    return folder / "environment"


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["tmux", "setsid", "sync"])
@pytest.mark.parametrize("kind", ["single", "sweep"])
def test_a_job_and_its_checks_have_the_environment_of_the_caller(
    old_server: Workflow, tmp_path: Path, way: str, kind: str
) -> None:
    """However it is launched: command, task, `task_verify` and `verify` see the same."""
    workflow = old_server
    workflow.init(single() if kind == "single" else sweep(workflow.root))
    path = path_without("tmux", tmp_path / "bin") if way == "setsid" else os.environ["PATH"]
    if way == "sync":
        workflow.succeed("dispatch", "stage-1", "--sync", **CLIENT)
    workflow.succeed("run", PATH=path, **CLIENT)
    found = said(workflow)
    assert len(found) == (2 if kind == "single" else 3)
    assert set(found.values()) == {EXPECTED}
    assert workflow.events("attempt.started")[0]["data"]["mode"] == way


@pytest.mark.few(1)
@pytest.mark.parametrize("server", [True, False])
def test_an_attempt_keeps_its_environment_over_a_recovery(
    old_server: Workflow, server: bool
) -> None:
    """A monitor is started again from another shell, and from a server that is new then."""
    workflow, one = old_server, single()
    wait = f"touch {ROOT}/began; until [ -e {ROOT}/go ]; do sleep 0.05; done; "
    one["parameters"]["command"] = wait + one["parameters"]["command"]
    workflow.init(one)
    workflow.succeed("dispatch", "stage-1", **CLIENT)
    until((workflow.root / "began").exists)
    strike(workflow, Victim.TMUX_SERVER if server else Victim.MONITOR)
    workflow.succeed("rehydrate", **OTHER)
    [monitor] = workflow.root.glob("stage-1/.attempts/*/monitor.json")
    pid = json.loads(monitor.read_text())["pid"]
    held = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert b"FOO=client" in held
    assert not [one for one in held if one.startswith((b"PYTHONOPTIMIZE", b"WFCTL_", b"TMUX="))]
    (workflow.root / "go").touch()
    workflow.succeed("run", **OTHER)
    assert said(workflow) == {"check.txt": EXPECTED, "out.txt": EXPECTED}


def test_the_environment_is_for_its_owner_alone_and_the_log_holds_no_secret(
    old_server: Workflow,
) -> None:
    """Names and a digest, and values of those variables that hold no secret."""
    workflow = old_server
    workflow.init(single())
    workflow.succeed("run", API_TOKEN="hush-hush", OMP_NUM_THREADS="4", SSH_AUTH_SOCK="/tmp/x")
    kept = environment_of(workflow)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert b"\0API_TOKEN\0" in kept.read_bytes()
    assert b"hush" not in kept.read_bytes()
    [started] = workflow.events("attempt.started")
    told = started["data"]["environment"]
    assert "API_TOKEN" in told["names"]
    assert "SSH_AUTH_SOCK" not in told["names"]
    assert told["values"]["OMP_NUM_THREADS"] == "4"
    assert "hush" not in workflow.succeed("events", "-o", "json")


@pytest.mark.long
def test_what_differs_between_two_attempts_is_told(old_server: Workflow) -> None:
    """By `show` in a line, by `compare` in a row; a name alone where the value may be secret."""
    workflow, one = old_server, single()
    one["parameters"]["command"] += '; [ "$PYTHONOPTIMIZE" ]'
    workflow.init(one)
    workflow.call("run", GONE="1", OMP_NUM_THREADS="8")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "set it")
    workflow.succeed("run", PYTHONOPTIMIZE="1", TOKEN="hush", OMP_NUM_THREADS="4")
    shown = [line.strip() for line in workflow.succeed("show", "stage-1").splitlines()]
    assert [line for line in shown if line.startswith("environment:")] == [
        "environment: GONE is not set; in att-0001 it was set",
        "environment: OMP_NUM_THREADS=4 was 8 in att-0001",
        "environment: PYTHONOPTIMIZE=1 was not set in att-0001",
        "environment: TOKEN was not set in att-0001",
    ]
    asked = ["compare", "stage-1/att-0001", "stage-1/att-0002", "-o", "json"]
    rows = json.loads(workflow.succeed(*asked))["data"]["rows"]
    values = {row["name"]: list(row["values"].values()) for row in rows}
    assert values["PYTHONOPTIMIZE"] == [None, "1"]
    assert values["TOKEN"] == [None, "set"]


@pytest.mark.long
def test_a_value_that_the_log_does_not_hold_is_told_as_another(old_server: Workflow) -> None:
    """The digest says that something differs, and two equal environments say nothing."""
    workflow, one = old_server, single()
    one["parameters"]["command"] = 'test "$FOO" = 3 || exit 1; ' + one["parameters"]["command"]
    workflow.init(one)
    for number in ("1", "1", "3"):
        workflow.call("run", FOO=number)
        workflow.call("stage", "retry", "stage-1", "--fix", "once more")
    shown = workflow.succeed("show", "stage-1")
    assert shown.count("environment:") == 1
    assert "environment: a variable has another value than in att-0002" in shown


@pytest.mark.few(1)
@pytest.mark.parametrize("session", ["tmux", "setsid"])
def test_a_secret_reaches_a_job_past_the_disk(
    old_server: Workflow, tmp_path: Path, session: str
) -> None:
    """Its value comes from the call itself, also where a tmux server of before has none."""
    workflow = old_server
    workflow.init(stage("stage-1", 'echo "${#API_TOKEN}" > out.txt'))
    own = {"PATH": path_without("tmux", tmp_path / "bin")} if session == "setsid" else {}
    workflow.succeed("run", API_TOKEN="hush-hush", **own)
    assert said(workflow) == {"out.txt": "9"}
    assert b"hush" not in environment_of(workflow).read_bytes()
