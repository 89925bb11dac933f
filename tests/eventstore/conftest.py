"""Fixtures: a test that uses the fixture `store` runs with every storage engine."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.store import EventStore
from tests.eventstore.support import ENGINES, Log, fresh_database, opened


@pytest.fixture(params=[*sorted(ENGINES), "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Yield an empty store of each engine in turn."""
    if request.param == "postgresql":
        with closing(opened(request.getfixturevalue("server").log())) as made:
            yield made
    else:
        yield from ENGINES[request.param](tmp_path)


@pytest.fixture(params=["wal", "truncate", "postgresql"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """Return an empty log that several processes can share, for each engine in turn."""
    if request.param == "postgresql":
        return Log(request.getfixturevalue("server").log(), request.param)
    return Log(str(fresh_database(tmp_path)), request.param)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Return the path of an empty SQLite database."""
    return fresh_database(tmp_path)
