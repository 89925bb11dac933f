"""Run several contenders in turn, so that other load on the machine slows all of them."""

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Figure = TypeVar("Figure")

# A name and a function that gets an empty folder and returns a figure, such as events per second.
Contender = tuple[str, Callable[[Path], float]]


class Result(NamedTuple):
    """The median of a contender over all rounds, and its lowest and highest figure."""

    name: str
    median: float
    least: float
    most: float


def interleaved(contenders: Sequence[Contender], rounds: int, disk: Path) -> list[Result]:
    """Run each contender once per round in a new folder, and return their results.

    The order of the contenders rotates from round to round.
    """
    figures: dict[str, list[float]] = {name: [] for name, _ in contenders}
    for number in range(rounds):
        turn = number % len(contenders)
        for name, run in (*contenders[turn:], *contenders[:turn]):
            figures[name].append(in_fresh_folder(run, disk))
    return [_result(name, figures[name]) for name, _ in contenders]


def in_fresh_folder(run: Callable[[Path], Figure], disk: Path) -> Figure:
    """Call a function with a new folder on the disk to measure, and remove the folder.

    Returns the result of the function.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=disk))
    try:
        return run(folder)
    finally:
        shutil.rmtree(folder)


def _result(name: str, figures: list[float]) -> Result:
    return Result(name, statistics.median(figures), min(figures), max(figures))


def table(title: str, unit: str, results: Sequence[Result]) -> str:
    """Return the results as a Markdown table, with the ratio of wfctl to each contender.

    The first result is the one of wfctl.
    """
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
