"""The commands `session start`, `end` and `show` follow the resume protocol."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.support import Place, attempt_data, tree
from tests.need import need_programs


def config(place: Place) -> dict[str, Any]:
    """Return session_config as the state file has it."""
    found: dict[str, Any] = json.loads((place.path / "workflow-state.json").read_bytes())
    return dict(found["session_config"])


def init_script(place: Place, text: str) -> None:
    """Write the script init.sh, which a session runs first to check the environment."""
    (place.path / "init.sh").write_text(text)


def test_session_starts_with_the_next_number_and_no_cost(place: Place) -> None:
    """The state file shows the number, the cost and all other fields of the new session."""
    place.done("session", "start")
    found = config(place)
    assert list(found) == [
        "autonomous", "session_budget", "session_count", "session_id", "session_cost",
        "exit_reason", "stage_weights",
    ]  # fmt: skip
    assert (found["session_count"], found["session_cost"], found["exit_reason"]) == (1, 0, None)
    assert "Session 1 started. Workflow: melt-2026-03-31" in place.log()


def test_session_start_shows_state_log_and_commits(place: Place) -> None:
    """The answer has a briefing, the last lines of the log and the latest git commits."""
    need_programs("git")
    git = ["git", "-C", str(place.path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "The plan"], check=True)
    shown = place.done("session", "start")
    assert "Workflow created: melt-2026-03-31" in shown["log_tail"][0]
    assert [line.partition(" ")[2] for line in shown["git_log"]] == ["The plan"]
    assert shown["briefing"]["counts"] == {"ready": 1, "pending": 1}


def test_session_start_works_without_a_repository(place: Place) -> None:
    """Outside a git repository, the answer has no commits and no error."""
    assert place.done("session", "start")["git_log"] is None


def test_session_start_runs_init_and_keeps_its_output(place: Place) -> None:
    """wfctl stores stdout and stderr of init.sh in the order in which they were written."""
    init_script(place, "echo one; echo two >&2; echo 'Environment ready.'")
    found = place.done("session", "start")["environment"]
    assert found["output"] == ".wfctl/sessions/1.init.log"
    assert (place.path / found["output"]).read_text() == "one\ntwo\nEnvironment ready.\n"
    [event] = place.done("events", "--type", "session.started")
    assert event["data"]["environment"] == found


def test_failing_init_script_prevents_the_session(place: Place) -> None:
    """wfctl starts no session and checks no job, and the log has the reason."""
    init_script(place, "echo no compiler; exit 3")
    place.done("append", "attempt.started", "--data", attempt_data())
    before = place.types()
    answer = place.json("session", "start")
    assert (answer.code, answer.error["code"]) == (1, "environment_not_ready")
    assert answer.error["data"]["exit_code"] == 3
    assert "no compiler" in answer.error["message"]
    assert place.types() == [*before, "note.logged"]
    assert "Session 1 not started: the script init.sh ended with exit code 3" in place.log()
    assert (place.path / ".wfctl/sessions/1.init.log").read_text() == "no compiler\n"
    assert place.call("session", "start").code == 1
    assert (place.path / ".wfctl/sessions/1.init.2.log").read_text() == "no compiler\n"


def test_session_start_repairs_an_interrupted_preparation(place: Place) -> None:
    """wfctl records the interrupted stage as failed before it starts the session."""
    place.done("stage", "prepare", "stage-1")
    shown = place.done("session", "start")
    assert shown["briefing"]["repaired"][0]["text"].startswith(
        "record that the preparation was interrupted"
    )
    types = place.types()
    assert types.index("stage.failed") < types.index("session.started")


def test_exit_reason_is_shown_and_cleared_by_the_next_session(place: Place) -> None:
    """The next session logs the exit reason and the cost of the previous session."""
    place.done("session", "start")
    place.done("session", "end", "--reason", "blocked", "--next", "ask Ada")
    assert config(place)["exit_reason"] == "blocked"
    assert "Session 1 ended. Next: ask Ada" in place.log()
    place.done("session", "start")
    assert config(place)["exit_reason"] is None
    assert "Previous session ended: exit_reason=blocked, cost=0/6" in place.log()


def test_killed_session_is_reported_by_the_next_session(place: Place) -> None:
    """The next session logs `exit_reason=null` for the session that never ended."""
    place.done("session", "start")
    place.done("session", "start")
    assert "Previous session ended: exit_reason=null, cost=0/6" in place.log()
    assert [one["end"] for one in place.done("session", "show")["sessions"]] == ["died", "open"]


def test_session_that_waits_for_a_job_has_no_exit_reason(place: Place) -> None:
    """The log has the end of the session, so wfctl does not report it as killed."""
    place.done("session", "start")
    place.done("session", "end", "--reason", "waiting")
    assert config(place)["exit_reason"] is None
    [one] = place.done("session", "show")["sessions"]
    assert (one["end"], one["ended_at"] is not None) == ("waiting", True)


def test_failed_stage_is_charged_to_the_open_session(place: Place) -> None:
    """A failure that a person records costs as much as a failure during a run."""
    place.done("session", "start")
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "it broke")
    assert config(place)["session_cost"] == 2
    assert "stage-1: session_cost += 2 (error_cycle), total=2/6" in place.log()
    [one] = place.done("session", "show", "1")["sessions"]
    assert one["charges"] == [{"stage": "stage-1", "weight": 2, "work_class": "error_cycle"}]
    assert one["failed"] == ["stage-1"]


def test_events_of_a_session_have_its_number(place: Place) -> None:
    """Each event during a session records the number of the session."""
    place.done("session", "start")
    place.done("note", "hello")
    assert place.done("events")[-1]["session"] == 1


def test_dry_run_of_session_start_writes_nothing(place: Place) -> None:
    """The dry run does not run init.sh; its answer lists the events to record."""
    init_script(place, "touch ran")
    before = tree(place.path)
    shown = place.done("session", "start", "--dry-run")
    assert [event["type"] for event in shown["events"]] == ["session.started"]
    assert tree(place.path) == before


def test_repeated_session_start_is_ignored(place: Place) -> None:
    """If the command id is repeated, wfctl neither runs init.sh nor starts a session."""
    init_script(place, "echo ran >> runs")
    place.done("session", "start", "--command-id", "k")
    assert place.done("session", "start", "--command-id", "k")["repeated"] is True
    assert (place.path / "runs").read_text() == "ran\n"
    assert place.json("session", "start", "--command-id", "k", "--report", "r.md").code == 4


def test_session_start_at_a_wrong_version_is_a_conflict(place: Place) -> None:
    """wfctl refuses the start before it runs init.sh."""
    init_script(place, "touch ran")
    assert place.json("session", "start", "--expected-version", "1").code == 4
    assert not (place.path / "ran").exists()
    place.done("session", "start", "--expected-version", str(place.version()))


def test_invalid_session_commands_are_refused(place: Place) -> None:
    """wfctl refuses an unknown session, an end without a start and a false completion."""
    assert place.json("session", "show", "1").code == 3
    assert place.json("session", "end", "--reason", "waiting").code == 5
    place.done("session", "start")
    assert place.json("session", "end", "--reason", "completed").code == 5
    assert place.json("session", "end", "--reason", "tired").code == 2
    assert place.json("session", "start", "--report", "../r.md").code == 2


def test_weights_and_budget_change_only_by_amendment(place: Place) -> None:
    """An amendment changes weights and budget, but not the cost of the session."""
    weights = "session_config.stage_weights.async=3"
    place.done("amend", "propose", "--set", weights, "--reason", "slow")
    count = place.json(
        "amend", "propose", "--set", "session_config.session_cost=0", "--reason", "r"
    )
    assert count.code == 5


def test_session_show_shows_an_earlier_version(place: Place) -> None:
    """With --at, `session show` shows a session as open that ended after that version."""
    place.done("session", "start")
    version = str(place.version())
    place.done("session", "end", "--reason", "waiting")
    assert place.done("session", "show", "--at", version)["sessions"][0]["end"] == "open"
    assert "session 1" in place.call("session", "show").out


def test_session_start_prints_a_summary(place: Place, tmp_path: Path) -> None:
    """The text output has the session number, the result of init.sh and log lines."""
    init_script(place, "true")
    shown = place.call("session", "start").out
    assert shown.startswith("session 1 started\ninit.sh: ready after ")
    assert "log:\n  [" in shown
