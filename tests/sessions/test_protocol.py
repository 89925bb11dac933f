"""`session start` does the resume protocol as one command; `end` and `show` do the rest."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.cli.support import Place, attempt_data, tree
from tests.need import need_programs


def config(place: Place) -> dict[str, Any]:
    """Return session_config as the file shows it."""
    found: dict[str, Any] = json.loads((place.path / "workflow-state.json").read_bytes())
    return dict(found["session_config"])


def init_script(place: Place, text: str) -> None:
    """Write the environment's check."""
    (place.path / "init.sh").write_text(text)


def test_a_session_starts_with_the_next_number_and_no_cost(place: Place) -> None:
    """All of session_config is projected."""
    place.done("session", "start")
    found = config(place)
    assert list(found) == [
        "autonomous", "session_budget", "session_count", "session_id", "session_cost",
        "exit_reason", "stage_weights",
    ]  # fmt: skip
    assert (found["session_count"], found["session_cost"], found["exit_reason"]) == (1, 0, None)
    assert "Session 1 started. Workflow: melt-2026-03-31" in place.log()


def test_a_session_is_shown_the_state_the_log_and_the_commits(place: Place) -> None:
    """One command tells what is going on."""
    need_programs("git")
    git = ["git", "-C", str(place.path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "The plan"], check=True)
    shown = place.done("session", "start")
    assert "Workflow created: melt-2026-03-31" in shown["log_tail"][0]
    assert [line.partition(" ")[2] for line in shown["git_log"]] == ["The plan"]
    assert shown["briefing"]["counts"] == {"ready": 1, "pending": 1}


def test_a_root_in_no_repository_has_no_commits(place: Place) -> None:
    """That is no error."""
    assert place.done("session", "start")["git_log"] is None


def test_the_environment_is_checked_and_its_output_kept(place: Place) -> None:
    """Standard error too, in order."""
    init_script(place, "echo one; echo two >&2; echo 'Environment ready.'")
    found = place.done("session", "start")["environment"]
    assert found["output"] == ".wfctl/sessions/1.init.log"
    assert (place.path / found["output"]).read_text() == "one\ntwo\nEnvironment ready.\n"
    [event] = place.done("events", "--type", "session.started")
    assert event["data"]["environment"] == found


def test_an_environment_that_is_not_ready_stops_everything(place: Place) -> None:
    """No session begins, no stage is looked at, the log says why, and the output is kept."""
    init_script(place, "echo no compiler; exit 3")
    place.done("append", "attempt.started", "--data", attempt_data())
    before = place.types()
    answer = place.json("session", "start")
    assert (answer.code, answer.error["code"]) == (1, "environment_not_ready")
    assert answer.error["data"]["exit_code"] == 3
    assert "no compiler" in answer.error["message"]
    assert place.types() == [*before, "note.logged"]
    assert "Session 1 not started: init.sh exited 3" in place.log()
    assert (place.path / ".wfctl/sessions/1.init.log").read_text() == "no compiler\n"
    assert place.call("session", "start").code == 1
    assert (place.path / ".wfctl/sessions/1.init.2.log").read_text() == "no compiler\n"


def test_a_session_reconciles_what_an_earlier_one_left(place: Place) -> None:
    """A stage that died while it was prepared has failed before the session begins."""
    place.done("stage", "prepare", "stage-1")
    shown = place.done("session", "start")
    assert shown["briefing"]["repaired"][0]["text"].startswith("record that its preparation died")
    types = place.types()
    assert types.index("stage.failed") < types.index("session.started")


def test_the_end_of_a_session_is_projected_and_cleared_by_the_next(place: Place) -> None:
    """Its reason and its cost are logged then."""
    place.done("session", "start")
    place.done("session", "end", "--reason", "blocked", "--next", "ask Ada")
    assert config(place)["exit_reason"] == "blocked"
    assert "Session 1 ended. Next: ask Ada" in place.log()
    place.done("session", "start")
    assert config(place)["exit_reason"] is None
    assert "Previous session ended: exit_reason=blocked, cost=0/6" in place.log()


def test_a_session_that_died_is_told_by_the_next(place: Place) -> None:
    """Its exit_reason stays null."""
    place.done("session", "start")
    place.done("session", "start")
    assert "Previous session ended: exit_reason=null, cost=0/6" in place.log()
    assert [one["end"] for one in place.done("session", "show")["sessions"]] == ["died", "open"]


def test_a_session_that_waits_for_a_job_ends_in_order_and_shows_no_reason(place: Place) -> None:
    """It did not die: its end is in the log."""
    place.done("session", "start")
    place.done("session", "end", "--reason", "waiting")
    assert config(place)["exit_reason"] is None
    [one] = place.done("session", "show")["sessions"]
    assert (one["end"], one["ended_at"] is not None) == ("waiting", True)


def test_every_end_of_a_stage_is_charged_to_the_open_session(place: Place) -> None:
    """Anyone who ends it: here a person does, command by command."""
    place.done("session", "start")
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "it broke")
    assert config(place)["session_cost"] == 2
    assert "stage-1: session_cost += 2 (error_cycle), total=2/6" in place.log()
    [one] = place.done("session", "show", "1")["sessions"]
    assert one["charges"] == [{"stage": "stage-1", "weight": 2, "work_class": "error_cycle"}]
    assert one["failed"] == ["stage-1"]


def test_every_event_of_a_session_names_it(place: Place) -> None:
    """So that its history can be told apart."""
    place.done("session", "start")
    place.done("note", "hello")
    assert place.done("events")[-1]["session"] == 1


def test_a_dry_run_checks_nothing_and_writes_nothing(place: Place) -> None:
    """It says what would be appended."""
    init_script(place, "touch ran")
    before = tree(place.path)
    shown = place.done("session", "start", "--dry-run")
    assert [event["type"] for event in shown["events"]] == ["session.started"]
    assert tree(place.path) == before


def test_a_start_given_twice_is_one_start(place: Place) -> None:
    """The environment is not checked again."""
    init_script(place, "echo ran >> runs")
    place.done("session", "start", "--command-id", "k")
    assert place.done("session", "start", "--command-id", "k")["repeated"] is True
    assert (place.path / "runs").read_text() == "ran\n"
    assert place.json("session", "start", "--command-id", "k", "--report", "r.md").code == 4


def test_a_start_at_another_version_is_a_conflict_before_anything_is_done(place: Place) -> None:
    """The environment is not checked."""
    init_script(place, "touch ran")
    assert place.json("session", "start", "--expected-version", "1").code == 4
    assert not (place.path / "ran").exists()
    place.done("session", "start", "--expected-version", str(place.version()))


def test_what_there_is_not_is_said_so(place: Place) -> None:
    """A session of no number, an end without a start, a completion that is not one."""
    assert place.json("session", "show", "1").code == 3
    assert place.json("session", "end", "--reason", "waiting").code == 5
    place.done("session", "start")
    assert place.json("session", "end", "--reason", "completed").code == 5
    assert place.json("session", "end", "--reason", "tired").code == 2
    assert place.json("session", "start", "--report", "../r.md").code == 2


def test_session_config_is_definitional_but_for_what_sessions_keep(place: Place) -> None:
    """Weights and budget change by an amendment only."""
    weights = "session_config.stage_weights.async=3"
    place.done("amend", "propose", "--set", weights, "--reason", "slow")
    count = place.json(
        "amend", "propose", "--set", "session_config.session_cost=0", "--reason", "r"
    )
    assert count.code == 5


def test_the_sessions_can_be_shown_as_they_were(place: Place) -> None:
    """At any version."""
    place.done("session", "start")
    version = str(place.version())
    place.done("session", "end", "--reason", "waiting")
    assert place.done("session", "show", "--at", version)["sessions"][0]["end"] == "open"
    assert "session 1" in place.call("session", "show").out


def test_a_start_is_told_for_people(place: Place, tmp_path: Path) -> None:
    """On one screen."""
    init_script(place, "true")
    shown = place.call("session", "start").out
    assert shown.startswith("session 1 started\ninit.sh: ready after ")
    assert "log:\n  [" in shown
