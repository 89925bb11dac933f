"""The files of the published skill are taken as they lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.adoption import support as s
from tests.cli.support import Place

NAMED: dict[str, Any] = {"id": "stage-1", "name": "Grow", "outputs": {"film": "stage-1/film.xyz"}}


def skill_file(**more: Any) -> dict[str, Any]:
    """Return a state as the skill writes it before anything has begun."""
    nothing = dict.fromkeys(("started_at", "completed_at", "last_error", "running_process"))
    stage = {**NAMED, "status": "pending", "depends_on": [], "retry_count": 0, **nothing, **more}
    stage["parameters"] = {"command": "echo hi > film.xyz"}
    return s.document(stage)


def test_a_state_file_that_becomes_a_workflow_in_place_was_not_changed_by_hand(
    tmp_path: Path,
) -> None:
    """Nothing drifts, and the file itself is kept byte for byte."""
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


def test_an_edit_after_the_init_in_place_is_one(tmp_path: Path) -> None:
    """What was there before is known, what comes then is somebody's."""
    file = tmp_path / s.STATE
    file.write_text(json.dumps(skill_file()))
    place = Place(tmp_path)
    place.done("init", str(file), "--consent", "trust")
    file.write_text(file.read_text().replace("Grow", "Grown"))
    assert place.json("drift", "show").code == 7


def test_a_folder_without_a_log_is_imported(tmp_path: Path) -> None:
    """It is one finding that the log is missing, and each status is taken as it is."""
    state = skill_file(status="completed", started_at="2026-03-31T10:00:00Z")
    s.write_files(tmp_path / "w", state)
    (tmp_path / "w" / s.LOG).unlink()
    answer = s.import_(tmp_path / "w")
    assert answer.code == 0
    assert s.kinds(answer).count("no_log") == 1
    [missing] = s.of_kind(answer, "missing_step")
    assert missing[2] == "completed without completed_at"
    assert Place(tmp_path / "w").done("status")["stages"][0]["status"] == "completed"


def test_paths_with_names_are_taken_as_a_list(tmp_path: Path) -> None:
    """It is said where; an object of anything else is refused."""
    answer = s.import_(s.write_files(tmp_path / "w", skill_file()))
    [(file, line, evidence)] = s.of_kind(answer, "named_paths")
    assert (file, line > 1) == (s.STATE, True)
    assert "stage-1/film.xyz" in evidence
    other = s.write_files(tmp_path / "x", s.document({**NAMED, "outputs": {"film": 1}}))
    assert s.import_(other).code == 1


def test_a_line_that_begins_with_a_name_is_of_that_stage(tmp_path: Path) -> None:
    """Unless two stages have the name, or the line only begins with the same word."""
    log = s.log_of(
        "Grow: status -> ready", "Grow (stage-1): status -> preparing", "Grow it: status -> ready",
        "Two: status -> ready",
    )  # fmt: skip
    stages = [NAMED, {"id": "stage-2", "name": "Two"}, {"id": "stage-3", "name": "Two"}]
    place = s.imported(s.write_files(tmp_path / "w", s.document(*stages), log))
    lines = [event["data"] for event in place.done("events", "--type", "line.imported")]
    assert [line.get("stage") for line in lines] == ["stage-1", "stage-1", None, None]


def test_a_launch_that_is_written_down_within_seconds_is_no_finding(tmp_path: Path) -> None:
    """One that was minutes before the log's line is."""
    for second, found in (("10:02:50", 0), ("10:01:00", 1)):
        process = {"launched_at": f"2026-03-31T{second}Z", "submission_json": "x.json"}
        state = s.document({**NAMED, "status": "running", "running_process": process})
        log = s.log_of("-", *(f"stage-1: status -> {one}" for one in ("preparing", "x", "running")))
        answer = s.import_(s.write_files(tmp_path / f"w{found}", state, log))
        assert len(s.of_kind(answer, "stale_launch")) == found


def test_what_says_that_a_result_may_be_wrong_comes_first(tmp_path: Path) -> None:
    """A word that nobody specified stands far above it in the file, and below it in the list."""
    state = {"odd": 1, **skill_file(status="completed")}
    kinds = s.kinds(s.import_(s.write_files(tmp_path / "w", state)))
    assert kinds[0] == "missing_output"
    assert kinds[-1] == "unknown_field"
