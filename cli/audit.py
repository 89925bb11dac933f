"""``wfctl audit …``: questions to the history."""

from __future__ import annotations

import typer

from cli import audit_amendments, audit_drift, audit_history, audit_refused, audit_sql


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="Questions to the history: table, json or csv.", no_args_is_help=True)
    group.command("amendments")(audit_amendments.amendments)
    group.command("bypasses")(audit_amendments.attempts)
    group.command("transitions")(audit_history.transitions)
    group.command("retries")(audit_history.retries)
    group.command("attempts")(audit_history.attempts)
    group.command("times")(audit_history.times)
    group.command("queue")(audit_history.queue)
    group.command("costs")(audit_history.costs)
    group.command("refused")(audit_refused.refused)
    group.command("drift")(audit_drift.drift)
    group.command("sql")(audit_sql.sql)
    return group
