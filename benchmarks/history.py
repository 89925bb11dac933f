"""Measure the SQL tables of the history at growing log lengths: update, rebuild and query."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.measurement import in_fresh_folder
from cli.frame.workspace import SCHEMA
from eventstore.event import Actor, NewEvent
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import Claim, Expected
from extensions.history.history_queries import SQL_PATIENCE, open_history_connection
from extensions.history.sql_tables import HistoryTables
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from migrations.upgrade import upgrade_database
from service.reading.log import WorkflowLog
from service.reading.stream_log import FOLD_EVERY
from service.root.atomic_files import new_id, system_instant

STREAM = "workflow-w"
LENGTHS = (1_000, 10_000, 100_000)
ROUNDS = 7
_PLAN = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "S"}]}
_ASKED = "SELECT * FROM v_transitions WHERE version > :version"


def report(longest: int, disk: Path) -> str:
    """Return a Markdown table with the costs of the history tables at each log length."""
    lengths = [length for length in LENGTHS if length <= longest]
    rows = "\n".join(in_fresh_folder(lambda folder: measured(folder, lengths), disk))
    return (
        f"### The history's tables, as a log grows ({FOLD_EVERY} events behind)\n\n"
        "| events | catch up, CPU ms | ask, CPU ms | rebuild, events a CPU s |\n"
        f"|---:|---:|---:|---:|\n{rows}\n"
    )


def measured(folder: Path, lengths: list[int]) -> list[str]:
    """Measure each log length, and return a row of the report for each."""
    path = folder / "events.db"
    upgrade_database(path)
    numbers = count(1)
    with closing(open_store(path, schema=SCHEMA, clock=system_instant)) as store:
        begin(store)
        tables = HistoryTables(path, WorkflowLog(store, STREAM))
        return [_at(store, tables, length, numbers) for length in lengths]


def _at(store: SqliteStore, tables: HistoryTables, length: int, numbers: "count[int]") -> str:
    fill(store, length, numbers)
    tables.catch_up()
    asks = [_timed(partial(_ask, tables, length // 2)) for _ in range(ROUNDS)]
    catches = []
    for _ in range(ROUNDS):
        _append(store, _life(numbers, FOLD_EVERY))
        catches.append(_timed(tables.catch_up))
    rebuilt = _timed(tables.rebuild)
    catch, asked = (sorted(times)[ROUNDS // 2] * 1000 for times in (catches, asks))
    return f"| {length:,} | {catch:.1f} | {asked:.1f} | {_head(store) / rebuilt:,.0f} |"


def begin(store: SqliteStore) -> None:
    """Record a workflow of one stage, which later events fail and retry."""
    _append(store, [build_creation_payload(_PLAN, created=_now())])


def fill(store: SqliteStore, length: int, numbers: "count[int]") -> None:
    """Append events until the stream has the given length."""
    while (head := _head(store)) < length:
        _append(store, _life(numbers, min(1_000, length - head)))


def _ask(tables: HistoryTables, after: int) -> None:
    with open_history_connection(tables.address, tables.log) as desk:
        list(desk.run_user_query(_ASKED, {"version": after}, SQL_PATIENCE).rows)


def _timed(work: Callable[[], object]) -> float:
    start = time.process_time()  # of CPU: the disk and its other users are no part of it
    work()
    return time.process_time() - start


def _life(numbers: "count[int]", length: int) -> list[Payload]:
    """Return the given number of events of a stage that fails and is retried repeatedly."""
    found: list[Payload] = []
    for number in numbers:
        if len(found) >= length:
            return found[:length]
        found += [
            p.NoteLogged(text=f"round {number}", stage="stage-1"),
            p.StagePrepared(stage="stage-1"),
            p.StageFailed(stage="stage-1", error=f"exit {number % 256}"),
            p.StageReadied(stage="stage-1"),
        ]
    return found


def _append(store: SqliteStore, payloads: list[Payload]) -> None:
    events = [
        NewEvent(
            event_id=new_id(),
            type=payload.type,
            schema_version=payload.schema_version,
            data=payload.model_dump(mode="json"),
            actor=Actor("agent", "bench"),
            session=None,
            causation_id=None,
            correlation_id=None,
            occurred_at=_now(),
        )
        for payload in payloads
    ]
    store.append(STREAM, events, expected=Expected.ANY, claim=Claim(new_id(), ""))


def _head(store: SqliteStore) -> int:
    head = store.head(STREAM)
    return head.version if head is not None else 0


def _now() -> str:
    return system_instant()[0]
