"""The measurements that compare the event log of wfctl with other event stores."""

from pathlib import Path

from benchmarks import core, others, ours
from benchmarks.measurement import Contender, interleaved, table

# Short measurements get more rounds, because other programs disturb the machine for seconds at a
# time.
MORE_ROUNDS = {"append": 5, "truncate": 3, "batch": 3}

COMPARISONS: dict[str, tuple[str, str, list[Contender]]] = {
    "append": (
        "Durable append, one event a transaction (WAL, FULL)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles),
            ("raw sqlite3", others.raw_singles),
            ("SQLAlchemy Core", core.singles),
            ("… with a version check", core.checked_singles),
            ("eventsourcing", others.eventsourcing_singles),
        ],
    ),
    "dbos": (
        "Durable append beside steps of DBOS (both at FULL)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles),
            ("DBOS steps", others.dbos_steps),
        ],
    ),
    "truncate": (
        "Durable append, one event a transaction (TRUNCATE, EXTRA)",
        "events/s",
        [
            ("wfctl eventstore", ours.singles_truncate),
            ("raw sqlite3", others.raw_singles_truncate),
        ],
    ),
    "batch": (
        "Batch of 1,000 in one transaction",
        "events/s",
        [
            ("wfctl eventstore", ours.batches),
            ("raw sqlite3", others.raw_batches),
            ("eventsourcing", others.eventsourcing_batches),
        ],
    ),
    "read": (
        "Read, decode and fold 100,000 events",
        "events/s",
        [
            ("wfctl eventstore", ours.reading),
            ("raw sqlite3, orjson", others.raw_reading),
            ("eventsourcing", others.eventsourcing_reading),
        ],
    ),
}


def compare(name: str, rounds: int, disk: Path) -> str:
    """Run a comparison, and return its results as a Markdown table."""
    title, unit, contenders = COMPARISONS[name]
    return table(title, unit, interleaved(contenders, rounds * MORE_ROUNDS.get(name, 1), disk))
