"""``wfctl compare``: attempts, moments and workflows side by side."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands.events import of_machine
from cli.frame.options import FINDINGS, File, KnownAt, Text, argument, moment, option
from cli.frame.workspace import Reading, reading, reading_of, settings_of
from cli.settings import Format, Settings
from cli.terminal.output import Output, compact
from cli.terminal.table import TableColumn, present
from lifecycle.state.workflow import Workflow
from projections.files.comparison import ComparedSide, rows, side_of_attempt, side_of_state
from projections.files.document_diff import FieldDifference, differences
from projections.files.state_document import document
from projections.words.text import shown
from service.errors import InvalidOption, NotFound
from service.reading.moment import Moment

_ATTEMPT = re.compile(r"(?P<stage>[^/]+)/(?P<attempt>att-[0-9]{4,})")
#: Characters of a value, and of a digest.
_WIDE, _DIGEST = 40, 12


def compare(
    context: typer.Context,
    sides: Annotated[
        list[str], argument("A B…", "STAGE/ATTEMPT, a workflow's folder, or a moment.")
    ],
    every: bool = option("--all", "Also what is the same."),
) -> None:
    """Parameters that differ, times, and whether outputs are equal by digest, side by side."""
    if len(sides) < 2 or len(set(sides)) < len(sides):
        raise InvalidOption("expected two sides or more, each once: `wfctl compare A B`")
    settings = settings_of(context)
    found = rows([_side(settings, name) for name in sides])
    wanted = [row for row in found if every or row.kind == "output" or not row.is_same]
    output = Output(settings)
    is_flat = settings.format in (Format.TEXT, Format.CSV)
    records: list[dict[str, Any]] = []
    for row in wanted:
        values = dict(zip(sides, row.values, strict=True))
        named = values if is_flat else {"values": values}
        records.append({"kind": row.kind, "name": row.name, **named, "same": row.is_same})
    if settings.format is Format.JSON:
        output.result({"sides": sides, "rows": records}, str)
        return

    def value(side: str, one: dict[str, Any]) -> str:
        if one["kind"] in ("script", "output") and one[side]:
            return str(one[side])[:_DIGEST]
        return shown(one[side]) or "-"

    columns = [
        TableColumn("KIND", lambda one: one["kind"]),
        TableColumn("NAME", lambda one: one["name"], _WIDE),
        *(TableColumn(name, partial(value, name), _WIDE) for name in sides),
        TableColumn("SAME", lambda one: "yes" if one["same"] else "no"),
    ]
    present(output, records, columns, ["kind", "name", *sides, "same"], None)


def _side(settings: Settings, name: str) -> ComparedSide:
    if (Path(name) / ".wfctl" / "config.toml").is_file():
        with reading_of(replace(settings, root=Path(name), database_url=None)) as there:
            return side_of_state(name, there.state())
    with reading_of(settings) as here:
        named = _ATTEMPT.fullmatch(name)
        if named is None:
            return side_of_state(name, here.log.current(moment(name, None)))
        stage, attempt = named["stage"], named["attempt"]
        known = here.state().stage(stage)
        side = side_of_attempt(name, here.log.steps(), stage, attempt)
        if side is None:
            has = ", ".join(one.id for one in known.attempts) or "none"
            raise NotFound(f"{stage} has no attempt {attempt}; it has {has}", stage=stage)
        return side


def diff(
    context: typer.Context,
    first: Text = argument("[A]", "A moment; else now."),
    second: Text = argument("[B]", "A later one; else now."),
    root_b: File = option("DIR", "Another workflow, seen at B."),
    field: Text = option("FIELD", "Only this, such as stage-2.parameters."),
    machine: Text = option("ID", "Of a phase machine."),
    known_at: KnownAt = None,
) -> None:
    """What differs between two moments, or two workflows, field by field (exit 7 if anything)."""
    other = replace(settings_of(context), root=root_b, database_url=None) if root_b else None
    with (
        reading(context) as here,
        reading_of(other) if other is not None else nullcontext(here) as there,
    ):
        before, old, _ = _diff_side(here, machine, moment(first, known_at))
        after, new, state = _diff_side(there, machine, moment(second, known_at))
        found = [
            one
            for one in differences(old, new)
            if field is None or f"{one.name}.".startswith(f"{field}.")
        ]
        told = [
            {"field": one.name, "stage": one.stage, "kind": one.kind, "a": one.old, "b": one.new}
            for one in found
        ]
        output = here.output if machine is None else of_machine(here, machine).output
        lines = [line for one in found for line in _lines(output, one)]
        versions = f"version {before['version']} and version {after['version']}"
        text = "\n".join(lines) or f"no field differs between {versions}"
        output.result({"a": before, "b": after, "differences": told}, lambda: text, state=state)
    if found:
        raise typer.Exit(FINDINGS)


def _diff_side(
    root: Reading, machine: str | None, view: Moment | None
) -> tuple[dict[str, Any], dict[str, Any], Workflow | None]:
    """Return what is compared, for the answer; its document; the state of a workflow."""
    if machine is not None:
        from cli.frame.machine_history import document_of

        version, whole = document_of(root, machine, view)
        return {"machine": machine, "version": version}, whole, None
    state = root.log.current(view)
    return {"workflow": state.id, "version": state.head}, document(state), state


def _lines(output: Output, difference: FieldDifference) -> list[str]:
    lines = [difference.name + (" (order)" if difference.kind == "order" else "")]
    if difference.kind != "added":
        lines.append(output.style(f"  - {compact(difference.old)}", "31"))
    if difference.kind != "removed":
        lines.append(output.style(f"  + {compact(difference.new)}", "32"))
    return lines
