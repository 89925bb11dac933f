"""The docs name what there is: commands, formats, events, errors; and their links lead on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program.examples import EXAMPLES
from projections.exports.formats import FORMATS
from tests.reference_pages import DOCS, PAGES

HERE = Path(__file__).resolve().parents[1]
CONTRACT = (HERE / "docs" / "cli.md").read_text("utf-8")
MADE = "write it anew: python -m tests.reference_pages"
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def pages() -> Iterator[Path]:
    """Yield every page for people."""
    for folder in ("docs", "examples", "plugin"):
        yield from sorted((HERE / folder).rglob("*.md"))
    yield from sorted(HERE.glob("*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_lists_the_code_says_what_the_code_has(name: str) -> None:
    """Nobody edits it by hand, and nothing new is left out."""
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), MADE


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_every_command_stands_in_the_contract(command: str) -> None:
    """A word of it after `wfctl`, after a bar or after a dot between two."""
    group, _, own = command.rpartition(" ")
    rows = [line for line in CONTRACT.splitlines() if not group or group.split()[-1] in line]
    assert any(re.search(rf"(?<![\w-]){re.escape(own)}(?![\w-])", row) for row in rows), command


@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_stands_on_the_page_of_exports(format_: str) -> None:
    """With what it is for."""
    assert f"`{format_}`" in (DOCS / "exports.md").read_text("utf-8")


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(HERE)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    """Within the project; what is elsewhere is not ours to hold."""
    names = [name for name in _LINK.findall(page.read_text("utf-8")) if "://" not in name]
    assert [name for name in names if not (page.parent / name).exists()] == []


def test_every_page_of_the_docs_is_linked_from_the_readme() -> None:
    """But those that another page stands for: decisions, protocols, schemas."""
    readme = (HERE / "README.md").read_text("utf-8")
    linked = {(HERE / name).resolve() for name in _LINK.findall(readme)}
    folders = ("start", "use", "run", "trust", "develop")
    ours = {page for name in folders for page in (HERE / "docs" / name).glob("*.md")}
    assert {page.relative_to(HERE) for page in ours - linked} == set()


#: A path from the top; words in capitals stand for any name.
_PLACE = re.compile(r"`([a-z_]+/[a-z\d_./-]*)`")


@pytest.mark.parametrize("page", sorted((HERE / "docs" / "develop").glob("*.md")), ids=str)
def test_every_file_that_a_page_for_developers_names_is_there(page: Path) -> None:
    """Whoever moves a file finds the pages that lead to it."""
    named = {
        name for name in _PLACE.findall(page.read_text("utf-8")) if "." in name or name[-1:] == "/"
    }
    assert sorted(name for name in named if not (HERE / name).exists()) == []
