"""The history's tables: caught up from their checkpoint, or made anew; and their rows from the log.

The checkpoint is a stored fold: version, the state there, and what the rows carry on. It is written
in the transaction of the rows, so the two always agree. The tables are for other programs: whoever
has SQL on the database can write them, so a question of ours is answered from the rows that the log
makes (`HistoryTables.folded`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import orjson
from sqlalchemy import Connection, Table, and_, bindparam, delete, insert

from eventstore.store import StoredFold
from eventstore.tables import folds
from lifecycle.fold.foldable import UNFOLDABLE
from lifecycle.state.workflow import Workflow
from migrations.database import database_of
from projections.history.checkpoint import NAME, VERSION
from projections.history.rows import CarriedRows, HistoryRows, Key, Row
from projections.history.tables import history
from service.reading import stored_fold
from service.reading.log import At, WorkflowLog

#: Events a transaction: others who write wait no longer than these take.
CHUNK = 1000

Rows = dict[str, dict[Key, Row]]


@dataclass(frozen=True, slots=True)
class TablesProgress:
    """How far the tables have come: 0 where they hold nothing that counts."""

    version: int
    state: Workflow | None
    carried: CarriedRows


def _nothing() -> TablesProgress:
    return TablesProgress(0, None, CarriedRows())


def checkpoint_of(kept: StoredFold | None) -> TablesProgress:
    """Return the checkpoint that the stored fold holds; one that is none counts for nothing."""
    if kept is None:
        return _nothing()
    try:
        found = orjson.loads(kept.state)
        state = stored_fold.from_values(found["state"])
        if type(state.head) is not int or state.head != kept.version:
            return _nothing()
        return TablesProgress(state.head, state, CarriedRows(**found["carried"]))
    except UNFOLDABLE:
        return _nothing()


class HistoryTables:
    """The tables of one stream, in the database of its log."""

    def __init__(self, address: Path | str, log: WorkflowLog) -> None:
        self.address = address
        self.log = log

    def checkpoint(self) -> TablesProgress:
        """Return how far the tables have come."""
        return self._counting(self.log.store.load_fold(self.log.stream, NAME, VERSION))

    def _counting(self, kept: StoredFold | None) -> TablesProgress:
        """Return the checkpoint where the log has come so far."""
        found = checkpoint_of(kept)
        head = self.log.store.head(self.log.stream)
        return found if head is not None and found.version <= head.version else _nothing()

    def folded(self, at: At = None) -> Iterator[Rows]:
        """Yield the rows that the log makes, now or as of a moment; the tables are not read.

        They come in parts, as the log is folded from its first event; no row comes twice.
        """
        rows = HistoryRows(self.log.stream)
        for number, (event, state) in enumerate(self.log.steps(upto=at), 1):
            rows.add(event, state)
            if number % CHUNK == 0:
                yield rows.settled()
        yield rows.taken()

    def catch_up(self, limit: int | None = None) -> int:
        """Bring the tables to the head of the log, or ``limit`` events on; return of how many.

        Somebody else who does the same at the same time is left to it. What somebody wrote in the
        checkpoint's place, and cannot be gone on from, is dropped with the rows.
        """
        kept = self.log.store.load_fold(self.log.stream, NAME, VERSION)
        start = self._counting(kept)
        try:
            if start.version or kept is None:
                return self._go_on(start, limit)
        except UNFOLDABLE:
            if not start.version:
                raise
        self._drop()
        return self._go_on(_nothing(), limit)

    def rebuild(self) -> int:
        """Make the rows of the stream anew, from its first event; return of how many events."""
        self._drop()
        return self._go_on(self.checkpoint())

    def _drop(self) -> None:
        with database_of(self.address).writing() as connection:
            self._clear(connection)

    def _clear(self, connection: Connection) -> None:
        for table in history.tables.values():
            connection.execute(delete(table).where(table.c.stream == self.log.stream))
        own = and_(folds.c.stream == self.log.stream, folds.c.reducer == NAME)
        connection.execute(delete(folds).where(own))

    def _go_on(self, start: TablesProgress, limit: int | None = None) -> int:
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
        """Write rows and checkpoint, both or neither; False where somebody else was quicker."""
        content = {"state": orjson.Fragment(stored_fold.to_bytes(state)),
                   "carried": rows.carried.to_dict()}  # fmt: skip
        fold = StoredFold(self.log.stream, NAME, VERSION, state.head, orjson.dumps(content))
        with database_of(self.address).writing() as connection:
            if not self._advance(connection, fold, reached):
                return False
            for name, found in rows.taken().items():
                _put(connection, history.tables[name], found)
        return True

    def _advance(self, connection: Connection, fold: StoredFold, reached: int) -> bool:
        own = and_(folds.c.stream == fold.stream, folds.c.reducer == NAME)
        if reached == 0:
            self._require_current_format(connection)
            if connection.execute(folds.select().where(own)).first() is not None:
                return False
        # No UPDATE: a writer's role may not have the right to it.
        elif connection.execute(delete(folds).where(own, folds.c.version == reached)).rowcount != 1:
            return False
        connection.execute(insert(folds).values(fold._asdict()))
        return True

    def _require_current_format(self, connection: Connection) -> None:
        """Take away what another version of this program left: it cannot be gone on from."""
        other = and_(
            folds.c.stream == self.log.stream,
            folds.c.reducer == NAME,
            folds.c.reducer_version != VERSION,
        )
        if connection.execute(delete(folds).where(other)).rowcount:
            self._clear(connection)


def _put(connection: Connection, table: Table, rows: dict[Key, Row]) -> None:
    """Put rows in place of those of the same key."""
    keys = [column for column in table.primary_key if column.name != "version"]
    if len(keys) == len(list(table.primary_key)):  # the others are of events, which never change
        chosen = and_(*(column == bindparam(f"key_{column.name}") for column in keys))
        values = [{f"key_{column.name}": row[column.name] for column in keys}
                  for row in rows.values()]  # fmt: skip
        connection.execute(delete(table).where(chosen), values)
    connection.execute(insert(table), list(rows.values()))
