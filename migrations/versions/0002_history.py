"""The history as tables, and the documented views over them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DATA = {
    "sqlite": "json_extract(e.body, '$.data')",
    "postgresql": "(e.body::jsonb -> 'data')::text",
}


def upgrade() -> None:
    """Make the tables, which are filled on demand, and the views."""
    _events()
    _transitions()
    _attempts()
    _amendments()
    _sessions()
    _views(op.get_bind().dialect.name)


def _events() -> None:
    op.create_table(
        "history_events",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stage", sa.Text),
        sa.Column("attempt", sa.Text),
        sa.Column("amendment", sa.Text),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("session", sa.BigInteger),
        sa.Column("command_id", sa.Text, nullable=False),
        sa.Column("causation_id", sa.Text),
        sa.Column("occurred_at", sa.Text, nullable=False),
        sa.Column("message", sa.Text),
    )


def _transitions() -> None:
    op.create_table(
        "history_transitions",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("from_status", sa.Text),
        sa.Column("to_status", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("attempt", sa.Text),
        sa.Column("amendment", sa.Text),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("session", sa.BigInteger),
        sa.Column("occurred_at", sa.Text, nullable=False),
        sa.Column("recorded_at", sa.Text, nullable=False),
        sa.Column("since", sa.Text),
        sa.Column("seconds", sa.Double),
    )


def _attempts() -> None:
    op.create_table(
        "history_attempts",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("stage", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("host", sa.Text),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("launched_at", sa.Text),
        sa.Column("computing_from", sa.Text),
        sa.Column("ended_at", sa.Text),
        sa.Column("queue_seconds", sa.Double),
        sa.Column("compute_seconds", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("verdict", sa.Text),
        sa.Column("verdict_row", sa.BigInteger),
        sa.Column("action", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("evidence", sa.Text),
        sa.Column("relaunches", sa.BigInteger, nullable=False),
        sa.Column("recovers", sa.Text),
        sa.Column("diagnostic", sa.BigInteger, nullable=False),
        sa.Column("job_ids", sa.Text, nullable=False),
        sa.Column("submission_sha256", sa.Text, nullable=False),
    )


def _amendments() -> None:
    op.create_table(
        "history_amendments",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("amendment", sa.Text, primary_key=True),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("stage", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("changes", sa.Text, nullable=False),
        sa.Column("affected", sa.Text, nullable=False),
        sa.Column("workflow_version", sa.BigInteger),
        sa.Column("proposed_version", sa.BigInteger),
        sa.Column("proposed_at", sa.Text, nullable=False),
        sa.Column("proposed_by", sa.Text),
        sa.Column("decided_version", sa.BigInteger),
        sa.Column("decided_at", sa.Text),
        sa.Column("decided_by", sa.Text),
        sa.Column("policy", sa.Text),
        sa.Column("signer", sa.Text),
    )


def _sessions() -> None:
    op.create_table(
        "history_sessions",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("session", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first_version", sa.BigInteger, nullable=False),
        sa.Column("last_version", sa.BigInteger, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("started_by", sa.Text, nullable=False),
        sa.Column("ended_at", sa.Text),
        sa.Column("ended", sa.Text, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
        sa.Column("charges", sa.BigInteger, nullable=False),
        sa.Column("completed", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
    )


def _views(dialect: str) -> None:
    ours = (
        "stream",
        "version",
        "stage",
        "attempt",
        "amendment",
        "actor",
        "session",
        "command_id",
        "causation_id",
        "occurred_at",
        "message",
    )
    theirs = ("position", "event_id", "type", "recorded_at", "hash")
    columns = ", ".join([*(f"h.{c}" for c in ours), *(f"e.{c}" for c in theirs)])
    op.execute(
        f"CREATE VIEW v_events AS SELECT {columns}, {_DATA[dialect]} AS data FROM events e "
        f"JOIN (SELECT {', '.join(ours)} FROM history_events) h "
        "ON h.stream = e.stream AND h.version = e.version"
    )
    for name, columns in _VIEWS.items():
        op.execute(f"CREATE VIEW v_{name} AS SELECT {columns} FROM history_{name}")


_VIEWS = {
    "transitions": (
        "stream, version, stage, from_status, to_status, type, reason, attempt, "
        "amendment, actor, session, occurred_at, recorded_at, since, seconds"
    ),
    "attempts": (
        "stream, stage, attempt, version, mode, host, started_at, launched_at, "
        "computing_from, ended_at, queue_seconds, compute_seconds, outcome, exit_code, "
        "verdict, verdict_row, action, reason, evidence, relaunches, recovers, "
        "diagnostic, job_ids, submission_sha256"
    ),
    "amendments": (
        "stream, amendment, type, stage, state, description, reason, changes, affected, "
        "workflow_version, proposed_version, proposed_at, proposed_by, decided_version, "
        "decided_at, decided_by, policy, signer"
    ),
    "sessions": (
        "stream, session, first_version, last_version, started_at, started_by, ended_at, "
        "ended, cost, charges, completed, failed"
    ),
}
