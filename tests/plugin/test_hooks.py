"""``wfctl agent hook``: what a client is told when a session starts, is compacted or stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.install import SOURCE
from tests.cli.support import HERE, Place, call, wfctl, write_plan

pytestmark = pytest.mark.slow


def asked(folder: Path, turn: str, **given: Any) -> dict[str, Any]:
    """Let a client's hook ask; return what it is told, nothing as an empty answer."""
    answer = wfctl("agent", "hook", turn, cwd=folder, stdin=json.dumps(given))
    assert answer.code == 0, answer
    found: dict[str, Any] = json.loads(answer.out or "{}")
    return found


def begin_task(root: Place) -> None:
    """Begin a task of the machine."""
    line = ("machine", "task", "login", "task-1", "--status", "in_progress", "--title", "Form")
    assert root.call(*line).code == 0


def test_a_session_starts_with_the_brief(root: Place) -> None:
    """The workflow, its machines and the first advice, within 2,000 tokens of four bytes."""
    told = asked(root.path, "session-start", source="startup")["hookSpecificOutput"]
    text = told["additionalContext"]
    assert told["hookEventName"] == "SessionStart"
    for part in ("See it melt.", "wfctl run", "login  feature, in ideate", "wfctl consent setup"):
        assert part in text
    assert len(text.encode()) / 4 <= 2000


def test_a_brief_of_many_machines_stays_within_its_bound(root: Place) -> None:
    """Two in full, a line for each of some more."""
    for number in range(12):
        root.call("machine", "init", f"m{number}", "--type", "debug")
    text = asked(root.path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert len(text.encode()) / 4 <= 2000
    assert "machine m" in text


@pytest.mark.usefixtures("home")
def test_where_there_is_no_log_nothing_is_said(tmp_path: Path) -> None:
    """Neither by the command nor by the script before it."""
    for turn in ("session-start", "before-compact", "before-stop"):
        assert asked(tmp_path, turn) == {}
        script = ["sh", str(SOURCE / "hooks/hook.sh"), turn, "claude"]
        done = subprocess.run(
            script, cwd=tmp_path, env={"PATH": "/bin"}, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.usefixtures("home")
def test_a_machine_alone_is_briefed_too(tmp_path: Path) -> None:
    """In a root without a staged workflow."""
    call("--root", str(tmp_path), "machine", "init", "fix-1", "--type", "debug")
    text = asked(tmp_path, "session-start")["hookSpecificOutput"]["additionalContext"]
    assert "fix-1  debug, in triage" in text


def test_a_stop_is_asked_for_a_word_once(root: Place) -> None:
    """The same things in hand are asked for once, whatever the client says of itself."""
    assert asked(root.path, "before-stop", session_id="s1") == {}
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    told = asked(root.path, "before-stop", session_id="s1")
    assert told["decision"] == "block"
    assert "stage-1 is preparing" in told["reason"]
    assert "`wfctl machine checkpoint login" in told["reason"]
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_a_client_that_was_asked_is_not_asked_again(root: Place) -> None:
    """It says so itself."""
    begin_task(root)
    assert asked(root.path, "before-stop", session_id="s1", stop_hook_active=True) == {}


def test_after_a_word_a_stop_is_a_stop(root: Place) -> None:
    """A note, a hand-off, or a question to a person."""
    root.call("stage", "prepare", "stage-1")
    begin_task(root)
    root.call("note", "inputs are there; dispatch next")
    told = asked(root.path, "before-stop", session_id="s1")
    assert "stage-1" not in told["reason"]
    root.call("machine", "checkpoint", "login", "--summary", "half of the form")
    assert asked(root.path, "before-stop", session_id="s2") == {}


def test_a_stage_that_waits_for_a_persons_answer_is_no_reason_to_go_on(root: Place) -> None:
    """The question is the word."""
    root.call("stage", "prepare", "stage-1")
    root.call("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "so")
    assert asked(root.path, "before-stop", session_id="s1") == {}


def test_a_compaction_leaves_a_word_that_keeps_the_one_before(root: Place) -> None:
    """Of what is in hand alone; the next steps of the last hand-off are there still."""
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
    assert root.notes() == ["an agent's context is compacted (auto); in hand: stage-1 is preparing"]
    asked(root.path, "before-compact", trigger="auto")
    assert len(root.notes()) == 1


@pytest.mark.parametrize("text", ["", "no json", "[]"])
def test_a_client_with_other_words_is_answered(root: Place, text: str) -> None:
    """What it says is not needed for the brief."""
    answer = wfctl("agent", "hook", "session-start", cwd=root.path, stdin=text)
    assert "See it melt." in answer.out


def test_the_script_never_stops_a_client(root: Place, tmp_path: Path) -> None:
    """A wfctl that fails, or is not there, is no exit code that means something to it."""
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


def test_the_script_names_the_client_as_who_acts(root: Place, tmp_path: Path) -> None:
    """A word that it leaves is an agent's."""
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
def test_a_finished_workflow_is_briefed_and_lets_a_client_stop(tmp_path: Path) -> None:
    """Nothing is in hand."""
    place = Place(tmp_path)
    place.call(
        "init", str(write_plan(tmp_path, {"workflow_id": "w", "stages": []})), "--consent", "trust"
    )
    assert asked(tmp_path, "before-stop") == {}
