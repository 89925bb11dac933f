"""Each command loads only listed modules, because loading a module slows down every call."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.cli.imports import ON_FILE, OPENED, READS, WRITES, Loaded, a_root, lines

LISTED: dict[str, list[str]] = json.loads(ON_FILE.read_text("utf-8"))
#: Slow packages, which a command on SQLite may load only to migrate, to query SQL, or to draw a
#: screen.
HEAVY = {
    "alembic",
    "asyncio",
    "dpdispatcher",
    "email",
    "jinja2",
    "psycopg",
    "rich",
    "sqlalchemy",
    "yaml",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create two workflows: one for reading commands, and one for writing commands."""
    folder = tmp_path_factory.mktemp("imports")
    for kind in ("read", "written"):
        (folder / kind).mkdir()
        a_root(folder / kind)
    return folder


@cache
def loaded(folder: Path, name: str) -> Loaded:
    """Return what a command loads, and call each command only once."""
    return Loaded(folder / ("written" if name in WRITES else "read"), lines()[name])


@pytest.mark.parametrize("name", lines())
def test_command_loads_only_its_listed_modules(place: Path, name: str) -> None:
    """Each module that a command loads is in its list (see tests/cli/imports.py)."""
    assert sorted(loaded(place, name).names - set(LISTED[name])) == []


@pytest.mark.parametrize("name", lines())
def test_command_loads_no_unneeded_heavy_package(place: Path, name: str) -> None:
    """Only commands that need tables, migrations, servers or colours load their packages."""
    assert loaded(place, name).packages & HEAVY == set()


@pytest.mark.parametrize("name", READS)
def test_reading_command_builds_no_model(place: Path, name: str) -> None:
    """A command that only reads builds no pydantic model, because stored events are valid."""
    found = loaded(place, name)
    assert (found.packages & {"pydantic", "pydantic_core"}, found.built) == (set(), [])


@pytest.mark.parametrize("name", WRITES)
def test_writing_command_builds_only_the_models_of_its_events(place: Path, name: str) -> None:
    """A command that writes builds no pydantic model of another event type."""
    assert loaded(place, name).built == WRITES[name][1]


@pytest.mark.parametrize("name", [name for name, (_, built) in WRITES.items() if not built])
def test_command_with_flat_data_loads_no_pydantic(place: Path, name: str) -> None:
    """A simple type description checks flat event data, so the command needs no pydantic."""
    assert loaded(place, name).packages & {"pydantic", "pydantic_core"} == set()


@pytest.mark.parametrize("name", OPENED)
def test_command_opens_each_file_the_expected_number_of_times(place: Path, name: str) -> None:
    """A command opens no file more often than listed: each open is slow on a network disk."""
    assert loaded(place, name).opened - Counter(OPENED[name]) == Counter()
