"""A notice and `wfctl status` report the end of the background runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.loop.background_runner import find_running_runner
from service.root.root import Root
from tests.cli.support import Place
from tests.crash.support import until
from tests.sessions.support import answer, events, stage, started, workflow
from tests.sessions.test_runner import BRISK, GO, own_tmux  # noqa: F401 - pytest uses this fixture

pytestmark = pytest.mark.slow


def receiver(folder: Path) -> str:
    """Write a program that appends each notice to a file, and return its path."""
    program = folder / "receiver.sh"
    program.write_text(f"#!/bin/sh\ncat >> {folder}/told; echo >> {folder}/told\n")
    program.chmod(0o755)
    return str(program)


def notices(folder: Path) -> list[dict[str, Any]]:
    """Return all received notices, oldest first."""
    told = folder / "told"
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def first_line(place: Place) -> str:
    """Return the first line of `wfctl status`."""
    return place.call("status").out.splitlines()[0]


def next_commands(place: Place) -> list[str]:
    """Return the commands of the next actions."""
    return [one["command"] for one in place.json("status").envelope["next_actions"]]


@pytest.mark.long
@pytest.mark.parametrize("survivor", ["tmux", "nothing"])
def test_killed_runner_is_reported_by_a_notice_and_by_status(tmp_path: Path, survivor: str) -> None:
    """A separate process sends the notice, even if the runner's terminal is killed too."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    place.done("run", "--autonomous", "--notify", receiver(tmp_path), *BRISK)
    until(lambda: events(place, "stage.launched"))
    assert "is running this workflow" in first_line(place)
    runner = find_running_runner(Root(place.path))
    assert runner is not None
    if survivor == "nothing":
        subprocess.run(["pkill", "-KILL", "-f", "--", f"--root {place.path} "], check=True)
        subprocess.run(["tmux", "kill-server"], check=False)
    else:
        os.kill(runner.pid, signal.SIGKILL)
        subprocess.run(["pkill", "-KILL", "-f", "--", f"--root {place.path} .* run"], check=False)
    until(lambda: any(one["last"] for one in notices(tmp_path)))
    [told] = notices(tmp_path)
    assert (told["kind"], told["last"]) == ("end", True)
    until(lambda: find_running_runner(Root(place.path)) is None)
    if "killed" in told["text"]:
        assert first_line(place).endswith("was killed, so no new session starts")
        until(lambda: next_commands(place)[0] == "wfctl run --autonomous")
    (place.path / "go").touch()
    assert place.done("run")["exit_reason"] == "completed"
    assert first_line(place).startswith("w-2026-05-04"), "an attended loop followed the runner"


@pytest.mark.long
def test_only_the_last_session_sends_an_end_notice(tmp_path: Path) -> None:
    """The runner's earlier sessions send no notice when they end."""
    place = workflow(
        tmp_path, stage(1), stage(2, after=[1]), stage(3, "false", after=[2]), session_budget=2
    )
    place.done("run", "--autonomous", "--notify", receiver(tmp_path), *BRISK)
    until(lambda: [one for one in notices(tmp_path) if one.get("last")], 120)
    assert len(events(place, "session.ended")) > 1
    assert [one["kind"] for one in notices(tmp_path)] == ["failure", "end"]
    assert "ended: blocked: stage-3: failed" in notices(tmp_path)[-1]["text"]
    assert ": blocked: stage-3: failed" in first_line(place)


def serve(place: Place, folder: Path, script: str) -> subprocess.Popen[str]:
    """Start a runner that calls a script as its loop; $CALL is the number of the call."""
    loop = folder / "loop.sh"
    count = f"echo >> {folder}/calls; CALL=$(wc -l < {folder}/calls)"
    loop.write_text(f"#!/bin/bash\n{count}\n{script}\n")
    loop.chmod(0o755)
    options = ("--between", "0.1", "--notify", receiver(folder))
    return started(place, "runner", "serve", *options, "--", str(loop))


COMPLETED = """echo '{"data": {"exit_reason": "completed"}}'"""


@pytest.mark.long
def test_runner_waits_for_a_temporary_failure(tmp_path: Path) -> None:
    """When the disk is full, the runner sends one notice and continues to try."""
    place = workflow(tmp_path, stage(1))
    full = '{"error": {"code": "store_unwritable", "message": "no space left"}}'
    script = f"[ $CALL -gt 3 ] || {{ echo '{full}'; exit 5; }}\n{COMPLETED}"
    runner = serve(place, tmp_path, script)
    assert answer(runner)["ended"] == "completed"
    until(lambda: len(notices(tmp_path)) == 2)
    assert [one["kind"] for one in notices(tmp_path)] == ["failure", "end"]
    assert "is waiting: (exit 5): no space left" in notices(tmp_path)[0]["text"]


@pytest.mark.long
def test_runner_waits_for_a_missing_root(tmp_path: Path) -> None:
    """If the workflow folder disappears for a while, the runner continues when it is back."""
    place = workflow(tmp_path, stage(1))
    away = f"mv {place.path} {tmp_path}/away; (sleep 2; mv {tmp_path}/away {place.path}) &"
    script = f"[ $CALL -gt 1 ] || {{ {away} exit 1; }}\n{COMPLETED}"
    runner = serve(place, tmp_path, script)
    assert answer(runner)["ended"] == "completed"
    until(lambda: [one["kind"] for one in notices(tmp_path)] == ["failure", "end"])


def test_locked_log_does_not_delay_the_last_notice(tmp_path: Path) -> None:
    """The notice is sent even if another program locks the log when the runner ends."""
    place = workflow(tmp_path, stage(1))
    database = place.path / ".wfctl" / "events.db"
    hold = f"import sqlite3, time; sqlite3.connect('{database}').execute('BEGIN EXCLUSIVE'); "
    script = (
        f'{sys.executable} -c "{hold} time.sleep(600)" & echo $! > {tmp_path}/holds; sleep 1\n'
        """echo '{"data": {"exit_reason": "blocked"}}'"""
    )
    runner = serve(place, tmp_path, script)
    until(lambda: runner.poll() is not None or notices(tmp_path), 60)
    assert runner.poll() is None, f"the runner waits for the log: {runner.communicate()}"
    assert [one["kind"] for one in notices(tmp_path)] == ["end"]
    os.kill(int((tmp_path / "holds").read_text()), signal.SIGKILL)
    assert answer(runner)["ended"] == "blocked"
