"""``wfctl audit drift``: what others did to the files, and to the log itself."""

from __future__ import annotations

import typer

from cli.commands.audit.history import asked, text
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import At, KnownAt
from cli.frame.workspace import moment, reading
from cli.terminal.table import TableColumn, present
from projections.words.times import utc_seconds
from service.questions.tampering import drift_records, tampering_records
from service.sql import questions

_NAMES = (
    *("version", "at", "what", "file", "actor", "kind", "fields", "kept_as", "detected"),
    "message",
)


def drift(context: typer.Context, at: At = None, known_at: KnownAt = None) -> None:
    """Every hand edit and what became of it, and what is wrong with the log (then exit 7)."""
    view = moment(at, known_at)
    with reading(context) as workflow:
        _, rows = asked(workflow, questions.DRIFT, view)
        wrong = list(tampering_records(workflow.root, workflow.log)) if view is None else []
        state = workflow.log.state(view)
        stages = state.stages.values() if state is not None else ()
        waiting = [*(state.drifts if state is not None else ()), *(s for s in stages if s.changed)]
        present(workflow.output, [*drift_records(rows), *wrong], _COLUMNS, _NAMES, view)
    if wrong or waiting:
        raise typer.Exit(FINDINGS)


_COLUMNS = (
    TableColumn("VERSION", lambda record: f"v{record['version']}"),
    TableColumn("WHEN", lambda record: utc_seconds(record["at"]) or ""),
    *(text("what"), text("file"), text("kind")),
    TableColumn("FIELDS", lambda record: ", ".join(record["fields"]), 60),
    *(text("kept_as"), text("message", None, 80)),
)
