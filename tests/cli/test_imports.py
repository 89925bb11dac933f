"""What a command loads is decided, as every call pays for it."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.cli.imports import ON_FILE, OPENED, READS, WRITES, Loaded, a_root, lines

LISTED: dict[str, list[str]] = json.loads(ON_FILE.read_text("utf-8"))
#: What no command on SQLite waits for, unless it migrates, asks in SQL, or paints a screen.
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
    """Make two workflows: one to read and one to write, which no read then finds changed."""
    folder = tmp_path_factory.mktemp("imports")
    for kind in ("read", "written"):
        (folder / kind).mkdir()
        a_root(folder / kind)
    return folder


@cache
def loaded(folder: Path, name: str) -> Loaded:
    """Return what a command loads; each is called once."""
    return Loaded(folder / ("written" if name in WRITES else "read"), lines()[name])


@pytest.mark.parametrize("name", lines())
def test_a_command_loads_what_is_on_its_list_and_nothing_more(place: Path, name: str) -> None:
    """Anyone who adds to it decides that every call pays for it (see tests/cli/imports.py)."""
    assert sorted(loaded(place, name).names - set(LISTED[name])) == []


@pytest.mark.parametrize("name", lines())
def test_no_command_waits_for_what_it_does_not_need(place: Path, name: str) -> None:
    """Tables, migrations, servers and colours are for those who ask for them."""
    assert loaded(place, name).packages & HEAVY == set()


@pytest.mark.parametrize("name", READS)
def test_a_command_that_reads_loads_no_model(place: Path, name: str) -> None:
    """Nothing is validated that was validated when it was written."""
    found = loaded(place, name)
    assert (found.packages & {"pydantic", "pydantic_core"}, found.built) == (set(), [])


@pytest.mark.parametrize("name", WRITES)
def test_a_command_that_writes_builds_the_models_of_its_events(place: Path, name: str) -> None:
    """And those of no others."""
    assert loaded(place, name).built == WRITES[name][1]


@pytest.mark.parametrize("name", [name for name, (_, built) in WRITES.items() if not built])
def test_a_flat_command_loads_no_pydantic(place: Path, name: str) -> None:
    """Its data is checked by the shape of its type, which is held equal to the model."""
    assert loaded(place, name).packages & {"pydantic", "pydantic_core"} == set()


@pytest.mark.parametrize("name", OPENED)
def test_a_command_opens_each_file_of_its_root_as_often_as_is_said(place: Path, name: str) -> None:
    """Each is a round trip where the root is on a network; the log is opened for one question."""
    assert loaded(place, name).opened - Counter(OPENED[name]) == Counter()
