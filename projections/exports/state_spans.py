"""What each stage did when, from the state alone: for whom reading the whole log takes too long.

It knows of no wait in a queue, as `spans` does; the newest attempts of each stage are told of.
"""

from __future__ import annotations

from collections.abc import Iterator

from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.exports.spans import Span, SpanMark, Spans

#: Attempts of all stages, and amendments.
_ATTEMPTS, _AMENDMENTS = 600, 200


def state_spans(state: Workflow) -> Spans:
    """Return phases and marks; a time that somebody typed in an imported file is left out."""
    found = Spans(first=state.created, last=state.updated)
    found.names = {stage.id: stage.name for stage in state.stages.values()}
    most = max(_ATTEMPTS // max(len(state.stages), 1), 2)
    for stage in state.stages.values():
        found.spans += _phases(stage, most)
        found.marks += _ends(stage, most)
    for amendment in list(state.amendments.values())[-_AMENDMENTS:]:
        found.spans.append(_wait(amendment))
    found.spans = [span for span in found.spans if _is_time(span.start) and _is_time(span.end)]
    found.marks = [mark for mark in found.marks if _is_time(mark.at)]
    times = [time for span in found.spans for time in (span.start, span.end) if time]
    if not _is_time(found.first) or not _is_time(found.last):
        found.first = found.last = state.created if _is_time(state.created) else _NEVER
    found.first, found.last = min([found.first, *times]), max([found.last, *times])
    return found


_NEVER = "1970-01-01T00:00:00.000000Z"


def _is_time(text: str | None) -> bool:
    """Whether it is a time of the log, which is compared by its letters."""
    return text is None or (len(text) == len(_NEVER) and text.endswith("Z"))


def _phases(stage: Stage, most: int) -> Iterator[Span]:
    for attempt in stage.attempts[-most:]:
        yield Span(stage.id, "compute", attempt.started_at, attempt.ended_at)
    newest = stage.attempt
    if newest is None or newest.ended_at is None:
        return
    if stage.status is Status.POST_PROCESSING:
        yield Span(stage.id, "verify", newest.ended_at)
    elif stage.status is Status.COMPLETED and stage.completed_at:
        yield Span(stage.id, "verify", newest.ended_at, max(newest.ended_at, stage.completed_at))


def _ends(stage: Stage, most: int) -> Iterator[SpanMark]:
    for attempt in stage.attempts[-most:]:
        if attempt.ended_at is not None and attempt.outcome == "failed":
            yield SpanMark(stage.id, "failed", attempt.ended_at, f"{attempt.id} failed")
    if stage.status is Status.COMPLETED and stage.completed_at:
        yield SpanMark(stage.id, "completed", stage.completed_at, "completed")


def _wait(amendment: Amendment) -> Span:
    return Span(amendment.stage, "person", amendment.proposed_at, amendment.decided_at)
