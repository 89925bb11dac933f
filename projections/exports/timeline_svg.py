"""``timeline``: who waited for what, as a Gantt chart of the stages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from projections.drawing import svg
from projections.drawing.svg import element, shortened, text, title
from projections.exports.plain import ExportSource
from projections.exports.spans import Span, SpanMark, Spans, spans

_WIDTH, _LEFT, _ROW, _TOP, _FOOT = 960, 190, 34, 34, 40
_AXIS = _WIDTH - _LEFT - 16
#: A phase is at least so wide, in px: one that was too short to see was still there.
_LEAST = 2.0
#: More of one kind in one row are not told apart by any eye; the widest and latest are drawn.
_MOST = 400

_PHASES = {
    "queue": ("queue", "in the queue"),
    "compute": ("running", "computing"),
    "verify": ("post_processing", "being verified"),
    "person": ("person", "waiting for a person"),
}
_MARKS = {
    "failed": ("failed", "M-4 -4L4 4M-4 4L4 -4"),
    "completed": ("completed", "M-5 0L-1 4L5 -4"),
    "proposed": ("person", "M0 -5L5 0L0 5L-5 0Z"),
    "approved": ("completed", "M0 -5L5 0L0 5L-5 0Z"),
    "rejected": ("failed", "M0 -5L5 0L0 5L-5 0Z"),
}
#: Seconds between two ticks of the axis.
_TICKS = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)

_STYLE = (
    ".wf-timeline{font:13px system-ui,sans-serif}"
    ".wf-timeline .ground{fill:var(--card)}"
    ".wf-timeline text{fill:var(--ink)}"
    ".wf-timeline .soft{fill:var(--soft);font-size:11px}"
    ".wf-timeline .grid{stroke:var(--line)}"
    ".wf-timeline .mark{fill:none;stroke-width:2}"
)


def export(source: ExportSource) -> Iterator[str]:
    """Yield the chart of everything up to the source's end."""
    return svg.file_of(drawing(spans(source.steps())))


def drawing(found: Spans) -> str:
    """Return the ``svg`` element of the chart; times are UTC."""
    chart = _Chart(found)
    height = _TOP + len(chart.rows) * _ROW + _FOOT
    parts = [
        *chart.axis(),
        *chart.labels(),
        *(chart.bar(span) for span in _drawn(found.spans, chart)),
        *(chart.mark(mark) for mark in found.marks[-_MOST * 4 :]),
        _legend(height - 14),
    ]
    of = "The time of each stage: queue, computing, verification, waiting for a person"
    return svg.picture("wf-timeline", _STYLE, (_WIDTH, height), of, parts)


def _drawn(all_: list[Span], chart: _Chart) -> Iterator[Span]:
    """Yield the spans of each row and phase, the longest where there are too many."""
    rows: dict[tuple[str | None, str], list[Span]] = {}
    for span in all_:
        rows.setdefault((span.stage, span.phase), []).append(span)
    for group in rows.values():
        yield from sorted(group, key=chart.length, reverse=True)[:_MOST]


class _Chart:
    """From times and stages to places."""

    def __init__(self, found: Spans) -> None:
        self.found = found
        whole = {span.stage for span in found.spans} | {mark.stage for mark in found.marks}
        self.rows: list[str | None] = [None] if None in whole else []
        self.rows += list(found.names)
        self.begin = _time(found.first)
        self.seconds = max((_time(found.last) - self.begin).total_seconds(), 1.0)

    def x(self, moment: str) -> float:
        """Return the place of a time of the log."""
        passed = (_time(moment) - self.begin).total_seconds()
        return _LEFT + _AXIS * min(max(passed / self.seconds, 0.0), 1.0)

    def y(self, stage: str | None) -> float:
        """Return the top of a stage's row; one that is no more has the last."""
        place = self.rows.index(stage) if stage in self.rows else len(self.rows)
        return float(_TOP + place * _ROW)

    def length(self, span: Span) -> float:
        """Return how many pixels a span takes."""
        return self.x(span.end or self.found.last) - self.x(span.start)

    def axis(self) -> Iterator[str]:
        """Yield the ticks, each with its time."""
        step = next((tick for tick in _TICKS if self.seconds / tick <= 6), _TICKS[-1])
        step = max(step, int(self.seconds / 8 / step) * step)
        bottom = _TOP + len(self.rows) * _ROW
        for number in range(int(self.seconds // step) + 1):
            moment = self.begin + timedelta(seconds=number * step)
            x = _LEFT + _AXIS * number * step / self.seconds
            yield element("line", class_="grid", x1=x, y1=_TOP - 6, x2=x, y2=bottom)
            if x < _WIDTH - 60:
                shown = _shown(moment, step, first=number == 0)
                yield text(shown, x=x + 3, y=_TOP - 10, class_="soft")

    def labels(self) -> Iterator[str]:
        """Yield the names of the rows and the lines between them."""
        for stage in self.rows:
            y = self.y(stage)
            name = self.found.names.get(stage or "", "Whole workflow")
            yield element("line", class_="grid", x1=8, y1=y + _ROW, x2=_WIDTH - 8, y2=y + _ROW)
            yield text(shortened(name, 24), x=8, y=y + 16)
            yield text(stage or "", x=8, y=y + 29, class_="soft") if stage else ""

    def bar(self, span: Span) -> str:
        """Return the bar of a phase, with what it was and for how long."""
        color, meaning = _PHASES[span.phase]
        x, width = self.x(span.start), max(self.length(span), _LEAST)
        person = span.phase == "person"
        y = self.y(span.stage) + (24 if person else 8)
        label = f"{span.stage or 'workflow'} {meaning}: {span.start} to {span.end or 'now'}"
        height = 5 if person else 14
        return element(
            "rect", title(label), x=x, y=y, width=width, height=height, rx=2,
            fill=f"var(--{color})", class_=f"phase {span.phase}",
        )  # fmt: skip

    def mark(self, mark: SpanMark) -> str:
        """Return the sign of a moment."""
        color, path = _MARKS[mark.kind]
        x, y = self.x(mark.at), self.y(mark.stage) + 15
        return element(
            "path", title(f"{mark.at} {mark.label}"), d=path, class_=f"mark {mark.kind}",
            stroke=f"var(--{color})", transform=f"translate({x:.2f} {y:g})",
        )  # fmt: skip


def _legend(y: int) -> str:
    parts, x = [], 8
    for color, meaning in _PHASES.values():
        fill = f"var(--{color})"
        parts.append(element("rect", x=x, y=y - 9, width=14, height=10, rx=2, fill=fill))
        parts.append(text(meaning, x=x + 20, y=y, class_="soft"))
        x += 40 + 7 * len(meaning)
    shown = {"failed": "failed", "completed": "completed", "proposed": "amendment"}
    for kind, meaning in shown.items():
        color, path = _MARKS[kind]
        at, stroke = f"translate({x + 6} {y - 4})", f"var(--{color})"
        parts.append(element("path", d=path, class_="mark", stroke=stroke, transform=at))
        parts.append(text(meaning, x=x + 18, y=y, class_="soft"))
        x += 36 + 7 * len(meaning)
    return element("g", "".join(parts))


def _time(moment: str) -> datetime:
    return datetime.fromisoformat(moment)


def _shown(moment: datetime, step: int, first: bool) -> str:
    if step >= 86400:
        return f"{moment:%Y-%m-%d}"
    clock = f"{moment:%H:%M:%S}" if step < 60 else f"{moment:%H:%M}"
    return f"{moment:%Y-%m-%d} {clock}Z" if first else clock
