"""``report``: one HTML page that needs no network and no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.drawing import svg
from projections.exports.facts import WorkflowFacts
from projections.exports.graph_svg import drawing as graph
from projections.exports.markup import environment, flat
from projections.exports.plain import ExportSource, Steps
from projections.exports.spans import SpanFold, Spans
from projections.exports.timeline_svg import drawing as timeline
from projections.files.results import (
    StageResult,
    environment_of,
    gathered,
    inputs_of,
    ran_on,
    sessions,
)
from projections.files.summary import FIGURES, Summary, is_figure, summarised
from projections.screens.next_actions import next_actions
from projections.words.text import seconds

#: Bytes of one figure that a report holds, and of all of them.
_FIGURE, _ALL_FIGURES = 2 << 20, 8 << 20
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def export(source: ExportSource) -> Iterator[str]:
    """Yield the page of everything up to the source's end."""
    facts, spans, found = WorkflowFacts(), SpanFold(), dict[str, StageResult]()

    def steps() -> Steps:
        for event, state in gathered(source.steps(), found):
            facts.add(event, state)
            spans.add(event, state)
            yield event, state

    told = sessions(steps())
    template = environment(PackageLoader("projections", "exports/templates")).get_template(
        "report.html.j2"
    )
    state = source.state()
    summary = summarised(state, found)
    own = {"summary": summary, "figures": _figures(source, summary), "sessions": told}
    return template.generate(**_context(state, facts, spans.found), **own)


def _figures(source: ExportSource, summary: Summary) -> dict[str, str]:
    """Return by path the figures that came out, each as an address that holds it."""
    found: dict[str, str] = {}
    room = _ALL_FIGURES
    for one in summary.outcomes:
        for output in one.outputs:
            path = str(output["path"])
            if not is_figure(path) or output.get("size", 0) > min(room, _FIGURE):
                continue
            content = source.content(output)
            if content is not None:
                room -= len(content)
                kind = FIGURES[PurePosixPath(path).suffix.lower()]
                found[path] = f"data:{kind};base64,{b64encode(content).decode()}"
    return found


def _context(state: Workflow, facts: WorkflowFacts, spans: Spans) -> dict[str, Any]:
    return {
        "state": state,
        "facts": facts,
        "spans": spans,
        "counts": counts(state),
        "next": next_actions(state),
        "colors": Markup(svg.variables(":root")),  # ours, escaped where it was made
        "graph": Markup(graph(state)),  # ours, escaped where it was made
        "timeline": Markup(timeline(spans)),  # ours, escaped where it was made
        "lasted": _lasted(spans.first, spans.last),
        "took": lambda attempt: (
            _lasted(attempt.started_at, attempt.ended_at) if attempt.ended_at else "under way"
        ),
        "between": _lasted,
        "fields": _fields,
        "judgement": facts.judgements.get,
        "inputs_of": inputs_of,
        "ran_on": ran_on,
        "environment_of": environment_of,
    }


def counts(state: Workflow) -> list[tuple[str, int]]:
    """Return how many stages stand where, in the order of the protocol."""
    statuses = [stage.status for stage in state.stages.values()]
    return [(s.value, statuses.count(s)) for s in Status if s in statuses]


def _fields(stage: Stage) -> list[tuple[str, str]]:
    """Return what defines a stage, what is empty left out."""
    listed = {
        "depends on": ", ".join(stage.depends_on),
        "backend": stage.backend or "",
        "inputs": "\n".join(stage.inputs),
        "outputs": "\n".join(stage.outputs),
        "success criteria": stage.success_criteria,
    }
    listed |= {str(key): flat(value) for key, value in stage.parameters.items()}
    return [(name, value) for name, value in listed.items() if value]


def _lasted(start: str, end: str) -> str:
    """Return the time between two of the log's, in its two largest units."""
    passed = seconds(start, end)
    if passed is None:
        return "unknown"  # typed by hand in an imported file
    rest = max(int(passed), 0)
    parts = []
    for size, unit in _UNITS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "under 1 s"
