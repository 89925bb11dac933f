"""Diagrams show every stage at its place, and text of users never becomes markup."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from extensions.exports.timeline_svg import draw_timeline, state_spans
from lifecycle.state.workflow import Attempt, Stage, Workflow
from projections.drawing.graph_layout import compute_layout
from projections.drawing.svg import count_columns, format_text, shorten_text, wrap_text
from tests.cli.support import Place, call, write_plan
from tests.exports.support import stages_of, text_of

SVG = "{http://www.w3.org/2000/svg}"


def test_graph_shows_every_stage_with_its_status(told: Place) -> None:
    """The title of each card, which screen readers use, has the status."""
    root = ET.fromstring(text_of(told, "svg"))
    shown = {g.get("data-stage"): g.findtext(f"{SVG}title") for g in root.iter(f"{SVG}g")}
    statuses = {stage["id"]: stage["status"] for stage in told.done("status")["stages"]}
    assert list(shown) == stages_of(told)
    for id_, title in shown.items():
        assert title is not None
        assert title.endswith(statuses[str(id_)])


def test_wide_fan_is_drawn_as_one_card(tmp_path: Path) -> None:
    """36 similar stages share one card, which counts their statuses."""
    ends = [f"stage-{number}" for number in range(2, 38)]
    stages = [
        {"id": "stage-1", "name": "Root"},
        *({"id": one, "name": "Member", "depends_on": ["stage-1"]} for one in ends),
        {"id": "stage-38", "name": "Sink", "depends_on": ends},
    ]
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path, {"workflow_id": "fan-2026-03-31", "stages": stages})
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    place = Place(root)
    place.done("stage", "prepare", "stage-1")
    drawn = ET.fromstring(text_of(place, "svg"))
    assert float(drawn.get("width", "0")) < 800
    (fan,) = (g for g in drawn.iter(f"{SVG}g") if g.get("data-stages") == "36")
    assert fan.findtext(f"{SVG}title") == "36 stages, stage-2 to stage-37: 36 pending"
    cards = [g.get("data-stage") for g in drawn.iter(f"{SVG}g") if g.get("data-stage")]
    assert cards == ["stage-1", "stage-38"]


def test_chain_of_stages_lies_across(tmp_path: Path) -> None:
    """The stages of a chain follow each other from left to right, with at most four in a row."""
    names = [f"stage-{number}" for number in range(1, 7)]
    stages = [
        {"id": id_, "name": "Link", "depends_on": names[place - 1 : place] if place else []}
        for place, id_ in enumerate(names)
    ]
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path, {"workflow_id": "chain-2026-03-31", "stages": stages})
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    drawn = ET.fromstring(text_of(Place(root), "svg"))
    cards = [g.find(f"{SVG}rect") for g in drawn.iter(f"{SVG}g") if g.get("data-stage")]
    places = [(float(c.get("x", "")), float(c.get("y", ""))) for c in cards if c is not None]
    assert places[:3] == sorted(places[:3])
    assert [x for x, _ in places[:3]] == [x for x, _ in places[3:]]
    assert len({y for _, y in places[:3]}) == len({y for _, y in places[3:]}) == 1
    assert places[0][1] < places[3][1]
    assert float(drawn.get("width", "0")) > float(drawn.get("height", "0"))


def test_timeline_shows_phases_failures_and_amendments(half_way: Place) -> None:
    """The timeline shows queueing, computing, verifying and waiting for a person."""
    root = ET.fromstring(text_of(half_way, "timeline"))
    classes = {found.get("class") for found in root.iter()}
    assert {"phase queue", "phase compute", "phase verify", "phase person"} <= classes
    assert {
        "mark failed",
        "mark lost",
        "mark approved",
        "mark rejected",
        "mark proposed",
    } <= classes


def test_timelines_mark_lost_attempts(half_way: Place) -> None:
    """The timeline of all events and the timeline of the state mark the attempt that was lost."""
    exported = text_of(half_way, "timeline")
    begin, end = "2026-03-31T10:00:00.000000Z", "2026-03-31T10:01:00.000000Z"
    lost = Attempt("att-0002", begin, "tmux", "", "", "", "", "", ended_at=end, outcome="lost")
    stages = {"stage-2": Stage("stage-2", "Melt", attempts=[lost])}
    state = Workflow(id="melt", created=begin, updated=end, stages=stages)
    for drawn in (exported, draw_timeline(state_spans(state))):
        marks = [one for one in ET.fromstring(drawn).iter() if one.get("class") == "mark lost"]
        assert [(one.findtext(f"{SVG}title") or "")[28:] for one in marks] == ["att-0002 lost"]


def test_what_was_typed_is_text(told: Place) -> None:
    """Names with HTML markup appear as text in SVG and Mermaid."""
    for format_ in ("svg", "timeline"):
        drawn = text_of(told, format_)
        assert "<b>" not in drawn
        assert "<script" not in drawn
    assert f'"{stages_of(told)[1]} Schmelze' in text_of(told, "mermaid")


def test_mermaid_has_every_stage_and_every_dependency(told: Place) -> None:
    """The Mermaid diagram has one line for each stage and each dependency."""
    lines = text_of(told, "mermaid").splitlines()
    assert lines[0] == "flowchart TD"
    nodes = [re.match(r"    (\w+)\[\".*\"\]:::\w+$", line) for line in lines]
    found = [m[1].removeprefix("s_").replace("_", "-") for m in nodes if m]
    assert found == [stage.replace("A_b", "Ax5fb") for stage in stages_of(told)]
    assert sum(" --> " in line for line in lines) == 6


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Generate an acyclic graph as the dependencies of each node."""
    names = [f"n{number}" for number in range(draw(st.integers(0, 14)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=4))
        if place
        else []
        for place, name in enumerate(names)
    }


@given(graphs())
def test_stage_is_drawn_below_its_dependencies(needs: dict[str, list[str]]) -> None:
    """Each line between stages goes down layer by layer, and no two stages share a place."""
    found = compute_layout(needs)
    assert set(found.nodes) == set(needs)
    assert len(set(found.nodes.values())) == len(needs)
    assert all(0 <= x < found.width and 0 <= y < found.height for x, y in found.nodes.values())
    assert set(found.edges) == {(dep, node) for node, deps in needs.items() for dep in deps}
    for (dep, node), points in found.edges.items():
        assert (points[0], points[-1]) == (found.nodes[dep], found.nodes[node])
        assert [y for _, y in points] == list(range(int(points[0][1]), int(points[-1][1]) + 1))


def test_cyclic_dependencies_can_be_drawn() -> None:
    """The layout places stages of an imported file that depend on each other in a cycle."""
    found = compute_layout({"a": ["b"], "b": ["a"], "c": []})
    assert set(found.nodes) == {"a", "b", "c"}


@given(st.text(max_size=60), st.integers(2, 30))
def test_shortened_text_fits_and_is_valid_xml(value: str, width: int) -> None:
    """Wide letters count as two columns, and characters that XML forbids are replaced."""
    short = shorten_text(value, width)
    assert count_columns(short) <= width
    ET.fromstring(format_text(short, x=1.0))


@given(st.text(max_size=80), st.integers(2, 30))
def test_long_name_takes_at_most_two_lines(value: str, width: int) -> None:
    """A long name is broken between words, and only its end is cut."""
    lines = wrap_text(value, width)
    assert len(lines) <= 2
    assert all(count_columns(line) <= width for line in lines)
    whole, shown = " ".join(value.split()), " ".join(lines)
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1].rstrip()))
