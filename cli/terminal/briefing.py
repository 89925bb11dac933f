"""The screen that ``wfctl rehydrate`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cli.terminal.output import Output
from reconciler.briefing.briefing import shortened

if TYPE_CHECKING:
    from reconciler.briefing.briefing import BriefCriteria, Briefing, BriefVerdict
    from service.questions.meanwhile import Happened

#: Lines that the briefing takes where no budget is named.
SCREEN = 48


def text(briefing: Briefing, output: Output, dry_run: bool) -> str:
    """Return the briefing for people."""
    lines = [*_head(briefing, output)]
    lines += _section(
        output, "meanwhile", (f"{m.at or 'just now'} {m.text}" for m in briefing.meanwhile)
    )
    lines += _section(output, "attempts", _attempts(briefing.found))
    lines += _section(output, "judged by", map(_judged, briefing.judged))
    contradictions = (_said(c.kind, c.subjects, c.text) for c in briefing.contradictions)
    lines += _section(output, "contradictions", contradictions)
    repaired = (f"{shortened(repair.stages)}: {repair.text}" for repair in briefing.repaired)
    lines += _section(output, "would repair" if dry_run else "repaired", repaired)
    waiting = (_said(w.kind, w.subjects, w.text) for w in briefing.waiting)
    lines += _section(output, "waits for a person", waiting)
    actions = map(str, briefing.actions)
    lines += _section(output, "next", actions)
    if briefing.left_out:
        lines.append(f"left out: {', '.join(briefing.left_out)}")
    return "\n".join(lines)


def _head(briefing: Briefing, output: Output) -> Iterator[str]:
    stages = ", ".join(f"{count} {status}" for status, count in briefing.counts.items())
    yield (
        f"{output.style(briefing.workflow, '1')}: {briefing.status}, "
        f"version {briefing.version} of its log; {stages}"
    )
    yield from (f"result: {_one_line(one)}" for one in briefing.results)
    if briefing.purpose:
        yield f"purpose: {_one_line(briefing.purpose)}"
    if briefing.session.get("number"):
        session = briefing.session
        end = session["exit_reason"] or ("without an end" if session["open"] else "waiting")
        yield (
            f"session {session['number']} of {session['started_at']}: {end}, "
            f"cost {session['cost']:g}/{session['budget']:g}"
        )
    if briefing.since is not None:
        since = briefing.since
        yield f"since {since.at or 'just now'}, {since.actor}: {_one_line(since.text)}"
    yield from (f"loop {_one_line(one)}" for one in briefing.loops)
    yield from (f"mandate {_one_line(one)}" for one in briefing.mandates)
    if briefing.decided is not None:
        yield f"last decision: {_one_line(briefing.decided)}"
    if briefing.noted is not None and briefing.noted.version != _version(briefing.since):
        yield f"last note, {briefing.noted.actor}: {_one_line(briefing.noted.text)}"


def _version(happened: Happened | None) -> int | None:
    return None if happened is None else happened.version


def _judged(one: BriefCriteria) -> str:
    said = "; ".join(part for part in (one.criteria, one.tasks) if part)
    return f"{one.stage}: {said}"


def _section(output: Output, title: str, lines: Iterable[str]) -> list[str]:
    shown = [f"  {_one_line(line)}" for line in lines]
    return [output.style(f"{title}:", "1"), *shown] if shown else []


def _attempts(found: Iterable[BriefVerdict]) -> Iterator[str]:
    for one in found:
        row = "" if one.row is None else f" (row {one.row})"
        reason = f": {one.reason}" if one.reason else ""
        ended = f"; ended {one.ended_at}" if one.ended_at else ""
        yield (
            f"{shortened(one.stages)} {one.attempt} {one.verdict}{row} → {one.action}"
            f"{reason}{ended}"
        )
        if one.evidence:
            yield f"  {'; '.join(one.evidence)}"


def _said(kind: str, subjects: Iterable[str], text_: str) -> str:
    return f"{kind} {shortened(subjects)}: {text_}" if text_ else f"{kind} {shortened(subjects)}"


def _one_line(text_: str) -> str:
    return " ".join(text_.splitlines())
