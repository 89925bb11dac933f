"""What somebody who knows nothing needs to go on: plain values, without the time of day.

The same log and the same disk give the same briefing: every time in it was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from projections.words.text import NextAction
from service.questions.meanwhile import Happened

_NUMBERED = re.compile(r"(.*-)([1-9][0-9]*)")


def shortened(names: Iterable[str]) -> str:
    """Return names in one line: those with a number under their prefix, as ranges.

    A name without a number stands as it is; groups are parted by a space.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups.setdefault(found[1], []).append(int(found[2]))
    return " ".join([*(f"{key}{_ranges(numbers)}" for key, numbers in groups.items()), *plain])


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    spelled = {0: "{0}", 1: "{0},{1}"}
    return ",".join(spelled.get(run[1] - run[0], "{0}..{1}").format(*run) for run in runs)


@dataclass(frozen=True, slots=True)
class BriefVerdict:
    """A verdict and the stages whose attempts of this id it was said of."""

    stages: tuple[str, ...]
    attempt: str
    verdict: str
    action: str
    row: int | None = None
    reason: str | None = None
    ended_at: str | None = None
    evidence: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """What was recorded or started again, and for which stages."""

    stages: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefItem:
    """Things of one kind, stages or files, that do not fit or that wait for a person."""

    kind: str
    subjects: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefCriteria:
    """By which words a stage that is under way, failed or due is judged; how far its tasks are."""

    stage: str
    criteria: str
    tasks: str = ""


@dataclass(frozen=True, slots=True)
class Briefing:
    """One screen for a new session. ``since`` is the last act of a person, an agent or a session,
    ``meanwhile`` what followed; ``decided`` and ``noted`` are the last decision of a person and the
    last note of anybody; ``left_out`` says what was cut for brevity.
    """

    workflow: str
    purpose: str | None
    status: str
    version: int
    last_recorded: str
    counts: dict[str, int]
    session: dict[str, Any]
    stages: tuple[dict[str, Any], ...]
    since: Happened | None
    meanwhile: tuple[Happened, ...]
    found: tuple[BriefVerdict, ...]
    contradictions: tuple[BriefItem, ...]
    repaired: tuple[Repair, ...]
    waiting: tuple[BriefItem, ...]
    actions: tuple[NextAction, ...]
    judged: tuple[BriefCriteria, ...] = ()
    decided: str | None = None
    noted: Happened | None = None
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the next actions stand beside them."""
        told = {name: _in_json(getattr(self, name)) for name in self.__slots__ if name != "actions"}
        return {**told, "stages": list(self.stages)}


def _in_json(value: Any) -> Any:
    """Return a part of a briefing as plain JSON values: stages and subjects in one line."""
    if isinstance(value, tuple):
        return [_in_json(one) for one in value]
    if not is_dataclass(value):
        return value
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    in_line = ("stages", "subjects")
    return {n: shortened(v) if n in in_line else _in_json(v) for n, v in given.items()}
