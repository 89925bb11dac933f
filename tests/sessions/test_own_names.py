"""Stages with ids that the user chose work like stages with ids such as stage-1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan
from tests.sessions.support import events, statuses

pytestmark = pytest.mark.slow

EXPORTS = ("mermaid", "svg", "report", "timeline", "archive", "ro-crate")


def named(id_: str, *after: str, **parameters: Any) -> dict[str, Any]:
    """Return a stage with this id, whose command writes one file in its folder."""
    return {
        "id": id_,
        "name": f"{id_} by name",
        "depends_on": list(after),
        "inputs": [f"{one}/out.txt" for one in after],
        "outputs": [f"{id_}/out.txt"],
        "parameters": {"command": "echo hi > out.txt", "expected_seconds": 1, **parameters},
    }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow with two user-chosen stage ids and stage-1."""
    made = Place(tmp_path / "root")
    made.path.mkdir()
    stages = [named("grow-film"), named("grow_film", "grow-film"), named("stage-1")]
    plan = {"workflow_id": "film", "session_config": {"session_budget": 60}, "stages": stages}
    made.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    return made


@pytest.mark.long
def test_named_stages_run_and_are_exported(place: Place) -> None:
    """Folders, log lines and answers use the chosen id, and every export format works."""
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / "grow-film/out.txt").read_text() == "hi\n"
    assert "grow-film (grow-film by name): status -> completed" in place.log()
    assert place.done("show", "grow-film")["id"] == "grow-film"
    assert place.call("blame", "grow-film.parameters.command").code == 0
    assert place.call("why", "grow_film").code == 0
    for format_ in EXPORTS:
        target = place.path.parent / f"made.{format_}"
        shown = place.json("export", format_, str(target))
        assert (shown.code, target.exists()) == (0, True), (format_, shown)
    mermaid = (place.path.parent / "made.mermaid").read_text()
    assert mermaid.count('["') == len(
        {row.split("[")[0] for row in mermaid.splitlines() if '["' in row}
    )


@pytest.mark.long
def test_amendment_keeps_the_folder_of_a_named_stage(place: Place) -> None:
    """wfctl keeps old outputs as grow-film.v1 and .v2, and reruns the dependent stage."""
    place.done("run")
    for number in (1, 2):
        words = ("--set", f"grow-film.parameters.command=echo {number} > out.txt")
        place.done("amend", "propose", *words, "--reason", "another word")
        place.done("amend", "approve", f"amend-{number}")
        assert place.json("run").data["exit_reason"] == "completed"
        assert (place.path / f"grow-film.v{number}/out.txt").is_file()
        assert (place.path / f"grow_film.v{number}/out.txt").is_file()
    assert (place.path / "grow-film/out.txt").read_text() == "2\n"


@pytest.mark.long
def test_named_stage_can_be_inserted(place: Place) -> None:
    """A stage without an id gets the next number; an invalid or used id is refused."""
    for number, definition in enumerate(
        (
            named("clean"),
            {key: v for key, v in named("stage-2").items() if key != "id"},
        ),
        1,
    ):
        place.done("amend", "propose", "--insert", json.dumps(definition), "--reason", "one more")
        place.done("amend", "approve", f"amend-{number}")
    ids = [stage["id"] for stage in place.done("status")["stages"]]
    assert ids == ["grow-film", "grow_film", "stage-1", "clean", "stage-2"]
    for taken in ("Clean", "docs", "stage-9"):
        words = ("--insert", json.dumps(named(taken)), "--reason", "no")
        assert place.json("amend", "propose", *words).code in (2, 5)
    assert place.json("run").data["exit_reason"] == "completed"


def test_edit_of_a_named_stage_is_drift(place: Place) -> None:
    """`drift show` names the stage whose name was edited in the state file."""
    file = place.path / "workflow-state.json"
    file.write_text(file.read_text().replace("grow-film by name", "Grow the film"))
    assert place.call("status").code in (0, 6, 7)
    shown = place.json("drift", "show")
    assert shown.code == 7
    assert "grow-film" in shown.out


@pytest.mark.long
def test_workflow_with_named_stages_can_be_imported(place: Place, tmp_path: Path) -> None:
    """The import assigns every line of progress.log to its stage."""
    place.done("run")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("workflow-state.json", "progress.log"):
        (other / name).write_bytes((place.path / name).read_bytes())
    for name in ("grow-film", "grow_film", "stage-1"):
        (other / name).mkdir()
        (other / name / "out.txt").write_text("hi\n")
    there = Place(other)
    found = there.done("import", str(other))
    assert [one for one in found["findings"] if one["kind"] in ("unknown_stage", "undated")] == []
    assert statuses(there) == ["completed"] * 3
    transitions = [
        e for e in events(there, "line.imported") if e["data"].get("stage") == "grow-film"
    ]
    assert transitions
