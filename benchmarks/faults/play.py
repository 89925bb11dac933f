"""Play one fault with one contender, and record the judgement as a cell of the table."""

from __future__ import annotations

import datetime as dt
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.faults.faults import Fault
from benchmarks.faults.file_events import choose_events
from benchmarks.faults.game import Contender, Game, UnplayableError
from benchmarks.faults.judge import VERDICTS, judge_ending


@dataclass(frozen=True)
class Cell:
    """The result of one game, or of the worst of several games."""

    contender: str
    version: str
    fault: str
    work: str
    verdict: str  # one of VERDICTS, or `left out`
    reason: str
    commands: int = 0  # that the user had to run after the fault
    seconds: float = 0.0  # from the fault to the end of the last command
    games: int = 1
    date: str = ""


class Count(NamedTuple):
    """How often a fault is played."""

    repetitions: int = 3
    events: int = 10  # file events at which the driver is killed, or 0 for all


def play_cell(
    contender: Contender, fault: Fault, work: str, normal: frozenset[str], count: Count
) -> Cell:
    """Play a fault several times, and return the cell with the worst verdict.

    ``normal`` contains the lines that the contender prints in a game without a fault.
    """
    try:
        return _play_moments(contender, fault, work, normal, count)
    except UnplayableError as error:
        return leave_out(contender, fault, work, str(error))


def leave_out(contender: Contender, fault: Fault, work: str, reason: str) -> Cell:
    """Return a cell that names why a fault was not played."""
    name = contender.adapter.NAME
    return Cell(name, contender.version, fault.name, work, "left out", reason, games=0)


def _play_moments(
    contender: Contender, fault: Fault, work: str, normal: frozenset[str], count: Count
) -> Cell:
    """Play all moments of a fault several times, and return the worst cell."""
    obstacle = fault.find_obstacle()
    if obstacle:
        raise UnplayableError(obstacle)
    moments = choose_events(contender, work, count.events) if fault.has_moments else [0]
    return _choose_worst(
        _play_game(contender, fault, work, moment, normal)
        for _ in range(count.repetitions)
        for moment in moments
    )


def read_normal_lines(contender: Contender, work: str) -> frozenset[str]:
    """Play a game without a fault, and return the normalized lines that the tool prints.

    The command runs twice, because a user also sees what the second call prints. Raises
    RuntimeError if the result is not right, because the adapter is wrong in this case.
    """
    game = Game(contender, work, middle=0.5)
    try:
        game.write_files()
        game.start_driver()
        game.finish_driver()
        game.run_again()
        ending = game.read_ending()
    finally:
        game.close()
    judgement = judge_ending(ending, frozenset())
    if judgement.verdict != "right":
        text = "\n".join(ending.lines[-20:])
        raise RuntimeError(
            f"{contender.adapter.NAME} fails without a fault: {judgement.reason}\n{text}"
        )
    return frozenset(map(normalize_line, ending.lines))


def normalize_line(line: str) -> str:
    """Return a line without the numbers and digests that differ between two runs."""
    return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", line).strip()


def _play_game(
    contender: Contender, fault: Fault, work: str, moment: int, normal: frozenset[str]
) -> Cell:
    """Play one game and judge it."""
    game = Game(contender, work, fault.middle)
    game.moment = moment
    try:
        fault.prepare(game)
        game.write_files()
        game.start_driver()
        fault.act(game)
        is_failed = game.finish_driver() != 0
        if fault.is_edit and not is_failed:
            is_failed = game.run_again() != 0
        if is_failed:
            game.recover()
        ending = game.read_ending()
        lines = [line for line in ending.lines if normalize_line(line) not in normal]
        verdict, reason = judge_ending(ending._replace(lines=lines), fault.repeatable(game))
    finally:
        game.close()
    place = f"file event {moment}: " if moment else ""
    return Cell(
        contender=contender.adapter.NAME,
        version=contender.version,
        fault=fault.name,
        work=work,
        verdict=verdict,
        reason=textwrap.shorten(reason and place + reason, 300),
        commands=game.commands,
        seconds=round(game.ended_at - game.fault_at, 1),
        date=dt.datetime.now(dt.UTC).date().isoformat(),
    )


def _choose_worst(cells: Iterable[Cell]) -> Cell:
    """Return the cell with the worst verdict, and among equals with the longest recovery."""
    cells = list(cells)
    worst = max(cells, key=lambda cell: (VERDICTS.index(cell.verdict), cell.seconds))
    return Cell(**(vars(worst) | {"games": len(cells)}))
