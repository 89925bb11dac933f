"""Render the tables of docs/trust/faults.md, and the command that plays each failure again."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.faults.faults import EVERYWHERE, FAULTS, Fault
from benchmarks.faults.play import Cell
from benchmarks.faults.table import join_row, name_contenders, read_cells

#: The cells of the page, without paths of the machine that played them.
RESULTS = Path(__file__).parent / "results.json"

#: A sign for each verdict in the table of the page.
LETTERS = {"right": "R", "told": "T", "twice": "2", "wrong": "W", "left out": "-"}


def render_page_tables(cells: Sequence[Cell]) -> str:
    """Return the tables of the page, separated by empty lines.

    They are a table of verdicts for the faults without a scheduler, one for each scheduler, and the
    table of recovery times.
    """
    tables = [render_letters(part) for part in split_by_scheduler(cells)]
    return "\n".join([*tables, render_seconds(cells)])


def split_by_scheduler(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells of the faults without a scheduler, then those of each scheduler."""
    schedulers = {fault.name: fault.scheduler for fault in FAULTS}
    return [
        [cell for cell in cells if schedulers[cell.fault] == scheduler]
        for scheduler in sorted({schedulers[cell.fault] for cell in cells})
    ]


def render_letters(cells: Sequence[Cell]) -> str:
    """Return a table with a letter for each verdict, contenders across and faults down.

    If the three works differ, the cell contains a letter for each: chain, sweep, rounds.
    """
    names = name_contenders(cells)
    lines = [join_row("fault", "name", *names), join_row("---", "---", *[":-:"] * len(names))]
    lines.append(join_row("version", "", *(_find_version(cells, name) for name in names)))
    lines.append(join_row("repetitions", "", *(_count_repetitions(cells, name) for name in names)))
    for fault in FAULTS:
        row = [_merge_letters(cells, fault, name) for name in names]
        if set(row) != {"-"}:
            lines.append(join_row(fault.title, f"`{fault.name}`", *row))
    lines.append(join_row("games with 2 or W", "", *(_count_bad(cells, name) for name in names)))
    return "\n".join(lines) + "\n"


def render_seconds(cells: Sequence[Cell]) -> str:
    """Return a table of seconds from the fault to the end of the last command, for the chain.

    The table compares wfctl with the fastest and the median of the contenders that were right.
    """
    head = ("fault", "wfctl", "fastest other", "median of the others")
    lines = [join_row(*head), join_row("---", *["--:"] * 3)]
    for fault in FAULTS:
        found = [cell for cell in cells if (cell.fault, cell.work) == (fault.name, "chain")]
        ours = [_describe_seconds(cell) for cell in found if cell.contender == "wfctl"]
        if ours:
            lines.append(join_row(fault.title, *ours, *_compare_others(found)))
    return "\n".join(lines) + "\n"


def list_failures(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield the verdict, the reason and the command of each cell that is not right."""
    for cell in cells:
        if cell.verdict not in ("right", "left out"):
            yield f"{cell.contender}: {cell.verdict}: {cell.reason}\n    {format_command(cell)}"


def format_command(cell: Cell) -> str:
    """Return the command that plays a cell again."""
    fault = next(fault for fault in FAULTS if fault.name == cell.fault)
    module = "_".join([*cell.contender.lower().split(), *filter(None, [fault.scheduler])])
    options = f"--contender {module} --fault {cell.fault} --work {cell.work}"
    return f"python -m benchmarks.faults {options}"


def print_report(path: Path) -> None:
    """Print the tables of a JSON file and all its failures."""
    cells = read_cells(path)
    print(render_page_tables(cells))
    print("\n".join(list_failures(cells)))


def _find_version(cells: Sequence[Cell], name: str) -> str:
    return next(cell.version for cell in cells if cell.contender == name)


def _count_bad(cells: Sequence[Cell], name: str) -> str:
    """Return how many cells of a contender are `twice` or `wrong`, and how many were played."""
    verdicts = [cell.verdict for cell in cells if cell.contender == name and cell.games]
    return f"{verdicts.count('twice') + verdicts.count('wrong')} of {len(verdicts)}"


def _count_repetitions(cells: Sequence[Cell], name: str) -> str:
    """Return how often each cell of a contender was played at least, file events aside."""
    moments = {fault.name for fault in FAULTS if fault.has_moments}
    own = [cell for cell in cells if cell.contender == name and cell.fault not in moments]
    return str(min((cell.games for cell in own if cell.games), default=0))


def _merge_letters(cells: Sequence[Cell], fault: Fault, name: str) -> str:
    """Return the letters of all works of a fault, as one letter if they are equal."""
    found = {
        cell.work: LETTERS[cell.verdict]
        for cell in cells
        if (cell.contender, cell.fault) == (name, fault.name)
    }
    letters = [found.get(work, "-") for work in EVERYWHERE if work in fault.works]
    return letters[0] if len(set(letters)) == 1 else " ".join(letters)


def _describe_seconds(cell: Cell) -> str:
    """Return the seconds of a cell, or its verdict if it is not right."""
    return f"{cell.seconds:.1f}" if cell.verdict == "right" else cell.verdict


def _compare_others(cells: Sequence[Cell]) -> tuple[str, str]:
    """Return the smallest and the median number of seconds of the other contenders."""
    seconds = [c.seconds for c in cells if c.contender != "wfctl" and c.verdict == "right"]
    if not seconds:
        return "none is right", ""
    return f"{min(seconds):.1f}", f"{statistics.median(seconds):.1f}"
