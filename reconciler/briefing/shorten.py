"""Brevity: the same briefing in fewer words, until it fits.

What helps least goes first. Whatever is cut, the purpose, the first next command with its reason,
every attempt in flight, every pending decision and every contradiction stay named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
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
    if len(short.meanwhile) < len(full.meanwhile):
        yield f"{len(full.meanwhile) - len(short.meanwhile)} events"
    if len(short.stages) < len(full.stages):
        yield "the list of stages"
    if _has_evidence(full) and not _has_evidence(short):
        yield "evidence"
    if _has_reasons(full) and not _has_reasons(short):
        yield "reasons"
    if full.judged and not short.judged:
        yield "criteria"
    if full.repaired and not short.repaired:
        yield f"{sum(len(repair.stages) for repair in full.repaired)} repairs"
    if len(short.actions) < len(full.actions):
        yield f"{len(full.actions) - len(short.actions)} next commands"


def _has_evidence(briefing: Briefing) -> bool:
    return any(found.evidence for found in briefing.found)


def _has_reasons(briefing: Briefing) -> bool:
    said = (found.reason for found in briefing.found)
    return any(chain(said, (waiting.text for waiting in briefing.waiting)))


def _without(**empty: Any) -> Cut:
    return lambda briefing: replace(briefing, **empty)


def _newest(count: int) -> Cut:
    return lambda briefing: replace(
        briefing, meanwhile=briefing.meanwhile[max(0, len(briefing.meanwhile) - count) :]
    )


def _actions(count: int) -> Cut:
    return lambda briefing: replace(briefing, actions=briefing.actions[:count])


def _without_evidence(briefing: Briefing) -> Briefing:
    bare = (replace(found, evidence=(), ended_at=None) for found in briefing.found)
    return _grouped(replace(briefing, found=tuple(bare)))


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
        groups.setdefault(_with(thing, of, ()), []).extend(getattr(thing, of))
    return tuple(_with(thing, of, tuple(names)) for thing, names in groups.items())


def _with(thing: T, of: str, names: tuple[str, ...]) -> T:
    return cast("T", replace(cast("Any", thing), **{of: names}))


def _clipped(length: int) -> Cut:
    def cut(briefing: Briefing) -> Briefing:
        since, noted = briefing.since, briefing.noted
        return _grouped(
            replace(
                briefing,
                purpose=_clip(briefing.purpose or "", 2 * length) or None,
                since=since and replace(since, text=_clip(since.text, length)),
                meanwhile=tuple(replace(m, text=_clip(m.text, length)) for m in briefing.meanwhile),
                waiting=tuple(replace(w, text=_clip(w.text, length)) for w in briefing.waiting),
                judged=tuple(
                    replace(j, criteria=_clip(j.criteria, length)) for j in briefing.judged
                ),
                decided=_clip(briefing.decided or "", length) or None,
                noted=noted and replace(noted, text=_clip(noted.text, length)),
            )
        )

    return cut


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _without_reasons(briefing: Briefing) -> Briefing:
    found = (replace(f, reason=None, row=None, steps=()) for f in briefing.found)
    return _grouped(
        replace(
            briefing,
            found=tuple(found),
            waiting=tuple(replace(waiting, text="") for waiting in briefing.waiting),
            contradictions=tuple(replace(c, text="") for c in briefing.contradictions),
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
