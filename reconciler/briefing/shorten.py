"""Brevity: the same briefing in fewer words, until it fits.

What helps least goes first. Whatever is cut, the purpose, the first next command with its reason,
every attempt in flight, every pending decision and every contradiction stay named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

from reconciler.briefing.briefing import Briefing

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
    _without(since=None, session={}, decided=None, noted=None),
    _clipped(60),
    _without(judged=()),
    _actions(1),
    _without_reasons,
)
