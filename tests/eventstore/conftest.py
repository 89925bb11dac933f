"""The contract's store: every test that asks for `store` runs over every engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eventstore.store import EventStore
from tests.eventstore.support import ENGINES, fresh_database


@pytest.fixture(params=sorted(ENGINES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """An empty store of each engine in turn."""
    yield from ENGINES[request.param](tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The path of an empty SQLite database."""
    return fresh_database(tmp_path)
