"""A job has the environment of its caller, not that of the tmux server."""

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
#: Relative path from the scratch copy of a job to the root.
ROOT = "../../../../../.."
CLIENT, OTHER = {"FOO": "client"}, {"FOO": "other", "PYTHONOPTIMIZE": "2"}
EXPECTED = "FOO=client OPT="


@pytest.fixture
def old_server(workflow: Workflow) -> Iterator[Workflow]:
    """Start a tmux server with another environment, as if it had been started weeks ago."""
    need_programs("tmux")
    environ = {**workflow.environ, "FOO": "server", "PYTHONOPTIMIZE": "1"}
    subprocess.run(["tmux", "new-session", "-d", "sleep", "600"], env=environ, check=True)
    yield workflow
    ended = subprocess.run(["tmux", "kill-server"], env=environ, capture_output=True, check=False)
    assert ended.returncode in (0, 1)  # a test may have killed the server


def single() -> dict[str, Any]:
    """Return a stage whose job and check print their environment."""
    return stage("stage-1", f'echo "{SAY}" > out.txt', verify=f'echo "{SAY}" > check.txt')


def sweep(root: Path) -> dict[str, Any]:
    """Return a sweep whose task and task check print their environment."""
    made = stage("stage-1", "", map={"grid": {"T": [1]}}, task_outputs=["out.txt"])
    at = shlex.quote(str(root))
    own = {
        "command": f'echo "{SAY}" > out.txt',
        "task_verify": f'cp out.txt {at}/task.txt; echo "{SAY}" > {at}/task-check.txt',
        "verify": f'echo "{SAY}" > check.txt',
    }
    return {**made, "outputs": ["stage-1/tasks.csv"], "parameters": made["parameters"] | own}


def said(workflow: Workflow) -> dict[str, str]:
    """Return the environment that the job and its checks printed."""
    names = ["check.txt", "task.txt", "task-check.txt", "stage-1/out.txt"]
    paths = [workflow.root / name for name in names]
    return {path.name: path.read_text().strip() for path in paths if path.exists()}


def environment_of(workflow: Workflow) -> Path:
    """Return the path of the stored environment of the only attempt."""
    [folder] = workflow.attempts("stage-1")
    return folder / "environment"


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["tmux", "setsid", "sync"])
@pytest.mark.parametrize("kind", ["single", "sweep"])
def test_job_and_its_checks_have_the_environment_of_the_caller(
    old_server: Workflow, tmp_path: Path, way: str, kind: str
) -> None:
    """In every launch mode, commands, tasks and checks see the caller's environment."""
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


@pytest.mark.long
@pytest.mark.parametrize("server", [True, False])
def test_an_attempt_keeps_its_environment_after_a_recovery(
    old_server: Workflow, server: bool
) -> None:
    """A restarted monitor still has the environment with which the attempt started."""
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


@pytest.mark.long
def test_variable_named_like_a_password_is_not_stored(
    old_server: Workflow,
) -> None:
    """A variable with a word such as "password" in its name is stored without its value.

    Variables with a merely similar name keep their values.
    """
    workflow = old_server
    names = ["PGPASSWORD", "MYSQL_PWD", "SSHPASS", "GITHUB_PAT", "SECRETKEY", "AUTHORIZATION"]
    names += ["DOCKER_AUTH_CONFIG", "MYAPP_PASSWORD1", "COOKIE", "GITHUB_TOKEN2", "JIRA_APITOKEN"]
    names += ["SLACK_WEBHOOK_URL", "SENTRY_DSN", "STORAGE_CONNECTION_STRING", "MY_CREDS", "OTP"]
    names += ["PRIVATE_PEM", "SEED_PHRASE", "CARD_PIN", "SAS"]
    shown = ["GIT_AUTHOR_NAME", "TOKENIZERS_PARALLELISM", "MY_PATH", "I_MPI_PIN", "OPTIONS"]
    values = {
        "STORE": "Endpoint=a;AccountKey=hush",
        "SIGNED": "https://a.example/b?sv=1&sig=hush",
        "CURL_OPTS": "-H 'Authorization: Bearer hush'",
        "HOST_FILE": "-----BEGIN KEY hush",
    }
    workflow.init(single())
    given = dict.fromkeys(names, "hush") | dict.fromkeys(shown, "shown") | values
    workflow.succeed("run", **given)
    kept = environment_of(workflow).read_text().split("\0")
    assert not [one for one in kept if "hush" in one]
    assert {*names, *values} <= {*kept}
    assert {f"{name}=shown" for name in shown} <= {*kept}


def test_stored_environment_is_private_and_contains_no_secret(
    old_server: Workflow,
) -> None:
    """The log records the names, a digest, and the values that are no secrets."""
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
def test_environment_difference_between_attempts_is_shown(old_server: Workflow) -> None:
    """`show` and `compare` list the differences, without a value that may be secret."""
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
def test_difference_of_an_unrecorded_value_is_reported(old_server: Workflow) -> None:
    """If only the digest differs, wfctl reports that an unrecorded value has changed."""
    workflow, one = old_server, single()
    one["parameters"]["command"] = 'test "$FOO" = 3 || exit 1; ' + one["parameters"]["command"]
    workflow.init(one)
    for number in ("1", "1", "3"):
        workflow.call("run", FOO=number)
        workflow.call("stage", "retry", "stage-1", "--fix", "once more")
    shown = workflow.succeed("show", "stage-1")
    assert shown.count("environment:") == 1
    assert "environment: a variable has another value than in att-0002" in shown


#: Variables whose value is a secret (`{}`), because of their name or because they are a URL with a
#: password.
SECRETS = {
    "API_TOKEN": "{}",
    "SLURM_JWT": "{}",
    "http_proxy": "http://ada:{}@proxy:8080",
    "PIP_INDEX_URL": "https://{}@host/simple",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("session", ["tmux", "setsid"])
@pytest.mark.parametrize("name", SECRETS)
def test_secret_reaches_a_job_without_being_stored(
    old_server: Workflow, tmp_path: Path, name: str, session: str
) -> None:
    """wfctl passes a secret to the job directly, so an old tmux server does not matter."""
    workflow, value = old_server, SECRETS[name].format("hush-hush")
    workflow.init(stage("stage-1", f'echo "${{#{name}}}" > out.txt'))
    own = {"PATH": path_without("tmux", tmp_path / "bin")} if session == "setsid" else {}
    workflow.succeed("run", **{name: value}, **own)
    assert said(workflow) == {"out.txt": str(len(value))}
    assert b"hush" not in environment_of(workflow).read_bytes()
