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
    """Run `wfctl agent hook` like a client, and return its JSON answer, or {} without an answer."""
    answer = wfctl("agent", "hook", turn, cwd=folder, stdin=json.dumps(given))
    assert answer.code == 0, answer
    found: dict[str, Any] = json.loads(answer.out or "{}")
    return found


def begin_task(root: Place) -> None:
    """Set the status of a machine's task to in_progress."""
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
    """For 13 machines, the brief still has at most 2,000 tokens."""
    for number in range(12):
        root.call("machine", "init", f"m{number}", "--type", "debug")
    text = asked(root.path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert len(text.encode()) / 4 <= 2000
    assert "machine m" in text


@pytest.mark.usefixtures("home")
def test_hook_without_a_log_prints_nothing(tmp_path: Path) -> None:
    """In a folder without a workflow, the hook command and its script print nothing."""
    for turn in ("session-start", "before-compact", "before-stop"):
        assert asked(tmp_path, turn) == {}
        script = ["sh", str(SOURCE / "hooks/hook.sh"), turn, "claude"]
        done = subprocess.run(
            script, cwd=tmp_path, env={"PATH": "/bin"}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.usefixtures("home")
def test_brief_includes_a_machine_without_a_workflow(tmp_path: Path) -> None:
    """The brief names a machine, even if the root has no workflow."""
    call("--root", str(tmp_path), "machine", "init", "fix-1", "--type", "debug")
    text = asked(tmp_path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert "fix-1  debug, in triage" in text


def test_stop_with_open_work_is_blocked_once(root: Place) -> None:
    """wfctl blocks the first stop and asks for a note. It allows the second stop."""
    assert asked(root.path, "before-stop", session_id="s1") == {}
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    told = asked(root.path, "before-stop", session_id="s1")
    assert told["decision"] == "block"
    assert "stage-1 is preparing" in told["reason"]
    assert "`wfctl machine checkpoint login" in told["reason"]
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_stop_is_allowed_if_the_client_was_asked_before(root: Place) -> None:
    """If the client sets stop_hook_active, wfctl does not block the stop."""
    begin_task(root)
    assert asked(root.path, "before-stop", session_id="s1", stop_hook_active=True) == {}


def test_stop_is_allowed_after_a_note_or_checkpoint(root: Place) -> None:
    """The agent must write a note for an open stage, and a checkpoint for an open machine."""
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    root.call("note", "inputs are there; dispatch next")
    told = asked(root.path, "before-stop", session_id="s1")
    assert "stage-1" not in told["reason"]
    root.call("machine", "checkpoint", "login", "--summary", "half of the form")
    assert asked(root.path, "before-stop", session_id="s2") == {}


def test_stop_is_allowed_while_a_proposal_waits(root: Place) -> None:
    """wfctl does not ask for a note, because the next agent will see the proposed amendment."""
    root.call("stage", "prepare", "stage-1")
    root.call("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "so")
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_compaction_records_open_work(root: Place) -> None:
    """Before a client compacts its context, wfctl records the open work in the log."""
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
    """wfctl prints its brief even if the client sends no JSON or an unexpected value."""
    answer = wfctl("agent", "hook", "session-start", cwd=root.path, stdin=text)
    assert "See it melt." in answer.out


def test_hook_script_always_exits_with_0(root: Place, tmp_path: Path) -> None:
    """If wfctl is missing or fails, the script prints nothing and does not disturb the client."""
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
    """The log names the client as the agent that wrote the note."""
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
    """wfctl does not block the stop, because no work is open."""
    place = Place(tmp_path)
    place.call(
        "init", str(write_plan(tmp_path, {"workflow_id": "w", "stages": []})), "--consent", "trust"
    )
    assert asked(tmp_path, "before-stop") == {}
