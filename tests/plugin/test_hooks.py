"""``wfctl agent hook`` answers when a client's session starts, is compacted or stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from extensions.agents.install import SOURCE
from tests.cli.support import HERE, Place, call, wfctl, write_plan

pytestmark = pytest.mark.slow


def asked(folder: Path, turn: str, **given: Any) -> dict[str, Any]:
    """Call the hook like a client, and return its answer, or an empty one."""
    answer = wfctl("agent", "hook", turn, cwd=folder, stdin=json.dumps(given))
    assert answer.code == 0, answer
    found: dict[str, Any] = json.loads(answer.out or "{}")
    return found


def begin_task(root: Place) -> None:
    """Start a task of the machine."""
    line = ("machine", "task", "login", "task-1", "--status", "in_progress", "--title", "Form")
    assert root.call(*line).code == 0


def test_session_start_returns_the_brief(root: Place) -> None:
    """The brief has the workflow, its machines and the next step, in at most 2,000 tokens."""
    told = asked(root.path, "session-start", source="startup")["hookSpecificOutput"]
    text = told["additionalContext"]
    assert told["hookEventName"] == "SessionStart"
    for part in ("See it melt.", "wfctl run", "login  feature, in ideate", "wfctl consent setup"):
        assert part in text
    assert len(text.encode()) / 4 <= 2000


def test_brief_of_many_machines_stays_short(root: Place) -> None:
    """Two machines are shown in full, and some others in one line each."""
    for number in range(12):
        root.call("machine", "init", f"m{number}", "--type", "debug")
    text = asked(root.path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert len(text.encode()) / 4 <= 2000
    assert "machine m" in text


@pytest.mark.usefixtures("home")
def test_hook_without_a_log_prints_nothing(tmp_path: Path) -> None:
    """Neither the command nor its script prints anything."""
    for turn in ("session-start", "before-compact", "before-stop"):
        assert asked(tmp_path, turn) == {}
        script = ["sh", str(SOURCE / "hooks/hook.sh"), turn, "claude"]
        done = subprocess.run(
            script, cwd=tmp_path, env={"PATH": "/bin"}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.usefixtures("home")
def test_brief_includes_a_machine_without_a_workflow(tmp_path: Path) -> None:
    """The root has no staged workflow."""
    call("--root", str(tmp_path), "machine", "init", "fix-1", "--type", "debug")
    text = asked(tmp_path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert "fix-1  debug, in triage" in text


def test_stop_with_open_work_is_blocked_once(root: Place) -> None:
    """The agent is asked to record a note, and a second stop is allowed."""
    assert asked(root.path, "before-stop", session_id="s1") == {}
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    told = asked(root.path, "before-stop", session_id="s1")
    assert told["decision"] == "block"
    assert "stage-1 is preparing" in told["reason"]
    assert "`wfctl machine checkpoint login" in told["reason"]
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_stop_is_allowed_if_the_client_was_asked_before(root: Place) -> None:
    """The client reports so with stop_hook_active."""
    begin_task(root)
    assert asked(root.path, "before-stop", session_id="s1", stop_hook_active=True) == {}


def test_stop_is_allowed_after_a_note_or_checkpoint(root: Place) -> None:
    """A note for the workflow and a checkpoint for the machine are both required."""
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    root.call("note", "inputs are there; dispatch next")
    told = asked(root.path, "before-stop", session_id="s1")
    assert "stage-1" not in told["reason"]
    root.call("machine", "checkpoint", "login", "--summary", "half of the form")
    assert asked(root.path, "before-stop", session_id="s2") == {}


def test_stop_is_allowed_while_a_proposal_waits(root: Place) -> None:
    """The pending proposal already informs the next agent."""
    root.call("stage", "prepare", "stage-1")
    root.call("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "so")
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_compaction_records_open_work(root: Place) -> None:
    """The new hand-off keeps the summary and next steps of the previous hand-off."""
    asked(root.path, "before-compact", trigger="auto")
    assert root.notes() == []
    begin_task(root)
    root.call("machine", "checkpoint", "login", "--summary", "fields done", "--next", "the tests")
    root.call("machine", "task", "login", "task-2", "--status", "in_progress", "--title", "Tests")
    root.call("stage", "prepare", "stage-1")
    asked(root.path, "before-compact", trigger="auto")
    handoff = root.done("machine", "rehydrate", "login")["handoff"]
    assert "task task-2 is in_progress" in handoff["summary"]
    assert "fields done" in handoff["summary"]
    assert handoff["nextSteps"] == ["the tests"]
    said = "an agent's context is compacted (auto); current work: stage-1 is preparing"
    assert root.notes() == [said]
    asked(root.path, "before-compact", trigger="auto")
    assert len(root.notes()) == 1


@pytest.mark.parametrize("text", ["", "no json", "[]"])
def test_hook_accepts_unknown_input(root: Place, text: str) -> None:
    """The brief does not need the input of the client."""
    answer = wfctl("agent", "hook", "session-start", cwd=root.path, stdin=text)
    assert "See it melt." in answer.out


def test_hook_script_always_exits_with_0(root: Place, tmp_path: Path) -> None:
    """A missing or failing wfctl must not affect the client."""
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "wfctl").write_text("#!/bin/sh\nexit 2\n")
    (broken / "wfctl").chmod(0o755)
    script = ["sh", str(SOURCE / "hooks/hook.sh"), "before-stop", "claude"]
    for path in (f"{broken}:/bin", "/bin"):
        done = subprocess.run(
            script, cwd=root.path, env={"PATH": path}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"")


def test_hook_script_sets_the_client_as_actor(root: Place, tmp_path: Path) -> None:
    """Its notes are recorded as those of an agent."""
    begin_task(root)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "wfctl").write_text(f'#!/bin/sh\nexec {sys.executable} -m cli.main "$@"\n')
    (programs / "wfctl").chmod(0o755)
    subprocess.run(
        ["sh", str(SOURCE / "hooks/hook.sh"), "before-compact", "gemini"],
        cwd=root.path,
        env={**os.environ, "PATH": f"{programs}:/bin:/usr/bin", "PYTHONPATH": str(HERE)},
        input=b"{}",
        check=True,
    )
    events = root.done("events", "--machine", "login")
    assert events[-1]["actor"] == {"kind": "agent", "name": "gemini"}


@pytest.mark.usefixtures("home")
def test_stop_is_allowed_for_a_finished_workflow(tmp_path: Path) -> None:
    """No work is open."""
    place = Place(tmp_path)
    place.call(
        "init", str(write_plan(tmp_path, {"workflow_id": "w", "stages": []})), "--consent", "trust"
    )
    assert asked(tmp_path, "before-stop") == {}
