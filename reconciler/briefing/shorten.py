"""Brevity: the same briefing in fewer words, until it fits.

What helps least goes first. Whatever is cut, the purpose, the first next command with its reason,
every attempt in flight, every pending decision and every contradiction stay named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from reconciler.briefing.briefing import Briefing, BriefVerdict, BriefWaiting, Repair
from reconciler.briefing.contradictions import Contradiction

#: Bytes of UTF-8 that are counted as one token.
TOKEN = 4

Cut = Callable[[Briefing], Briefing]
T = TypeVar("T")


def tokens(text: str) -> int:
    """Return how many tokens a text is counted as: a quarter of its bytes in UTF-8."""
    return -(-len(text.encode()) // TOKEN)


def fitted(full: Briefing, fits: Callable[[Briefing], bool]) -> Briefing:
    """Return the fullest form that fits, the shortest where none does."""
    shown = full
    for shorter in _forms(full):
        shown = replace(shorter, left_out=tuple(_left_out(full, shorter)))
        if fits(shown):
            break
    return shown


def _forms(full: Briefing) -> Iterator[Briefing]:
    """Yield the briefing shorter and shorter, itself first."""
    yield full
    for cut in _CUTS:
        full = cut(full)
        yield full


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


def _without_stages(briefing: Briefing) -> Briefing:
    return replace(briefing, stages=())


def _newest(count: int) -> Cut:
    def cut(briefing: Briefing) -> Briefing:
        first = max(0, len(briefing.meanwhile) - count)
        return replace(briefing, meanwhile=briefing.meanwhile[first:])

    return cut


def _actions(count: int) -> Cut:
    return lambda briefing: replace(briefing, actions=briefing.actions[:count])


def _without_evidence(briefing: Briefing) -> Briefing:
    bare = (replace(found, evidence=(), ended_at=None) for found in briefing.found)
    return _grouped(replace(briefing, found=tuple(bare)))


def _clipped(length: int) -> Cut:
    def cut(briefing: Briefing) -> Briefing:
        since = briefing.since
        return _grouped(
            replace(
                briefing,
                purpose=_clip(briefing.purpose or "", 2 * length) or None,
                since=None if since is None else replace(since, text=_clip(since.text, length)),
                meanwhile=tuple(replace(m, text=_clip(m.text, length)) for m in briefing.meanwhile),
                waiting=tuple(replace(w, text=_clip(w.text, length)) for w in briefing.waiting),
                judged=tuple(
                    replace(j, criteria=_clip(j.criteria, length)) for j in briefing.judged
                ),
                decided=_clip(briefing.decided or "", length) or None,
                noted=None
                if briefing.noted is None
                else replace(briefing.noted, text=_clip(briefing.noted.text, length)),
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


def _without_repairs(briefing: Briefing) -> Briefing:
    return replace(briefing, repaired=())


def _without_past(briefing: Briefing) -> Briefing:
    return replace(briefing, since=None, session={}, decided=None, noted=None)


def _without_criteria(briefing: Briefing) -> Briefing:
    return replace(briefing, judged=())


def _grouped(briefing: Briefing) -> Briefing:
    """Say once what is the same of several."""
    return replace(
        briefing,
        found=tuple(map(_one_found, _alike(briefing.found, lambda f: replace(f, stages=())))),
        contradictions=tuple(
            map(_one_contradiction, _alike(briefing.contradictions, lambda c: (c.kind, c.text)))
        ),
        repaired=tuple(map(_one_repair, _alike(briefing.repaired, lambda r: r.text))),
        waiting=tuple(map(_one_waiting, _alike(briefing.waiting, lambda w: (w.kind, w.text)))),
    )


def _alike(things: Iterable[T], key: Callable[[T], object]) -> Iterable[list[T]]:
    groups: dict[object, list[T]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups.values()


def _one_found(alike: list[BriefVerdict]) -> BriefVerdict:
    return replace(alike[0], stages=tuple(stage for found in alike for stage in found.stages))


def _one_contradiction(alike: list[Contradiction]) -> Contradiction:
    return replace(alike[0], subjects=tuple(name for c in alike for name in c.subjects))


def _one_repair(alike: list[Repair]) -> Repair:
    return replace(alike[0], stages=tuple(stage for repair in alike for stage in repair.stages))


def _one_waiting(alike: list[BriefWaiting]) -> BriefWaiting:
    return replace(alike[0], subjects=tuple(name for w in alike for name in w.subjects))


#: Each on what the one before it left; what helps least to go on is cut first.
_CUTS: tuple[Cut, ...] = (
    _without_stages,
    _newest(20),
    _actions(10),
    _grouped,
    _newest(8),
    _without_evidence,
    _newest(3),
    _clipped(120),
    _newest(0),
    _actions(3),
    _without_repairs,
    _without_past,
    _clipped(60),
    _without_criteria,
    _actions(1),
    _without_reasons,
)
