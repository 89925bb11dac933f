"""Ready-made questions to the history, in SQL over the documented views.

Each works as it stands on every engine, and in ``wfctl audit sql`` once its parameters are filled
in. ``:stage`` and ``:status`` are null where they do not matter.
"""

from __future__ import annotations

#: Seconds that one of these may take: their answer is bounded by the history.
PATIENCE = 600.0
#: Seconds that a question in somebody's own SQL may take, where nobody says.
SQL_PATIENCE = 10.0
_OF_STAGE = "(CAST(:stage AS TEXT) IS NULL OR stage = :stage)"

TRANSITIONS = f"""
SELECT version, occurred_at, recorded_at, stage, from_status, to_status, seconds, type, actor,
       session, attempt, amendment, reason
FROM v_transitions
WHERE {_OF_STAGE} AND (CAST(:status AS TEXT) IS NULL OR to_status = :status)
ORDER BY version, stage
"""

# A stage that ran again after it failed: by a retry, or as an amendment said.
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

# What a stage has been through, and what it is in now, which has not ended yet.
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

#: Columns that hold JSON as text.
JSON_COLUMNS = frozenset({"affected", "changes", "data", "evidence", "job_ids"})
