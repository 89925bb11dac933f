"""The docs name all existing commands, formats, events and errors, and their links are valid."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.program.commands import HIDDEN, load_commands
from extensions.exports.formats import FORMATS
from tests.reference_pages import DOCS, PAGES

HERE = Path(__file__).resolve().parents[1]
CONTRACT = (HERE / "docs" / "cli.md").read_text("utf-8")
README_WORDS = 600
MADE = "write it anew: python -m tests.reference_pages"
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def pages() -> Iterator[Path]:
    """Yield every page of the documentation."""
    for folder in ("docs", "examples", "plugin"):
        yield from sorted((HERE / folder).rglob("*.md"))
    yield from sorted(HERE.glob("*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_matches_the_code(name: str) -> None:
    """The page is generated, so new events and errors are never missing."""
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), MADE


def test_changelog_fragments_have_valid_names() -> None:
    """Towncrier ignores a file with another name, so its change would be missing."""
    config = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in config["type"])
    for path in (HERE / config["directory"]).iterdir():
        assert re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", path.name), path
        assert path.read_text("utf-8").strip(), path
    assert config["start_string"].strip() in (HERE / config["filename"]).read_text("utf-8")


def told() -> set[str]:
    """Return the commands in the first cells of the contract's tables.

    A cell may list several commands, separated by a dot or a slash, with the group only once.
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
    """Return the commands in one quotation, without their arguments."""
    words = re.match(r"[a-z-]+(?:[ /|\\]+(?!\[)[a-z][a-z-]*)*", quoted)
    assert words, quoted
    return re.split(r" ?/ ?|\\\|", words[0])


@pytest.mark.parametrize("command", sorted(set(load_commands()) - HIDDEN))
def test_every_command_is_listed_in_the_contract(command: str) -> None:
    """The command must be in the first cell of a row, not only in the text of the page."""
    assert any(one == command or one.startswith(f"{command} ") for one in told())


def test_contract_lists_no_unknown_command() -> None:
    """Words in other cells and in the text are not read as commands."""
    assert told().isdisjoint({"does", "stage does", "wfctl", "person", "reads", "machine reads"})


@pytest.mark.parametrize("format_", FORMATS)
def test_every_export_format_is_documented(format_: str) -> None:
    """The page of exports names the format."""
    assert f"`{format_}`" in (DOCS / "exports.md").read_text("utf-8")


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(HERE)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """External links are not checked."""
    names = [name for name in _LINK.findall(page.read_text("utf-8")) if "://" not in name]
    assert [name for name in names if not (page.parent / name).exists()] == []


def test_readme_links_every_page_of_the_docs() -> None:
    """Decisions, protocols and schemas are excluded, because another page lists them."""
    readme = (HERE / "README.md").read_text("utf-8")
    linked = {(HERE / name).resolve() for name in _LINK.findall(readme)}
    folders = ("start", "use", "run", "trust", "develop")
    ours = {page for name in folders for page in (HERE / "docs" / name).glob("*.md")}
    assert {page.relative_to(HERE) for page in ours - linked} == set()


def test_readme_is_short() -> None:
    """Longer explanations belong in the docs."""
    readme = (HERE / "README.md").read_text("utf-8")
    assert len(readme.split()) <= README_WORDS


#: A path from the top of the repository.
_PLACE = re.compile(r"`([a-z_]+/[a-z\d_./-]*)`")


@pytest.mark.parametrize(
    "page",
    [page for name in ("adr", "develop") for page in sorted((HERE / "docs" / name).glob("*.md"))],
    ids=str,
)
def test_files_named_in_developer_pages_exist(page: Path) -> None:
    """Moving a file makes this test fail for the pages that name it."""
    named = {
        name for name in _PLACE.findall(page.read_text("utf-8")) if "." in name or name[-1:] == "/"
    }
    assert sorted(name for name in named if not (HERE / name).exists()) == []


#: A row in the list of decisions: number, file and title.
_RECORD = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", re.MULTILINE)


def test_list_of_decisions_has_every_record() -> None:
    """The records are listed in the order of their numbers, with their titles."""
    folder = HERE / "docs" / "adr"
    listed = [
        (file, f"# {number}. {title}")
        for number, file, title in _RECORD.findall((folder / "README.md").read_text("utf-8"))
    ]
    records = sorted(folder.glob("[0-9]*.md"))
    assert listed == [(one.name, one.read_text("utf-8").partition("\n")[0]) for one in records]


@pytest.mark.parametrize("record", sorted((HERE / "docs" / "adr").glob("[0-9]*.md")), ids=str)
def test_decision_record_has_the_parts_of_the_template(record: Path) -> None:
    """The parts are context, decision, alternatives and consequences."""
    parts = re.findall(r"^## (.+)$", record.read_text("utf-8"), re.MULTILINE)
    assert parts == ["Context", "Decision", "Alternatives", "Consequences"]


def test_glossary_explains_each_word_once() -> None:
    """A word must not have two meanings."""
    page = (HERE / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ", page, re.MULTILINE)
    words = [word for row in rows for word in row.split(", ") if row != "word"]
    assert sorted(words) == sorted(set(words))
    assert len(words) > 60
