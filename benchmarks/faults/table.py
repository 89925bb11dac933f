"""Store cells in a JSON file, and render them as one Markdown table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.faults import FAULTS, Fault
from benchmarks.faults.judge import VERDICTS
from benchmarks.faults.play import Cell


def merge_cells(path: Path, cells: Iterable[Cell]) -> list[Cell]:
    """Add cells to the JSON file at `path`, replace those of the same game, and return all."""
    merged = {_identify(cell): cell for cell in [*read_cells(path), *cells]}
    ordered = [merged[key] for key in sorted(merged)]
    content: dict[str, Any] = {"verdicts": VERDICTS, "cells": [vars(cell) for cell in ordered]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return ordered


def read_cells(path: Path) -> list[Cell]:
    """Return the cells of a JSON file; an absent file contains none."""
    if not path.exists():
        return []
    return [Cell(**cell) for cell in json.loads(path.read_text())["cells"]]


def render_table(cells: Sequence[Cell]) -> str:
    """Return a Markdown table with contenders across and faults down; `-` is not played."""
    names = name_contenders(cells)
    found = {(cell.contender, cell.fault, cell.work): cell for cell in cells}
    lines = [join_row("fault", *names), join_row(*["---"] * (len(names) + 1))]
    for fault in FAULTS:
        for work in fault.works:
            row = [found.get((name, fault.name, work)) for name in names]
            if any(row):
                lines.append(join_row(_title(fault, work), *map(_render_cell, row)))
    return "\n".join(lines) + "\n"


def _identify(cell: Cell) -> tuple[str, str, str]:
    return cell.contender, cell.fault, cell.work


def _title(fault: Fault, work: str) -> str:
    return fault.title if fault.works == ("chain",) else f"{fault.title} ({work})"


def _render_cell(cell: Cell | None) -> str:
    """Return the verdict with the number of commands and the seconds of the recovery."""
    if cell is None:
        return "-"
    if cell.verdict == "left out":
        return "left out"
    return f"{cell.verdict}, {cell.commands} · {cell.seconds:.0f} s"


def join_row(*words: str) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(words)} |"


def name_contenders(cells: Iterable[Cell]) -> list[str]:
    """Return the names of all contenders, wfctl first."""
    names = {cell.contender for cell in cells}
    return sorted(names, key=lambda name: (name != "wfctl", name.lower()))
