"""The docs name what there is: commands, formats, events, errors; and their links lead on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program.commands import COMMANDS, HIDDEN
from projections.exports.formats import FORMATS
from tests.reference_pages import DOCS, PAGES

HERE = Path(__file__).resolve().parents[1]
CONTRACT = (HERE / "docs" / "cli.md").read_text("utf-8")
README_WORDS = 600
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


def test_every_fragment_of_the_changelog_is_of_a_kind_that_a_release_shows() -> None:
    """Towncrier passes over a file of another name, and nobody would hear of the change."""
    config = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in config["type"])
    for path in (HERE / config["directory"]).iterdir():
        assert re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", path.name), path
        assert path.read_text("utf-8").strip(), path
    assert config["start_string"].strip() in (HERE / config["filename"]).read_text("utf-8")


def told() -> set[str]:
    """Return the commands that the first cells of the contract's tables name.

    Several stand in one cell, with a dot or a slash between; the group is said once.
    """
    rows = [line.split(" | ")[0] for line in CONTRACT.splitlines() if line.startswith("| `wfctl ")]
    found: set[str] = set()
    for row in rows:
        group = ""
        for quoted in re.findall(r"`([^`]+)`", row):
            named = _named(quoted.removeprefix("wfctl "))
            group = named[0].partition(" ")[0] if quoted.startswith("wfctl ") else group
            first, *others = named
            found |= {
                first,
                f"{group} {first}",
                *(f"{first.partition(' ')[0]} {o}" for o in others),
            }
    return found


def _named(quoted: str) -> list[str]:
    """Return the commands of one quotation, without what they are given."""
    words = re.match(r"[a-z-]+(?:[ /|\\]+(?!\[)[a-z][a-z-]*)*", quoted)
    assert words, quoted
    return re.split(r" ?/ ?|\\\|", words[0])


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - HIDDEN))
def test_every_command_stands_in_the_contract(command: str) -> None:
    """As a command, in the first cell of a row; a word of the page does not count."""
    assert any(one == command or one.startswith(f"{command} ") for one in told())


def test_a_command_that_there_is_not_stands_nowhere_in_the_contract() -> None:
    """Words of other cells, and of the pages around the tables, are no commands."""
    assert told().isdisjoint({"does", "stage does", "wfctl", "person", "reads", "machine reads"})


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


def test_the_readme_is_read_in_three_minutes() -> None:
    """What is said at length stands in the docs."""
    readme = (HERE / "README.md").read_text("utf-8")
    assert len(readme.split()) <= README_WORDS


#: A path from the top; words in capitals stand for any name.
_PLACE = re.compile(r"`([a-z_]+/[a-z\d_./-]*)`")


@pytest.mark.parametrize(
    "page",
    [page for name in ("adr", "develop") for page in sorted((HERE / "docs" / name).glob("*.md"))],
    ids=str,
)
def test_every_file_that_a_page_for_developers_names_is_there(page: Path) -> None:
    """Anyone who moves a file finds the pages that lead to it."""
    named = {
        name for name in _PLACE.findall(page.read_text("utf-8")) if "." in name or name[-1:] == "/"
    }
    assert sorted(name for name in named if not (HERE / name).exists()) == []


#: A link of the list of decisions: its number, file and title.
_RECORD = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", re.MULTILINE)


def test_the_list_of_decisions_has_every_record_by_its_title() -> None:
    """In the order of their numbers, each with the sentence that it begins with."""
    folder = HERE / "docs" / "adr"
    listed = [
        (file, f"# {number}. {title}")
        for number, file, title in _RECORD.findall((folder / "README.md").read_text("utf-8"))
    ]
    records = sorted(folder.glob("[0-9]*.md"))
    assert listed == [(one.name, one.read_text("utf-8").partition("\n")[0]) for one in records]


@pytest.mark.parametrize("record", sorted((HERE / "docs" / "adr").glob("[0-9]*.md")), ids=str)
def test_a_record_has_the_four_parts_of_the_template(record: Path) -> None:
    """Context, decision, what was weighed, consequences."""
    parts = re.findall(r"^## (.+)$", record.read_text("utf-8"), re.MULTILINE)
    assert parts == ["Context", "Decision", "Weighed", "Consequences"]


def test_no_two_rows_of_the_glossary_explain_one_word() -> None:
    """A word that means two things is two words."""
    page = (HERE / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ", page, re.MULTILINE)
    words = [word for row in rows for word in row.split(", ") if row != "word"]
    assert sorted(words) == sorted(set(words))
    assert len(words) > 100
