"""The command ``wfctl db project``, which updates the tables of the history."""

from __future__ import annotations

from cli.frame.context import Context
from cli.frame.options import DryRun, option
from cli.frame.workspace import open_for_writing
from extensions.history.sql_tables import HistoryTables


def project(
    context: Context,
    rebuild: bool = option("Empty the tables first, then fill them again from the whole log."),
    dry_run: DryRun = False,
) -> None:
    """Update the tables that `wfctl audit` and other queries read.

    The command adds all new events of the log to the tables.
    """
    with open_for_writing(context, dry_run, anywhere=True) as (service, output):
        tables = HistoryTables(service.root.address, service.log)
        before, state = tables.checkpoint().version, service.state()
        start = 0 if rebuild else before
        if not dry_run:
            tables.rebuild() if rebuild else tables.catch_up()
        verb, count = "would project" if dry_run else "projected", state.head - start
        data = {"events": count, "was": before, "version": state.head, "dry_run": dry_run}
        text = f"{verb} {count} events, up to version {state.head}"
        output.result(data, lambda: text, state=state)
