"""Text output fits a screen, however large the workflow is."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.watch_view import render_frame
from tests.cli.live_view import live_view
from tests.cli.support import PLAN, Place, call, write_plan
from tests.rounds import first

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
SCREEN = 24


def wide(folder: Path, count: int) -> Place:
    """Create a workflow with the given number of stages, all of which are ready."""
    stages = [
        {"id": f"stage-{n}", "name": f"Sample {n}", "parameters": {"command": "true"}}
        for n in range(1, count + 1)
    ]
    plan = write_plan(folder, {**PLAN, "stages": stages})
    assert call("--root", str(folder), "init", str(plan), "--consent", "trust").code == 0
    return Place(folder)


@pytest.mark.parametrize("count", first([40, 4000]))
def test_status_of_many_stages_fits_a_screen(tmp_path: Path, count: int) -> None:
    """The status shows counts, failed and active stages, and the next command."""
    place = wide(tmp_path, count)
    for number in range(1, 13 if count == 40 else 3):
        place.done("stage", "prepare", f"stage-{number}")
        place.done("stage", "fail", f"stage-{number}", "--error", "broke " * 99)
    text = place.call("status").out
    assert len(text.splitlines()) <= SCREEN
    assert f"{count} stages: " in text
    assert " failed" in text.splitlines()[2]
    assert "stage-1 " in text
    assert "See it melt." in text
    assert "next: " in text


@pytest.mark.slow
def test_prose_criteria_wait_for_a_person(tmp_path: Path) -> None:
    """`status` and its live view show criteria in words for the person who judges them."""
    stages = [
        {
            "id": "stage-1",
            "name": "Melt",
            "success_criteria": "it looks molten",
            "parameters": {"command": "true"},
        }
    ]
    plan = write_plan(tmp_path, {**PLAN, "stages": stages})
    assert call("--root", str(tmp_path), "init", str(plan), "--consent", "trust").code == 0
    place = Place(tmp_path)
    place.call("dispatch", "stage-1", "--sync")
    assert place.done("status")["stages"][0]["status"] == "post_processing"
    told = "judgement stage-1: it looks molten"
    assert told in place.call("status").out
    assert told in live_view(place.path)


def test_stage_is_shown_as_a_page(place: Place) -> None:
    """`show` prints text instead of JSON, without empty fields, and the next command."""
    place.done("stage", "prepare", "stage-1")
    place.done("stage", "fail", "stage-1", "--error", "no memory left")
    page = place.call("show", "stage-1").out
    assert "See it melt." in page
    assert "command = echo hi > out.txt" in page
    assert "no memory left" in page
    assert "next: wfctl stage retry stage-1" in page
    assert "null" not in page
    assert "[]" not in page
    assert place.done("show", "stage-1")["purpose"] == "See it melt."


def large(count: int, running: int) -> Workflow:
    """Return a workflow of stages in a chain, one of which has failed."""
    stages = {
        f"stage-{n}": Stage(
            f"stage-{n}",
            "Sample",
            Status.COMPLETED if n < running else Status.PENDING,
            [f"stage-{n - 1}"] if n > 1 else [],
        )
        for n in range(1, count + 1)
    }
    stages[f"stage-{running}"].status = Status.FAILED
    return Workflow("w", "", "", stages=stages)


@pytest.mark.parametrize("count", [40, 4000])
def test_live_view_counts_stages_and_scrolls(count: int) -> None:
    """The view starts at the active stage and can scroll to any other stage."""
    state = large(count, count // 2)
    view = render_frame(state, ["a line"], NOW, (100, 30))
    assert len(view.lines) <= 30
    shown = "\n".join(line.plain for line in view.lines)
    assert f"{count} stages: " in shown
    assert f"stage-{count // 2} " in shown
    assert "lines above" in shown
    assert "lines below" in shown
    assert view.bottom > 0
    last = render_frame(state, [], NOW, (100, 30), scrolled=view.bottom)
    assert f"stage-{count} " in "\n".join(line.plain for line in last.lines)
