"""The export format ``timeline``: a Gantt chart of the stages, with marks for events.

The times in the chart are the times at which events occurred. If an imported history has unordered
times, a phase is drawn to start no earlier than the end of the previous phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from eventstore.event import RecordedEvent
from extensions.exports.formats import ExportSource, find_event_amendment, list_touched_stages
from lifecycle.event import find_observed_jobs
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.drawing import svg
from projections.drawing.svg import format_element, format_text, format_title, shorten_text
from projections.words.amendments import describe_amendment

#: Status of a stage → phase in the chart. Other statuses are not drawn.
_PHASE_OF = {
    Status.READY: "queue",
    Status.PREPARING: "compute",
    Status.RUNNING: "compute",
    Status.POST_PROCESSING: "verify",
}
#: Prefixes of the event types that may add or rename stages.
_DEFINING = ("workflow.", "state.", "amendment.")


@dataclass(slots=True)
class Span:
    """A period of a stage in the chart: queue, compute, verify or person.

    ``end`` is None while the period lasts.
    """

    stage: str | None
    phase: str
    start: str
    end: str | None = None


class SpanMark(NamedTuple):
    """A marked moment in the chart: failed, lost, completed, proposed, approved or rejected."""

    stage: str | None
    kind: str
    at: str
    label: str


@dataclass(slots=True)
class Spans:
    """All periods and marked moments of a workflow, from the time ``first`` to ``last``."""

    first: str = ""
    last: str = ""
    spans: list[Span] = field(default_factory=list)
    marks: list[SpanMark] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


class SpanFold:
    """Computes the periods of the stages from the events, one event at a time."""

    def __init__(self) -> None:
        self.found = Spans()
        self._open: dict[str, Span] = {}
        self._pending: dict[str, Span] = {}
        self._status: dict[str, Status] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Process an event. ``state`` is the state after this event."""
        found, at = self.found, event.occurred_at
        found.first = min(found.first or at, at)
        found.last = max(found.last, at)
        for stage in (state.stages[id_] for id_ in list_touched_stages(event, state)):
            before = self._status.get(stage.id)
            if stage.status is before:
                continue
            self._status[stage.id] = stage.status
            if stage.status is Status.FAILED:
                self._add_mark(stage.id, "failed", at, stage.last_error or "failed")
            elif stage.status is Status.COMPLETED and before is not None:
                self._add_mark(stage.id, "completed", at, "completed")
            self._change_phase(stage.id, _PHASE_OF.get(stage.status), at)
        self._take_in_attempt(event, state, at)
        if amended := find_event_amendment(event, state):
            self._take_in_amendment(*amended, at)
        if event.type.startswith(_DEFINING):
            found.names = {stage.id: stage.name for stage in state.stages.values()}

    def _take_in_attempt(self, event: RecordedEvent, state: Workflow, at: str) -> None:
        if event.type == "attempt.observed":
            self._take_in_observation(event, at)
        if event.type == "attempt.started":
            self._mark_lost_attempt(state.stages[event.data["stage"]], at)

    def _change_phase(self, id_: str, phase: str | None, at: str) -> None:
        """End the current phase of a stage and start another one.

        Nothing changes if the stage is in this phase already. None as ``phase`` starts no phase.
        """
        now = self._open.get(id_)
        if now is not None and now.phase == phase:
            return
        if now is not None:
            now.end = max(now.start, at)
            del self._open[id_]
        if phase is not None:
            began = max(at, now.end) if now is not None and now.end is not None else at
            self._open[id_] = Span(id_, phase, began)
            self.found.spans.append(self._open[id_])

    def _take_in_observation(self, event: RecordedEvent, at: str) -> None:
        """Set the phase of a stage from its scheduler jobs.

        The stage is in the queue until one of its jobs has started.
        """
        jobs = find_observed_jobs(event)
        now = self._open.get(event.data["stage"])
        if now is None or now.phase == "verify" or not all("started" in job for job in jobs):
            return
        if jobs and event.data["action"] == "wait":
            started = any(job["started"] for job in jobs)
            self._change_phase(event.data["stage"], "compute" if started else "queue", at)

    def _mark_lost_attempt(self, stage: Stage, at: str) -> None:
        """Mark the attempt that the start of the next one, at the time ``at``, declared lost."""
        for before in stage.attempts[-2:-1]:
            if before.outcome == "lost" and before.ended_at == at:
                self._add_mark(stage.id, "lost", at, f"{before.id} lost")

    def _take_in_amendment(self, amendment: Amendment, is_new: bool, at: str) -> None:
        id_ = amendment.id
        waited = self._pending.get(id_)
        if is_new and waited is None:
            self._pending[id_] = Span(amendment.stage, "person", at)
            self.found.spans.append(self._pending[id_])
            self._add_mark(
                amendment.stage, "proposed", at, f"{id_} proposed: {describe_amendment(amendment)}"
            )
        elif not is_new and waited is not None and waited.end is None:
            waited.end = max(waited.start, at)
            label = f"{id_} {amendment.status}: {describe_amendment(amendment)}"
            self._add_mark(amendment.stage, amendment.status, at, label)

    def _add_mark(self, stage: str | None, kind: str, at: str, label: str) -> None:
        self.found.marks.append(SpanMark(stage, kind, at, " ".join(label.split())[:200]))


#: Maximum number of attempts of all stages, and of amendments, in the timeline of a web page.
_ATTEMPTS, _AMENDMENTS = 600, 200


def state_spans(state: Workflow) -> Spans:
    """Return the periods and marks that a workflow's state contains.

    Times that a person typed in an imported file are left out.
    """
    found = Spans(first=state.created, last=state.updated)
    found.names = {stage.id: stage.name for stage in state.stages.values()}
    most = max(_ATTEMPTS // max(len(state.stages), 1), 2)
    for stage in state.stages.values():
        _add_attempts(found, stage, most)
    for one in list(state.amendments.values())[-_AMENDMENTS:]:
        found.spans.append(Span(one.stage, "person", one.proposed_at, one.decided_at))
    found.spans = [
        span
        for span in found.spans
        if _is_log_time_or_none(span.start) and _is_log_time_or_none(span.end)
    ]
    found.marks = [mark for mark in found.marks if _is_log_time_or_none(mark.at)]
    times = [time for span in found.spans for time in (span.start, span.end) if time]
    if not _is_log_time_or_none(found.first) or not _is_log_time_or_none(found.last):
        found.first = found.last = state.created if _is_log_time_or_none(state.created) else _NEVER
    found.first, found.last = min([found.first, *times]), max([found.last, *times])
    return found


_NEVER = "1970-01-01T00:00:00.000000Z"


def _is_log_time_or_none(text: str | None) -> bool:
    """Return whether the text is None, or a time in the log's form, which sorts as text."""
    return text is None or (len(text) == len(_NEVER) and text.endswith("Z"))


def _add_attempts(found: Spans, stage: Stage, most: int) -> None:
    for attempt in stage.attempts[-most:]:
        end = attempt.ended_at
        found.spans.append(Span(stage.id, "compute", attempt.started_at, end))
        if end is not None and attempt.outcome in ("failed", "lost"):
            label = f"{attempt.id} {attempt.outcome}"
            found.marks.append(SpanMark(stage.id, attempt.outcome, end, label))
    computed = stage.attempt.ended_at if stage.attempt is not None else None
    done = stage.completed_at if stage.status is Status.COMPLETED else None
    if done:
        found.marks.append(SpanMark(stage.id, "completed", done, "completed"))
    if computed is not None and done:
        found.spans.append(Span(stage.id, "verify", computed, max(computed, done)))
    elif computed is not None and stage.status is Status.POST_PROCESSING:
        found.spans.append(Span(stage.id, "verify", computed))


_WIDTH, _LEFT, _ROW, _TOP, _FOOT = 960, 190, 34, 34, 40
_AXIS = _WIDTH - _LEFT - 16
#: Minimum width of a period in pixels, so that a short period stays visible.
_LEAST = 2.0
#: Maximum number of periods of one kind in a row. If there are more, only the longest are drawn.
_MOST = 400

_PHASES = {
    "queue": ("queue", "in the queue"),
    "compute": ("running", "computing"),
    "verify": ("post_processing", "being verified"),
    "person": ("person", "waiting for a person"),
}
_MARKS = {
    "failed": ("failed", "M-4 -4L4 4M-4 4L4 -4"),
    "lost": ("invalidated", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0M-3.5 3.5L3.5 -3.5"),
    "completed": ("completed", "M-5 0L-1 4L5 -4"),
    "proposed": ("person", "M0 -5L5 0L0 5L-5 0Z"),
    "approved": ("completed", "M0 -5L5 0L0 5L-5 0Z"),
    "rejected": ("failed", "M0 -5L5 0L0 5L-5 0Z"),
}
#: Marks in the legend, with their meaning.
_LEGEND = {
    "failed": "failed",
    "lost": "attempt lost",
    "completed": "completed",
    "proposed": "amendment",
}
#: Possible distances in seconds between two ticks of the time axis.
_TICKS = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)

_STYLE = (
    ".wf-timeline{font:13px system-ui,sans-serif}"
    ".wf-timeline .ground{fill:var(--card)}"
    ".wf-timeline text{fill:var(--ink)}"
    ".wf-timeline .soft{fill:var(--soft);font-size:11px}"
    ".wf-timeline .grid{stroke:var(--line)}"
    ".wf-timeline .mark{fill:none;stroke-width:2}"
    ".wf-timeline .lost{fill:var(--card)}"
)


def export_timeline(source: ExportSource) -> Iterator[str]:
    """Yield the Gantt chart of the workflow up to the end of the source as an SVG file."""
    fold = SpanFold()
    for step in source.steps():
        fold.add(*step)
    return svg.iterate_svg_file_parts(draw_timeline(fold.found))


def draw_timeline(found: Spans) -> str:
    """Return an ``svg`` element with the Gantt chart. Its times are in UTC."""
    chart = _Chart(found)
    height = _TOP + len(chart.rows) * _ROW + _FOOT
    parts = [
        *chart.axis(),
        *chart.labels(),
        *(chart.bar(span) for span in _select_spans(found.spans, chart)),
        *(chart.mark(mark) for mark in found.marks[-_MOST * 4 :]),
        _draw_legend(height - 14),
    ]
    of = "The time of each stage: queue, computing, verification, waiting for a person"
    return svg.format_picture("wf-timeline", _STYLE, (_WIDTH, height), of, parts)


def _select_spans(all_: list[Span], chart: _Chart) -> Iterator[Span]:
    """Yield the periods to draw.

    If a row has too many periods of one phase, only the longest are drawn.
    """
    rows: dict[tuple[str | None, str], list[Span]] = {}
    for span in all_:
        rows.setdefault((span.stage, span.phase), []).append(span)
    for group in rows.values():
        yield from sorted(group, key=chart.length, reverse=True)[:_MOST]


def _find_end(found: Spans) -> str:
    """Return the time at which the chart ends.

    This is the time of the last period or mark. Later events, such as notes, would only make the
    drawn periods smaller.
    """
    ends = [span.end for span in found.spans]
    times = [*(end for end in ends if end is not None), *(mark.at for mark in found.marks)]
    return found.last if None in ends or not times else max(times)


class _Chart:
    """Converts times and stages to positions in the chart."""

    def __init__(self, found: Spans) -> None:
        self.found = found
        whole = {span.stage for span in found.spans} | {mark.stage for mark in found.marks}
        self.rows: list[str | None] = [None] if None in whole else []
        self.rows += list(found.names)
        self.begin = datetime.fromisoformat(found.first)
        end = datetime.fromisoformat(_find_end(found))
        self.seconds = max((end - self.begin).total_seconds(), 1.0)

    def x(self, moment: str) -> float:
        """Return the horizontal position of a time."""
        passed = (datetime.fromisoformat(moment) - self.begin).total_seconds()
        return _LEFT + _AXIS * min(max(passed / self.seconds, 0.0), 1.0)

    def y(self, stage: str | None) -> float:
        """Return the vertical position of a stage's row.

        Removed stages share the last row.
        """
        place = self.rows.index(stage) if stage in self.rows else len(self.rows)
        return float(_TOP + place * _ROW)

    def length(self, span: Span) -> float:
        """Return the drawn length of a period in pixels."""
        return self.x(span.end or self.found.last) - self.x(span.start)

    def axis(self) -> Iterator[str]:
        """Yield the vertical grid lines, with the time of each line."""
        step = next((tick for tick in _TICKS if self.seconds / tick <= 6), _TICKS[-1])
        step = max(step, int(self.seconds / 8 / step) * step)
        bottom = _TOP + len(self.rows) * _ROW
        for number in range(int(self.seconds // step) + 1):
            moment = self.begin + timedelta(seconds=number * step)
            x = _LEFT + _AXIS * number * step / self.seconds
            yield format_element("line", class_="grid", x1=x, y1=_TOP - 6, x2=x, y2=bottom)
            if x < _WIDTH - 60:
                shown = _format_moment(moment, step, first=number == 0)
                yield format_text(shown, x=x + 3, y=_TOP - 10, class_="soft")

    def labels(self) -> Iterator[str]:
        """Yield the names of the rows, and the lines between the rows."""
        for stage in self.rows:
            y = self.y(stage)
            name = self.found.names.get(stage or "", "Whole workflow")
            yield format_element(
                "line", class_="grid", x1=8, y1=y + _ROW, x2=_WIDTH - 8, y2=y + _ROW
            )
            yield format_text(shorten_text(name, 24), x=8, y=y + 16)
            yield format_text(stage or "", x=8, y=y + 29, class_="soft") if stage else ""

    def bar(self, span: Span) -> str:
        """Return the bar of a period, with its kind and times as a tooltip."""
        color, meaning = _PHASES[span.phase]
        below, height = (24, 5) if span.phase == "person" else (8, 14)
        size = {"width": max(self.length(span), _LEAST), "height": height, "rx": 2}
        look = {"fill": f"var(--{color})", "class_": f"phase {span.phase}"}
        label = f"{span.stage or 'workflow'} {meaning}: {span.start} to {span.end or 'now'}"
        x, y = self.x(span.start), self.y(span.stage) + below
        return format_element("rect", format_title(label), x=x, y=y, **size, **look)

    def mark(self, mark: SpanMark) -> str:
        """Return the symbol of a marked moment, with a tooltip."""
        place = f"translate({self.x(mark.at):.2f} {self.y(mark.stage) + 15:g})"
        return _draw_sign(
            mark.kind, format_title(f"{mark.at} {mark.label}"), f"mark {mark.kind}", place
        )


def _draw_sign(kind: str, content: str, class_: str, place: str) -> str:
    color, path = _MARKS[kind]
    look = {"stroke": f"var(--{color})", "transform": place}
    return format_element("path", content, d=path, class_=class_, **look)


def _draw_legend(y: int) -> str:
    parts, x = [], 8
    for color, meaning in _PHASES.values():
        fill = f"var(--{color})"
        parts.append(format_element("rect", x=x, y=y - 9, width=14, height=10, rx=2, fill=fill))
        parts.append(format_text(meaning, x=x + 20, y=y, class_="soft"))
        x += 40 + 7 * len(meaning)
    shown = {
        "failed": "failed",
        "lost": "attempt lost",
        "completed": "completed",
        "proposed": "amendment",
    }
    for kind, meaning in shown.items():
        parts.append(_draw_sign(kind, "", "mark", f"translate({x + 6} {y - 4})"))
        parts.append(format_text(meaning, x=x + 18, y=y, class_="soft"))
        x += 36 + 7 * len(meaning)
    return format_element("g", "".join(parts))


def _format_moment(moment: datetime, step: int, first: bool) -> str:
    if step >= 86400:
        return f"{moment:%Y-%m-%d}"
    clock = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
    return f"{moment:%Y-%m-%d} {clock}Z" if first else clock
