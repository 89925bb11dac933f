"""The web pages show a workflow, and never interpret text of users as HTML."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import html5lib
import pytest

from tests.cli.support import Place, call, write_plan
from tests.pages.support import Served, served

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x1b[31m\u202e{{7*7}}"
#: JSON files and plans cannot contain control characters, so this text has none. The output of a
#: job can contain them.
TYPED = EVIL.replace("\x1b", "")
PAGES = ("", "history", "amendments", "search?q=script", "stage/stage-1", "stage/stage-2", "?at=4")


def home(pages: Served) -> str:
    """Return the address of the first workflow in the list."""
    found = re.search(r'href="(/w/[^"]+)"', pages.get("/").text)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def pages(half_way: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve the pages of a workflow that is half finished."""
    with served(tmp_path_factory.mktemp("serve"), "--root", str(half_way.path)) as found:
        yield found


def test_list_shows_workflows_and_pending_decisions(pages: Served) -> None:
    """The list of workflows shows a pending amendment and the command that approves it."""
    text = pages.get("/").text
    assert "melt-2026-03-31" in text
    assert "Waits for a person" in text
    assert re.search(r"wfctl --root \S+ amend approve amend-3", text)


def test_workflow_page_shows_running_and_waiting_stages(pages: Served) -> None:
    """The page has a graph, stages, budget, timeline and the newest events."""
    text = pages.get(home(pages)).text
    for part in ("Waits for a person", "amend reject amend-3", "Running", "stage-2", "of 6 used"):
        assert part in text
    assert 'class="wf-graph"' in text
    assert 'class="wf-timeline"' in text


def test_stage_page_shows_why_attempts_ended(pages: Served) -> None:
    """The page has evidence and verdict of each attempt, and who set the parameters."""
    text = pages.get(home(pages) + "stage/stage-2").text
    for part in ("exit 137", "att-0004", "no trace of it", "I looked again.", "timestep"):
        assert part in text
    assert "amend-1, approved by" in text
    assert "the plan" in text


def test_history_page_accepts_the_filters_of_events(pages: Served) -> None:
    """The page filters events by type, stage and text, and links to older events."""
    text = pages.get(home(pages) + "history?type=stage.failed&stage=stage-2").text
    assert text.count('<a href="') >= 1
    assert "exit 137" in text
    assert "session.started" not in text
    assert "session.started" in pages.get(home(pages) + "history?before=4").text
    assert "amend-1" in pages.get(home(pages) + "history?grep=HALVE%20the").text
    assert pages.get(home(pages) + "history?session=x").status == 400


def test_past_state_is_shown_with_differences_from_now(pages: Served) -> None:
    """`?at=VERSION` shows an earlier state of the workflow and its differences from now."""
    text = pages.get(home(pages) + "?at=6").text
    assert "What differs from now" in text
    assert "As it was at 6" in text
    assert "data-changes" not in text
    assert pages.get(home(pages) + "?at=99999").status == 404
    assert pages.get(home(pages) + "?at=never").status == 400


def test_amendments_page_shows_impact_or_decision(pages: Served) -> None:
    """A pending amendment shows its impact, and a decided one shows who decided."""
    text = pages.get(home(pages) + "amendments").text
    for part in ("impact", "Every tenth", "user:ada", "trust", "Never."):
        assert part in text


def test_unknown_paths_are_not_found(pages: Served) -> None:
    """The server answers 404 for unknown pages, and for files outside the root."""
    for path in ("stage/none", "nothing", "figure?path=../../etc/passwd", "figure?path=in.txt"):
        assert pages.get(home(pages) + path).status == 404
    assert pages.get("/w/other/").status == 404


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a workflow whose names, parameters and notes contain HTML and scripts."""
    folder = tmp_path_factory.mktemp("evil")
    root = folder / "root <b>"
    root.mkdir()
    stages = [
        {
            "id": "stage-1",
            "name": TYPED,
            "outputs": ["stage-1/<b>.csv"],
            "success_criteria": TYPED,
            "parameters": {"command": TYPED, TYPED: TYPED},
        },
        {"id": "stage-2", "name": TYPED, "depends_on": ["stage-1"], "inputs": ["<i>.txt"]},
    ]
    plan = {"workflow_id": "evil-2026-03-31", "purpose": TYPED, "stages": stages}
    made = call("--root", str(root), "init", str(write_plan(folder, plan)), "--consent", "trust")
    assert made.code == 0, made
    place = Place(root)
    place.done("note", TYPED, "--actor", "agent:<script>")
    place.done("stage", "prepare", "stage-1")
    place.done("stage", "fail", "stage-1", "--error", TYPED)
    place.done("amend", "propose", "--stage", "stage-2", "--set", "success_criteria=" + TYPED,
               "--reason", TYPED, "--description", TYPED)  # fmt: skip
    with served(folder, "--workflows", str(folder)) as found:
        yield found


def test_user_text_is_escaped(evil: Served) -> None:
    """The pages contain no element from a user's text, and replace invisible characters."""
    for path in ("/", *(home(evil) + page for page in PAGES)):
        answer = evil.get(path)
        assert answer.status == 200, (path, answer.text[-300:])
        tree = html5lib.parse(answer.text, namespaceHTMLElements=False)
        assert isinstance(tree, ET.Element)
        scripts = [one.get("src") for one in tree.iter("script")]
        assert scripts == ["/pages.js"], path
        assert not [one for one in tree.iter() if one.tag in ("img", "b", "i")], path
        assert not [n for one in tree.iter() for n in one.attrib if n.startswith("on")], path
        assert "\u202e" not in answer.text, path
        assert "49" not in re.findall(r"\{\{7\*7\}\}|>49<", answer.text), path


def test_every_page_is_valid_html(evil: Served, pages: Served) -> None:
    """A strict HTML parser accepts each page."""
    for one in (evil, pages):
        for path in ("/", *(home(one) + page for page in PAGES)):
            html5lib.HTMLParser(strict=True).parse(one.get(path).text)


def test_output_files_are_shown_and_compared_with_their_record(tmp_path: Path) -> None:
    """The page shows a table, a figure and a text, and marks an output that has changed."""
    root = tmp_path / "root"
    root.mkdir()
    outputs = ["stage-1/t.csv", "stage-1/f.svg", "stage-1/n.txt"]
    make = (
        "printf 'a,<b>x</b>\\n1,2\\n' > t.csv; printf '<svg xmlns=\"http://www.w3.org/2000/svg\">"
        "<script>alert(1)</script></svg>' > f.svg; printf 'x\\033[31m<script>y' > n.txt"
    )
    stage = {"id": "stage-1", "name": "Make", "outputs": outputs, "parameters": {"command": make}}
    plan = {"workflow_id": "files-2026-03-31", "stages": [stage]}
    assert (
        call(
            "--root", str(root), "init", str(write_plan(tmp_path, plan)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(root)
    assert place.call("run").code == 0, place.log()
    (root / "stage-1" / "n.txt").write_text("other")
    with served(tmp_path, "--root", str(root)) as pages:
        text = pages.get(home(pages) + "stage/stage-1").text
        assert "<td>&lt;b&gt;x&lt;/b&gt;</td>" in text
        assert text.count(">as recorded<") == 2
        assert "changed since it was recorded" in text
        drawn = pages.get(home(pages) + "figure?path=stage-1/f.svg")
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert "sandbox" in drawn.headers["content-security-policy"]


def test_folder_name_that_is_not_utf_8_does_not_hide_other_workflows(tmp_path: Path) -> None:
    """If a workflow's folder has such a name, the list still shows all workflows."""
    every = tmp_path / "every"
    for name in ("one", "two"):
        root = every / name
        root.mkdir(parents=True)
        stages = [{"id": "stage-1", "name": "Make", "parameters": {"command": "true"}}]
        plan = write_plan(root, {"workflow_id": name, "stages": stages})
        assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    (every / "one").rename(every / os.fsdecode(b"one\xff"))
    with served(tmp_path, "--workflows", str(every)) as pages:
        listed = pages.get("/")
    assert listed.status == 200, listed.text
    assert 'href="/w/one/"' in listed.text
    assert 'href="/w/two/"' in listed.text
