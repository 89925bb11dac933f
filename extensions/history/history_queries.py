"""SQL queries about the history of a log, and the connection that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from extensions.history.sql_tables import HistoryTables
from extensions.history.table_schema import VIEWS, build_view_query, history, list_column_names
from service.reading.log import WorkflowLog
from service.reading.stream_log import At
from wfctl_eventstore.extension import require_extension

#: Seconds that a predefined query may take. The size of its result is limited by the history.
PATIENCE = 600.0
#: Seconds that a user's own SQL query may take by default.
SQL_PATIENCE = 10.0
_OF_STAGE = "(CAST(:stage AS TEXT) IS NULL OR stage = :stage)"
TRANSITIONS = f"""
SELECT version, occurred_at, recorded_at, stage, from_status, to_status, seconds, type, actor,
       session, attempt, amendment, reason
FROM v_transitions
WHERE {_OF_STAGE} AND (CAST(:status AS TEXT) IS NULL OR to_status = :status)
ORDER BY version, stage
"""
# Stages that ran again after a failure, because of a retry or an amendment.
RETRIES = f"""
SELECT version, occurred_at, stage, number, type, actor, session, fix, failed_version,
       failed_attempt, error
FROM (
    SELECT version, occurred_at, stage, type, actor, session, reason AS fix,
           from_status = 'failed' AND to_status = 'ready' AS again,
           sum(CASE WHEN from_status = 'failed' AND to_status = 'ready' THEN 1 ELSE 0 END)
               OVER (PARTITION BY stage ORDER BY version) AS number,
           lag(version) OVER (PARTITION BY stage ORDER BY version) AS failed_version,
           lag(attempt) OVER (PARTITION BY stage ORDER BY version) AS failed_attempt,
           lag(reason) OVER (PARTITION BY stage ORDER BY version) AS error
    FROM v_transitions
) t
WHERE again AND {_OF_STAGE}
ORDER BY version, stage
"""
# The time that each stage spent in each status. The current status has no duration yet.
TIMES = f"""
SELECT stage, from_status AS status, count(*) AS times, sum(seconds) AS seconds, NULL AS since
FROM v_transitions WHERE from_status IS NOT NULL AND {_OF_STAGE} GROUP BY stage, from_status
UNION ALL
SELECT stage, to_status, 1, NULL, occurred_at FROM (
    SELECT stage, to_status, occurred_at,
           row_number() OVER (PARTITION BY stage ORDER BY version DESC) AS place
    FROM v_transitions
) t
WHERE place = 1 AND {_OF_STAGE}
"""
QUEUE = f"""
SELECT stage, count(*) AS attempts, sum(queue_seconds) AS queue_seconds,
       sum(compute_seconds) AS compute_seconds,
       sum(CASE WHEN queue_seconds IS NULL OR compute_seconds IS NULL THEN 1 ELSE 0 END) AS open
FROM v_attempts WHERE {_OF_STAGE} GROUP BY stage ORDER BY min(version)
"""
COSTS = """
SELECT session, started_at, started_by, ended_at, ended, cost, charges, completed, failed,
       first_version, last_version
FROM v_sessions ORDER BY session
"""
ATTEMPTS = f"""
SELECT stage, attempt, version, mode, host, started_at, launched_at, computing_from, ended_at,
       queue_seconds, compute_seconds, outcome, exit_code, verdict, verdict_row, action, reason,
       evidence, relaunches, recovers, diagnostic, job_ids, submission_sha256
FROM v_attempts WHERE {_OF_STAGE} ORDER BY version, stage, attempt
"""
DRIFT = """
SELECT version, occurred_at, type, actor, data FROM v_events
WHERE type IN ('drift.detected', 'drift.adopted', 'drift.reverted', 'results.changed',
               'results.adopted') ORDER BY version
"""
#: Columns that contain JSON as text.
JSON_COLUMNS = frozenset({"affected", "changes", "data", "evidence", "job_ids"})
#: Names of the column types that are valid in both SQLite and PostgreSQL.
_TYPES = {sa.Text: "TEXT", sa.BigInteger: "BIGINT", sa.Double: "DOUBLE PRECISION"}


@contextmanager
def open_history_connection(address: Path | str, log: WorkflowLog, at: At = None) -> Iterator[Any]:
    """Open a database connection whose views show the history up to the moment ``at``."""
    with closing(_open_query_connection(address)) as desk:
        _fill_views(desk, HistoryTables(address, log), at)
        yield desk


def _open_query_connection(address: Path | str) -> Any:
    if isinstance(address, Path):
        from extensions.history.sqlite_query_connection import SqliteQueryConnection

        return SqliteQueryConnection(address)
    postgres = require_extension("postgres", "a log on a PostgreSQL server")
    return postgres.open_sql_desk(address)


def _fill_views(desk: Any, tables: HistoryTables, at: At) -> None:
    if at is None:  # Use the last version at the first query, and keep it for all later queries.
        stream = tables.log.stream.replace("'", "''")
        at = desk.fetch_trusted_value(f"SELECT max(version) FROM events WHERE stream = '{stream}'")
    for table in VIEWS.values():
        declared = (f"{column.name} {_TYPES[type(column.type)]}" for column in table.columns)
        desk.run_trusted_statement(f"CREATE TEMPORARY TABLE {table.name} ({', '.join(declared)})")
    for rows in tables.iterate_rows_from_log(at):
        for name, found in rows.items():
            columns = list_column_names(history.tables[name])
            desk.insert_rows(
                name, [[row.get(column) for column in columns] for row in found.values()]
            )
    for name in VIEWS:
        desk.run_trusted_statement(
            f"CREATE TEMPORARY VIEW {name} AS {build_view_query(name, desk.dialect)}"
        )
