"""The history as tables: a cache with its checkpoint, the same however it was made."""

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
from eventstore.event import instants
from eventstore.sqlite.store import open_store
from migrations.upgrade import database_of, upgrade
from projections.history.tables import history
from service.sql.tables import HistoryTables, Rows
from tests.adoption import support as s
from tests.history.chronicle import DEEDS, FAIL, ONWARD, Chronicle
from tests.history.support import imported_log
from tests.service.test_any_history import DEPENDENCIES, plan

Tables = dict[str, list[dict[str, Any]]]
IN_A_ROW = (["stage-1"], ["stage-2"])


def all_rows(path: Path) -> Tables:
    """Return every row of every table, in the order of their keys."""
    with database_of(path).reading() as connection:
        return {
            name: [dict(row._mapping) for row in connection.execute(
                select(table).order_by(*table.primary_key)
            )]
            for name, table in history.tables.items()
        }  # fmt: skip


def expected(tables: HistoryTables) -> Tables:
    """Return the rows that a fold in memory yields."""
    rows = united(tables.folded())
    return {name: [found[key] for key in sorted(found)] for name, found in rows.items()}


def united(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts; none may come twice."""
    found: Rows = {}
    for part in parts:
        for name, rows in part.items():
            known = found.setdefault(name, {})
            assert not known.keys() & rows.keys()
            known.update(rows)
    return found


@pytest.fixture
def chronicle(tmp_path: Path) -> Iterator[Chronicle]:
    """Return a workflow in a file, its log still to be lived."""
    with closing(kept_in(tmp_path / "events.db")) as found:
        yield found


class Kept(Chronicle):
    """A chronicle in a file."""

    def close(self) -> None:
        """Close its store."""
        self.store.close()


def kept_in(path: Path, depends: Any = IN_A_ROW) -> Kept:
    """Return a chronicle in a new file."""
    path.unlink(missing_ok=True)
    upgrade(path)
    made: list[Kept] = []
    store = open_store(path, schema=SCHEMA, clock=instants(lambda: made[0].now))
    made.append(Kept.__new__(Kept))
    made[0].begin(plan(depends), store)
    return made[0]


@pytest.mark.forged  # among the deeds are charges that no session asks for
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DEPENDENCIES, st.lists(st.lists(DEEDS, max_size=8), min_size=1, max_size=4))
def test_caught_up_in_steps_dropped_and_rebuilt_or_folded_are_the_same_rows(
    tmp_path: Path, depends: Any, parts: list[list[Any]]
) -> None:
    """Whatever happened, and wherever the checkpoints came to lie."""
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


def test_the_rows_of_the_log_come_in_parts(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the log is, the rows of few events are held at a time; together they are all."""
    assert chronicle.do(ONWARD)
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    whole = expected(tables)
    monkeypatch.setattr("service.sql.tables.CHUNK", 2)
    parts = list(tables.folded())
    assert len(parts) > chronicle.head // 2
    assert max(len(part.get("history_events", {})) for part in parts) == 2
    assert expected(tables) == whole


def test_a_catch_up_reads_nothing_but_what_is_new(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the log is: from the checkpoint on, and from the state kept there."""
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    tables.catch_up()
    head, read = chronicle.head, chronicle.log.store.read
    assert chronicle.do(ONWARD)
    asked: list[int] = []

    def watched(stream: str, *, after: int = 0, upto: int | None = None) -> Any:
        if upto != 1:  # the first event tells by which policy consent is given
            asked.append(after)
        return read(stream, after=after, upto=upto)

    monkeypatch.setattr(chronicle.log.store, "read", watched)
    assert tables.catch_up() == chronicle.head - head
    assert tables.catch_up() == 0
    assert min(asked) == head


def test_two_at_once_leave_the_rows_once(chronicle: Chronicle, tmp_path: Path) -> None:
    """The slower one finds the checkpoint moved, and leaves it."""
    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    for deed in (ONWARD, FAIL, ONWARD):
        assert chronicle.do(deed)
    for started in (tables.checkpoint(), None):
        slow = started or tables.checkpoint()
        HistoryTables(tables.address, chronicle.log).catch_up()
        once = all_rows(tmp_path / "events.db")
        tables._go_on(slow)
        assert all_rows(tmp_path / "events.db") == once
        assert chronicle.do(ONWARD)


def test_rows_of_another_format_are_made_anew(
    chronicle: Chronicle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer program goes on from none of an older one's."""
    from service.sql import tables as module

    tables = HistoryTables(tmp_path / "events.db", chronicle.log)
    tables.catch_up()
    once = all_rows(tmp_path / "events.db")
    monkeypatch.setattr(module, "VERSION", 10**9)
    assert tables.checkpoint().version == 0
    assert tables.catch_up() == chronicle.head
    assert all_rows(tmp_path / "events.db") == once


def test_the_tables_of_one_stream_are_its_own(chronicle: Chronicle, tmp_path: Path) -> None:
    """A rebuild leaves what belongs to another."""
    path = tmp_path / "events.db"
    HistoryTables(path, chronicle.log).catch_up()
    with database_of(path).writing() as connection:
        row = {"stream": "other", "version": 1, "actor": "user:x", "command_id": "c",
               "occurred_at": "t"}  # fmt: skip
        connection.execute(history.tables["history_events"].insert(), row)
    HistoryTables(path, chronicle.log).rebuild()
    streams = {row["stream"] for row in all_rows(path)["history_events"]}
    assert streams == {"other", "workflow-w"}


@pytest.mark.slow
@pytest.mark.parametrize("name", s.STATES)
def test_an_imported_history_has_its_tables(name: str, tmp_path: Path) -> None:
    """Projected, dropped and projected again; every status of its state is the last transition."""
    with imported_log(name, tmp_path, writable=True) as log:
        path = tmp_path / "root/.wfctl/events.db"
        tables = HistoryTables(path, log)
        count = tables.catch_up()
        rows = all_rows(path)
        assert tables.rebuild() == count == log.current().head
        assert all_rows(path) == rows
        last = {row["stage"]: row["to_status"] for row in rows["history_transitions"]}
        assert last == {id_: stage.status for id_, stage in log.current().stages.items()}
