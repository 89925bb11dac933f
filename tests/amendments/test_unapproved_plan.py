"""No script of a plan runs before a person approved the plan."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import Keys, Place
from tests.cli.support import agree, wfctl, write_plan
from tests.need import need_programs

AGENT = {"WFCTL_ACTOR": "agent:bob"}
PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-12-01",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": 'touch "$WFCTL_ROOT/ran"', "verify": "sh check.sh"},
        },
        {
            "id": "stage-2",
            "name": "Fit",
            "outputs": ["stage-2/tasks.csv"],
            "parameters": {
                "command": 'touch "$WFCTL_ROOT/ran"',
                "verify": "sh check.sh",
                "map": {"grid": {"x": [1, 2]}},
            },
        },
        {"id": "stage-3", "name": "Look", "outputs": ["stage-3/out.txt"]},
    ],
}
#: Scripts that a plan can run. Each creates the file ``ran``, which shows that it has run.
FILES = ("init.sh", "check.sh", "agent.sh")
#: Commands that would start a session, a job, an agent or a check, and must be refused.
REFUSED = (
    "session start",
    "session start --dry-run",
    "run",
    "run --agent {root}/agent.sh",
    "run --autonomous",
    "run --autonomous --agent {root}/agent.sh",
    "run --attended --max-parallel 2",
    "stage prepare {stage}",
    "stage prepare {stage} --dry-run",
    "dispatch {stage}",
    "dispatch {stage} --sync",
    "dispatch {stage} --dry-run",
    "append session.started --data {{}}",
    'append stage.prepared --data {{"stage":"{stage}"}}',
)
#: Other commands, which may succeed or be refused for another reason, but must not run a script.
OTHERS = (
    "run --dry-run",
    "reconcile",
    "rehydrate",
    "wait --timeout 1",
    "verify",
    "verify --deep",
    "stage ready {stage}",
    "stage launch {stage}",
    "stage compute {stage}",
    "stage verify {stage}",
    "stage complete {stage} --evidence looked",
    "stage diagnose {stage}",
    "stage retry {stage} --fix mended",
    "stage reuse {stage}",
    "rerun {stage} --reason again",
    "status",
    "show {stage}",
    "results",
    "report -",
    "why {stage}",
    "agent hook session-start",
    "amend show plan",
)


def furnished(folder: Path) -> Path:
    """Create a folder with every kind of script that a plan can run."""
    root = folder / "root"
    root.mkdir()
    for name in FILES:
        (root / name).write_text('#!/bin/sh\ntouch "$(dirname "$0")/ran"\n')
        (root / name).chmod(stat.S_IRWXU)
    return root


def begun(folder: Path, policy: str, keys: Keys) -> Path:
    """Create a workflow as an agent, so that no person has approved its plan."""
    root = furnished(folder)
    signers = ["--signers", str(keys.signers)] if policy == "signature" else []
    line = ["init", str(write_plan(folder, PLAN)), "--consent", policy, *signers]
    done = wfctl("--root", str(root), *line, environ=AGENT)
    assert done.code == 0, done
    return root


def called(root: Path, line: str, stage: str) -> tuple[int, dict[str, Any]]:
    """Run a command as an agent, and return its exit code and error."""
    words = line.format(root=root, stage=stage).split()
    done = wfctl("--root", str(root), "-o", "json", *words, cwd=root, environ=AGENT)
    answer = json.loads(done.out) if done.out.startswith("{") else {}
    return done.code, answer.get("error", {}) | {"next": answer.get("next_actions")}


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(("policy", "stage"), [("terminal", "stage-1"), ("signature", "stage-2")])
def test_no_command_runs_a_script_of_an_unapproved_plan(
    policy: str, stage: str, tmp_path: Path, keys: Keys
) -> None:
    """Every command that would run a script exits with code 6 and suggests the approval."""
    root = begun(tmp_path, policy, keys)
    version = Place(root).version()
    _, expected = called(root, "dispatch stage-1", stage)
    assert "no person has approved the plan yet" in expected["message"]
    for line in REFUSED:
        code, error = called(root, line, stage)
        assert (code, error["code"]) == (6, "needs_consent"), (line, error)
        assert error["next"] == expected["next"], line
        assert "no person has approved the plan yet" in error["message"], line
        assert error["data"]["amendments"] == ["plan"], line
    assert Place(root).version() == version
    for line in OTHERS:
        called(root, line, stage)
        assert not (root / "ran").exists(), line
    assert not (root / "ran").exists()
    assert {"session.started", "stage.prepared", "attempt.started"}.isdisjoint(Place(root).types())


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["stage verify stage-1", "stage complete stage-1", "run", "reconcile", "verify --deep"]
)
def test_no_check_of_an_imported_plan_runs_before_its_approval(line: str, tmp_path: Path) -> None:
    """An imported stage whose results wait for a check also waits for the plan's approval."""
    need_programs("bash")
    root = furnished(tmp_path)
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    done = wfctl(
        "--root", str(trusted), "init", str(write_plan(tmp_path, PLAN)), "--consent", "trust"
    )
    assert done.code == 0, done
    document = json.loads((trusted / "workflow-state.json").read_text())
    document["stages"][0]["status"] = "post_processing"
    (root / "workflow-state.json").write_text(json.dumps(document))
    (root / "progress.log").write_text((trusted / "progress.log").read_text())
    (root / "stage-1").mkdir()
    (root / "stage-1/out.txt").write_text("1\n")
    done = wfctl("--root", str(root), "import", str(root), environ=AGENT)
    assert done.code == 0, done
    code, error = called(root, line, "stage-1")
    assert not (root / "ran").exists(), (line, code, error)
    if line in ("stage verify stage-1", "stage complete stage-1", "run"):
        assert (code, error["code"]) == (6, "needs_consent"), error
    agree(root)
    code, error = called(root, "stage verify stage-1", "stage-1")
    assert (root / "ran").exists(), error


@pytest.mark.slow
def test_session_of_an_approved_plan_runs_its_init_script(tmp_path: Path, keys: Keys) -> None:
    """After a person approved the plan, an agent can start a session, which runs init.sh."""
    root = begun(tmp_path, "terminal", keys)
    agree(root)
    done = wfctl("--root", str(root), "session", "start", environ={**os.environ, **AGENT})
    assert (done.code, (root / "ran").exists()) == (0, True), done
