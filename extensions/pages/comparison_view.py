"""Render the page that compares attempts, stages, rounds, moments and workflows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from extensions.pages import render
from extensions.pages.page_data import PageLook
from lifecycle.state.workflow import Stage
from projections.files.comparison import (
    ComparedItem,
    build_column_headers,
    build_comparison_rows,
    compute_sort_order,
    describe_change,
    get_sortable_value,
    select_run_columns,
)
from service.questions.comparison_sides import (
    build_side,
    list_attempt_or_round_names,
    list_comparable_names,
)

#: Maximum numbers of columns of runs, of differences, and of names to choose from.
_COLUMNS, _DIFFERENCES, _NAMES = 12, 100, 300
#: Kinds of rows that a comparison shows even if their values are equal.
_ALWAYS = ("metric", "output")


def render_comparison(look: PageLook) -> bytes:
    """Return the page that compares two items, or all attempts of a stage or rounds of a loop.

    The second item can belong to another workflow that the server shows.
    """
    a, b = (look.request.text(name) or "" for name in ("a", "b"))
    with _open_second_workflow(look) as other:
        names, sides = _build_sides(look, other, a, b)
        choices = [list_comparable_names(one.then)[:_NAMES] for one in (look, other)]
    found = build_comparison_rows(sides)
    rows = [row for row in found if row.kind in _ALWAYS or not row.is_same][:_DIFFERENCES]
    told = select_run_columns(found)
    columns = dict(zip(build_column_headers(told), told, strict=True))
    sort = look.request.text("sort") or ""
    by = columns.get(sort.removeprefix("-"))
    values = list(map(get_sortable_value, by.values)) if by is not None else [None] * len(names)
    is_runs = other is look and not b
    return render.render_page(
        "compare.html.j2", **look.common, a=a, b=b, names=names, rows=rows, choices=choices,
        columns=[*columns.items()][:_COLUMNS], sort=sort, is_runs=is_runs,
        sentences=[] if is_runs else [describe_change(row, names) for row in rows],
        order=compute_sort_order(values, down=sort.startswith("-")),
        others=[one for one in look.shelf.entries() if one.key != look.entry.key],
        second="" if other is look else other.entry.key,
    )  # fmt: skip


@contextmanager
def _open_second_workflow(look: PageLook) -> Iterator[PageLook]:
    """Yield the data of the workflow to which the second item belongs.

    This is the workflow of the page unless the address names another one. Raises `NotFound` for an
    unknown workflow.
    """
    key = look.request.text("with")
    if key is None or key == look.entry.key:
        yield look
        return
    entry = look.shelf.entry(key)
    # A moment in the address belongs to the workflow of the page only.
    values = {name: value for name, value in look.request.values.items() if name != "at"}
    with entry.open() as log:
        state = look.shelf.state(entry, log)
        request = replace(look.request, values=values)
        yield PageLook(look.shelf, entry, log, request, state, state)


def _build_sides(
    look: PageLook, other: PageLook, a: str, b: str
) -> tuple[list[str], list[ComparedItem]]:
    """Return the names and the values of the compared items.

    In another workflow, the second item has the name of the first one by default. Return empty
    lists if there is nothing to compare.
    """
    if other is not look:
        names = [a or look.entry.key, f"{other.entry.key}/{b or a}".rstrip("/")]
        return names, [_build_side(look, names[0], a), _build_side(other, names[1], b or a)]
    asked = [one for one in (a, b) if one]
    names = list_attempt_or_round_names(asked[0], look.then) if len(asked) == 1 else asked
    if len(names) < 2:
        return names, []
    return names, [_build_side(look, name, name) for name in names]


def _build_side(look: PageLook, name: str, named: str) -> ComparedItem:
    def tasks(stage: Stage) -> list[dict[str, Any]]:
        return [one for one in look.tasks(stage) if one["state"] == "done"]

    return build_side(name, named, look.log, look.then, tasks)
