"""wfctl writes the report of a workflow from the log and never overwrites a file."""

from __future__ import annotations

import json
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest

from service.reading.log import WorkflowLog
from service.writing.workflow_service import render_report
from tests.cli.support import Place, attempt_data, write_plan
from tests.service.steps import before_step
from tests.service.support import STREAM, record_only, store_of

PLAN = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "experiment_design": "design.md",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build | box",
            "success_criteria": "The box\nis whole.",
            "parameters": {"n": 1},
        }
    ],
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow of one stage with the consent policy `trust`."""
    made = Place(tmp_path / "root")
    made.path.mkdir()
    made.done("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust")
    return made


def finish(place: Place, number: int = 1) -> None:
    """Record the stage as completed without running a job."""
    place.done("append", "attempt.started", "--data", attempt_data())
    ended = {"stage": "stage-1", "attempt": f"att-{number:04d}", "exit_code": 0}
    place.done("append", "stage.computed", "--data", json.dumps(ended))
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/a|b.txt").write_text("abc")
    digest = {"path": "stage-1/a|b.txt", "size": 3, "sha256": sha256(b"abc").hexdigest()}
    seen = {"stage": "stage-1", "evidence": "I looked", "judged_by": "user:ada"}
    checks = [{"name": "output", "passed": True}]
    data = {**seen, "outputs": [digest], "checks": checks}
    place.done("append", "stage.completed", "--data", json.dumps(data))


def written(place: Place, number: int = -1) -> Path:
    """Return the path of the report that an event of a completed workflow names."""
    found = place.done("events", "--type", "workflow.completed")
    return place.path / str(found[number]["data"]["report"])


def test_completed_workflow_has_a_report(place: Place) -> None:
    """The last line of progress.log names the report's path, which has the date and topic."""
    finish(place)
    assert written(place).parent == place.path / "docs/superscientist/reports"
    assert written(place).name.endswith("-melt-report.md")
    assert f"Report: {written(place).relative_to(place.path)}" in place.log()
    assert written(place).read_text() == place.done("report")["text"]


def test_report_contains_everything_in_the_log(place: Place) -> None:
    """The report has results, judges, digests, attempts, amendments and sessions."""
    place.done("session", "start")
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "it\nbroke")
    place.done("stage", "retry", "stage-1", "--fix", "mended")
    change = ("--stage", "stage-1", "--set", "parameters.n=2", "--reason", "too few")
    place.done("amend", "propose", *change)
    place.done("amend", "approve", "amend-1")
    finish(place, 2)
    place.done("session", "end", "--reason", "completed")
    text = place.done("report")["text"]
    for part in (
        "# melt-2026-03-31: report", "**Objective.** See it melt.", "**Design.** design.md",
        "| stage-1 | Build \\| box | completed | 2 | 1 |", "- Criteria: The box is whole.",
        "- Result: I looked (judged by user:ada)", "- Checks passed: output",
        f"| stage-1/a\\|b.txt | output | 3 | `{sha256(b'abc').hexdigest()}` |",
        "att-0001: failed", "att-0002: completed",
        "failed: broke", "put right: retry 1: mended",
        "- amend-1 parameter_change of stage-1: parameters.n", "too few", "consent by trust",
        "| completed | 4/6 | stage-1 |", "Cost of all sessions: 4.",
    ):  # fmt: skip
        assert part in text


def test_report_depends_only_on_the_log(place: Place) -> None:
    """wfctl writes the same report after the other files of the workflow are deleted."""
    finish(place)
    before = place.done("report")["text"]
    for name in ("workflow-state.json", "progress.log"):
        (place.path / name).unlink()
    assert place.done("report")["text"] == before
    place.done("report", str(place.path / "deep/er/report.md"))
    assert (place.path / "deep/er/report.md").read_text() == before
    assert place.call("report").out == before


def test_edited_report_is_kept_and_a_missing_report_is_restored(place: Place) -> None:
    """When the workflow completes again, wfctl writes a second report under another name."""
    finish(place)
    written(place).write_text("my own words")
    place.done("note", "hello")
    assert written(place).read_text() == "my own words"
    written(place).unlink()
    place.done("note", "hello again")
    assert "hello" not in written(place).read_text()
    assert "I looked" in written(place).read_text()
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "r")
    place.done("amend", "approve", "amend-1")
    finish(place, 2)
    assert written(place).name.endswith("-melt-report-2.md")
    assert written(place, 0).exists()
    assert "invalidated" in written(place).read_text()


def test_report_gets_another_name_if_its_path_is_taken(place: Place) -> None:
    """wfctl keeps the existing file, folder or link, and logs the report's new name."""
    place.done("session", "start", "--report", "out/report.md")
    (place.path / "out/report.md").mkdir(parents=True)
    (place.path / "out/report-2.md").symlink_to("nowhere")
    (place.path / "out/report-3.md").write_text("mine")
    finish(place)
    assert written(place) == place.path / "out/report-4.md"
    assert "I looked" in written(place).read_text()
    assert "Report: out/report-4.md" in place.log()
    assert (place.path / "out/report-3.md").read_text() == "mine"
    assert not (place.path / "nowhere").exists()


def test_taken_report_path_is_refused_at_the_start(place: Place) -> None:
    """`session start`, `run`, the runner and dry runs refuse the path and record nothing."""
    (place.path / "report.md").write_text("old")
    before = place.version()
    asked = ("--report", "report.md")
    for command in (
        ("session", "start"),
        ("session", "start", "--dry-run"),
        ("run", "--agent", "true"),
        ("run", "--agent", "true", "--autonomous"),
    ):
        answer = place.json(*command, *asked)
        assert (answer.code, answer.error["code"]) == (4, "already_exists")
        assert "report.md already exists (a file)" in answer.error["message"]
    assert place.json("run", "--agent", "true", "--report", "../r.md").code == 2
    assert place.version() == before
    assert (place.path / "report.md").read_text() == "old"


def test_open_session_keeps_its_report_path(place: Place) -> None:
    """A run that continues an open session refuses another path for the report."""
    place.done("session", "start", "--report", "here.md")
    answer = place.json("run", "--agent", "true", "--report", "there.md")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert "writes its report to here.md" in answer.error["message"]
    assert place.json("run", "--agent", "true", "--report", "here.md").code == 6


def test_unfinished_workflow_can_be_reported(place: Place) -> None:
    """The report of an unfinished workflow shows the current status of each stage."""
    text = place.done("report")["text"]
    assert "**Status.** active" in text
    assert "| stage-1 | Build \\| box | ready | 0 | 0 | - |" in text
    assert "## Sessions\n\nNone." in text


def test_report_shows_one_version_despite_parallel_writes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash in the report is that of the version in the report, not of a later one."""
    for number in count():
        with store_of(place) as store, monkeypatch.context() as patched:
            steps = before_step(patched, number, partial(record_only, place, f"note {number}"))
            text = render_report(WorkflowLog(store, STREAM, place.path)).decode()
        if steps.over:
            break
        hashes = {event["version"]: event["hash"] for event in place.done("events")}
        named = [f"Made from version {v} of the log, hash `{h}`," for v, h in hashes.items()]
        assert [line for line in named if line in text] != []
    assert number > 4, "it had too few steps to mean anything"


def test_unwritable_report_does_not_prevent_completion(place: Place) -> None:
    """The workflow completes with an error about the report, which the next write creates."""
    (place.path / "docs").write_text("in the way")
    place.done("append", "attempt.started", "--data", attempt_data())
    ended = {"stage": "stage-1", "attempt": "att-0001", "exit_code": 0}
    place.done("append", "stage.computed", "--data", json.dumps(ended))
    done = {"stage": "stage-1", "evidence": "e"}
    answer = place.json("append", "stage.completed", "--data", json.dumps(done))
    assert (answer.code, answer.error["code"]) == (1, "files_behind")
    (place.path / "docs").unlink()
    place.done("note", "now there is room")
    assert written(place).exists()
