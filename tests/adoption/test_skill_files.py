"""`wfctl import` reads files in the format of the published agent skill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.adoption import support as s
from tests.cli.support import Place

NAMED: dict[str, Any] = {"id": "stage-1", "name": "Grow", "outputs": {"film": "stage-1/film.xyz"}}


def skill_file(**more: Any) -> dict[str, Any]:
    """Return a state as the skill writes it before the first stage starts."""
    nothing = dict.fromkeys(("started_at", "completed_at", "last_error", "running_process"))
    stage = {**NAMED, "status": "pending", "depends_on": [], "retry_count": 0, **nothing, **more}
    stage["parameters"] = {"command": "echo hi > film.xyz"}
    return s.document(stage)


def test_init_in_place_reports_no_manual_edit(
    tmp_path: Path,
) -> None:
    """The original state file is saved byte for byte, and no drift is reported."""
    file = tmp_path / s.STATE
    file.write_text(json.dumps(skill_file(), indent=4))
    before = file.read_bytes()
    place = Place(tmp_path)
    place.done("init", str(file), "--consent", "trust")
    assert place.json("drift", "show").code == 0
    assert place.call("status").err == ""
    assert (tmp_path / ".wfctl/imported" / s.STATE).read_bytes() == before
    assert place.done("show", "stage-1")["outputs"] == ["stage-1/film.xyz"]
    assert json.loads(file.read_text())["stages"][0]["status"] == "ready"


def test_edit_after_an_init_in_place_is_drift(tmp_path: Path) -> None:
    """A change of the state file after `init` is reported as a manual edit (drift)."""
    file = tmp_path / s.STATE
    file.write_text(json.dumps(skill_file()))
    place = Place(tmp_path)
    place.done("init", str(file), "--consent", "trust")
    file.write_text(file.read_text().replace("Grow", "Grown"))
    assert place.json("drift", "show").code == 7


def test_folder_without_a_log_is_imported(tmp_path: Path) -> None:
    """The missing log is one finding, and the statuses are imported unchanged."""
    state = skill_file(status="completed", started_at="2026-03-31T10:00:00Z")
    s.write_files(tmp_path / "w", state)
    (tmp_path / "w" / s.LOG).unlink()
    answer = s.import_(tmp_path / "w")
    assert answer.code == 0
    assert s.kinds(answer).count("no_log") == 1
    [missing] = s.of_kind(answer, "missing_step")
    assert missing[2] == "completed without completed_at"
    assert Place(tmp_path / "w").done("status")["stages"][0]["status"] == "completed"


def test_named_paths_are_imported_as_a_list(tmp_path: Path) -> None:
    """Outputs given as an object become a list with a finding. Values must be paths."""
    answer = s.import_(s.write_files(tmp_path / "w", skill_file()))
    [(file, line, evidence)] = s.of_kind(answer, "named_paths")
    assert (file, line > 1) == (s.STATE, True)
    assert "stage-1/film.xyz" in evidence
    other = s.write_files(tmp_path / "x", s.document({**NAMED, "outputs": {"film": 1}}))
    assert s.import_(other).code == 1


def test_log_line_that_starts_with_a_stage_name_is_assigned_to_the_stage(tmp_path: Path) -> None:
    """The log line is assigned only if the complete stage name matches and is unique."""
    log = s.log_of(
        "Grow: status -> ready", "Grow (stage-1): status -> preparing", "Grow it: status -> ready",
        "Two: status -> ready",
    )  # fmt: skip
    stages = [NAMED, {"id": "stage-2", "name": "Two"}, {"id": "stage-3", "name": "Two"}]
    place = s.imported(s.write_files(tmp_path / "w", s.document(*stages), log))
    lines = [event["data"] for event in place.done("events", "--type", "line.imported")]
    assert [line.get("stage") for line in lines] == ["stage-1", "stage-1", None, None]


def test_spelling_of_the_published_example_is_read(tmp_path: Path) -> None:
    """A log line about `Stage 1 (Name)` is assigned to `stage-1` and checked like others."""
    log = s.log_of(
        "Session 1 started. Workflow: w", "Stage 1 (Grow): status -> preparing",
        "Stage 1: launched locally, PID 48291", "Stage 1 (Grow): status -> failed",
        "Stage 1 retry #1 after fix: smaller step", "stage-1 (Grow): status -> preparing",
        "Stage 1 (Grow): status -> completed", "Stage 2 (Cool): status -> ready",
        "Stage 1 was slow: status -> running",
    )  # fmt: skip
    state = skill_file(status="completed", retry_count=1, started_at="x", completed_at="x")
    folder = s.write_files(tmp_path / "w", state, log)
    (folder / "stage-1").mkdir()
    (folder / "stage-1/film.xyz").touch()
    answer = s.import_(folder)
    illegal = [evidence for _, _, evidence in s.of_kind(answer, "illegal_transition")]
    assert illegal == ["pending -> preparing", "preparing (line 6) -> completed"]
    assert [line for _, line, _ in s.of_kind(answer, "unknown_stage")] == [8]
    assert not {"missing_step", "unlogged_retry", "unread_log"} & {*s.kinds(answer)}
    lines = [one["data"] for one in Place(folder).done("events", "--type", "line.imported")]
    stages = [line.get("stage") for line in lines]
    assert stages == [None, *["stage-1"] * 6, "stage-2", None]


def test_stage_name_that_looks_like_a_number_is_a_name(tmp_path: Path) -> None:
    """A log line about "Stage 1" means the stage with that name, whatever its number."""
    stages = [{"id": "stage-1", "name": "Warm up"}, {"id": "stage-2", "name": "Stage 1"}]
    log = s.log_of("Stage 1: status -> ready", "Stage 2: status -> ready")
    place = s.imported(s.write_files(tmp_path / "w", s.document(*stages), log))
    lines = [event["data"] for event in place.done("events", "--type", "line.imported")]
    assert [line.get("stage") for line in lines] == ["stage-2", "stage-2"]


def test_log_without_any_stage_line_is_a_finding(tmp_path: Path) -> None:
    """A log that names no stage is a finding, unless no stage has started yet."""
    log = s.log_of("Session 1 started. Workflow: w", "The film grows: status -> completed")
    state = skill_file(status="completed")
    answer = s.import_(s.write_files(tmp_path / "w", state, log))
    [(file, line, evidence)] = s.of_kind(answer, "unread_log")
    assert (file, line) == (s.LOG, 1)
    assert evidence.startswith("2 entries, the first: Session 1 started.")
    fresh = s.import_(s.write_files(tmp_path / "x", skill_file(), log))
    assert "unread_log" not in s.kinds(fresh)


def test_launch_recorded_within_seconds_is_no_finding(tmp_path: Path) -> None:
    """A log line minutes after the launch is a finding, and one within seconds is not."""
    for second, found in (("10:02:50", 0), ("10:01:00", 1)):
        process = {"launched_at": f"2026-03-31T{second}Z", "submission_json": "x.json"}
        state = s.document({**NAMED, "status": "running", "running_process": process})
        log = s.log_of("-", *(f"stage-1: status -> {one}" for one in ("preparing", "x", "running")))
        answer = s.import_(s.write_files(tmp_path / f"w{found}", state, log))
        assert len(s.of_kind(answer, "stale_launch")) == found


def test_findings_about_results_come_first(tmp_path: Path) -> None:
    """A missing output is listed before an unknown field that is earlier in the file."""
    state = {"odd": 1, **skill_file(status="completed")}
    kinds = s.kinds(s.import_(s.write_files(tmp_path / "w", state)))
    assert kinds[0] == "missing_output"
    assert kinds[-1] == "unknown_field"
