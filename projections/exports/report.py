"""``report``: one HTML page that needs no network and no script, of a workflow or a machine."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from lifecycle.event import Event
from lifecycle.machines.machine import Machine
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.drawing import plots, svg
from projections.exports.formats import ExportSource
from projections.exports.graph_svg import drawing as graph
from projections.exports.markup import environment, shown
from projections.exports.timeline_svg import SpanFold
from projections.exports.timeline_svg import drawing as timeline
from projections.files.facts import WorkflowFacts
from projections.files.method import as_typed, method
from projections.files.summary import FIGURES, Summary, is_figure, summarised
from projections.machines.history import message as machine_message
from projections.screens.next_actions import next_actions
from projections.words.came_about import agreement
from projections.words.rounds import LoopTold, RoundRow, loops_told, round_rows
from projections.words.text import duration

#: Bytes of one figure that a report holds, and of all of them.
_FIGURE, _ALL_FIGURES = 2 << 20, 8 << 20


def export(source: ExportSource) -> Iterator[str]:
    """Yield the page of everything up to the source's end."""
    facts, spans = WorkflowFacts(source.state()), SpanFold()
    for event, state in source.steps():
        facts.add(event, state)
        spans.add(event, state)
    summary = summarised(facts)
    return _page(
        "report.html.j2",
        facts=facts,
        state=facts.state,
        summary=summary,
        loops=loops_shown(facts.state),
        method=method(facts),
        figures=_figures(source, summary),
        counts=counts(facts.state),
        next=next_actions(facts.state),
        graph=Markup(graph(facts.state)),  # ours, escaped where it was made
        timeline=Markup(timeline(spans.found)),  # ours, escaped where it was made
        duration=duration,
        as_typed=as_typed,
    )


def loops_shown(state: Workflow) -> list[tuple[LoopTold, list[RoundRow], list[str]]]:
    """Return each loop with a row for each of its rounds, and with its plots."""
    return [
        (
            one,
            round_rows(state, one.loop.name),
            # ours, escaped where they were made
            [
                Markup(shown(plots.drawing(plot)))
                for plot in plots.plots_of_rounds(state, one.loop.name)
            ],
        )
        for one in loops_told(state)
    ]


def _page(name: str, **told: Any) -> Iterator[str]:
    loader = PackageLoader("projections", "exports/templates")
    colors = Markup(svg.variables(":root"))  # ours, escaped where it was made
    return environment(loader).get_template(name).generate(**told, colors=colors)


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


def counts(state: Workflow) -> list[tuple[str, int]]:
    """Return how many stages stand where, in the order of the protocol."""
    statuses = [stage.status for stage in state.stages.values()]
    return [(s.value, statuses.count(s)) for s in Status if s in statuses]


@dataclass(slots=True)
class _MachineFacts:
    """What the events of a machine say, in the order in which they were recorded."""

    approvals: list[dict[str, Any]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    def take(self, event: Event, state: Machine) -> None:
        data = event.data
        at, what = event.occurred_at, machine_message(event.type, data)
        self.log.append((at, what))
        if event.type in ("machine.approved", "machine.withdrawn", "machine.limited"):
            how = agreement((data.get("proof") or {}).get("policy"), data.get("approved_by"))
            told = {"at": at, "what": what, "how": how or "no proof says who agreed"}
            self.approvals.append(told)
        if event.type == "machine.imported":
            self.imported = [one.phase for one in state.visits.values() if one.completed_at]


def machine_page(steps: Iterable[tuple[Any, Machine]]) -> Iterator[str]:
    """Yield the page of a machine after its steps; nothing of one that has none."""
    told, state = _MachineFacts(), None
    for event, state in steps:
        told.take(event, state)
    if state is None:
        return iter(())
    counts, loops = state.counts, state.definition.loops
    limits = [(one, counts.get(one, 0), state.limit_of(one)) for one in loops]
    return _page("machine.html.j2", state=state, told=told, stays=_stays(state), loops=limits)


def _stays(state: Machine) -> Iterator[dict[str, Any]]:
    """Yield each stay in a phase: when it began and ended, and why it was left."""
    phase = state.moves[0].source if state.moves else state.phase
    begun = state.created
    for move in state.moves:
        counted = f"{move.loop} {move.count} of {move.limit}" if move.loop else ""
        diverted = f"instead of {move.asked}" if move.is_diverted else ""
        why = ", ".join(one for one in (counted, diverted, move.reason or "") if one)
        yield {"phase": phase, "begun": begun, "ended": move.at, "why": why}
        phase, begun = move.to, move.at
    yield {"phase": phase, "begun": begun, "ended": None, "why": ""}
