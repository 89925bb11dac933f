"""``wfctl audit …``: questions to the history."""

from __future__ import annotations

import typer

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, str] = {
    "amendments": "cli.audit_amendments:amendments",
    "bypasses": "cli.audit_amendments:attempts",
    "transitions": "cli.audit_history:transitions",
    "retries": "cli.audit_history:retries",
    "attempts": "cli.audit_history:attempts",
    "times": "cli.audit_history:times",
    "queue": "cli.audit_history:queue",
    "costs": "cli.audit_history:costs",
    "refused": "cli.audit_refused:refused",
    "drift": "cli.audit_drift:drift",
    "sql": "cli.audit_sql:sql",
}


def build() -> typer.Typer:
    """Return the group, without the commands that the table names."""
    return typer.Typer(help="Questions to the history: table, json or csv.", no_args_is_help=True)
