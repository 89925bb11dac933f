"""`wfctl run --autonomous`: sessions in the background that a user can pause and stop."""

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

from reconciler.loop.agent import poll_until
from reconciler.loop.background_runner import find_running_runner
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

#: Command of a job that waits for the file `go` in the workflow folder, relative to its scratch
#: copy.
GO = "until [ -e ../../../../../../go ]; do sleep 0.05; done"
#: Options that shorten the pause between sessions of the runner.
BRISK = ("--between", "0.1")


@pytest.fixture(autouse=True)
def own_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test its own tmux server, and stop it after the test."""
    # The path of a socket is limited to about 100 bytes, and tmp_path is longer.
    sockets = tempfile.mkdtemp(prefix="wfctl-")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    here = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", here)
    yield
    found = find_running_runner(Root(tmp_path / "root"))
    if found is not None:
        os.kill(found.pid, signal.SIGKILL)
    if shutil.which("tmux"):
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets)


def ended(place: Place) -> str:
    """Wait until the runner ends, and return the reason from the log."""
    prefix = "Autonomous runner ended: "
    until(lambda: any(text.startswith(prefix) for text in place.notes()), 120)
    until(lambda: find_running_runner(Root(place.path)) is None)
    return place.notes()[-1].removeprefix(prefix)


def test_poll_returns_the_first_result() -> None:
    """`poll_until` returns the first result that is not None, without another check."""
    looks = iter([None, "a runner at work"])
    assert poll_until(lambda: next(looks), 5) == "a runner at work"


@pytest.mark.long
def test_runner_starts_sessions_until_the_workflow_is_completed(tmp_path: Path) -> None:
    """Each session has its own budget; a plan with `autonomous` starts the runner."""
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
    # When a file appears at the report's path between two sessions, the runner uses another name.
    assert events(place, "workflow.completed")[0]["data"]["report"] == "report-2.md"
    assert place.json("runner", "stop").code == 3


@pytest.mark.long
def test_pause_stops_new_work_within_a_second(tmp_path: Path) -> None:
    """After `runner pause`, running jobs continue but no new stage starts."""
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
    assert (
        place.notes()[-1]
        == "Autonomous runner ended: a user or the system asked the runner to stop"
    )
    place.done("runner", "resume")
    place.done("run", "--autonomous", *BRISK)
    assert ended(place) == "completed"


@pytest.mark.long
def test_two_roots_with_the_same_id_have_separate_runners(tmp_path: Path) -> None:
    """Each runner has its own tmux session, and events name the user who started it."""
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


def test_restarted_runner_continues_after_a_kill(tmp_path: Path) -> None:
    """The new runner completes the workflow, and no stage runs twice."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    first = place.done("run", "--autonomous", *BRISK)["runner"]
    until(lambda: events(place, "stage.launched"))
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: find_running_runner(Root(place.path)) is None)
    again = place.done("run", "--autonomous", *BRISK)["runner"]
    assert again["pid"] != first["pid"]
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert len(events(place, "attempt.started")) == 2


@pytest.mark.long
def test_runner_uses_setsid_without_tmux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer says that the runner uses setsid, and `runner attach` is refused."""
    monkeypatch.setenv("PATH", path_without("tmux", tmp_path / "bin"))
    place = workflow(tmp_path, stage(1))
    answer = place.json("run", "--autonomous", "--max-sessions", "1000000", *BRISK)
    assert answer.data["runner"]["session"] is None
    assert "runs in the background through setsid" in answer.err
    assert "attach" not in answer.data["ways"]
    assert ended(place) == "completed"
    assert place.json("runner", "attach").code == 3


@pytest.mark.long
def test_runner_ends_after_three_sessions_without_progress(tmp_path: Path) -> None:
    """A failing init.sh ends the runner after three sessions, a blocked run after one."""
    place = workflow(tmp_path, stage(1))
    (place.path / "init.sh").write_text("exit 1\n")
    place.done("run", "--autonomous", *BRISK)
    assert ended(place).startswith("3 sessions in a row made no progress")
    other = workflow(tmp_path / "other", stage(1, "false"))
    other.done("run", "--autonomous", *BRISK)
    assert ended(other).startswith("blocked: stage-1: failed")
    assert len(events(other, "session.started")) == 1


@pytest.mark.long
def test_short_sessions_that_wait_for_a_job_count_as_progress(tmp_path: Path) -> None:
    """If a job lasts longer than three sessions, the runner continues until the job ends."""
    place = workflow(tmp_path, stage(1, GO))
    place.done("run", "--autonomous", "--session-seconds", "3", *BRISK)
    until(lambda: len(events(place, "session.started")) > 3)
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert len(events(place, "attempt.started")) == 1


def test_repeated_conflict_ends_the_runner(tmp_path: Path) -> None:
    """Three version conflicts in a row count as no progress, and the log has the reason."""
    place = workflow(tmp_path, stage(1))
    said = "{'success': False, 'error': {'code': 'version_conflict', 'message': 'ex-\\npected 3'}}"
    loop = [sys.executable, "-c", f"import json; print(json.dumps({said})); raise SystemExit(4)"]
    runner = started(place, "runner", "serve", "--between", "0.1", "--", *loop)
    why = "3 sessions in a row made no progress (exit 4): ex- pected 3"
    assert answer(runner)["ended"] == why
    assert place.notes()[-1] == f"Autonomous runner ended: {why}"


@pytest.mark.long
def test_runner_waits_for_another_run(tmp_path: Path) -> None:
    """The runner logs once that it waits, and starts its session after the other run ends."""
    place = workflow(tmp_path, stage(1, GO), stage(2, after=[1]))
    other = started(place, "run")
    until(lambda: events(place, "stage.launched"))
    place.done("run", "--autonomous", *BRISK)
    waits = "The runner waits until another `wfctl run` ends"
    until(lambda: waits in place.notes())
    time.sleep(3)
    assert len(events(place, "session.started")) == 1
    other.send_signal(signal.SIGTERM)
    assert answer(other)["exit_reason"] == "waiting"
    until(lambda: len(events(place, "session.started")) == 2)
    (place.path / "go").touch()
    assert ended(place) == "completed"
    assert place.notes().count(waits) == 1


def test_session_may_print_more_than_a_pipe_holds(tmp_path: Path) -> None:
    """The runner reads the whole output of its loop, so a large answer does not block it."""
    place = workflow(tmp_path, stage(1))
    said = "{'data': {'exit_reason': 'blocked', 'blocked': ['w' * 300] * 1000}}"
    loop = [sys.executable, "-c", f"import json; print(json.dumps({said}))"]
    options = ("--max-sessions", "1", "--session-seconds", "5")
    runner = started(place, "runner", "serve", *options, "--", *loop)
    assert answer(runner)["ended"] == "blocked"


def test_missing_agent_is_refused_before_the_runner_starts(tmp_path: Path) -> None:
    """wfctl also refuses --command-id, which makes sense only for a single session."""
    place = workflow(tmp_path, silent(1))
    missing = place.json("run", "--autonomous", "--agent", "nowhere-to-be-found")
    assert missing.error["code"] == "agent_missing"
    assert place.json("run", "--autonomous", "--command-id", "k").code == 2
    assert place.types() == ["workflow.created", "stage.readied", "amendment.approved"]
    assert place.done("runner", "show")["runner"] is None


def test_runner_warns_about_stages_without_a_command(tmp_path: Path) -> None:
    """Without an agent, `run --autonomous` warns at the start, and the session is blocked."""
    place = workflow(tmp_path, silent(1))
    begun = place.json("run", "--autonomous", *BRISK)
    assert begun.code == 0
    assert "stage-1: the stage has no command" in begun.err
    assert ended(place).startswith("blocked: stage-1: the stage has no command")
    assert any(
        "Session ending: blocked. stage-1: the stage has no command" in text
        for text in place.notes()
    )


def test_agent_of_the_runner_gets_the_environment_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent gets the caller's variables, even if an older tmux server is running."""
    need_programs("tmux")
    place = workflow(tmp_path, silent(1))
    subprocess.run(["tmux", "new-session", "-d", "-s", "earlier", "sleep 100"], check=True)
    monkeypatch.setenv("KEY_OF_AGENT", "ke y'\"")
    words = agent(tmp_path, 'printf %s "$KEY_OF_AGENT" > seen')
    place.done("run", "--autonomous", "--agent", words, *BRISK)
    assert ended(place).startswith("blocked: stage-1: failed (agent ")
    assert (place.path / "seen").read_text() == "ke y'\""
    assert not (place.path / ".wfctl/runner.environment").exists()
