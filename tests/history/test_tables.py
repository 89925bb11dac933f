"""The history tables are a cache of the log with a checkpoint.

They are equal whether they were updated, rebuilt or computed in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from cli.frame.workspace import SCHEMA
from eventstore.event import build_clock
from eventstore.sqlite.store import open_store
from extensions.history.sql_tables import HistoryTables, Rows
from extensions.history.table_schema import history
from migrations.upgrade import select_migration_database, upgrade_database
from tests.adoption import support as s
from tests.history.chronicle import DEEDS, FAIL, ONWARD, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import DEPENDENCIES, plan

Tables = dict[str, list[dict[str, Any]]]
IN_A_ROW = (["stage-1"], ["stage-2"])


def all_rows(path: Path) -> Tables:
    """Return all rows of all tables, sorted by key."""
    with select_migration_database(path).reading() as connection:
        return {
            name: [dict(row._mapping) for row in connection.execute(
                select(table).order_by(*table.primary_key)
            )]
            for name, table in history.tables.items()
        }  # fmt: skip


def expected(tables: HistoryTables) -> Tables:
    """Return the rows that a fold in memory gives."""
    rows = united(tables.iterate_rows_from_log())
    return {name: [found[key] for key in sorted(found)] for name, found in rows.items()}


def united(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts, and check that no row occurs twice."""
    found: Rows = {}
    for part in parts:
        for name, rows in part.items():
            known = found.setdefault(name, {})
            assert not known.keys() & rows.keys()
            known.update(rows)
    return found


@pytest.fixture
def chronicle(tmp_path: Path) -> Iterator[Chronicle]:
    """Return a new workflow whose log is in a file."""
    with closing(kept_in(tmp_path / "events.db")) as found:
        yield found


class Kept(Chronicle):
    """A workflow log in a file."""

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def kept_in(path: Path, depends: Any = IN_A_ROW) -> Kept:
    """Return a new workflow log in a file."""
    path.unlink(missing_ok=True)
    upgrade_database(path)
    made: list[Kept] = []
    store = open_store(path, schema=SCHEMA, clock=build_clock(lambda: made[0].now))
    made.append(Kept.__new__(Kept))
    made[0].begin(plan(depends), store)
    return made[0]


@pytest.mark.forged  # The events include charges that no session asks for.
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DEPENDENCIES, st.lists(st.lists(DEEDS, max_size=8), min_size=1, max_size=4))
def test_updated_rebuilt_and_folded_tables_are_equal(
    tmp_path: Path, depends: Any, parts: list[list[Any]]
) -> None:
    """The tables are equal for any history and for any position of the checkpoints."""
    path = tmp_path / "events.db"
    with closing(kept_in(path, depends)) as chronicle:
        tables = HistoryTables(path, chronicle.log)
        for deeds in parts:
            for deed, minutes in deeds:
                chronicle.do(deed, minutes)
            tables.catch_up()
        caught_up = all_rows(path)
        assert tables.rebuild() == chronicle.head
        assert all_rows(path) == caught_up
        assert {name: rows for name, rows in caught_up.items() if rows} == expected(tables)


def test_folded_rows_are_yielded_in_parts(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part has the rows of few events, and all parts together are complete."""
    assert chronicle.do(ONWARD)
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    whole = expected(tables)
    monkeypatch.setattr("extensions.history.sql_tables.CHUNK", 2)
    parts = list(tables.iterate_rows_from_log())
    assert len(parts) > chronicle.head // 2
    assert max(len(part.get("history_events", {})) for part in parts) == 2
    assert expected(tables) == whole


def test_catch_up_reads_only_new_events(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update starts from the checkpoint and the state saved there."""
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    tables.catch_up()
    head, read = chronicle.head, chronicle.log.store.read
    assert chronicle.do(ONWARD)
    asked: list[int] = []

    def watched(stream: str, *, after: int = 0, upto: int | None = None) -> Any:
        if upto != 1:  # The first event states the consent policy.
            asked.append(after)
        return read(stream, after=after, upto=upto)

    monkeypatch.setattr(chronicle.log.store, "read", watched)
    assert tables.catch_up() == chronicle.head - head
    assert tables.catch_up() == 0
    assert min(asked) == head


def test_concurrent_updates_write_each_row_once(chronicle: Chronicle, tmp_path: Path) -> None:
    """The slower update finds that the checkpoint moved, and stops."""
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    for deed in (ONWARD, FAIL, ONWARD):
        assert chronicle.do(deed)
    for started in (tables.checkpoint(), None):
        slow = started or tables.checkpoint()
        HistoryTables(tables.address, chronicle.log).catch_up()
        once = all_rows(tmp_path / "events.db")
        tables._process_new_events(slow)
        assert all_rows(tmp_path / "events.db") == once
        assert chronicle.do(ONWARD)


def test_tables_of_an_older_format_are_rebuilt(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer program ignores an older program's checkpoint and writes all rows again."""
    from extensions.history import sql_tables as module

    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    tables.catch_up()
    once = all_rows(tmp_path / "events.db")
    monkeypatch.setattr(module, "VERSION", 10**9)
    assert tables.checkpoint().version == 0
    assert tables.catch_up() == chronicle.head
    assert all_rows(tmp_path / "events.db") == once


def test_rebuild_keeps_rows_of_other_streams(chronicle: Chronicle, tmp_path: Path) -> None:
    """A rebuild of one event stream's tables keeps the rows of other streams."""
    path = tmp_path / "events.db"
    HistoryTables(path, chronicle.log).catch_up()
    with select_migration_database(path).writing() as connection:
        row = {"stream": "other", "version": 1, "actor": "user:x", "command_id": "c",
               "occurred_at": "t"}  # fmt: skip
        connection.execute(history.tables["history_events"].insert(), row)
    HistoryTables(path, chronicle.log).rebuild()
    streams = {row["stream"] for row in all_rows(path)["history_events"]}
    assert streams == {"other", "workflow-w"}


@pytest.mark.slow
@pytest.mark.parametrize("name", s.STATES)
def test_imported_history_is_projected_into_tables(name: str, tmp_path: Path) -> None:
    """The last transition of each stage matches its status, and a rebuild gives equal rows."""
    with imported_log(name, tmp_path, writable=True) as log:
        path = tmp_path / "root/.wfctl/events.db"
        tables = HistoryTables(path, log)
        count = tables.catch_up()
        rows = all_rows(path)
        assert tables.rebuild() == count == log.current().head
        assert all_rows(path) == rows
        last = {row["stage"]: row["to_status"] for row in rows["history_transitions"]}
        assert last == {id_: stage.status for id_, stage in log.current().stages.items()}
