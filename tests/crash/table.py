"""The table of the kill matrix, as printed after a run and stored in tests/crash/matrix.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.crash.cells import EVERY, POSSIBLE, Backend, Cell, Target, When

PAGE = Path(__file__).with_name("matrix.md")
BEGIN, END = "<!-- the kill matrix -->", "<!-- end of the kill matrix -->"
HEAD = "| moment | victims (and what was hit) | verdicts after the blow | done | executions |"
_LINE = "|---|---|---|---|---|"
_ROW = re.compile(r"^\| (?P<when>[^|]+) \| (?P<victims>[^|]+) \| (?P<rest>.*) \|$")
#: Matches a victim in a table row. If the names of the killed programs differ from the victim, they
#: follow in parentheses.
_VICTIM = re.compile(r"(?P<target>[^,(]+?)(?: \((?P<hit>[^)]*)\))?(?:, |$)")
_NOT_STRUCK = "not struck"

Rows = dict[Cell, str]
"""The table columns after the victim, for each cell that was tested."""


def rows_of(lines: Iterable[str]) -> Rows:
    """Return the table rows for outcomes that are stored as lines of JSON."""
    found = map(json.loads, lines)
    return {_cell(one): _columns(one) for one in found}


def rendered(rows: Rows) -> str:
    """Return the table of all cells, including a note at each untested cell."""
    return "\n\n".join(f"### {backend}\n\n{_table(backend, rows)}" for backend in Backend)


def kept(page: str) -> Rows:
    """Return the rows of the cells that the page tests/crash/matrix.md lists as tested."""
    found: Rows = {}
    backend = None
    for line in _section(page).splitlines():
        if line.startswith("### "):
            backend = Backend(line.removeprefix("### "))
        elif (row := _ROW.match(line)) and backend and row["when"] in set(When):
            for one in _VICTIM.finditer(row["victims"]):
                if _NOT_STRUCK not in line:
                    cell = Cell(backend, When(row["when"]), Target(one["target"]))
                    found[cell] = f"{one['hit'] or one['target']} | {row['rest']}"
    return found


def written(page: str, rows: Rows) -> str:
    """Return the page tests/crash/matrix.md with new rows for the cells of these outcomes."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{rendered({**kept(page), **rows})}\n\n{END}{after}"


def _section(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0]


def _cell(one: dict[str, Any]) -> Cell:
    return Cell(Backend(one["backend"]), When(one["when"]), Target(one["target"]))


def _columns(one: dict[str, Any]) -> str:
    verdicts = " → ".join(f"`{name}`" for name in one["verdicts"]) or "none that was new"
    attempts = f" in {one['attempts']} attempts" if one["attempts"] > 1 else ""
    done = ", ".join(one["done"]) or "nothing"
    return f"{', '.join(one['hit'])} | {verdicts} | {done} | {one['executions']}{attempts}"


def _table(backend: Backend, rows: Rows) -> str:
    return "\n".join([HEAD, _LINE, *_lines(backend, rows), "", *_cannot(backend)])


def _lines(backend: Backend, rows: Rows) -> Iterator[str]:
    """Yield table rows. Victims of a moment with the same outcome share one row."""
    alike: dict[tuple[When, str], list[str]] = {}
    for cell in POSSIBLE:
        if cell.backend is backend:
            hit, _, rest = rows.get(cell, f"- | {_NOT_STRUCK} | - | -").partition(" | ")
            victim = cell.target if hit == cell.target else f"{cell.target} ({hit})"
            alike.setdefault((cell.when, rest), []).append(victim)
    for (when, rest), victims in alike.items():
        yield f"| {when} | {', '.join(victims)} | {rest} |"


def _cannot(backend: Backend) -> Iterator[str]:
    """Yield the impossible cells, grouped by reason."""
    reasons: dict[str, dict[When, list[str]]] = {}
    for cell in EVERY:
        if cell.backend is backend and cell.impossible:
            reasons.setdefault(cell.impossible, {}).setdefault(cell.when, []).append(cell.target)
    for reason, moments in reasons.items():
        told = "; ".join(f"{when}: {', '.join(victims)}" for when, victims in moments.items())
        yield f"Cannot be, as {reason} ({told})."
