"""`diff` shows the differences between two moments and between two workflows."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import PLAN, Place, call, write_plan


def test_diff_of_two_moments_shows_changed_fields(place: Place) -> None:
    """`diff` shows the old and the new value of each changed field and exits with code 7."""
    answer = place.json("diff", "2", "session:1", "--field", "stage-1")
    assert answer.code == 7
    found = {d["field"]: (d["a"], d["b"]) for d in answer.data["differences"]}
    assert found["stage-1.status"] == ("ready", "failed")
    assert found["stage-1.last_error"] == (None, "exit 137: no memory")
    assert all(name.startswith("stage-1.") for name in found)
    text = place.call("diff", "2", "session:1", "--field", "stage-1.status").out
    assert text == 'stage-1.status\n  - "ready"\n  + "failed"\n'


def test_diff_of_a_moment_with_itself_is_empty(place: Place) -> None:
    """`diff` exits with code 0 without a difference. A missing second moment means now."""
    assert place.json("diff", "5", "5").data["differences"] == []
    assert place.json("diff").code == 0
    head = str(place.version())
    assert place.json("diff", "3").data == place.json("diff", "3", head).data


def test_diff_of_two_workflows_shows_their_definitions(place: Place, tmp_path: Path) -> None:
    """`diff` reads each of the two workflows at its own version and shows all differences."""
    stages = [{**PLAN["stages"][0], "parameters": {"command": "true", "n": 2}}]
    other = tmp_path / "other"
    other.mkdir()
    plan = write_plan(tmp_path, {**PLAN, "workflow_id": "other", "stages": stages}, "other.json")
    assert call("--root", str(other), "init", str(plan), "--consent", "trust").code == 0
    answer = place.json("diff", "2", "2", "--root-b", str(other))
    assert answer.code == 7
    found = {d["field"]: (d["kind"], d["a"], d["b"]) for d in answer.data["differences"]}
    assert found["workflow_id"] == ("changed", "melt-2026-03-31", "other")
    assert found["stage-1.parameters.n"] == ("added", None, 2)
    assert found["stage-2"][0] == "removed"
    assert answer.data["b"]["workflow"] == "other"


def test_diff_applies_known_at_to_both_sides(place: Place) -> None:
    """Both versions are newer than the ``--known-at`` limit, so they do not differ."""
    assert place.json("diff", "2", "9", "--known-at", "2").data["differences"] == []
