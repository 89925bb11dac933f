"""``wfctl blame``: who changed this number."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.options import At, KnownAt
from cli.output import Output, compact
from cli.table import Column, table
from cli.workspace import moment, reading
from projections.times import utc_seconds
from service.blame import blame as blamed

Field = Annotated[
    str, typer.Argument(metavar="FIELD", help="Such as stage-2.parameters.x, or stage-2.")
]


def blame(context: typer.Context, field: Field, at: At = None, known_at: KnownAt = None) -> None:
    """Who changed a field, or each of a stage: its value, the one before, who, when and why."""
    with reading(context) as workflow:
        view = moment(at, known_at)
        found = [entry.to_dict() for entry in blamed(workflow.log, field, view)]
        output = workflow.output
        state = workflow.log.current(view)
        output.result(
            found,
            lambda: _one(output, found[0]) if len(found) == 1 else table(output, found, _COLUMNS),
            state=state,
        )


def _value(entry: dict[str, Any], key: str = "value", there: str = "is_there") -> str:
    return compact(entry[key]) if entry[there] else "(not there)"


def _who(entry: dict[str, Any]) -> str:
    if entry["agreed_by"] is None:
        return str(entry["actor"])
    return f"{entry['proposed_by']}, agreed by {entry['agreed_by']}"


_COLUMNS = (
    Column("FIELD", lambda e: e["field"]),
    Column("VALUE", _value, 40),
    Column("BEFORE", lambda e: _value(e, "old", "was_there"), 24),
    Column("VERSION", lambda e: f"v{e['version']}"),
    Column("WHEN", lambda e: utc_seconds(e["occurred_at"]) or ""),
    Column("WHAT", lambda e: e["type"]),
    Column("WHO", _who),
    Column("WHY", lambda e: e["why"] or "", 60),
)


def _one(output: Output, entry: dict[str, Any]) -> str:
    cause = f", following from v{entry['cause']}" if entry["cause"] is not None else ""
    session = f", session {entry['session']}" if entry["session"] is not None else ""
    late = f", recorded {entry['recorded_at']}" if _is_late(entry) else ""
    lines = [
        output.style(f"{entry['field']} = {_value(entry)}", "1"),
        f"  before    {_value(entry, 'old', 'was_there')}",
        f"  event     v{entry['version']} {entry['type']} ({entry['event_id']}){cause}",
        f"  when      {entry['occurred_at']}{late}{session}",
        f"  who       {entry['actor']}",
    ]
    if entry["amendment"] is not None:
        lines += [
            f"  proposed  {entry['amendment']} by {entry['proposed_by']}, {entry['proposed_at']}",
            f"  agreed    by {entry['agreed_by']} ({entry['policy']}), {entry['agreed_at']}",
        ]
    lines += [f"  why       {entry['why']}"] if entry["why"] else []
    lines += [f"  {key:<9} {compact(value)}" for key, value in entry["evidence"].items()]
    return "\n".join(lines)


def _is_late(entry: dict[str, Any]) -> bool:
    return bool(entry["recorded_at"][:19] != entry["occurred_at"][:19])
