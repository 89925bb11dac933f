"""The content of a briefing: the facts that a newcomer needs to continue a workflow.

The same log and the same disk always give the same briefing, because it contains only recorded
times. A briefing that is too long is shortened, least useful parts first. These parts always
remain: the purpose, the first next command with its reason, every running attempt, every pending
decision and every contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from projections.words.text import NextAction
from service.questions.recent_events import PastEvent

_NUMBERED = re.compile(r"(.*-)([1-9][0-9]*)")


def join_names_as_ranges(names: Iterable[str]) -> str:
    """Return names as one line of text in which consecutive numbers are joined to ranges.

    For example, ``s1``, ``s2`` and ``s3`` become ``s1..3``. Names without a number are unchanged
    and come last. Spaces separate the groups.
    """
    groups: dict[str, list[int]] = {}
    plain: list[str] = []
    for name in dict.fromkeys(names):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups.setdefault(found[1], []).append(int(found[2]))
    return " ".join(
        [*(f"{key}{_format_ranges(numbers)}" for key, numbers in groups.items()), *plain]
    )


def _format_ranges(numbers: Iterable[int]) -> str:
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
    """A verdict on an attempt, with the stages to whose attempts it applies.

    All these attempts have the same id, which is in ``attempt``.
    """

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
    """The description of a repair made during recovery, and the stages it concerns."""

    stages: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefItem:
    """Stages or files that contradict the log or wait for a person for one reason."""

    kind: str
    subjects: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class BriefCriteria:
    """The success criteria of an unfinished stage, and the progress of its tasks."""

    stage: str
    criteria: str
    tasks: str = ""


@dataclass(frozen=True, slots=True)
class Briefing:
    """The content of the briefing for a new session.

    ``since`` is the last action of a person, an agent or a session, and ``meanwhile`` contains the
    events after it. ``decided`` is the last decision of a person, ``noted`` the last note, and
    ``left_out`` names the parts that were omitted to shorten the briefing.
    """

    workflow: str
    purpose: str | None
    status: str
    version: int
    last_recorded: str
    counts: dict[str, int]
    session: dict[str, Any]
    stages: tuple[dict[str, Any], ...]
    since: PastEvent | None
    meanwhile: tuple[PastEvent, ...]
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
    noted: PastEvent | None = None
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the briefing as plain JSON values, without the next actions.

        The caller prints the next actions in a separate field.
        """
        told = {name: _in_json(getattr(self, name)) for name in self.__slots__ if name != "actions"}
        return {**told, "stages": list(self.stages)}


def _in_json(value: Any) -> Any:
    """Convert a part of a briefing into plain JSON values.

    The names of stages and of other subjects become one line of text.
    """
    if isinstance(value, tuple):
        return [_in_json(one) for one in value]
    if not is_dataclass(value):
        return value
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    in_line = ("stages", "subjects")
    return {n: join_names_as_ranges(v) if n in in_line else _in_json(v) for n, v in given.items()}


#: Number of UTF-8 bytes per token, for estimates of the length of a text in tokens.
TOKEN = 4

Cut = Callable[[Briefing], Briefing]
T = TypeVar("T")


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text: a quarter of its UTF-8 bytes."""
    return -(-len(text.encode()) // TOKEN)


def fit_briefing(full: Briefing, fits: Callable[[Briefing], bool]) -> Briefing:
    """Return the longest form of the briefing that is short enough.

    ``fits`` decides whether a form is short enough. Returns the shortest form if none fits.
    """
    shown = shorter = full
    for cut in _CUTS:
        if fits(shown):
            break
        shorter = cut(shorter)
        shown = replace(shorter, left_out=tuple(_list_omitted_parts(full, shorter)))
    return shown


def _list_omitted_parts(full: Briefing, short: Briefing) -> Iterator[str]:
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


def _cut_fields(**empty: Any) -> Cut:
    return lambda briefing: replace(briefing, **empty)


def _keep_newest_events(count: int) -> Cut:
    return lambda one: replace(one, meanwhile=one.meanwhile[max(0, len(one.meanwhile) - count) :])


def _keep_first_actions(count: int) -> Cut:
    return lambda briefing: replace(briefing, actions=briefing.actions[:count])


def _replace_fields(thing: T, **values: Any) -> T:
    return cast("T", replace(cast("Any", thing), **values))


def _of_each(things: Iterable[T], **values: Any) -> tuple[T, ...]:
    return tuple(_replace_fields(thing, **values) for thing in things)


def _without_evidence(briefing: Briefing) -> Briefing:
    return _group_equal_items(
        replace(briefing, found=_of_each(briefing.found, evidence=(), ended_at=None))
    )


def _group_equal_items(briefing: Briefing) -> Briefing:
    """Return the briefing with items joined that differ only in their stages or files."""
    return replace(
        briefing,
        found=_join_equal_items(briefing.found, "stages"),
        contradictions=_join_equal_items(briefing.contradictions, "subjects"),
        repaired=_join_equal_items(briefing.repaired, "stages"),
        waiting=_join_equal_items(briefing.waiting, "subjects"),
    )


def _join_equal_items(things: Iterable[T], of: str) -> tuple[T, ...]:
    """Join items that differ only in the field ``of``, which names their stages or files.

    Each group of such items becomes one item that names all their stages or files.
    """
    groups: dict[T, list[str]] = {}
    for thing in things:
        groups.setdefault(_replace_fields(thing, **{of: ()}), []).extend(getattr(thing, of))
    return tuple(_replace_fields(thing, **{of: tuple(names)}) for thing, names in groups.items())


def _cut_texts(length: int) -> Cut:
    def clipped(thing: T, name: str = "text") -> T:
        return thing and _replace_fields(thing, **{name: _cut_text(getattr(thing, name), length)})

    return lambda full: _group_equal_items(
        replace(
            full,
            purpose=_cut_text(full.purpose or "", 2 * length) or None,
            since=clipped(full.since),
            meanwhile=tuple(map(clipped, full.meanwhile)),
            waiting=tuple(map(clipped, full.waiting)),
            judged=tuple(clipped(one, "criteria") for one in full.judged),
            decided=_cut_text(full.decided or "", length) or None,
            noted=clipped(full.noted),
        )
    )


def _cut_text(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _without_reasons(briefing: Briefing) -> Briefing:
    return _group_equal_items(
        replace(
            briefing,
            found=_of_each(briefing.found, reason=None, row=None, steps=()),
            waiting=_of_each(briefing.waiting, text=""),
            contradictions=_of_each(briefing.contradictions, text=""),
        )
    )


#: Functions that shorten a briefing, least useful part first. Each function shortens the result of
#: the function before it.
_CUTS: tuple[Cut, ...] = (
    _cut_fields(stages=()),
    _keep_newest_events(20),
    _keep_first_actions(10),
    _group_equal_items,
    _keep_newest_events(8),
    _without_evidence,
    _keep_newest_events(3),
    _cut_texts(120),
    _keep_newest_events(0),
    _keep_first_actions(3),
    _cut_fields(repaired=()),
    _cut_fields(since=None, session={}, decided=None, noted=None, results=()),
    _cut_texts(60),
    _cut_fields(judged=()),
    _keep_first_actions(1),
    _without_reasons,
)
