"""Keep SQL tables of a workflow's history, and compute the same rows from the log.

A checkpoint contains the version that the tables have reached, the state at this version, and the
data that later rows need. It is written in the same transaction as the rows, so both always agree.
The tables are intended for other programs, which may also have changed them. Queries of wfctl
therefore use rows that are computed from the log (`HistoryTables.iterate_rows_from_log`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, Table, delete

from eventstore.store import StoredFold
from eventstore.tables import folds
from eventstore.verification import Finding
from extensions.history.checkpoint import NAME, VERSION
from extensions.history.table_rows import CarriedData, HistoryRows, Key, Row
from extensions.history.table_schema import history
from lifecycle.event import UNFOLDABLE
from lifecycle.state.workflow import Workflow
from migrations.upgrade import select_migration_database
from service.reading import stream_log
from service.reading.log import WorkflowLog
from service.reading.stream_log import At

#: Number of events in one transaction. It limits how long other writers must wait.
CHUNK = 1000

Rows = dict[str, dict[Key, Row]]


class TablesProgress(NamedTuple):
    """The progress of the history tables: the version that they have reached.

    The version is 0 if the tables have no valid rows.
    """

    version: int = 0
    state: Workflow | None = None
    carried: CarriedData | None = None


class HistoryTables:
    """The SQL tables with the history of one workflow, in the database of its log."""

    def __init__(self, address: Path | str, log: WorkflowLog) -> None:
        self.address = address
        self.log = log

    def checkpoint(self) -> TablesProgress:
        """Return the version that the tables have reached, with the state at this version."""
        return self._load_progress(self.log.store.load_fold(self.log.stream, NAME, VERSION))

    def _load_progress(self, kept: StoredFold | None) -> TablesProgress:
        """Return the progress of the tables from the stored checkpoint.

        A missing or invalid checkpoint results in version 0.
        """
        head = self.log.store.head(self.log.stream)
        with suppress(*UNFOLDABLE):
            if kept is not None and head is not None and kept.version <= head.version:
                found = orjson.loads(kept.state)
                state = stream_log.build_workflow_state(found["state"])
                if type(state.head) is int and state.head == kept.version:
                    return TablesProgress(state.head, state, CarriedData(**found["carried"]))
        return TablesProgress()

    def iterate_rows_from_log(self, at: At = None) -> Iterator[Rows]:
        """Yield the rows of the history, computed from the log without reading the tables.

        ``at`` is the moment at which the history ends; None means now.
        """
        rows = HistoryRows(self.log.stream)
        for number, (event, state) in enumerate(self.log.steps(upto=at), 1):
            rows.add(event, state)
            if number % CHUNK == 0:
                yield rows.pop_final_rows()
        yield rows.pop_rows()

    def catch_up(self, limit: int | None = None) -> int:
        """Add new events to the tables, at most ``limit``, and return their number.

        If another process does the same, this call stops. If the checkpoint is invalid, it is
        deleted together with all rows, and the tables are computed again.
        """
        kept = self.log.store.load_fold(self.log.stream, NAME, VERSION)
        start = self._load_progress(kept)
        try:
            if start.version or kept is None:
                return self._process_new_events(start, limit)
        except UNFOLDABLE:
            if not start.version:
                raise
        self._drop_rows()
        return self._process_new_events(TablesProgress(), limit)

    def rebuild(self) -> int:
        """Delete all rows of the workflow and compute them again.

        Returns the number of processed events.
        """
        self._drop_rows()
        return self._process_new_events(self.checkpoint())

    def _drop_rows(self) -> None:
        self.log.store.release_connection()
        with select_migration_database(self.address).writing() as connection:
            self._clear_rows(connection)

    @property
    def _own_checkpoints_condition(self) -> sa.ColumnElement[bool]:
        """The SQL condition that selects the checkpoints of this workflow, of any version."""
        return sa.and_(folds.c.stream == self.log.stream, folds.c.reducer == NAME)

    def _clear_rows(self, connection: Connection) -> None:
        for table in history.tables.values():
            connection.execute(delete(table).where(table.c.stream == self.log.stream))
        connection.execute(delete(folds).where(self._own_checkpoints_condition))

    def _process_new_events(self, start: TablesProgress, limit: int | None = None) -> int:
        rows, reached, count = HistoryRows(self.log.stream, start.carried), start.version, 0
        state: Workflow | None = None
        for event, state in islice(self.log.steps(start.version, start.state), limit):
            rows.add(event, state)
            count += 1
            if count % CHUNK == 0:
                if not self._write(rows, reached, state):
                    return count
                reached = event.version
        if state is not None and count % CHUNK:
            self._write(rows, reached, state)
        return count

    def _write(self, rows: HistoryRows, reached: int, state: Workflow) -> bool:
        """Write the collected rows and the checkpoint in one transaction.

        Returns False, without writing, if another process has already advanced the checkpoint.
        """
        content = {"state": orjson.Fragment(stream_log.to_bytes(state)),
                   "carried": rows.carried.to_dict()}  # fmt: skip
        fold = StoredFold(self.log.stream, NAME, VERSION, state.head, orjson.dumps(content))
        # Release the log's connection first. A connection pooler may provide only one session, so a
        # second connection would wait for the first one forever.
        self.log.store.release_connection()
        with select_migration_database(self.address).writing() as connection:
            if not self._advance_checkpoint(connection, fold, reached):
                return False
            for name, found in rows.pop_rows().items():
                table, values = history.tables[name], list(found.values())
                keys = [column.name for column in table.primary_key]
                # Replace existing rows of these tables. Rows of the other tables belong to events,
                # which never change.
                if "version" not in keys:
                    chosen = (table.c[key] == sa.bindparam(f"key_{key}") for key in keys)
                    named = [{f"key_{key}": row[key] for key in keys} for row in values]
                    connection.execute(delete(table).where(*chosen), named)
                connection.execute(sa.insert(table), values)
        return True

    def _advance_checkpoint(self, connection: Connection, fold: StoredFold, reached: int) -> bool:
        own = self._own_checkpoints_condition
        if reached == 0:
            # Delete the rows that another version of this program wrote, because this version
            # cannot continue them.
            other = delete(folds).where(own, folds.c.reducer_version != VERSION)
            if connection.execute(other).rowcount:
                self._clear_rows(connection)
            if connection.execute(folds.select().where(own)).first() is not None:
                return False
        # Delete and insert the checkpoint instead of updating it, because a database role for
        # writing may lack the permission for UPDATE.
        elif connection.execute(delete(folds).where(own, folds.c.version == reached)).rowcount != 1:
            return False
        connection.execute(sa.insert(folds).values(fold._asdict()))
        return True


_MEND = "`wfctl db project --rebuild` writes the rows again"
#: Table → key of a row → its digest. The digests are valid only in this process, because they use
#: Python's hash function.
_Held = dict[str, dict[Key, int]]


def check_tables(address: Path | str, log: WorkflowLog) -> Iterator[Finding]:
    """Yield a finding for each history table that differs from the log."""
    tables = HistoryTables(address, log)
    upto = tables.checkpoint().version
    if not upto:
        return
    log.store.release_connection()
    held = _read_held_rows(address, log.stream)
    # The version has changed, so another process writes the tables now. A comparison would fail
    # without a reason.
    if tables.checkpoint().version != upto:
        return
    wrong = _find_wrong_rows(tables.iterate_rows_from_log(upto), held)
    for name, left in held.items():
        if name in wrong or left:
            key = wrong.get(name) or next(iter(left))
            version = next((part for part in key if isinstance(part, int)), upto)
            said = f"the row {key} of {name} differs from the log; {_MEND}"
            yield Finding(log.stream, version, None, "history_changed", said)


def _find_wrong_rows(folded: Iterator[Rows], held: _Held) -> dict[str, Key]:
    """Return the key of the first wrong row of each table.

    All rows that the log explains are removed from ``held``, so that only surplus rows remain.
    """
    wrong: dict[str, Key] = {}
    for name, found in chain.from_iterable(rows.items() for rows in folded):
        for key, digest in (_compute_digest(history.tables[name], row) for row in found.values()):
            if held[name].pop(key, None) != digest:
                wrong.setdefault(name, key)
    return wrong


def _read_held_rows(address: Path | str, stream: str) -> _Held:
    with select_migration_database(address).reading() as connection:
        driver = connection.connection.driver_connection
        # Replace invalid text instead of failing, because another program may have written the row.
        if isinstance(driver, sqlite3.Connection):
            driver.text_factory = lambda text: text.decode("utf-8", "replace")
        held: _Held = {}
        for name, table in history.tables.items():
            asked = connection.execute(sa.select(table).where(table.c.stream == stream))
            held[name] = dict(_compute_digest(table, row) for row in asked.mappings())
        return held


def _compute_digest(table: Table, row: Mapping[Any, Any]) -> tuple[Key, int]:
    key = tuple(row.get(column.name) for column in table.primary_key if column.name != "stream")
    return key, hash(tuple(row.get(column.name) for column in table.columns))
