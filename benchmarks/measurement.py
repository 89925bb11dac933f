"""Rounds of several contenders in turn, so that a busy moment hits all of them alike."""

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Figure = TypeVar("Figure")

# A contender gets an empty folder and gives back a figure, such as events per second.
Contender = tuple[str, Callable[[Path], float]]


class Result(NamedTuple):
    """A contender's median over the rounds, and its extremes."""

    name: str
    median: float
    least: float
    most: float


def interleaved(contenders: Sequence[Contender], rounds: int, disk: Path) -> list[Result]:
    """Let each contender run once a round, each time in another order and in a fresh folder."""
    figures: dict[str, list[float]] = {name: [] for name, _ in contenders}
    for number in range(rounds):
        turn = number % len(contenders)
        for name, run in (*contenders[turn:], *contenders[:turn]):
            figures[name].append(in_fresh_folder(run, disk))
    return [_result(name, figures[name]) for name, _ in contenders]


def in_fresh_folder(run: Callable[[Path], Figure], disk: Path) -> Figure:
    """Run with a folder on the disk to be measured, and remove it after."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=disk))
    try:
        return run(folder)
    finally:
        shutil.rmtree(folder)


def _result(name: str, figures: list[float]) -> Result:
    return Result(name, statistics.median(figures), min(figures), max(figures))


def table(title: str, unit: str, results: Sequence[Result]) -> str:
    """A Markdown table; the first contender is ours, and the ratios are to the others."""
    ours = results[0].median
    lines = [
        f"### {title}",
        "",
        f"| who | median, {unit} | least | most | ours is |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, median, least, most in results:
        ratio = f"{ours / median:.2f} x" if name != results[0].name else ""
        lines.append(
            f"| {name} | {_figure(median)} | {_figure(least)} | {_figure(most)} | {ratio} |"
        )
    return "\n".join([*lines, ""])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
