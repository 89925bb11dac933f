"""Each command loads only listed modules, because every call pays for the load time."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.cli.imports import ON_FILE, OPENED, READS, WRITES, Loaded, a_root, lines

LISTED: dict[str, list[str]] = json.loads(ON_FILE.read_text("utf-8"))
#: Packages that a SQLite command loads only to migrate, to query SQL, or to draw a screen.
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
    """A new module slows down every call (see tests/cli/imports.py)."""
    assert sorted(loaded(place, name).names - set(LISTED[name])) == []


@pytest.mark.parametrize("name", lines())
def test_command_loads_no_unneeded_heavy_package(place: Path, name: str) -> None:
    """Only commands that need tables, migrations, servers or colours load their packages."""
    assert loaded(place, name).packages & HEAVY == set()


@pytest.mark.parametrize("name", READS)
def test_reading_command_builds_no_model(place: Path, name: str) -> None:
    """Stored events were validated when they were written."""
    found = loaded(place, name)
    assert (found.packages & {"pydantic", "pydantic_core"}, found.built) == (set(), [])


@pytest.mark.parametrize("name", WRITES)
def test_writing_command_builds_only_the_models_of_its_events(place: Path, name: str) -> None:
    """No model of another event type is built."""
    assert loaded(place, name).built == WRITES[name][1]


@pytest.mark.parametrize("name", [name for name, (_, built) in WRITES.items() if not built])
def test_command_with_flat_data_loads_no_pydantic(place: Path, name: str) -> None:
    """A type description checks the data, and another test compares it with the model."""
    assert loaded(place, name).packages & {"pydantic", "pydantic_core"} == set()


@pytest.mark.parametrize("name", OPENED)
def test_command_opens_each_file_the_expected_number_of_times(place: Path, name: str) -> None:
    """Each open is a round trip if the root is on a network disk."""
    assert loaded(place, name).opened - Counter(OPENED[name]) == Counter()
