"""The documentation covers all commands, formats, events and errors, and its links work."""

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
    """The page lists every event type or error that the code defines."""
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), MADE


def test_changelog_fragments_have_valid_names() -> None:
    """Towncrier would ignore a fragment with another name and omit its change."""
    config = tomllib.loads((HERE / "pyproject.toml").read_text("utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in config["type"])
    for path in (HERE / config["directory"]).iterdir():
        assert re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", path.name), path
        assert path.read_text("utf-8").strip(), path
    assert config["start_string"].strip() in (HERE / config["filename"]).read_text("utf-8")


def told() -> set[str]:
    """Return the commands that the tables of the CLI contract list in their first column.

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
    """Return the commands in a quoted string without their arguments."""
    words = re.match(r"[a-z-]+(?:[ /|\\]+(?!\[)[a-z][a-z-]*)*", quoted)
    assert words, quoted
    return re.split(r" ?/ ?|\\\|", words[0])


@pytest.mark.parametrize("command", sorted(set(load_commands()) - HIDDEN))
def test_every_command_is_listed_in_the_contract(command: str) -> None:
    """Each command is in the first column of a table in the CLI contract (docs/cli.md)."""
    assert any(one == command or one.startswith(f"{command} ") for one in told())


def test_contract_lists_no_unknown_command() -> None:
    """The test reads no word of other columns or of the text as a command."""
    assert told().isdisjoint({"does", "stage does", "wfctl", "person", "reads", "machine reads"})


@pytest.mark.parametrize("format_", FORMATS)
def test_every_export_format_is_documented(format_: str) -> None:
    """The page about exports contains the name of each format."""
    assert f"`{format_}`" in (DOCS / "exports.md").read_text("utf-8")


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(HERE)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """Each relative link leads to an existing file; external links are not checked."""
    names = [name for name in _LINK.findall(page.read_text("utf-8")) if "://" not in name]
    assert [name for name in names if not (page.parent / name).exists()] == []


def test_readme_links_every_page_of_the_docs() -> None:
    """Decisions, protocols and schemas are exempt, because other pages list them."""
    readme = (HERE / "README.md").read_text("utf-8")
    linked = {(HERE / name).resolve() for name in _LINK.findall(readme)}
    folders = ("start", "use", "run", "trust", "develop")
    ours = {page for name in folders for page in (HERE / "docs" / name).glob("*.md")}
    assert {page.relative_to(HERE) for page in ours - linked} == set()


def test_readme_is_short() -> None:
    """The README has at most 600 words, because longer explanations belong in the docs."""
    readme = (HERE / "README.md").read_text("utf-8")
    assert len(readme.split()) <= README_WORDS


#: A quoted file path that is relative to the repository.
_PLACE = re.compile(r"`([a-z_]+/[a-z\d_./-]*)`")


@pytest.mark.parametrize(
    "page",
    [page for name in ("adr", "develop") for page in sorted((HERE / "docs" / name).glob("*.md"))],
    ids=str,
)
def test_files_named_in_developer_pages_exist(page: Path) -> None:
    """Each file path in a developer page or decision record leads to an existing file."""
    named = {
        name for name in _PLACE.findall(page.read_text("utf-8")) if "." in name or name[-1:] == "/"
    }
    assert sorted(name for name in named if not (HERE / name).exists()) == []


#: A row in the list of decision records: its number, file and title.
_RECORD = re.compile(r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", re.MULTILINE)


def test_list_of_decisions_has_every_record() -> None:
    """The list has all decision records in the order of their numbers, with their titles."""
    folder = HERE / "docs" / "adr"
    listed = [
        (file, f"# {number}. {title}")
        for number, file, title in _RECORD.findall((folder / "README.md").read_text("utf-8"))
    ]
    records = sorted(folder.glob("[0-9]*.md"))
    assert listed == [(one.name, one.read_text("utf-8").partition("\n")[0]) for one in records]


@pytest.mark.parametrize("record", sorted((HERE / "docs" / "adr").glob("[0-9]*.md")), ids=str)
def test_decision_record_has_the_parts_of_the_template(record: Path) -> None:
    """Each record has the sections Context, Decision, Alternatives and Consequences."""
    parts = re.findall(r"^## (.+)$", record.read_text("utf-8"), re.MULTILINE)
    assert parts == ["Context", "Decision", "Alternatives", "Consequences"]


def test_glossary_explains_each_word_once() -> None:
    """Each word has only one row in the glossary, so that it has only one meaning."""
    page = (HERE / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ", page, re.MULTILINE)
    words = [word for row in rows for word in row.split(", ") if row != "word"]
    assert sorted(words) == sorted(set(words))
    assert len(words) > 60
