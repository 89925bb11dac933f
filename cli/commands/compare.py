"""``wfctl compare``: show attempts, stages, rounds or workflows side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.options import (
    Text,
    argument,
    option,
)
from cli.frame.workspace import open_workflow_for_reading, settings_of
from cli.settings import Format, Settings
from cli.terminal.output import Output
from cli.terminal.table import TableColumn, format_table, print_csv, print_records
from lifecycle.state.workflow import Stage, Workflow
from projections.files.comparison import (
    OF_FILES,
    ComparedItem,
    ComparedRow,
    build_column_headers,
    build_comparison_rows,
    compute_sort_order,
    get_sortable_value,
    select_run_columns,
)
from service.errors import InvalidOption, NotFound
from service.questions.comparison_sides import build_side, list_attempt_or_round_names
from wfctl_eventstore.extension import require_extension

#: Kinds of rows that the comparison shows even if the values are equal.
_ALWAYS = ("metric", "output")
#: Maximum number of characters of a name or value in the table.
_WIDE = 40
Record = dict[str, Any]
#: Function that splits the name of a compared item, such as ``../b/stage-2/att-0001`` or
#: ``b.zip/stage-2``, into the settings for its workflow folder and the rest of the name.
_Finding = Callable[[str], tuple[Settings, str]]


def compare(
    context: Context,
    sides: Annotated[
        list[str],
        argument(
            "A B…",
            "The items to compare: stages (stage-2), runs of a stage (stage-2/att-0001), "
            "rounds of a loop (LOOP@3), moments, or workflow folders or archives (DIR or "
            "DIR/STAGE). With one stage or loop, wfctl compares all its runs or rounds.",
        ),
    ],
    every: bool = option("--all", "Also show values that are equal."),
    runs: bool = option(
        "Print a table with one row for each item, showing its numbers and differences."
    ),
    sort: Text = option(
        "NAME",
        "Sort the table by this column. Use -NAME to put the largest value first. Requires --runs.",
    ),
    text: Text = option(
        "FILE", "Show the line-by-line differences of this script, input or output file."
    ),
) -> None:
    """Compare the numbers and inputs of attempts, stages or workflows.

    The command shows the numbers, parameters, scripts, inputs and times that differ, and the
    outputs that are equal.
    """
    settings = settings_of(context)
    if sort is not None and not runs:
        raise InvalidOption(
            "the option --sort can be used only with the option --runs, because --sort names a "
            "column of the table that --runs prints. Add --runs, or remove --sort."
        )
    output = Output(settings)
    with _open_workflow_finder(settings) as where:
        names = _expand_sides(where, sides)
        if len(names) < 2 or len(set(names)) < len(names):
            alone = "or a stage or loop with two attempts or rounds"
            raise InvalidOption(
                f"the command needs at least two different items to compare, {alone}."
            )
        found = build_comparison_rows([_build_compared_side(where, name) for name in names])
        if text is not None:
            _print_file_diff(output, where, names, found, text)
            return
    if runs:
        _print_runs(output, names, found, sort)
    else:
        wanted = [row for row in found if every or row.kind in _ALWAYS or not row.is_same]
        _print_rows(output, names, wanted)


@contextmanager
def _open_workflow_finder(settings: Settings) -> Iterator[_Finding]:
    """Yield a function that finds the workflow folder of a compared item.

    An item may be in an archive. Each archive is unpacked once, and the copy is deleted at the end.
    """
    with ExitStack() as opened:

        @cache
        def root_in(archive: Path) -> Path:
            handover = require_extension("handover", f"the archive {archive}")
            return opened.enter_context(handover.open_archive(archive)).path

        def where(name: str) -> tuple[Settings, str]:
            path = Path(name)  # which has no slash at its end
            for place in (path, *(one for one in path.parents if one != Path())):
                root = root_in(place) if _is_archive(place) else place
                if (root / ".wfctl" / "config.toml").is_file():
                    rest = str(path.relative_to(place)) if path != place else ""
                    return replace(settings, root=root, database_url=None), rest
            return settings, name.rstrip("/") or name

        yield where


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() == ".zip" and path.is_file()


def _expand_sides(where: _Finding, sides: Sequence[str]) -> list[str]:
    """Return the names of the items to compare.

    If the only name is a stage or a loop, return the names of its attempts or rounds instead.
    """
    if len(sides) != 1:
        return list(sides)
    there, rest = where(sides[0])
    with open_workflow_for_reading(there) as here:
        found = list_attempt_or_round_names(rest, here.state())
    prefix = sides[0].rstrip("/").removesuffix(rest)
    return [f"{prefix}{one}" for one in found]


def _build_compared_side(where: _Finding, name: str) -> ComparedItem:
    there, rest = where(name)
    with open_workflow_for_reading(there) as here:
        state = here.state()
        return build_side(
            name, rest, here.log, state, partial(_list_done_tasks, here.root.path, state)
        )


def _list_done_tasks(root: Path, state: Workflow, stage: Stage) -> list[Record]:
    """Return a record of each finished task of a sweep, or of each point with replicates.

    A sweep is a stage that runs one task per point.
    """
    from lifecycle.sweeps.replicates import average_replicates
    from reconciler.sweep.stage_tasks import get_stage_tasks

    rows = get_stage_tasks(root, state, stage).rows()
    return average_replicates(one for one in rows if one["state"] == "done")


def _print_rows(output: Output, names: list[str], found: Sequence[ComparedRow]) -> None:
    """Print a comparison, with a line for each name and a column for each side."""
    settings = output.settings
    if settings.format is Format.JSON:
        output.result({"sides": names, "rows": [_in_json(names, row) for row in found]}, str)
        return
    if settings.format is not Format.TEXT:
        flat = [one for row in found for one in _flatten_row(names, row)]
        print_records(
            output, flat, [], ["kind", "name", *names, "same", "difference", "sigma"], None
        )
        return
    records: list[Record] = [{"row": row} for row in found]

    def cell(place: int, record: Record) -> str:
        return str(record["row"].cell(place))

    def apart(record: Record) -> str:
        row = record["row"]
        if row.is_same:
            return "same"
        far = row.apart[0] if len(names) == 2 else None
        return str(far) if far is not None else "differs"

    columns = [
        TableColumn("KIND", lambda one: one["row"].kind),
        TableColumn("NAME", lambda one: one["row"].name, _WIDE),
        *(TableColumn(name, partial(cell, n), _WIDE) for n, name in enumerate(names)),
        TableColumn("DIFFERENCE", apart),
    ]
    output.print(format_table(output, records, columns))


def _in_json(names: list[str], row: ComparedRow) -> Record:
    told: Record = {"kind": row.kind, "name": row.name}
    told |= {"values": dict(zip(names, row.values, strict=True)), "same": row.is_same}
    apart = zip(names[1:], row.apart, strict=True)
    far = {name: one._asdict() for name, one in apart if one is not None}
    return told | ({"difference": far} if far and not row.is_same else {})


def _flatten_row(names: list[str], row: ComparedRow) -> Iterator[Record]:
    """Yield a comparison row as a flat record, for output in CSV or JSON lines.

    If the row contains a number with an error, yield a second record with the errors.
    """
    values = map(get_sortable_value, row.values)
    far = row.apart[0] if len(names) == 2 else None
    yield {
        "kind": row.kind,
        "name": row.name,
        **dict(zip(names, values, strict=True)),
        "same": row.is_same,
        "difference": far.value if far else None,
        "sigma": far.sigma if far else None,
    }
    errors = [one["error"] if row.kind == "metric" and one else None for one in row.values]
    if any(one is not None for one in errors):
        about = {"same": None, "difference": None, "sigma": None}
        yield {"kind": "error", "name": row.name, **dict(zip(names, errors, strict=True)), **about}


def _print_runs(
    output: Output, names: list[str], found: Sequence[ComparedRow], sort: str | None
) -> None:
    """Print a table with one line for each compared attempt or round.

    The columns are its numbers, the parameters that differ, and its duration. ``sort`` names a
    column.
    """
    told = select_run_columns(found)
    columns_of = dict(zip(build_column_headers(told), told, strict=True))
    records = [_build_run_record(name, place, columns_of) for place, name in enumerate(names)]
    heads = ["side", *columns_of]
    if sort is not None:
        records = _sort_records(records, heads, sort)
    if not output.is_text:
        flat = [{**one["values"]} for one in records]
        if output.settings.format is Format.CSV:
            print_csv(flat, heads, output.is_terminal)
        else:
            output.records(flat, lambda _: "")
        return

    def cell(head: str, record: Record) -> str:
        return str(record["cells"].get(head, "-"))

    columns = [TableColumn(head.upper() if head == "side" else head, partial(cell, head), _WIDE)
               for head in heads]  # fmt: skip
    output.print(format_table(output, records, columns))


def _build_run_record(name: str, place: int, told: Mapping[str, ComparedRow]) -> Record:
    values = {head: get_sortable_value(row.values[place]) for head, row in told.items()}
    cells = {head: row.cell(place) for head, row in told.items()}
    return {"values": {"side": name, **values}, "cells": {"side": name, **cells}}


def _sort_records(records: list[Record], heads: list[str], sort: str) -> list[Record]:
    """Return the records sorted by the column ``sort``.

    Numbers come first, then text, then missing values.
    """
    name, down = sort.removeprefix("-"), sort.startswith("-")
    if name not in heads:
        raise InvalidOption(
            f"the table has no column {name!r}, which --sort names. Columns of the table: "
            f"{', '.join(heads)}."
        )

    order = compute_sort_order([one["values"].get(name) for one in records], down=down)
    return [records[place] for place in order]


def _print_file_diff(
    output: Output, where: _Finding, names: list[str], found: Sequence[ComparedRow], file: str
) -> None:
    """Print the differences of a file between the first side and each other side.

    Raises `NotFound` if no side recorded the file, or if its content no longer exists.
    """
    from service.questions.recorded_content import find_content, format_difference

    # The file can be an output of one attempt and an input of another, so search both kinds.
    kinds = [one.values for one in found if one.kind in OF_FILES and one.name == file]
    kinds.sort(key=lambda values: list(values).count(None))
    if not kinds:
        known = ", ".join(one.name for one in found if one.kind in OF_FILES) or "none"
        raise NotFound(
            f"none of the compared items recorded the file {file!r}. Recorded files: {known}.",
            file=file,
        )
    roots = []
    for name in names:
        with open_workflow_for_reading(where(name)[0]) as here:
            roots.append(here.root.path)
    digests = (next(filter(None, of_side), None) for of_side in zip(*kinds, strict=True))
    texts = [
        find_content(root, file, digest) if digest is not None else b""
        for root, digest in zip(roots, digests, strict=True)
    ]
    gone = [name for name, one in zip(names, texts, strict=True) if one is None]
    if gone:
        raise NotFound(
            f"wfctl cannot show the content of the file {file} for {', '.join(gone)}. The log "
            "contains only the checksum of the file, and neither the folder nor the Git history "
            "contains this version.",
            file=file,
        )
    lines = [
        line
        for name, one in zip(names[1:], texts[1:], strict=True)
        for line in format_difference(
            texts[0] or b"", one or b"", f"{names[0]}:{file}", f"{name}:{file}"
        )
    ]
    data = {"file": file, "sides": names, "lines": lines}
    output.result(data, lambda: "\n".join(lines) or f"{file} is the same")
