"""The first example of a documentation page runs, and so do the commands shown for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tutorial.test_tutorial import ROOT, follow

DOCS = ROOT / "docs"
#: Commands that only work while a loop has not ended.
_OF_OPEN_LOOP = ("wfctl round propose", "wfctl round stop")


def find_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in the given language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run_commands(tmp_path: Path, commands: list[str], files: dict[str, str]) -> None:
    """Create a workflow from the files, run it, and then run the commands in it."""
    place = tmp_path / "root"
    place.mkdir()
    for name, text in files.items():
        (place / name).write_text(text)
    lines = ["wfctl init plan.toml", "wfctl run", *commands]
    page = tmp_path / "page.md"
    page.write_text("```console\n" + "".join(f"$ {line}\n" for line in lines) + "```\n")
    follow(page, place, tmp_path / "home", agrees=True)


@pytest.mark.slow
@pytest.mark.long
def test_example_of_the_page_on_plans_prints_the_shown_result(
    tmp_path: Path,
) -> None:
    """All commands of the page run with its first plan and print the shown result."""
    page = DOCS / "start" / "plans.md"
    place = tmp_path / "root"
    place.mkdir()
    (place / "plan.toml").write_text(find_blocks(page.read_text("utf-8"), "toml")[0])
    follow(page, place, tmp_path / "home", agrees=True)


@pytest.mark.slow
@pytest.mark.long
def test_both_stages_of_the_page_on_sweeps_run(tmp_path: Path) -> None:
    """The second stage has one task for each task of the first stage (`like`)."""
    page = (DOCS / "use" / "sweeps.md").read_text("utf-8")
    commands = find_blocks(page, "sh")[0].splitlines()
    run_commands(tmp_path, commands, {"plan.toml": "\n".join(find_blocks(page, "toml"))})
    rows = (tmp_path / "root" / "stage-2" / "tasks.csv").read_text().splitlines()
    assert len(rows) == 1 + 30


@pytest.mark.slow
@pytest.mark.long
def test_loop_of_the_page_on_rounds_finds_the_minimum(tmp_path: Path) -> None:
    """The optimizer of the page chooses the points of two rounds."""
    page = (DOCS / "use" / "rounds.md").read_text("utf-8")
    shown = find_blocks(page, "sh")[0].splitlines()
    commands = [line for line in shown if not line.startswith(_OF_OPEN_LOOP)]
    assert len(shown) - len(commands) == len(_OF_OPEN_LOOP)
    plan, script = find_blocks(page, "toml")[0], find_blocks(page, "python")[0]
    run_commands(tmp_path, commands, {"plan.toml": plan, "propose.py": script})
    best = (tmp_path / "root" / "propose" / "best.csv").read_text()
    assert float(best.split()[1]) < 1e-3
