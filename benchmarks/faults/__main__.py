"""Play the fault games, store the cells in a JSON file, and print the table.

`python -m benchmarks.faults [--contender NAME]… [--work WORK]… [--fault FAULT]…
[--repetitions 3] [--events 10] [--json FILE] [--environments DIR] [--list | --report]`

RULES.md explains the games and the verdicts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults import slurm_cluster
from benchmarks.faults.environments import (
    ENVIRONMENTS,
    find_version,
    install,
    list_contenders,
    load_adapter,
)
from benchmarks.faults.faults import EVERYWHERE, FAULTS, Fault
from benchmarks.faults.game import Contender, find_scheduler
from benchmarks.faults.play import Cell, Count, leave_out, play_cell, read_normal_lines
from benchmarks.faults.report import print_report
from benchmarks.faults.table import merge_cells, read_cells, render_table


def main() -> None:
    """Play the chosen games and print the table of all cells in the JSON file."""
    options = _options()
    if options.list:
        for fault in FAULTS:
            print(f"{fault.name:28} {fault.title} ({', '.join(fault.works)})")
        return
    if options.report:
        print_report(options.json)
        return
    for name in options.contender or list_contenders():
        for cell in _play_column(name, options):
            line = f"{cell.contender} {cell.version}: {cell.fault} {cell.work}: {cell.verdict}"
            details = f"{cell.commands} commands, {cell.seconds} s; {cell.reason}"
            print(f"{line}; {details}", file=sys.stderr, flush=True)
            merge_cells(options.json, [cell])
    print(render_table(read_cells(options.json)), end="")


def _play_column(name: str, options: argparse.Namespace) -> Iterator[Cell]:
    """Play the chosen games with one contender, and yield a cell for each."""
    adapter = load_adapter(name)
    python = install(adapter, name, options.environments)
    contender = Contender(adapter, python, find_version(adapter, python))
    scheduler = find_scheduler(adapter)
    obstacle = slurm_cluster.find_obstacle() if scheduler else ""
    normal_lines: dict[str, frozenset[str]] = {}
    for fault, work in _choose_games(options, scheduler):
        if obstacle:
            yield leave_out(contender, fault, work, obstacle)
            continue
        if work not in normal_lines:
            normal_lines[work] = read_normal_lines(contender, work)
        count = Count(options.repetitions, options.events)
        yield play_cell(contender, fault, work, normal_lines[work], count)
    if scheduler and not obstacle:
        slurm_cluster.stop_cluster()


def _choose_games(options: argparse.Namespace, scheduler: str) -> Iterator[tuple[Fault, str]]:
    """Yield each chosen fault of a scheduler (or of none) with each of its chosen works."""
    for fault in FAULTS:
        is_chosen = not options.fault or fault.name in options.fault
        if not is_chosen or fault.scheduler != scheduler:
            continue
        for work in options.work or fault.works:
            yield fault, work


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("--contender", action="append", choices=list_contenders())
    parser.add_argument("--work", action="append", choices=EVERYWHERE)
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--events", type=int, default=10, help="file events, or 0 for all")
    parser.add_argument("--json", type=Path, default=Path("build/faults.json"))
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS)
    parser.add_argument("--list", action="store_true", help="list the faults, and play none")
    parser.add_argument("--report", action="store_true", help="print the tables and the failures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
