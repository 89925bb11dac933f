"""Pictures of the pages and the report, of the demo: ``python -m tests.pages.pictures FOLDER``.

The one of the README is written anew as well where it is asked for: ``--readme``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from tests.cli.support import HERE, wfctl
from tests.pages.support import Served, served

README = HERE / "docs" / "use" / "pages.png"
WIDE, TALL = 1100, 760
#: Bytes that a picture of the README has at most.
LARGEST = 150_000


def main(folder: Path, *, readme: bool) -> None:
    """Run the demo and take the pictures; raises SystemExit where the demo fails."""
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
        browser.close()
    if readme:
        shutil.copyfile(folder / "workflow.png", README)
        assert README.stat().st_size < LARGEST, README.stat().st_size


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
        "report": report.as_uri(),
    }
    for picture, address in shown.items():
        page.goto(address)
        page.wait_for_load_state("load")
        page.screenshot(path=folder / f"{picture}.png")
        print(folder / f"{picture}.png")
    context.close()


if __name__ == "__main__":
    where = [one for one in sys.argv[1:] if not one.startswith("--")]
    main(Path(where[0] if where else "build/pictures"), readme="--readme" in sys.argv)
