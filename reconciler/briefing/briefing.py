"""What somebody who knows nothing needs to go on: plain values, without the time of day.

The same log and the same disk give the same briefing: every time in it was recorded. It is told in
fewer words until it fits, and what helps least goes first. Whatever is cut, the purpose, the first
next command with its reason, every attempt in flight, every pending decision and every
contradiction stay named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

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
    results: tuple[str, ...] = ()
    mandates: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
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


#: Bytes of UTF-8 that are counted as one token.
TOKEN = 4

Cut = Callable[[Briefing], Briefing]
T = TypeVar("T")


def tokens(text: str) -> int:
    """Return how many tokens a text is counted as: a quarter of its bytes in UTF-8."""
    return -(-len(text.encode()) // TOKEN)


def fitted(full: Briefing, fits: Callable[[Briefing], bool]) -> Briefing:
    """Return the fullest form that fits, the shortest where none does."""
    shown = shorter = full
    for cut in _CUTS:
        if fits(shown):
            break
        shorter = cut(shorter)
        shown = replace(shorter, left_out=tuple(_left_out(full, shorter)))
    return shown


def _left_out(full: Briefing, short: Briefing) -> Iterator[str]:
    def fewer(name: str) -> int:
        return len(getattr(full, name)) - len(getattr(short, name))

    def lost(has: Callable[[Briefing], bool]) -> bool:
        return has(full) and not has(short)

    repairs = sum(len(repair.stages) for repair in full.repaired)
    parts = {
        f"{fewer('meanwhile')} events": fewer("meanwhile") > 0,
        "the list of stages": fewer("stages") > 0,
        "evidence": lost(lambda one: any(found.evidence for found in one.found)),
        "reasons": lost(_has_reasons),
        "criteria": lost(lambda one: bool(one.judged)),
        f"{repairs} repairs": lost(lambda one: bool(one.repaired)),
        f"{fewer('actions')} next commands": fewer("actions") > 0,
    }
    return (words for words, holds in parts.items() if holds)


def _has_reasons(briefing: Briefing) -> bool:
    return any([one.reason for one in briefing.found] + [one.text for one in briefing.waiting])


def _without(**empty: Any) -> Cut:
    return lambda briefing: replace(briefing, **empty)


def _newest(count: int) -> Cut:
    return lambda one: replace(one, meanwhile=one.meanwhile[max(0, len(one.meanwhile) - count) :])


def _actions(count: int) -> Cut:
    return lambda briefing: replace(briefing, actions=briefing.actions[:count])


def _with(thing: T, **values: Any) -> T:
    return cast("T", replace(cast("Any", thing), **values))


def _of_each(things: Iterable[T], **values: Any) -> tuple[T, ...]:
    return tuple(_with(thing, **values) for thing in things)


def _without_evidence(briefing: Briefing) -> Briefing:
    return _grouped(replace(briefing, found=_of_each(briefing.found, evidence=(), ended_at=None)))


def _grouped(briefing: Briefing) -> Briefing:
    """Say once what is the same of several."""
    return replace(
        briefing,
        found=_joined(briefing.found, "stages"),
        contradictions=_joined(briefing.contradictions, "subjects"),
        repaired=_joined(briefing.repaired, "stages"),
        waiting=_joined(briefing.waiting, "subjects"),
    )


def _joined(things: Iterable[T], of: str) -> tuple[T, ...]:
    """Return those that differ in nothing but what they are said of as one."""
    groups: dict[T, list[str]] = {}
    for thing in things:
        groups.setdefault(_with(thing, **{of: ()}), []).extend(getattr(thing, of))
    return tuple(_with(thing, **{of: tuple(names)}) for thing, names in groups.items())


def _clipped(length: int) -> Cut:
    def clipped(thing: T, name: str = "text") -> T:
        return thing and _with(thing, **{name: _clip(getattr(thing, name), length)})

    return lambda full: _grouped(
        replace(
            full,
            purpose=_clip(full.purpose or "", 2 * length) or None,
            since=clipped(full.since),
            meanwhile=tuple(map(clipped, full.meanwhile)),
            waiting=tuple(map(clipped, full.waiting)),
            judged=tuple(clipped(one, "criteria") for one in full.judged),
            decided=_clip(full.decided or "", length) or None,
            noted=clipped(full.noted),
        )
    )


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _without_reasons(briefing: Briefing) -> Briefing:
    return _grouped(
        replace(
            briefing,
            found=_of_each(briefing.found, reason=None, row=None, steps=()),
            waiting=_of_each(briefing.waiting, text=""),
            contradictions=_of_each(briefing.contradictions, text=""),
        )
    )


#: Each on what the one before it left; what helps least to go on is cut first.
_CUTS: tuple[Cut, ...] = (
    _without(stages=()),
    _newest(20),
    _actions(10),
    _grouped,
    _newest(8),
    _without_evidence,
    _newest(3),
    _clipped(120),
    _newest(0),
    _actions(3),
    _without(repaired=()),
    _without(since=None, session={}, decided=None, noted=None, results=()),
    _clipped(60),
    _without(judged=()),
    _actions(1),
    _without_reasons,
)
