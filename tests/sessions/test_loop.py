"""`wfctl run`: its end, the costs that it charges, and changes by other processes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.support import Place, tree
from tests.cli.terminal import answered
from tests.crash.support import until
from tests.sessions.support import WFCTL, answer, events, stage, started, statuses, workflow

pytestmark = pytest.mark.slow

#: Command of a job that waits for the file `go` in the workflow folder, relative to its scratch
#: copy.
GO = "until [ -e ../../../../../../go ]; do sleep 0.05; done"


def messages(place: Place) -> list[str]:
    """Return the lines of progress.log without times and log positions."""
    lines = (line.partition("] ")[2] for line in place.log().splitlines())
    return [line.partition(" [log at version")[0] for line in lines]


@pytest.mark.long
def test_run_completes_a_workflow_in_one_session(tmp_path: Path) -> None:
    """progress.log has the session's start, costs and end, and the run writes the report."""
    place = workflow(
        tmp_path,
        stage(1, parameters={"expected_seconds": 1}),
        stage(2, after=[1], parameters={"verify": "echo R = 1"}),
    )
    shown = place.json("run", "--report", "report.md")
    assert shown.code == 0
    expected = {"exit_reason": "completed", "session": 1, "cost": 2.5, "budget": 6, "blocked": []}
    assert {key: shown.data[key] for key in expected} == expected
    assert shown.envelope["_meta"]["position"] == place.done("events")[-1]["position"]
    told = messages(place)
    assert told[3] == "Session 1 started. Workflow: w-2026-05-04"
    assert "stage-1: session_cost += 1 (sync), total=1/6" in told
    assert "stage-2: session_cost += 1.5 (async), total=2.5/6" in told
    assert told[-2] == "Workflow completed. All 2 stages verified. Report: report.md"
    assert told[-1] == "Session 1 ended. Next: nothing, the workflow is completed"
    check_report(place)
    assert place.json("run").data["exit_reason"] == "completed"
    assert len(events(place, "session.started")) == 1


def check_report(place: Place) -> None:
    """Check that the report has all parts and is repeatable, and names a deleted result."""
    text = (place.path / "report.md").read_text()
    digest = events(place, "stage.completed")[1]["data"]["outputs"][0]["sha256"]
    for part in ("See it run.", "R = 1", "stage-2/out.txt", digest, "| completed | 2.5/6 |"):
        assert part in text
    assert place.done("report")["text"] == text
    (place.path / "stage-1/out.txt").unlink()
    assert "missing result stage-1/out.txt" in place.done("report")["text"]


def test_used_up_budget_ends_the_session(tmp_path: Path) -> None:
    """The run exits with 0 and suggests `wfctl run`, which continues in a new session."""
    place = workflow(tmp_path, stage(1), stage(2, after=[1]), session_budget=2)
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (0, "budget_exhausted")
    assert shown.envelope["next_actions"][0]["command"] == "wfctl run"
    assert statuses(place) == ["completed", "ready"]
    assert messages(place)[-2:] == [
        "Session ending: budget exhausted (cost=1.5, budget=2)",
        "Session 1 ended. Next: stage-2: `wfctl run`",
    ]
    assert place.json("run").data["exit_reason"] == "completed"
    assert "Previous session ended: exit_reason=budget_exhausted, cost=1.5/2" in messages(place)


@pytest.mark.long
@pytest.mark.parametrize("budget", [0.5, 2])
def test_budget_does_not_stop_a_person_at_a_terminal(tmp_path: Path, budget: float) -> None:
    """The session continues past its budget, even if a single stage costs more."""
    place = workflow(tmp_path, stage(1), stage(2, after=[1]), session_budget=budget)
    code, shown = answered("", "--root", str(place.path), "run")
    assert code == 0, shown
    assert statuses(place) == ["completed", "completed"]
    [ended] = events(place, "session.ended")
    assert ended["data"]["reason"] == "completed"
    assert place.call("fsck", "--protocol").code == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "marks"),
    [
        (("run",), {"CLAUDECODE": "1"}),
        (("run",), {"WFCTL_RUNNER": "1"}),
        (("--actor", "agent:bo", "run"), {}),
        (("run", "--agent", "false"), {}),
    ],
    ids=["agent's terminal", "runner", "actor", "agent's program"],
)
def test_budget_stops_agents_and_runners_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], marks: dict[str, str]
) -> None:
    """The session ends before a stage that its budget does not cover."""
    place = workflow(tmp_path, stage(1), stage(2, after=[1]), session_budget=2)
    for name, value in marks.items():
        monkeypatch.setenv(name, value)
    code, shown = answered("", "--root", str(place.path), *words)
    assert (code, "budget is used up" in shown) == (0, True), shown
    assert statuses(place) == ["completed", "ready"]


def test_blocked_run_names_the_stage_and_the_fix(tmp_path: Path) -> None:
    """The run exits with 6 after completing the stages that do not need the failed one."""
    place = workflow(tmp_path, stage(1, "exit 3"), stage(2, after=[1]), stage(3))
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
    assert statuses(place) == ["failed", "pending", "completed"]
    [hindrance] = shown.data["blocked"]
    assert hindrance["stage"] == "stage-1"
    assert "stage retry stage-1 --fix" in hindrance["unblock"]
    assert any(
        line.startswith("Session ending: blocked. stage-1: failed") for line in messages(place)
    )
    assert place.done("session", "show")["sessions"][0]["end"] == "blocked"


def test_run_waits_for_a_judge_or_a_decision(tmp_path: Path) -> None:
    """The run exits with 6 if criteria need a judge or an amendment needs a decision."""
    place = workflow(tmp_path, stage(1, success_criteria="It looks right."), stage(2, after=[1]))
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["post_processing", "pending"])
    assert "a person must judge" in shown.data["blocked"][0]["why"]
    place.done("stage", "complete", "stage-1", "--evidence", "I looked")
    place.done("amend", "propose", "--stage", "stage-2", "--set", "name=Two", "--reason", "r")
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["completed", "ready"])
    assert "amend-1" in shown.data["message"]


@pytest.mark.long
def test_independent_stages_run_in_parallel(tmp_path: Path) -> None:
    """The commands of two stages wait for each other, so they must run at the same time."""
    meet = "touch ../../../../../../{0}; until [ -e ../../../../../../{1} ]; do sleep 0.05; done"
    place = workflow(
        tmp_path,
        stage(1, meet.format("one", "two")),
        stage(2, meet.format("two", "one")),
        stage(3, after=[1, 2]),
    )
    assert place.json("run", "--max-parallel", "2").data["exit_reason"] == "completed"
    for id_ in ("stage-1", "stage-2", "stage-3"):
        own = [e["type"] for e in place.done("events", "--stage", id_)]
        assert [t for t in own if t != "attempt.observed"] == [
            "stage.readied", "stage.prepared", "attempt.started", "stage.launched",
            "stage.computed", "stage.completed", "cost.charged",
        ]  # fmt: skip


@pytest.mark.long
def test_run_accepts_a_stage_completed_by_another_process(tmp_path: Path) -> None:
    """If another process completes the stage during its verification, the run continues."""
    by_another = f'{WFCTL} append stage.completed --data \'{{"stage":"stage-1","evidence":"e"}}\''
    place = workflow(tmp_path, stage(1, parameters={"verify": by_another}), stage(2, after=[1]))
    assert place.json("run").data["exit_reason"] == "completed"
    assert events(place, "stage.completed")[0]["data"]["evidence"] == "e"


def test_job_of_an_expired_session_is_continued_by_the_next(tmp_path: Path) -> None:
    """The first session ends with the reason waiting, and the job runs only once."""
    place = workflow(tmp_path, stage(1, GO))
    shown = place.json("run", "--time-limit", "0")
    assert (shown.code, shown.data["exit_reason"]) == (0, "waiting")
    place.done("dispatch", "stage-1")
    assert place.json("run", "--time-limit", "0").data["exit_reason"] == "waiting"
    text = "stage-1: async job still running. Ending session for session-resume."
    assert text in messages(place)
    (place.path / "go").touch()
    assert place.json("run").data["exit_reason"] == "completed"
    assert len(events(place, "attempt.started")) == 1


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_run_ends_its_session(tmp_path: Path, number: signal.Signals) -> None:
    """After SIGTERM or SIGHUP, the job continues, and the next run collects its results."""
    place = workflow(tmp_path, stage(1, GO))
    run = started(place, "run")
    until(lambda: events(place, "stage.launched"))
    run.send_signal(number)
    assert answer(run)["exit_reason"] == "waiting"
    assert run.returncode == 128 + number
    assert place.done("session", "show")["sessions"][0]["end"] == "waiting"
    (place.path / "go").touch()
    assert place.json("run").data["exit_reason"] == "completed"


def test_run_accepts_the_options_of_a_write(tmp_path: Path) -> None:
    """A wrong --expected-version is a conflict; a repeated --command-id runs nothing."""
    place = workflow(tmp_path, stage(1))
    before = tree(place.path)
    place.done("run", "--dry-run")
    assert tree(place.path) == before
    assert place.json("run", "--expected-version", "7").code == 4
    assert events(place, "session.started") == []
    place.done("run", "--expected-version", "3", "--command-id", "k")
    version = place.version()
    again = place.done("run", "--command-id", "k")
    assert (again["exit_reason"], place.version()) == ("completed", version)
    assert "already run as session 1" in again["message"]
    assert place.json("run", "--command-id", "k", "--report", "r.md").code == 4


def test_run_uses_an_open_session(tmp_path: Path) -> None:
    """The run continues and ends the session that a user started."""
    place = workflow(tmp_path, stage(1))
    place.done("session", "start")
    assert place.json("run").data["session"] == 1
    [one] = place.done("session", "show")["sessions"]
    assert (one["end"], one["driven"], one["completed"]) == ("completed", False, ["stage-1"])


def test_run_ends_the_session_of_a_killed_run(tmp_path: Path) -> None:
    """If a run was killed after its last stage, the next run writes the missing report."""
    place = workflow(tmp_path, stage(1, success_criteria="Fine."))
    assert place.json("run").code == 6
    place.done("append", "session.started", "--data", json.dumps({"driven": True}))
    place.done("stage", "complete", "stage-1", "--evidence", "e")
    [event] = events(place, "workflow.completed")
    assert not (place.path / event["data"]["report"]).exists()
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / event["data"]["report"]).exists()
    assert place.done("session", "show", "2")["sessions"][0]["end"] == "completed"
