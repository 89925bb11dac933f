"""The pages as a person reads them: the answer, what runs, why a task failed, what ran how."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lifecycle.state.workflow import Stage, Workflow
from projections.exports.graph_svg import drawing
from tests.cli.support import Place, write_plan
from tests.need import need_programs
from tests.pages.support import Served, served

#: Milliseconds that a page may take to show what happened.
SOON = 10_000
NOBODY = 65534
TOLD = "T_c = 2.261 ± 0.010 J (0.8 σ from 2.2692, Onsager)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield found
        found.close()


def study(folder: Path, **parameters: Any) -> Place:
    """Make a workflow of a sweep whose tasks wait to be let go, and of a fit with a figure."""
    let_go = f"while [ ! -e {folder}/go ]; do sleep 0.05; done"
    sweep = {
        "id": "stage-1",
        "name": "Sweep",
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {
            "command": f"{{ [ $WFCTL_PARAM_T = 1 ] || {let_go}; }} && echo computing && "
            '{ [ $WFCTL_PARAM_T != 3 ] || { echo "no melt" >&2; exit 3; }; } && '
            'echo "{\\"e\\": $WFCTL_PARAM_T}" > e.json',
            "map": {"grid": {"T": [1, 2, 3, 4]}},
            "task_outputs": ["e.json"],
            "metrics": {"e": "e.json#/e"},
            "at_once": 1,
            "tolerate": 0.5,
            **parameters,
        },
    }
    fit = {
        "id": "stage-2",
        "name": "Fit",
        "depends_on": ["stage-1"],
        "outputs": ["stage-2/fit.json", "stage-2/fit.svg"],
        "parameters": {
            "command": 'echo \'{"tc": 2.261, "error": 0.0102}\' > fit.json; echo fitted; '
            'echo \'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\' > fit.svg',
            "order": 1,
            "metrics": {
                "T_c": {
                    "at": "fit.json#/tc",
                    "error": "#/error",
                    "unit": "J",
                    "reference": {"value": 2.2692, "source": "Onsager"},
                }
            },
        },
    }
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {
        "workflow_id": "melt",
        "stages": [sweep, fit],
        "results": ["stage-2.T_c", "stage-2/fit.svg"],
    }
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


def opened(browser: Browser, pages: Served, path: str = "") -> Page:
    """Open a page of the workflow as somebody who was let in."""
    context = browser.new_context()
    name, _, value = pages.cookie.partition("=")
    base = f"http://127.0.0.1:{pages.port}"
    context.add_cookies([{"name": name, "value": value, "url": base}])
    page = context.new_page()
    page.goto(f"{base}/w/melt/{path}")
    return page


@pytest.mark.long
def test_a_person_follows_a_sweep_to_its_answer(browser: Browser, tmp_path: Path) -> None:
    """Squares fill, the failed task has a page that says why, and the answer stands on top."""
    place = study(tmp_path)
    place.done("dispatch", "stage-1")
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = opened(browser, pages)
        expect(page.locator("#running")).to_contain_text("1 of 4 done", timeout=SOON)
        expect(page.locator("#running")).to_contain_text("running")
        grid = opened(browser, pages, "stage/stage-1")
        expect(grid.locator(".grid a")).to_have_count(4)
        (tmp_path / "go").touch()
        place.call("wait", "stage-1")
        place.call("stage", "complete", "stage-1", "--evidence", "enough")
        expect(grid.locator(".grid a.t-failed")).to_have_count(1, timeout=SOON)
        expect(grid.locator(".grid a.t-done")).to_have_count(3, timeout=SOON)
        expect(grid.locator(".plots svg")).to_have_count(1, timeout=SOON)
        grid.locator(".grid a.t-failed").click()
        expect(grid.locator("#task")).to_contain_text("no melt")
        expect(grid.locator("#task")).to_contain_text("exit 3")
        place.call("run")
        first = page.locator("main > *").first
        expect(first).to_contain_text(TOLD, timeout=SOON)
        expect(first.locator("figure img")).to_have_attribute("alt", "Figure stage-2/fit.svg")
        assert TOLD in pages.get("/").text


@pytest.mark.long
def test_each_attempt_stands_under_what_it_ran_with(browser: Browser, tmp_path: Path) -> None:
    """An amendment changes what the page of the stage defines, and not what an attempt had."""
    (tmp_path / "go").touch()
    place = study(tmp_path)
    place.call("run")
    sets = ("--type", "stage_rerun", "--set", "parameters.order=2", "--reason", "A better fit.")
    place.done("amend", "propose", "--stage", "stage-2", *sets)
    place.done("amend", "approve", "amend-1")
    place.call("run")
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = opened(browser, pages, "stage/stage-2")
        older = page.locator('[data-attempt="att-0001"]')
        expect(older).to_contain_text("Ran with order = 1 (now 2)")
        expect(page.locator('[data-attempt="att-0002"]')).not_to_contain_text("Ran with")
        page.get_by_role("link", name="Compare the attempts of stage-2").click()
        runs = page.locator("#compared tbody tr")
        expect(runs).to_have_count(2)
        page.get_by_role("link", name="order").click()
        page.get_by_role("link", name="order").click()
        expect(runs.first).to_contain_text("stage-2/att-0002")
        expect(runs.first).to_contain_text("2.261 ± 0.010 J")
        page.locator("input[name=a]").fill("stage-2/att-0001")
        page.locator("input[name=b]").fill("stage-2/att-0002")
        page.get_by_role("button", name="Compare").click()
        expect(page.locator("#compared")).to_contain_text("+100.00 %")
        page.goto(f"http://127.0.0.1:{pages.port}/w/melt/stage/stage-2")
        older.get_by_role("link", name="What att-0001 printed").click()
        expect(page.locator("#printed")).to_contain_text("fitted")


@pytest.mark.long
def test_what_somebody_reads_stays_in_its_place(browser: Browser, tmp_path: Path) -> None:
    """Scrolled lines and a selected text are not taken away by what comes."""
    wait = f"for n in $(seq 200); do echo line $n; done; until [ -e {tmp_path}/go ]; do sleep 0.1; "
    place = Place(tmp_path / "root")
    place.path.mkdir()
    stage = {"id": "stage-1", "name": "Wait", "parameters": {"command": f"{wait}echo more; done"}}
    plan = {"workflow_id": "melt", "stages": [stage]}
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    place.done("dispatch", "stage-1")
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = opened(browser, pages)
        lines = page.locator("#running pre.tail")
        expect(lines).to_contain_text("more", timeout=SOON)
        page.evaluate("document.querySelector('#running pre.tail').scrollTop = 12")
        place.done("note", "something happens")
        expect(page.locator("#lines")).to_contain_text("something happens", timeout=SOON)
        assert page.evaluate("document.querySelector('#running pre.tail').scrollTop") == 12
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#running h3'))")
        place.done("note", "something else happens")
        expect(page.locator("#lines")).to_contain_text("something else happens", timeout=SOON)
        assert "stage-1" in page.evaluate("getSelection().toString()")
        (tmp_path / "go").touch()
        place.call("wait", "stage-1")


@pytest.mark.root
def test_another_login_takes_no_room_on_the_port(tmp_path: Path) -> None:
    """However many connections it opens, and leaves half open."""
    place = study(tmp_path)
    with served(tmp_path, "--root", str(place.path)) as pages, crowded(pages.port, 280):
        assert "melt" in pages.get("/").text


@contextmanager
def crowded(port: int, count: int) -> Iterator[None]:
    """Hold connections as another login, which asks nothing by any of them."""
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setuid(NOBODY)
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
            os.write(ready[1], b"%d" % len(held))
            os.close(done[1])
            os.read(done[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    try:
        assert os.read(ready[0], 8) == b"%d" % count
        yield
    finally:
        os.close(done[1])
        os.waitpid(child, 0)
        os.close(ready[0])
        os.close(done[0])


def graph(needs: dict[str, list[str]]) -> str:
    """Draw the stages of a graph."""
    stages = {id_: Stage(id_, id_, depends_on=deps) for id_, deps in needs.items()}
    state = Workflow(id="melt", created="", updated="", stages=stages)
    return drawing(state, lambda id_: f"/stage/{id_}")


def test_many_chains_side_by_side_are_drawn_as_one() -> None:
    """Root and sink are in sight; a few chains are drawn one by one, each card a link."""
    for count, width, cards in ((30, 248, 2), (5, 1240, 12)):
        needs: dict[str, list[str]] = {"root": []}
        for n in range(count):
            needs |= {f"a{n}": ["root"], f"b{n}": [f"a{n}"]}
        needs["sink"] = [f"b{n}" for n in range(count)]
        drawn = graph(needs)
        found = re.search(r' width="(\d+)"', drawn)
        assert found is not None
        assert int(found[1]) == width
        assert len(re.findall(r'<a href="/stage/', drawn)) == cards
        assert drawn.count('class="edge"') == len(set(re.findall(r'class="edge" d="[^"]+"', drawn)))


def test_fans_of_two_roots_stay_apart() -> None:
    """Stages stand alike only if what is above and below them does."""
    needs: dict[str, list[str]] = {"one": [], "two": []}
    for n in range(20):
        needs |= {f"a{n}": ["one"], f"b{n}": ["two"]}
    assert graph(needs).count('data-stages="20"') == 2
