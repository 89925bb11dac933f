"""``wfctl blame``: who changed this number."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.commands.events import of_machine
from cli.frame.options import At, Brief, KnownAt
from cli.frame.workspace import Reading, moment, reading
from cli.terminal.output import Output, compact
from cli.terminal.table import TableColumn, table
from projections.words.times import utc_seconds
from service.questions.blame import Blame
from service.questions.blame import blame as blamed
from service.reading.moment import Moment

Field = Annotated[
    str, typer.Argument(metavar="FIELD", help="Such as stage-2.parameters.x, or stage-2.")
]

#: Rows of a table that fits a screen.
_SCREEN = 18


def blame(
    context: typer.Context,
    field: Field,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="ID", help="Of a phase machine.")
    ] = None,
    brief: Brief = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Who changed a field, or each of a stage: its value, the one before, who, when and why."""
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        view = moment(at, known_at)
        if machine is None:
            changes = blamed(workflow.log, field, view)
        else:
            changes = _of_machine(root, machine, field, view)
        found = [entry.to_dict() for entry in changes]
        output = workflow.output
        if brief is not None:
            from cli.frame.brief import Newest

            newest = sorted(found, key=lambda entry: entry["version"])
            Newest(output, _short, _told, view).print(newest, brief)
            return
        state = workflow.log.current(view) if machine is None else None
        output.result(
            found,
            lambda: _one(output, found[0]) if len(found) == 1 else _page(output, found),
            state=state,
        )


def _of_machine(root: Reading, machine: str, field: str, view: Moment | None) -> list[Blame]:
    from cli.frame.machine_history import log_of
    from service.machines.blame import blame as of_machines

    return of_machines(log_of(root, machine), field, view)


def _page(output: Output, found: list[dict[str, Any]]) -> str:
    """Return the newest changes as a table that fits a screen, and count the others."""
    if len(found) <= _SCREEN:
        return table(output, found, _COLUMNS)
    first = min(entry["version"] for entry in found)
    since = [entry for entry in found if entry["version"] != first]
    shown = sorted(since, key=lambda entry: entry["version"])[-_SCREEN:]
    lines = [table(output, shown, _COLUMNS)] if shown else []
    if len(since) > len(shown):
        lines.append(f"and {len(since) - len(shown)} fields that were changed before these")
    names = [entry["field"] for entry in found if entry["version"] == first]
    if names:
        lines.append(f"as v{first} has them: {', '.join(names)}")
    return "\n".join(lines)


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """Return who, when, what and why, without the proof."""
    names = ("field", "value", "old", "version", "type", "actor", "agreed_by", "why")
    told = {name: entry[name] for name in names}
    return {**told, "at": utc_seconds(entry["occurred_at"])}


def _told(entry: dict[str, Any]) -> str:
    why = f": {entry['why']}" if entry["why"] else ""
    before = _value(entry, "old", "was_there")
    return f"v{entry['version']} {entry['field']} {before} → {_value(entry)}, {_who(entry)}{why}"


def _value(entry: dict[str, Any], key: str = "value", there: str = "is_there") -> str:
    return compact(entry[key]) if entry[there] else "(not there)"


def _who(entry: dict[str, Any]) -> str:
    if entry["agreed_by"] is None:
        return str(entry["actor"])
    return f"{entry['proposed_by']}, agreed by {entry['agreed_by']}"


_COLUMNS = (
    TableColumn("FIELD", lambda e: e["field"]),
    TableColumn("VALUE", _value, 40),
    TableColumn("BEFORE", lambda e: _value(e, "old", "was_there"), 24),
    TableColumn("VERSION", lambda e: f"v{e['version']}"),
    TableColumn("WHEN", lambda e: utc_seconds(e["occurred_at"]) or ""),
    TableColumn("WHAT", lambda e: e["type"]),
    TableColumn("WHO", _who),
    TableColumn("WHY", lambda e: e["why"] or "", 60),
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
