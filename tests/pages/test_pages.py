"""What the pages show, as HTML: all that is known, and nothing of others as markup."""

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
#: JSON and the plan take no control characters; those come by a job's own output.
TYPED = EVIL.replace("\x1b", "")
PAGES = ("", "history", "amendments", "search?q=script", "stage/stage-1", "stage/stage-2", "?at=4")


def home(pages: Served) -> str:
    """Return the address of the first workflow of the list."""
    found = re.search(r'href="(/w/[^"]+)"', pages.get("/").text)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def pages(half_way: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of a workflow in the middle of it all."""
    with served(tmp_path_factory.mktemp("serve"), "--root", str(half_way.path)) as found:
        yield found


def test_the_list_leads_to_the_workflow(pages: Served) -> None:
    """With what waits for a person and the command for it."""
    text = pages.get("/").text
    assert "melt-2026-03-31" in text
    assert "Waits for a person" in text
    assert re.search(r"wfctl --root \S+ amend approve amend-3", text)


def test_a_workflow_shows_what_runs_waits_and_happened(pages: Served) -> None:
    """Graph, stages, budget, timeline, newest events."""
    text = pages.get(home(pages)).text
    for part in ("Waits for a person", "amend reject amend-3", "Running", "stage-2", "of 6 used"):
        assert part in text
    assert 'class="wf-graph"' in text
    assert 'class="wf-timeline"' in text


def test_a_stage_shows_why_its_attempts_ended(pages: Served) -> None:
    """Attempts, evidence and verdict in words, parameters and who set them."""
    text = pages.get(home(pages) + "stage/stage-2").text
    for part in ("exit 137", "att-0004", "no trace of it", "I looked again.", "timestep"):
        assert part in text
    assert "amend-1, approved by" in text
    assert "the plan" in text


def test_the_history_takes_the_filters_of_events(pages: Served) -> None:
    """Each narrows what is shown; older ones stand on a page of their own."""
    text = pages.get(home(pages) + "history?type=stage.failed&stage=stage-2").text
    assert text.count('<a href="') >= 1
    assert "exit 137" in text
    assert "session.started" not in text
    assert "session.started" in pages.get(home(pages) + "history?before=4").text
    assert "amend-1" in pages.get(home(pages) + "history?grep=HALVE%20the").text
    assert pages.get(home(pages) + "history?session=x").status == 400


def test_the_past_is_shown_with_what_differs_from_now(pages: Served) -> None:
    """By an address that can be sent."""
    text = pages.get(home(pages) + "?at=6").text
    assert "What differs from now" in text
    assert "As it was at 6" in text
    assert "data-changes" not in text
    assert pages.get(home(pages) + "?at=99999").status == 404
    assert pages.get(home(pages) + "?at=never").status == 400


def test_an_amendment_shows_impact_or_consent(pages: Served) -> None:
    """What is pending with what it would bring about, the others with who decided."""
    text = pages.get(home(pages) + "amendments").text
    for part in ("impact", "Every tenth", "user:ada", "trust", "Never."):
        assert part in text


def test_what_is_not_there_is_not_found(pages: Served) -> None:
    """Never a way out of the root."""
    for path in ("stage/none", "nothing", "figure?path=../../etc/passwd", "figure?path=in.txt"):
        assert pages.get(home(pages) + path).status == 404
    assert pages.get("/w/other/").status == 404


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of two workflows with markup in every text that somebody can set."""
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


def test_what_was_typed_is_text(evil: Served) -> None:
    """A strict parser finds our elements alone, and no handler; what cannot be seen is a sign."""
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
    """A strict parser takes each."""
    for one in (evil, pages):
        for path in ("/", *(home(one) + page for page in PAGES)):
            html5lib.HTMLParser(strict=True).parse(one.get(path).text)


def test_a_file_is_shown_as_text_and_held_to_its_record(tmp_path: Path) -> None:
    """A table, a figure and a text; one that was changed since says so."""
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


def test_a_folder_whose_name_is_no_text_hides_no_other(tmp_path: Path) -> None:
    """It was renamed so after its workflow began; the list still names them all."""
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
