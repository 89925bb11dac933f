"""Judge a game: right, told, twice or wrong, as RULES.md defines these verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.faults.truth import Run, find_overlaps, find_repetitions

#: The four verdicts, from the best to the worst.
VERDICTS = ("right", "told", "twice", "wrong")

#: A line with one of these words and the name of a step or a file informs the user of a problem.
WORDS = (
    *("changed", "differ", "drift", "edited", "error", "fail", "incomplete", "lost", "mismatch"),
    *("missing", "modified", "older", "outdated", "stale", "truncated", "warning"),
)


class Ending(NamedTuple):
    """What a game left behind: the runs of the steps, the final results and what the tool said."""

    runs: Sequence[Run]
    expected: Mapping[str, str]  # right content of each output
    results: Mapping[str, str]  # content when the last command ended, empty if the file is missing
    late_results: Mapping[str, str]  # content after every process has ended
    exit_code: int  # of the tool's last command
    lines: Sequence[str]  # output of all commands
    changed_files: Sequence[str] = ()  # names of the files that the fault changed


class Judgement(NamedTuple):
    """A verdict, and the reason for it in one sentence."""

    verdict: str
    reason: str


def judge_ending(ending: Ending, repeatable: frozenset[str]) -> Judgement:
    """Return the worst verdict that fits the end of a game.

    The fault allows to repeat the steps named `repeatable`.
    """
    path, problem = _find_problem(ending)
    message = _find_message(ending, [path.partition("/")[0], *ending.changed_files])
    if problem and not message:
        return Judgement("wrong", f"the tool reported success, but {problem}")
    repeated = sorted(set(find_repetitions(ending.runs)) - repeatable)
    if repeated:
        return Judgement("twice", f"computed twice: {', '.join(repeated)}")
    overlapping = find_overlaps(ending.runs)
    if overlapping:
        return Judgement("twice", f"two runs overlapped: {', '.join(overlapping)}")
    if problem:
        return Judgement("told", f"{problem}; {message}")
    return Judgement("right", "")


def _find_message(ending: Ending, names: Sequence[str]) -> str:
    """Return how the tool informed the user of a problem, or an empty string.

    A line of the output must contain one of the names, which are names of steps and files.
    """
    if ending.exit_code:
        last = ending.lines[-1].strip() if ending.lines else ""
        return f"exit code {ending.exit_code}: {last}"
    lines = (line for line in ending.lines if any(name in line for name in names))
    matching = (line for line in lines if any(word in line.lower() for word in WORDS))
    return next(matching, "").strip()


def _find_problem(ending: Ending) -> tuple[str, str]:
    """Return the path of the first wrong output and what is wrong, or two empty strings."""
    for path, content in ending.expected.items():
        if not ending.results[path]:
            return path, f"{path} is missing"
        if ending.results[path] != content:
            return path, f"{path} is wrong"
        if ending.late_results[path] != content:
            return path, f"{path} changed afterwards"
    return "", ""
