"""Tests of the web pages in a real browser."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.cli.support import Place, call, write_plan
from tests.need import need_programs
from tests.npm import installed
from tests.pages.support import PATIENCE, Served, served

#: Maximum number of milliseconds until a page shows a new event. This is ten times the target.
SOON = 5000.0
PATHS = (
    "",
    "history",
    "amendments",
    "search?q=stage",
    "stage/stage-2",
    "?at=9",
    "compare?a=stage-2",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium without a window."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        yield started
        started.close()


def entered(browser: Browser, pages: Served, **options: Any) -> tuple[BrowserContext, Page]:
    """Return a browser context that has the server's cookie, and a new page in this context."""
    context = browser.new_context(**options)
    name, _, value = pages.cookie.partition("=")
    context.add_cookies([{"name": name, "value": value, "url": f"http://127.0.0.1:{pages.port}"}])
    return context, context.new_page()


def made(folder: Path, stages: list[dict[str, Any]]) -> Place:
    """Return a new workflow of the given stages."""
    root = folder / "root"
    root.mkdir()
    plan = {"workflow_id": "live-2026-03-31", "purpose": "See it live.", "stages": stages}
    assert (
        call("--root", str(root), "init", str(write_plan(folder, plan)), "--consent", "trust").code
        == 0
    )
    return Place(root)


@pytest.mark.slow
def test_lists_on_a_phone_keep_their_column_names(browser: Browser, tmp_path: Path) -> None:
    """On a narrow screen, each cell shows the name of its column. Empty cells are hidden."""
    place = made(tmp_path, [{"id": "stage-1", "name": "Build"}])
    with served(tmp_path, "--root", str(place.path)) as pages:
        context, page = entered(browser, pages, viewport={"width": 400, "height": 800})
        page.goto(f"http://127.0.0.1:{pages.port}/w/live-2026-03-31/")
        named = "one => getComputedStyle(one, '::before').content"
        cells = page.locator("#stages tbody td").all()
        heads = [cell.evaluate(named).strip('"') for cell in cells if cell.is_visible()]
        assert heads == ["stage", "name", "status", "attempts"]
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        context.close()


@pytest.mark.slow
def test_page_updates_live_without_external_requests(browser: Browser, tmp_path: Path) -> None:
    """The page shows new events without a reload, and sends requests only to its server."""
    place = made(tmp_path, [{"id": "stage-1", "name": "Build"}])
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = browser.new_context().new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"http://127.0.0.1:{pages.port}/?token={pages.addresses()[-1][1]}")
        page.get_by_role("link", name="live-2026-03-31").click()
        expect(page.locator("#said")).to_have_text("live", timeout=4 * SOON)
        place.done("note", "<b>here</b> it is")
        expect(page.locator("#lines")).to_contain_text("<b>here</b> it is", timeout=SOON)
        place.done("stage", "prepare", "stage-1")
        expect(page.locator("#stages")).to_contain_text("preparing", timeout=SOON)
        assert {url.split("/")[2] for url in asked} == {f"127.0.0.1:{pages.port}"}
        page.context.close()


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
def test_page_follows_a_run_across_a_server_restart(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """The page reconnects after the server was killed, and then shows the failure of a job."""
    go, stop = tmp_path / "go", tmp_path / "stop"
    wait = f"while [ ! -e {go} ]; do echo a line $((n+=1)); sleep 0.1; done"
    stages: list[dict[str, Any]] = [
        {"id": "stage-1", "name": "Wait", "parameters": {"command": wait}},
        {
            "id": "stage-2", "name": "Fail", "depends_on": ["stage-1"],
            "parameters": {"command": f"while [ ! -e {stop} ]; do sleep 0.1; done; exit 3"},
        },
    ]  # fmt: skip
    place = made(tmp_path, stages)
    assert place.call("dispatch", "stage-1").code == 0
    with served(tmp_path, "--root", str(place.path)) as first:
        port = first.port
        context, page = entered(browser, first, viewport={"width": width, "height": 844})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"http://127.0.0.1:{port}/w/live-2026-03-31/")
        lines = page.locator("#running pre")
        expect(lines).to_contain_text("a line", timeout=3 * SOON)
        # Compare with the current text: on a busy machine, the job may have printed any number of
        # lines.
        expect(lines).not_to_have_text(lines.text_content() or "", timeout=3 * SOON)
        first.process.kill()
        expect(page.locator("#said")).to_have_text("looking for the server", timeout=SOON)
        go.touch()
        assert place.call("wait", "stage-1").code == 0
        assert place.call("stage", "complete", "stage-1", "--evidence", "seen").code == 0
    with served(tmp_path, "--root", str(place.path), port=port):
        expect(page.locator("#stages")).to_contain_text("completed", timeout=8 * SOON)
        expect(page.locator("#said")).to_have_text("live", timeout=4 * SOON)
        assert place.call("dispatch", "stage-2").code == 0
        expect(page.locator("#running")).to_contain_text("stage-2", timeout=SOON)
        stop.touch()
        place.call("wait", "stage-2")
        expect(page.locator("#stages")).to_contain_text("failed", timeout=SOON)
        page.locator("#stages").get_by_role("link", name="stage-2").click()
        expect(page.locator("#stage")).to_contain_text("Why it failed", timeout=4 * SOON)
        expect(page.locator("#stage")).to_contain_text("exit 3", timeout=4 * SOON)
        page.locator("button.copy").first.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("wfctl --root ")
        page.goto(f"http://127.0.0.1:{port}/w/live-2026-03-31/")
        page.locator("#at").fill("2")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("main")).to_contain_text("What differs from now", timeout=4 * SOON)
        page.wait_for_load_state("load")  # The page may be wider before its style sheet is loaded.
        assert page.evaluate("document.documentElement.scrollWidth") == width
        context.close()


@pytest.mark.long
def test_pages_are_accessible(
    browser: Browser,
    half_way: Place,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The program axe-core finds no serious problem, and pages fit narrow and wide screens."""
    axe = (installed(tmp_path_factory, "axe", "axe-core") / "axe-core/axe.min.js").read_text(
        "utf-8"
    )
    with served(tmp_path, "--root", str(half_way.path)) as pages:
        base = f"http://127.0.0.1:{pages.port}"
        for width, scheme in ((390, "dark"), (1280, "light"), (2560, "dark")):
            context, page = entered(
                browser, pages, bypass_csp=True, color_scheme=scheme,
                viewport={"width": width, "height": 900},
            )  # fmt: skip
            for path in ("/", *(f"/w/melt-2026-03-31/{one}" for one in PATHS)):
                page.goto(base + path)
                page.evaluate(axe)
                found = page.evaluate("axe.run()")["violations"]
                grave = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
                assert grave == [], (path, json.dumps(found)[:2000])
                assert page.evaluate("document.documentElement.scrollWidth") == width, path
            context.close()
        context, page = entered(browser, pages, java_script_enabled=False)
        page.goto(f"{base}/w/melt-2026-03-31/")
        expect(page.locator("#said")).to_have_text("a snapshot")
        page.get_by_role("link", name="History").click()
        expect(page.locator("#events")).to_contain_text("exit 137")
        context.close()


@pytest.mark.long
def test_page_can_be_used_with_the_keyboard(
    browser: Browser, half_way: Place, tmp_path: Path
) -> None:
    """The first Tab key leads to a link to the content, and opened details stay open."""
    place = made(tmp_path, [{"id": "stage-1", "name": "Build"}])
    place.done("note", "one")
    with served(tmp_path, "--root", str(place.path)) as pages:
        context, page = entered(browser, pages)
        page.goto(f"http://127.0.0.1:{pages.port}/w/live-2026-03-31/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the content"
        expect(page.locator("#said")).to_have_text("live", timeout=4 * SOON)
        page.locator("#lines summary").first.focus()
        place.done("note", "two")
        expect(page.locator("#lines")).to_contain_text("two", timeout=SOON)
        page.keyboard.press("Enter")
        opened = page.locator("#lines details[open]").get_attribute("id")
        place.done("note", "three")
        expect(page.locator("#lines")).to_contain_text("three", timeout=SOON)
        assert page.locator(f"#{opened}").get_attribute("open") is not None
        context.close()


@pytest.mark.long
def test_fifty_open_pages_receive_an_event(half_way: Place, tmp_path: Path) -> None:
    """The server sends a new event to fifty open pages, and needs little memory for them."""
    import socket

    place = made(tmp_path, [{"id": "stage-1", "name": "Build"}])
    with served(tmp_path, "--root", str(place.path)) as pages:
        streams = []
        for _ in range(50):
            asked = socket.create_connection(("127.0.0.1", pages.port), PATIENCE)
            line = "GET /w/live-2026-03-31/changes HTTP/1.1\r\nHost: localhost\r\n"
            asked.sendall(f"{line}Cookie: {pages.cookie}\r\n\r\n".encode())
            streams.append(asked)
        for asked in streams:
            _until(asked, b"event: change")
        place.done("note", "all of you")
        for asked in streams:
            _until(asked, b"event: change")
            asked.close()
        status = Path(f"/proc/{pages.process.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        assert int(resident.split()[1]) < 10 * 60_000


def _until(asked: Any, text: bytes) -> None:
    found, end = b"", time.monotonic() + PATIENCE
    while text not in found:
        assert time.monotonic() < end, found
        found += asked.recv(65536)
