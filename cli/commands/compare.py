"""``wfctl compare``: attempts, moments and workflows side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.frame.workspace import Reading, moment, reading_of, settings_of
from cli.settings import Format, Settings
from cli.terminal.output import Output
from cli.terminal.table import TableColumn, present
from projections.files.comparison import (
    ComparedRow,
    ComparedSide,
    rows,
    side_of_attempt,
    side_of_state,
)
from projections.words.cells import shown
from service.errors import InvalidOption, NotFound

_ATTEMPT = re.compile(r"(?P<stage>[^/]+)/(?P<attempt>att-[0-9]{4,})")
#: Characters of a value, and of a digest.
_WIDE, _DIGEST = 40, 12
Sides = Annotated[
    list[str],
    typer.Argument(metavar="A B…", help="STAGE/ATTEMPT, a workflow's folder, or a moment."),
]


def compare(
    context: typer.Context,
    sides: Sides,
    every: Annotated[bool, typer.Option("--all", help="Also what is the same.")] = False,
) -> None:
    """Parameters that differ, times, and whether outputs are equal by digest, side by side."""
    if len(sides) < 2 or len(set(sides)) < len(sides):
        raise InvalidOption("expected two sides or more, each once: `wfctl compare A B`")
    settings = settings_of(context)
    found = rows([_side(settings, name) for name in sides])
    wanted = [row for row in found if every or row.kind == "output" or not row.is_same]
    output = Output(settings)
    is_flat = settings.format in (Format.TEXT, Format.CSV)
    records = [_record(row, sides, is_flat=is_flat) for row in wanted]
    if settings.format is Format.JSON:
        output.result({"sides": sides, "rows": records}, str)
        return
    columns = [
        TableColumn("KIND", lambda one: one["kind"]),
        TableColumn("NAME", lambda one: one["name"], _WIDE),
        *(TableColumn(name, _value_of(name), _WIDE) for name in sides),
        TableColumn("SAME", lambda one: "yes" if one["same"] else "no"),
    ]
    present(output, records, columns, ["kind", "name", *sides, "same"], None)


def _side(settings: Settings, name: str) -> ComparedSide:
    """Return what a word names; raises `NotFound`, `InvalidOption`."""
    if (Path(name) / ".wfctl" / "config.toml").is_file():
        with reading_of(replace(settings, root=Path(name), database_url=None)) as there:
            return side_of_state(name, there.state())
    with reading_of(settings) as here:
        attempt = _ATTEMPT.fullmatch(name)
        if attempt is None:
            return side_of_state(name, here.log.current(moment(name, None)))
        return _of_attempt(here, name, attempt["stage"], attempt["attempt"])


def _of_attempt(here: Reading, name: str, stage: str, attempt: str) -> ComparedSide:
    known = here.state().stage(stage)
    side = side_of_attempt(name, here.log.steps(), stage, attempt)
    if side is None:
        has = ", ".join(one.id for one in known.attempts) or "none"
        raise NotFound(f"{stage} has no attempt {attempt}; it has {has}", stage=stage)
    return side


def _record(row: ComparedRow, sides: list[str], *, is_flat: bool) -> dict[str, Any]:
    values = dict(zip(sides, row.values, strict=True))
    named = values if is_flat else {"values": values}
    return {"kind": row.kind, "name": row.name, **named, "same": row.is_same}


def _value_of(side: str) -> Any:
    def text(one: dict[str, Any]) -> str:
        value = one[side]
        return (
            str(value)[:_DIGEST]
            if one["kind"] in ("script", "output") and value
            else shown(value) or "-"
        )

    return text
