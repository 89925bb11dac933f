"""`run --autonomous`: session after session, to be watched, paused and stopped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.loop.agent import waited
from reconciler.loop.detached import recorded
from service.root.root import Root
from tests.cli.support import Place
from tests.crash.support import until
from tests.need import need_programs
from tests.programs import path_without
from tests.sessions.support import (
    agent,
    answer,
    events,
    silent,
    stage,
    started,
    statuses,
    workflow,
)

pytestmark = pytest.mark.slow

#: A job that waits for a file in the root, from its scratch copy.
GO = "until [ -e ../../../../../../go ]; do sleep 0.05; done"
#: The runner's options that make it brisk.
BRISK = ("--between", "0.1")


@pytest.fixture(autouse=True)
def own_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the test a tmux server of its own, and let none of it outlive the test."""
    # The path of a socket is limited to some hundred bytes, which a test's own folder passes.
    sockets = tempfile.mkdtemp(prefix="wfctl-")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    here = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", here)
    yield
    found = recorded(Root(tmp_path / "root"))
    if found is not None:
        os.kill(found.pid, signal.SIGKILL)
    if shutil.which("tmux"):
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets)


def ended(place: Place) -> str:
    """Wait for the runner's end and return why it ended."""
    prefix = "Autonomous runner ended: "
    until(lambda: any(text.startswith(prefix) for text in place.notes()), 120)
    until(lambda: recorded(Root(place.path)) is None)
    return place.notes()[-1].removeprefix(prefix)


def test_what_was_waited_for_counts_as_it_was_seen() -> None:
    """A runner that is through in no time came up all the same: nobody looks once more."""
    looks = iter([None, "a runner at work"])
    assert waited(lambda: next(looks), 5) == "a runner at work"


def test_a_runner_goes_on_session_after_session_until_all_is_done(tmp_path: Path) -> None:
    """A plain run starts it where the workflow says so; each session has a budget of its own."""
    stages = [stage(1, "echo mine > ../../../../../../report.md"), stage(2, after=[1])]
    place = workflow(tmp_path, *stages, session_budget=2, autonomous=True)
    shown = place.done("run", "--report", "report.md", *BRISK)
    assert set(shown["ways"]) == {"watch", "pause", "resume", "attach", "stop"}
    name = shown["runner"]["session"]
    assert name == "workflow-runner-w-2026-05-04"
    assert f"Autonomous mode activated. tmux session: {name}" in place.log()
    assert ended(place) == "completed"
    assert statuses(place) == ["completed", "completed"]
    assert [s["end"] for s in place.done("session", "show")["sessions"]] == [
        "budget_exhausted",
        "completed",
    ]
    # What came to the report's place between two sessions ends nothing.
    assert events(place, "workflow.completed")[0]["data"]["report"] == "report-2.md"
    assert place.json("runner", "stop").code == 3


def test_a_pause_is_honoured_within_a_second_and_one_runner_is_enough(tmp_path: Path) -> None:
    """What runs goes on, nothing is begun; a second runner is refused, and a stop leaves order."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    place.done("run", "--autonomous", *BRISK)
    until(lambda: events(place, "stage.launched"))
    second = place.json("run", "--autonomous")
    assert (second.code, second.error["code"]) == (4, "already_autonomous")
    place.done("runner", "pause")
    time.sleep(1)
    (place.path / "go").touch()
    until(lambda: statuses(place)[0] in ("post_processing", "completed"))
    time.sleep(2)
    assert len(events(place, "attempt.started")) == 1
    assert place.done("runner", "show")["paused"] is True
    place.done("runner", "stop")
    assert place.done("session", "show")["sessions"][0]["end"] == "waiting"
    assert place.notes()[-1] == "Autonomous runner ended: somebody asked it to stop"
    place.done("runner", "resume")
    place.done("run", "--autonomous", *BRISK)
    assert ended(place) == "completed"


def test_two_roots_with_one_id_have_runners_of_their_own(tmp_path: Path) -> None:
    """Each in a tmux session of its own, in the name of anyone who started it."""
    places = [workflow(tmp_path / name, stage(1, GO)) for name in ("a", "b")]
    found = [
        place.done("--actor", "user:ada", "run", "--autonomous", *BRISK)["runner"]["session"]
        for place in places
    ]
    assert found[0] == "workflow-runner-w-2026-05-04"
    assert found[1].startswith(f"{found[0]}-")
    for place in places:
        (place.path / "go").touch()
        assert ended(place) == "completed"
        [begun] = events(place, "session.started")
        assert begun["actor"] == {"kind": "runner", "name": "ada"}


def test_a_runner_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """Its loop is let end; nothing is computed twice."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    first = place.done("run", "--autonomous", *BRISK)["runner"]
    until(lambda: events(place, "stage.launched"))
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: recorded(Root(place.path)) is None)
    again = place.done("run", "--autonomous", *BRISK)["runner"]
    assert again["pid"] != first["pid"]
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert len(events(place, "attempt.started")) == 2


def test_without_tmux_it_runs_by_setsid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so once."""
    monkeypatch.setenv("PATH", path_without("tmux", tmp_path / "bin"))
    place = workflow(tmp_path, stage(1))
    answer = place.json("run", "--autonomous", "--max-sessions", "1000000", *BRISK)
    assert answer.data["runner"]["session"] is None
    assert "runs detached by setsid" in answer.err
    assert "attach" not in answer.data["ways"]
    assert ended(place) == "completed"
    assert place.json("runner", "attach").code == 3


def test_sessions_that_do_nothing_end_it(tmp_path: Path) -> None:
    """Three in a row; and so does a block, at once."""
    place = workflow(tmp_path, stage(1))
    (place.path / "init.sh").write_text("exit 1\n")
    place.done("run", "--autonomous", *BRISK)
    assert ended(place).startswith("3 sessions in a row that did nothing")
    other = workflow(tmp_path / "other", stage(1, "false"))
    other.done("run", "--autonomous", *BRISK)
    assert ended(other).startswith("blocked: stage-1: failed")
    assert len(events(other, "session.started")) == 1


@pytest.mark.long
def test_short_sessions_that_wait_for_a_job_are_not_futile(tmp_path: Path) -> None:
    """Given a job that takes longer than three of them, then they go on until it is done."""
    place = workflow(tmp_path, stage(1, GO))
    place.done("run", "--autonomous", "--session-seconds", "3", *BRISK)
    until(lambda: len(events(place, "session.started")) > 3)
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert len(events(place, "attempt.started")) == 1


def test_what_a_session_cannot_do_is_not_asked_for_without_end(tmp_path: Path) -> None:
    """A conflict that is no other loop's counts as futile, and the end tells its message."""
    place = workflow(tmp_path, stage(1))
    said = "{'success': False, 'error': {'code': 'version_conflict', 'message': 'ex-\\npected 3'}}"
    loop = [sys.executable, "-c", f"import json; print(json.dumps({said})); raise SystemExit(4)"]
    runner = started(place, "runner", "serve", "--between", "0.1", "--", *loop)
    why = "3 sessions in a row that did nothing (exit 4): ex- pected 3"
    assert answer(runner)["ended"] == why
    assert place.notes()[-1] == f"Autonomous runner ended: {why}"


@pytest.mark.long
def test_a_runner_waits_for_the_end_of_another_loop(tmp_path: Path) -> None:
    """It says so once, begins no session meanwhile, and goes on by itself."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    other = started(place, "run")
    until(lambda: events(place, "stage.launched"))
    place.done("run", "--autonomous", *BRISK)
    waits = "The runner waits for another loop to end"
    until(lambda: waits in place.notes())
    time.sleep(3)
    assert len(events(place, "session.started")) == 1
    other.send_signal(signal.SIGTERM)
    assert answer(other)["exit_reason"] == "waiting"
    until(lambda: len(events(place, "session.started")) == 2)
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert place.notes().count(waits) == 1


def test_a_session_may_say_more_than_a_pipe_holds(tmp_path: Path) -> None:
    """Given a loop that names a thousand hindrances, then it ends, and its reason is read."""
    place = workflow(tmp_path, stage(1))
    said = "{'data': {'exit_reason': 'blocked', 'blocked': ['w' * 300] * 1000}}"
    loop = [sys.executable, "-c", f"import json; print(json.dumps({said}))"]
    options = ("--max-sessions", "1", "--session-seconds", "5")
    runner = started(place, "runner", "serve", *options, "--", *loop)
    assert answer(runner)["ended"] == "blocked"


def test_what_cannot_be_driven_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """An agent that is not there, or what only one session can take."""
    place = workflow(tmp_path, silent(1))
    missing = place.json("run", "--autonomous", "--agent", "nowhere-to-be-found")
    assert missing.error["code"] == "agent_missing"
    assert place.json("run", "--autonomous", "--command-id", "k").code == 2
    assert place.types() == ["workflow.created", "stage.readied", "amendment.approved"]
    assert place.done("runner", "show")["runner"] is None


def test_a_plan_without_commands_is_said_at_once_and_named_in_the_morning(tmp_path: Path) -> None:
    """Anyone who starts the runner without an agent is warned; its session blocks the stage."""
    place = workflow(tmp_path, silent(1))
    begun = place.json("run", "--autonomous", *BRISK)
    assert begun.code == 0
    assert "stage-1: nothing to run" in begun.err
    assert ended(place).startswith("blocked: stage-1: nothing to run")
    assert any("Session ending: blocked. stage-1: nothing to run" in text for text in place.notes())


def test_an_agent_works_under_the_runner_with_the_environment_of_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever tmux's server was started with."""
    need_programs("tmux")
    place = workflow(tmp_path, silent(1))
    subprocess.run(["tmux", "new-session", "-d", "-s", "earlier", "sleep 100"], check=True)
    monkeypatch.setenv("KEY_OF_AGENT", "ke y'\"")
    words = agent(tmp_path, 'printf %s "$KEY_OF_AGENT" > seen')
    place.done("run", "--autonomous", "--agent", words, *BRISK)
    assert ended(place).startswith("blocked: stage-1: failed (agent ")
    assert (place.path / "seen").read_text() == "ke y'\""
    assert not (place.path / ".wfctl/runner.environment").exists()
