"""The web pages show results, running jobs, failures and parameters."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from extensions.exports.graph_svg import draw_graph
from lifecycle.state.workflow import Stage, Workflow
from tests.cli.support import Place, write_plan
from tests.need import need_programs
from tests.pages.support import Served, served

#: Maximum number of milliseconds until a page shows a new event.
SOON = 10_000
NOBODY = 65534
TOLD = "T_c = 2.261 ± 0.010 J (0.8 σ from 2.2692, Onsager)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the Chromium of this machine."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield found
        found.close()


def study(folder: Path, **parameters: Any) -> Place:
    """Create a workflow of a sweep that waits for a file, and a fit with a figure."""
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
    """Open a page of the workflow in the browser, with the server's cookie."""
    context = browser.new_context()
    name, _, value = pages.cookie.partition("=")
    base = f"http://127.0.0.1:{pages.port}"
    context.add_cookies([{"name": name, "value": value, "url": base}])
    page = context.new_page()
    page.goto(f"{base}/w/melt/{path}")
    return page


@pytest.mark.long
def test_pages_show_a_sweep_until_its_result(browser: Browser, tmp_path: Path) -> None:
    """The pages show finished tasks, a failed task with its error, and then the result on top."""
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
def test_stage_page_shows_the_parameters_of_each_attempt(browser: Browser, tmp_path: Path) -> None:
    """After an amendment, the page still shows the old parameter value for the older attempt."""
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
def test_page_update_keeps_scroll_position_and_selection(browser: Browser, tmp_path: Path) -> None:
    """When a new event appears, the page keeps the scroll position and the selected text."""
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
def test_connections_of_another_user_do_not_block_the_server(tmp_path: Path) -> None:
    """The server still answers its owner while another user holds 280 connections open."""
    place = study(tmp_path)
    with served(tmp_path, "--root", str(place.path)) as pages, crowded(pages.port, 280):
        assert "melt" in pages.get("/").text


@pytest.mark.slow
def test_idle_connections_do_not_block_the_server(tmp_path: Path) -> None:
    """The server answers within 20 seconds while 400 idle connections are open."""
    place = study(tmp_path)
    with served(tmp_path, "--root", str(place.path)) as pages, ExitStack() as held:
        for _ in range(400):
            held.enter_context(socket.create_connection(("127.0.0.1", pages.port)))
        start = time.monotonic()
        assert "melt" in pages.get("/").text
        assert time.monotonic() - start < 20


@contextmanager
def crowded(port: int, count: int) -> Iterator[None]:
    """Hold the given number of idle connections open as another user."""
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
    """Return the drawing of a workflow whose stages have these dependencies."""
    stages = {id_: Stage(id_, id_, depends_on=deps) for id_, deps in needs.items()}
    state = Workflow(id="melt", created="", updated="", stages=stages)
    return draw_graph(state, lambda id_: f"/stage/{id_}")


def test_many_parallel_chains_are_drawn_as_one() -> None:
    """The graph shows 30 equal chains of stages as one, and 5 equal chains one by one."""
    for count, width, cards in ((30, 1052, 2), (5, 1240, 12)):
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


def test_stages_with_different_dependencies_are_not_merged() -> None:
    """The graph shows two cards for 40 stages, because half of them depend on another stage."""
    needs: dict[str, list[str]] = {"one": [], "two": []}
    for n in range(20):
        needs |= {f"a{n}": ["one"], f"b{n}": ["two"]}
    assert graph(needs).count('data-stages="20"') == 2
