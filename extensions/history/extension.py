"""Register the extension ``history`` with the core of wfctl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.verification import Finding
from service.reading.log import WorkflowLog
from wfctl_eventstore.extension import Extension


class HistoryExtension(Extension):
    """Keep the history of a workflow in SQL tables and answer questions about it."""

    commands = {
        "audit amendments": "extensions.history.command",
        "audit bypasses": "extensions.history.command",
        "audit agree": "extensions.history.command",
        "audit transitions": "extensions.history.command",
        "audit retries": "extensions.history.command",
        "audit attempts": "extensions.history.command",
        "audit times": "extensions.history.command",
        "audit queue": "extensions.history.command",
        "audit costs": "extensions.history.command",
        "audit refused": "extensions.history.command",
        "audit drift": "extensions.history.command",
        "audit sql": "extensions.history.command",
        "db project": "extensions.history.project_command",
    }
    help_sections = {
        "Ask the history": {
            "audit": "Show tables about the history, such as retries and costs",
        },
    }
    groups = {"audit": None}

    def catch_up_tables(self, address: Path | str, log: WorkflowLog, least: int) -> None:
        """Add new events to the history tables if at least ``least`` events are missing."""
        from extensions.history.sql_tables import HistoryTables

        HistoryTables(address, log).catch_up(least)

    def check_tables(self, address: Path | str, log: WorkflowLog) -> Iterator[Finding]:
        """Yield a finding for each history table that differs from the log."""
        from extensions.history.checkpoint import NAME, VERSION

        if log.store.load_fold(log.stream, NAME, VERSION) is None:  # No table was ever written.
            return iter(())
        from extensions.history.sql_tables import check_tables

        return check_tables(address, log)


EXTENSION = HistoryExtension()
