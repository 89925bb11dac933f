"""Take pictures of the pages and a report: ``python -m tests.pages.pictures FOLDER``.

The option ``--readme`` also writes the pictures of the documentation. One of them shows the report
of an example. The option therefore runs all commands of that example, which needs LAMMPS.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.cli.support import HERE, wfctl
from tests.pages.support import Served, served
from tests.tutorial.test_tutorial import follow

DOCS = HERE / "docs" / "use"
EXAMPLE = HERE / "examples" / "lj-diffusion"
WIDE, TALL = 1100, 760
#: Widths in pixels at which the pictures show complete pages: on a desktop and on a phone.
COMPLETE = (1280, 400)
#: Height of the picture in pixels, at which it shows the report's result and decisions.
RESULT = 1270
#: Maximum size of a documentation picture in bytes.
LARGEST = 150_000


def main(folder: Path, *, readme: bool) -> None:
    """Run the demo and take the pictures; raise SystemExit if the demo fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="wfctl-", dir="/tmp") as made, sync_playwright() as playwright:
        root, report = Path(made) / "demo", Path(made) / "report.html"
        for line in (["demo", str(root)], ["--root", str(root), "export", "report", str(report)]):
            answer = wfctl(*line)
            if answer.code != 0:
                sys.exit(answer.err)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        with served(Path(made), "--root", str(root)) as pages:
            _take(browser, pages, folder, report)
        if readme:
            _take_example(browser, Path(made), folder)
        browser.close()
    for name, picture in (("pages", "workflow"), ("report", "example")) if readme else ():
        shutil.copyfile(folder / f"{picture}.png", DOCS / f"{name}.png")
        size = (DOCS / f"{name}.png").stat().st_size
        assert size < LARGEST, size


def _take(browser: Browser, pages: Served, folder: Path, report: Path) -> None:
    context = browser.new_context(viewport={"width": WIDE, "height": TALL})
    name, _, value = pages.cookie.partition("=")
    base = f"http://127.0.0.1:{pages.port}"
    context.add_cookies([{"name": name, "value": value, "url": base}])
    page = context.new_page()
    page.goto(base)
    home = page.locator("section a").first.get_attribute("href")
    shown = {
        "list": base,
        "workflow": f"{base}{home}",
        "stage": f"{base}{home}stage/stage-3",
        "compare": f"{base}{home}compare?a=stage-2&b=stage-3",
        "report": report.as_uri(),
    }
    for picture, address in shown.items():
        page.goto(address)
        page.wait_for_load_state("load")
        if address.startswith(base):
            expect(page.locator("#said")).to_have_text("live", timeout=10_000)
        page.screenshot(path=folder / f"{picture}.png")
        print(folder / f"{picture}.png")
        _take_complete(page, folder, picture)
    context.close()


def _take_complete(page: Page, folder: Path, picture: str) -> None:
    """Take pictures of the complete page on a desktop, on a phone and on paper."""
    size = page.viewport_size
    for width in COMPLETE:
        page.set_viewport_size({"width": width, "height": TALL})
        page.screenshot(path=folder / f"{picture}-{width}.png", full_page=True)
    page.pdf(path=folder / f"{picture}.pdf", format="A4")
    if size is not None:
        page.set_viewport_size(size)


def _take_example(browser: Browser, made: Path, folder: Path) -> None:
    """Run the commands of the example's README, and take a picture of the report."""
    place, report = made / "lj-diffusion", made / "lj-diffusion.html"
    shutil.copytree(EXAMPLE, place)
    follow(EXAMPLE / "README.md", place, made / "home", agrees=True)
    answer = wfctl("--root", str(place), "export", "report", str(report))
    if answer.code != 0:
        sys.exit(answer.err)
    page = browser.new_page(viewport={"width": WIDE, "height": RESULT})
    page.goto(report.as_uri())
    page.screenshot(path=folder / "example.png")
    print(folder / "example.png")
    _take_complete(page, folder, "example")


if __name__ == "__main__":
    where = [one for one in sys.argv[1:] if not one.startswith("--")]
    main(Path(where[0] if where else "build/pictures"), readme="--readme" in sys.argv)
