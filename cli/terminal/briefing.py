"""Format the output of ``wfctl rehydrate`` for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cli.terminal.output import Output
from reconciler.briefing.briefing import join_names_as_ranges

if TYPE_CHECKING:
    from reconciler.briefing.briefing import BriefCriteria, Briefing, BriefVerdict
    from service.questions.recent_events import PastEvent

#: Maximum number of lines of the output if the caller gives no token budget.
SCREEN = 48


def format_briefing(briefing: Briefing, output: Output, dry_run: bool) -> str:
    """Return the briefing (current state and next steps after a lost session) as text."""
    head = [*_format_head(briefing, output)]
    # Put the next command first, because an AI agent may act before it reads further.
    lines = [*head[:1], *_format_section(output, "next", map(str, briefing.actions))]
    waiting = (_format_item(w.kind, w.subjects, w.text) for w in briefing.waiting)
    lines += [*_format_section(output, "waits for a person", waiting), *head[1:]]
    meanwhile = (f"{m.at or 'just now'} {m.text}" for m in briefing.meanwhile)
    lines += _format_section(output, "meanwhile", meanwhile)
    lines += _format_section(output, "attempts", _format_attempts(briefing.found))
    lines += _format_section(output, "success criteria", map(_format_criteria, briefing.judged))
    contradictions = (_format_item(c.kind, c.subjects, c.text) for c in briefing.contradictions)
    lines += _format_section(output, "contradictions", contradictions)
    repaired = (
        f"{join_names_as_ranges(repair.stages)}: {repair.text}" for repair in briefing.repaired
    )
    lines += _format_section(output, "would repair" if dry_run else "repaired", repaired)
    if briefing.left_out:
        lines.append(f"left out: {', '.join(briefing.left_out)}")
    return "\n".join(lines)


def _format_head(briefing: Briefing, output: Output) -> Iterator[str]:
    stages = ", ".join(f"{count} {status}" for status, count in briefing.counts.items())
    yield (
        f"{output.style(briefing.workflow, '1')}: {briefing.status}, "
        f"log version {briefing.version}; {stages}"
    )
    yield from (f"result: {_one_line(one)}" for one in briefing.results)
    if briefing.purpose:
        yield f"purpose: {_one_line(briefing.purpose)}"
    if briefing.session.get("number"):
        session = briefing.session
        end = session["exit_reason"] or ("without an end" if session["open"] else "waiting")
        yield (
            f"session {session['number']}, started {session['started_at']}: {end}, "
            f"cost {session['cost']:g}/{session['budget']:g}"
        )
    if briefing.since is not None:
        since = briefing.since
        yield f"last change: {since.at or 'just now'}, {since.actor}: {_one_line(since.text)}"
    yield from (f"loop {_one_line(one)}" for one in briefing.loops)
    yield from (f"mandate {_one_line(one)}" for one in briefing.mandates)
    if briefing.decided is not None:
        yield f"last decision: {_one_line(briefing.decided)}"
    if briefing.noted is not None and briefing.noted.version != _get_version(briefing.since):
        noted = briefing.noted
        yield f"last note: {noted.at or 'just now'}, {noted.actor}: {_one_line(noted.text)}"


def _get_version(happened: PastEvent | None) -> int | None:
    return None if happened is None else happened.version


def _format_criteria(one: BriefCriteria) -> str:
    said = "; ".join(part for part in (one.criteria, one.tasks) if part)
    return f"{one.stage}: {said}"


def _format_section(output: Output, title: str, lines: Iterable[str]) -> list[str]:
    shown = [f"  {_one_line(line)}" for line in lines]
    return [output.style(f"{title}:", "1"), *shown] if shown else []


def _format_attempts(found: Iterable[BriefVerdict]) -> Iterator[str]:
    for one in found:
        row = "" if one.row is None else f" (row {one.row})"
        reason = f": {one.reason}" if one.reason else ""
        ended = f"; ended {one.ended_at}" if one.ended_at else ""
        yield (
            f"{join_names_as_ranges(one.stages)} {one.attempt} {one.verdict}{row} → {one.action}"
            f"{reason}{ended}"
        )
        if one.evidence:
            yield f"  {'; '.join(one.evidence)}"


def _format_item(kind: str, subjects: Iterable[str], text_: str) -> str:
    return (
        f"{kind} {join_names_as_ranges(subjects)}: {text_}"
        if text_
        else f"{kind} {join_names_as_ranges(subjects)}"
    )


def _one_line(text_: str) -> str:
    return " ".join(text_.splitlines())
