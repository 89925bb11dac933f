"""Measure the cost of checking each event, compared with reading without checks."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from benchmarks.history import STREAM, begin, fill
from benchmarks.measurement import Contender, Result, in_fresh_folder, interleaved, table
from cli.frame.workspace import SCHEMA
from eventstore.event import RecordedEvent
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import StoredFold
from lifecycle.fold.evolve import REDUCER
from lifecycle.state.workflow import Workflow
from migrations.upgrade import upgrade_database
from service.reading import stream_log
from service.reading.log import WorkflowLog
from service.root.atomic_files import system_instant

LENGTH = 20_000
#: Number of events after the stored state.
BEHIND = 400


def report(rounds: int, disk: Path) -> str:
    """Return two tables of fold times: from the first event and from a stored state.

    Each table compares reading with checks of the events and reading without these checks.
    """
    return in_fresh_folder(lambda folder: _measured(folder, rounds), disk)


def _measured(folder: Path, rounds: int) -> str:
    path = folder / "events.db"
    upgrade_database(path)
    with closing(open_store(path, schema=SCHEMA, clock=system_instant)) as store:
        numbers = count(1)
        begin(store)
        fill(store, LENGTH, numbers)
        log = WorkflowLog(store, STREAM)
        kept = log.replayed()
        log.store_state_if_due(kept)
        fill(store, LENGTH + BEHIND, numbers)
        unsealed = StoredFold(STREAM, "bare", REDUCER, kept.head, stream_log.to_bytes(kept))
        store.save_fold(unsealed)
        whole = _compared(log.replayed, lambda: _folded(store, None, 0))
        after = _compared(
            WorkflowLog(store, STREAM).current,
            lambda: _folded(store, _as_kept(store), kept.head),
        )
        found = {
            f"Fold {LENGTH + BEHIND:,} events from the first": _run(whole, rounds),
            f"Fold {BEHIND} events behind a kept state": _run(after, rounds),
        }
        return "\n".join(table(title, "CPU ms", results) for title, results in found.items())


def _as_kept(store: SqliteStore) -> Workflow:
    """Return the state that was stored without a seal, without checking it."""
    fold = store.load_fold(STREAM, "bare", REDUCER)
    if fold is None:
        raise AssertionError("expected a kept state")
    return stream_log.from_bytes(fold.state)


def _run(contenders: list[Contender], rounds: int) -> list[Result]:
    return interleaved(contenders, rounds, Path.cwd())


def _compared(checked: Callable[[], Workflow], bare: Callable[[], Workflow]) -> list[Contender]:
    return [
        ("each event held to its place", lambda _: _timed(checked)),
        ("rows as they stand", lambda _: _timed(bare)),
    ]


def _timed(work: Callable[[], Workflow]) -> float:
    start = time.process_time()  # of CPU: other users of the machine are no part of it
    work()
    return (time.process_time() - start) * 1000


def _folded(store: SqliteStore, start: Workflow | None, after: int) -> Workflow:
    log = WorkflowLog(store, STREAM)
    state = log.evolve(start, _as_they_stand(store, after))
    if state is None:
        raise AssertionError("expected a workflow in the log")
    return state


def _as_they_stand(store: SqliteStore, after: int) -> Iterator[RecordedEvent]:
    for raw in store.raw(STREAM, after=after):
        yield SCHEMA.decode(raw.position, raw.hash, raw.text)
