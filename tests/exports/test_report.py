"""The report in a real browser: all is there, it fits, it is legible, it asks for nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import html5lib
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli.support import Place, call, write_plan
from tests.exports.support import text_of
from tests.exports.world import PLAN
from tests.need import need_programs

PICTURES = Path(__file__).resolve().parents[2] / "build" / "screenshots"
CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")
STAGES = [stage["id"] for stage in PLAN["stages"]]
WIDTHS = {"phone": 390, "desktop": 1280}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window and without a network."""
    need_programs("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_file(half_way: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a workflow in the middle of it all."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    half_way.done("export", "report", str(file))
    return file


def opened(browser: Browser, file: Path, width: int, scheme: str) -> tuple[Page, list[str]]:
    """Open the page; return it with the addresses it asked for."""
    context = browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    return page, asked


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", WIDTHS)
def test_the_report_fits_and_is_legible(
    browser: Browser, page_file: Path, device: str, scheme: str
) -> None:
    """On a phone and on a desk, by day and by night; a picture of it is kept in build/."""
    page, asked = opened(browser, page_file, WIDTHS[device], scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = page.screenshot(path=PICTURES / f"report-{device}-{scheme}.png", full_page=True)
    measured = page.evaluate(CONTRAST)
    wide = "document.documentElement.scrollWidth"
    dark = "getComputedStyle(document.body).backgroundColor"
    assert picture.startswith(b"\x89PNG")
    assert page.evaluate(wide) == WIDTHS[device]
    assert measured["found"] == []
    assert measured["texts"] > 100
    assert (page.evaluate(dark) == "rgb(13, 17, 23)") == (scheme == "dark")
    assert asked == [page_file.as_uri()]
    page.context.close()


@pytest.mark.slow
def test_every_stage_is_there_and_can_be_seen(browser: Browser, page_file: Path) -> None:
    """In the graph, in the list, with its attempts; and every amendment with its consent."""
    page, _ = opened(browser, page_file, 1280, "light")
    for stage in STAGES:
        assert page.locator(f"section[data-stage={stage}]").is_visible()
        assert page.locator(f"svg [data-stage={stage}]").is_visible()
    amendments = page.locator("section[data-amendment]").all_inner_texts()
    assert ["approved" in amendments[0], "rejected" in amendments[1]] == [True, True]
    assert "trust" in amendments[0]
    assert "waits for a person" in amendments[2]
    assert page.locator("section[data-stage=stage-2] .attempt").count() == 4
    page.context.close()


@pytest.mark.slow
def test_on_paper_it_is_light_and_nothing_is_cut_off(browser: Browser, page_file: Path) -> None:
    """Printed from a dark screen, on A4."""
    page, _ = opened(browser, page_file, 794, "dark")
    page.emulate_media(media="print")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert (ground, wide) == ("rgb(255, 255, 255)", 794)
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


def test_the_report_is_valid_html(told: Place) -> None:
    """A strict parser takes it, and it has no script, no link and no address to fetch from."""
    text = text_of(told, "report")
    html5lib.HTMLParser(strict=True).parse(text)
    assert "<script" not in text
    assert re.findall(r'src="(?!data:)', text) == []
    assert "url(" not in text
    assert "@import" not in text


def test_what_was_typed_is_text(told: Place) -> None:
    """A purpose, a criterion and a note hold markup."""
    text = text_of(told, "report")
    assert "See it melt: &lt;b&gt;how&lt;/b&gt; &amp; why." in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; is only text" in text


def test_the_report_says_who_decided_what(completed: Place) -> None:
    """Attempts with their evidence, amendments with consent, drift, the head of the log."""
    text = text_of(completed, "report")
    head = completed.done("fsck")["head"]
    for part in ("user:ada", "passed", "I looked again.", "exit 137", "no trace of it", head):
        assert part in text
    assert "reverted" in text


def test_a_report_begins_with_what_came_out(tmp_path: Path) -> None:
    """The figure of the last stage is in the page itself; one that was changed since is not."""
    root = tmp_path / "root"
    root.mkdir()
    draw = 'printf \'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\' > f.svg'
    stages = [
        {"id": "stage-1", "name": "Draw", "outputs": ["stage-1/f.svg"],
         "parameters": {"command": draw, "verify": "test -s stage-1/f.svg"}},
    ]  # fmt: skip
    plan = {"workflow_id": "drawn-2026-03-31", "purpose": "A picture.", "stages": stages}
    assert (
        call(
            "--root", str(root), "init", str(write_plan(tmp_path, plan)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(root)
    assert place.call("run").code == 0
    text = text_of(place, "report")
    assert "All 1 stages are completed and verified." in text
    assert 'src="data:image/svg+xml;base64,' in text
    assert text.index("Summary</h2>") < text.index("Method</h2>") < text.index("Log</h2>")
    told = place.call("report", "-").out
    assert "![stage-1/f.svg](<stage-1/f.svg>)" in told
    assert told.index("## Summary") < told.index("## Method") < told.index("## stage-1")
    (root / "stage-1" / "f.svg").write_text("<svg/>")
    assert "data:image" not in text_of(place, "report")
