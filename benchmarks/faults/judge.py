"""Judge a game: right, told, twice or wrong, as RULES.md defines these verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.faults.truth import Run, find_overlaps, find_repetitions

#: The four verdicts, from the best to the worst.
VERDICTS = ("right", "told", "twice", "wrong")


class Ending(NamedTuple):
    """What a game left behind: the runs of the steps, the final results and what the tool said."""

    runs: Sequence[Run]
    expected: str  # content of the right final result
    result: str  # content when the tool reported its end, empty if the file is missing
    late_result: str  # content after every process has ended
    exit_code: int  # of the tool's last command
    lines: Sequence[str]  # output of all commands after the fault


class Judgement(NamedTuple):
    """A verdict, and the reason for it in one sentence."""

    verdict: str
    reason: str


def judge_ending(ending: Ending, repeatable: frozenset[str], words: Iterable[str]) -> Judgement:
    """Return the worst verdict that fits the end of a game.

    The fault allows to repeat the steps named `repeatable`. A line of the output that contains one
    of the `words` informs the user.
    """
    is_right = ending.expected == ending.result == ending.late_result
    message = _find_message(ending, words)
    if not is_right and not message:
        return Judgement("wrong", _describe_result(ending))
    repeated = sorted(set(find_repetitions(ending.runs)) - repeatable)
    if repeated:
        return Judgement("twice", f"computed twice: {', '.join(repeated)}")
    overlapping = find_overlaps(ending.runs)
    if overlapping:
        return Judgement("twice", f"two runs overlapped: {', '.join(overlapping)}")
    if not is_right:
        return Judgement("told", message)
    return Judgement("right", "")


def choose_worst(judgements: Iterable[Judgement]) -> Judgement:
    """Return the judgement with the worst verdict, the first one of several."""
    return max(judgements, key=lambda judgement: VERDICTS.index(judgement.verdict))


def _find_message(ending: Ending, words: Iterable[str]) -> str:
    """Return how the tool informed the user of a problem, or an empty string."""
    if ending.exit_code:
        last = ending.lines[-1].strip() if ending.lines else ""
        return f"exit code {ending.exit_code}: {last}"
    known = [word.lower() for word in words]
    matching = (line for line in ending.lines if any(word in line.lower() for word in known))
    return next(matching, "").strip()


def _describe_result(ending: Ending) -> str:
    if not ending.result:
        return "the tool reported success, but the result is missing"
    if ending.result == ending.expected:
        return "the result changed after the tool had reported success"
    return "the tool reported success, but the result is wrong"
