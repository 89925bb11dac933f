"""Compare the event log on PostgreSQL with plain psycopg, and measure it as it grows.

`python -m benchmarks.postgres [--rounds N] [--disk DIR] [--events N] [--workflows N]`
"""

import argparse
import io
import statistics
import time
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import raw
from benchmarks.contents import SCHEMA, STREAM, data, event, fresh_claim
from benchmarks.measurement import interleaved, table
from benchmarks.processes import PLAN
from benchmarks.server import Server
from cli.main import run
from eventstore.database_url import libpq_url
from eventstore.store import Expected
from extensions.postgres.store import PostgresStore, open_server
from migrations.upgrade import upgrade_database
from service.root.atomic_files import system_instant

SINGLES = 300
BATCH, BATCHES = 1000, 10

_TABLE = """CREATE TABLE events (position bigint PRIMARY KEY, stream text NOT NULL,
version bigint NOT NULL, event_id text NOT NULL UNIQUE, type text NOT NULL,
recorded_at text NOT NULL, hash text NOT NULL, body text NOT NULL, UNIQUE (stream, version))"""
_INSERT = "INSERT INTO events VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
# Copies a stream once for each number in a range, to fill the log quickly.
_MULTIPLY = """INSERT INTO events SELECT (SELECT max(position) FROM events)
+ row_number() OVER (), stream || '-' || copy, version, event_id || '-' || copy, type, recorded_at,
hash, body FROM events, generate_series(%s::bigint, %s::bigint) copy WHERE stream = %s"""


def made(server: Server) -> tuple[str, PostgresStore]:
    """Create a log on the server, and return its URL and wfctl's event store on it."""
    url = server.schema()
    upgrade_database(url)
    return url, open_server(url, schema=SCHEMA, clock=system_instant)


def singles(server: Server) -> float:
    """Append one event per transaction on PostgreSQL, and return events per second.

    Each append is validated, checked for the stream's version, hashed and durable, and it claims
    its command id.
    """
    _, store = made(server)
    with closing(store):
        said = list(map(data, range(SINGLES)))
        start = time.perf_counter()
        for version in range(SINGLES):
            store.append(STREAM, [event(said[version])], expected=version, claim=fresh_claim())
        return SINGLES / (time.perf_counter() - start)


def raw_singles(server: Server) -> float:
    """Insert and commit one row at a time with plain psycopg, and return rows per second."""
    rows = raw.rows(SINGLES)
    with psycopg.connect(libpq_url(server.schema())) as connection:
        connection.execute(_TABLE)
        connection.commit()
        start = time.perf_counter()
        for row in rows:
            connection.execute(_INSERT, row)
            connection.commit()
        return SINGLES / (time.perf_counter() - start)


def batches(server: Server) -> float:
    """Append a thousand events per transaction on PostgreSQL; return events per second."""
    _, store = made(server)
    with closing(store):
        start = time.perf_counter()
        for first in range(0, BATCH * BATCHES, BATCH):
            new = [event(data(number)) for number in range(first, first + BATCH)]
            store.append(STREAM, new, expected=Expected.ANY, claim=fresh_claim())
        return BATCH * BATCHES / (time.perf_counter() - start)


def raw_batches(server: Server) -> float:
    """Copy a thousand rows per transaction with COPY, and return rows per second."""
    rows = raw.rows(BATCH * BATCHES)
    with psycopg.connect(libpq_url(server.schema())) as connection:
        connection.execute(_TABLE)
        connection.commit()
        start = time.perf_counter()
        for first in range(0, len(rows), BATCH):
            with connection.cursor().copy("COPY events FROM STDIN") as copy:
                for row in rows[first : first + BATCH]:
                    copy.write_row(row)
            connection.commit()
        return len(rows) / (time.perf_counter() - start)


def growth(server: Server, most: int) -> str:
    """Return a table of the microseconds of an append in logs of growing size.

    The logs are measured in turn, and each of their streams has a hundred events.
    """
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= most]
    stores = {size: _filled(server, size) for size in sizes}
    spent: dict[int, list[float]] = {size: [] for size in sizes}
    for number in range(400):
        for size, store in stores.items():
            new, claim = [event(data(number))], fresh_claim()
            start = time.perf_counter()
            store.append("measured", new, expected=number, claim=claim)
            spent[size].append(time.perf_counter() - start)
    for store in stores.values():
        store.close()
    rows = [
        f"| {size:,} | {size // 100:,} | {statistics.median(times) * 1e6:.0f} |"
        for size, times in spent.items()
    ]
    head = ["### Append to logs of growing size, in turn, on PostgreSQL", ""]
    return "\n".join([*head, "| events | streams | median, µs |", "|---:|---:|---:|", *rows, ""])


def _filled(server: Server, size: int) -> PostgresStore:
    url, store = made(server)
    new = [event(data(number)) for number in range(100)]
    store.append("seed", new, expected=0, claim=fresh_claim())
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(_MULTIPLY, (1, size // 100 - 1, "seed"))
        connection.execute("VACUUM ANALYZE")
    return store


def status(server: Server, disk: Path, workflows: int, rounds: int) -> str:
    """Return the milliseconds of `wfctl status` when many workflows share the database.

    The command runs in this process, so the time to start Python and import modules is not
    included.
    """
    url, store = made(server)
    store.close()
    with server.folder(disk) as folder:
        (folder / "plan.toml").write_text(PLAN)
        line = ["--root", str(folder), "--database-url", url]
        _run([*line, "init", str(folder / "plan.toml"), "--consent", "trust"])
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            connection.execute(_MULTIPLY, (1, workflows - 1, "workflow-bench"))
            connection.execute("VACUUM ANALYZE")
        _run([*line, "status"])
        began = time.process_time()
        spent = sorted(_run([*line, "status"]) * 1000 for _ in range(rounds * 10))
        processor = (time.process_time() - began) * 1000 / len(spent)
    return (
        f"### Status of one workflow among {workflows:,}, on PostgreSQL\n\n"
        "From the arguments to the last line, everything imported, the connection made anew: "
        f"median {statistics.median(spent):.0f} ms, least {spent[0]:.0f} ms, most "
        f"{spent[-1]:.0f} ms; {processor:.0f} ms of the processor.\n"
    )


def _run(arguments: list[str]) -> float:
    """Run a wfctl command in this process; return its seconds, or exit if it fails."""
    with redirect_stdout(io.StringIO()):
        start = time.perf_counter()
        code = run(arguments)
        seconds = time.perf_counter() - start
    if code:
        raise SystemExit(code)
    return seconds


def main() -> None:
    """Run all measurements on one PostgreSQL server, and print their tables."""
    options = _options()
    with Server(options.disk) as server:
        pairs: list[tuple[str, str, list[Any]]] = [
            (
                "Durable append on PostgreSQL, one event a transaction",
                "raw psycopg",
                [singles, raw_singles],
            ),
            ("Batch of 1,000 on PostgreSQL", "raw COPY", [batches, raw_batches]),
        ]
        for title, other, (ours, theirs) in pairs:
            contenders = [
                ("wfctl eventstore", lambda _, work=ours: work(server)),
                (other, lambda _, work=theirs: work(server)),
            ]
            print(table(title, "events/s", interleaved(contenders, options.rounds, options.disk)))
        print(status(server, options.disk, options.workflows, options.rounds))
        print(growth(server, options.events))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--disk", type=Path, default=Path.cwd(), help="where the server is made")
    parser.add_argument("--events", type=int, default=1_000_000, help="events in the long log")
    parser.add_argument("--workflows", type=int, default=10_000, help="that share a database")
    return parser.parse_args()


if __name__ == "__main__":
    main()
