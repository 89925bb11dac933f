"""The HTML report in a real browser: complete, readable and without network access."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

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
    """Start Chromium without a window and without a network."""
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
    """Write the report of a half-finished workflow."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    half_way.done("export", "report", str(file))
    return file


def opened(browser: Browser, file: Path, width: int, scheme: str) -> tuple[Page, list[str]]:
    """Open the page; return the page and the addresses that it requested."""
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
@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", WIDTHS)
def test_report_fits_the_screen_and_is_legible(
    browser: Browser, page_file: Path, device: str, scheme: str
) -> None:
    """The report fits phone and desktop and has enough contrast in light and dark mode."""
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
def test_report_shows_every_stage_and_amendment(browser: Browser, page_file: Path) -> None:
    """Graph and list show every stage, and each amendment shows the decision about it."""
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
def test_printed_report_is_light_and_complete(browser: Browser, page_file: Path) -> None:
    """A report printed from dark mode fits on A4."""
    page, _ = opened(browser, page_file, 794, "dark")
    page.emulate_media(media="print")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert (ground, wide) == ("rgb(255, 255, 255)", 794)
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


def test_report_is_valid_html(told: Place) -> None:
    """The report has no script and loads nothing from outside."""
    text = text_of(told, "report")
    html5lib.HTMLParser(strict=True).parse(text)
    assert "<script" not in text
    assert re.findall(r'src="(?!data:)', text) == []
    assert "url(" not in text
    assert "@import" not in text


def test_what_was_typed_is_text(told: Place) -> None:
    """Markup in a purpose or a criterion appears as plain text in the report."""
    text = text_of(told, "report")
    assert "See it melt: &lt;b&gt;how&lt;/b&gt; &amp; why." in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; is only text" in text


def test_report_shows_who_decided_what(completed: Place) -> None:
    """The report has the evidence, the decisions, the drift and the last hash of the log."""
    text = text_of(completed, "report")
    head = completed.done("fsck")["head"]
    for part in ("user:ada", "passed", "I looked again.", "exit 137", "no trace of it", head):
        assert part in text
    assert "reverted" in text


def test_report_starts_with_the_result(tmp_path: Path) -> None:
    """The figure of the last stage is embedded, unless it was changed after the run."""
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
    assert "The only stage is completed and verified." in text
    assert 'src="data:image/svg+xml;base64,' in text
    assert text.index("Summary</h2>") < text.index("Method</h2>") < text.index("Log</h2>")
    told = place.call("report", "-").out
    assert "![stage-1/f.svg](<stage-1/f.svg>)" in told
    assert told.index("## Summary") < told.index("## Method") < told.index("## stage-1")
    (root / "stage-1" / "f.svg").write_text("<svg/>")
    assert "data:image" not in text_of(place, "report")


STUDY: list[dict[str, Any]] = [
    {
        "id": f"stage-{number}",
        "name": name,
        "depends_on": [f"stage-{number - 1}"] if number > 1 else [],
        "inputs": [f"stage-{number - 1}/out.svg"] if number > 1 else ["in.txt"],
        "outputs": [f"stage-{number}/out.svg"],
        "success_criteria": "The drift is below 1e-3.",
        "parameters": {
            "command": f"printf '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" "
            f"height=\"400\"><text x=\"9\" y=\"99\">{name}</text></svg>' > out.svg",
            "verify": f"grep -q '{name}' stage-{number}/out.svg",
            "temperature": 300 + number,
        },
    }
    for number, name in enumerate(("Build", "Melt", "Cool", "Sample", "Analyse"), 1)
]  # fmt: skip


def study(folder: Path, stages: list[dict[str, Any]]) -> Place:
    """Create and run a study, and return its place."""
    place = Place(folder / "study")
    place.path.mkdir()
    (place.path / "in.txt").write_text("in\n")
    plan = {"workflow_id": "study-2026-03-31", "purpose": "Does it melt?", "stages": stages}
    begun = call("--root", str(place.path), "init", str(write_plan(folder, plan)), "--consent",
                 "trust")  # fmt: skip
    assert begun.code == 0, begun
    while place.done("status")["status"] != "completed":  # one session may not be enough
        assert place.call("run").code == 0
    return place


def printed(browser: Browser, place: Place, name: str) -> list[str]:
    """Print the report on A4, store a picture of each page, and return the text of each page."""
    need_programs("pdftoppm", "pdftotext")
    file = place.path / "report.html"
    place.done("export", "report", str(file))
    page, _ = opened(browser, file, 794, "dark")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob(f"print-{name}-*.png"):
        old.unlink()
    paper = PICTURES / f"print-{name}.pdf"
    page.pdf(path=paper, format="A4", prefer_css_page_size=True)
    page.context.close()
    drawn = ["pdftoppm", "-r", "60", "-png", str(paper), str(PICTURES / f"print-{name}")]
    subprocess.run(drawn, check=True)
    text = subprocess.run(["pdftotext", "-layout", paper, "-"], check=True, capture_output=True)
    pages = text.stdout.decode().removesuffix("\f").split("\f")
    assert len(list(PICTURES.glob(f"print-{name}-*.png"))) == len(pages)
    return pages


@pytest.mark.long
@pytest.mark.slow
def test_report_of_five_stages_prints_on_two_to_four_pages(
    browser: Browser, tmp_path: Path
) -> None:
    """The first page has the results with their figure, and the method is complete."""
    place = study(tmp_path, STUDY)
    pages = printed(browser, place, "study")
    whole = " ".join(" ".join(pages).split())
    assert 2 <= len(pages) <= 4
    assert "All 5 stages are completed and verified." in pages[0]
    assert "stage-5/out.svg" in pages[0]
    for stage in STUDY:
        assert f"grep -q '{stage['name']}' {stage['id']}/out.svg" in whole
        digest = sha256((place.path / str(stage["outputs"][0])).read_bytes()).hexdigest()
        assert digest in whole
    assert "Sessions" not in whole
    assert "Evidence of the verdict" not in whole


@pytest.mark.long
@pytest.mark.slow
def test_report_of_a_fan_of_36_stages_prints_on_few_pages(browser: Browser, tmp_path: Path) -> None:
    """The first page has the summary, and only the last page may be nearly empty."""
    one = {"name": "Member", "depends_on": ["stage-1"], "inputs": ["stage-1/out.svg"]}
    ends = [
        {**one, "id": f"stage-{n}", "outputs": [f"stage-{n}/o.txt"],
         "parameters": {"command": f"echo {n} > o.txt", "verify": "true", "seed": n}}
        for n in range(2, 38)
    ]  # fmt: skip
    place = study(tmp_path, [STUDY[0], *ends])
    pages = printed(browser, place, "fan")
    assert len(pages) <= 12
    assert "All 37 stages are completed and verified." in pages[0]
    assert min(len(page.split()) for page in pages[:-1]) > 60
