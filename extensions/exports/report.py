"""The export format ``report``: one HTML page about a workflow or a phase machine.

The page works without network access and contains no scripts.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from extensions.exports.formats import ExportSource
from extensions.exports.graph_svg import draw_graph as graph
from extensions.exports.markup import build_environment, reveal_control_characters
from extensions.exports.timeline_svg import SpanFold
from extensions.exports.timeline_svg import draw_timeline as timeline
from extensions.machines.rules.machine import Machine
from extensions.machines.views.history import format_event as machine_message
from lifecycle.event import Event
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.drawing import svg
from projections.drawing.plot_svg import draw_plot
from projections.drawing.plots import Plot, plots_of_rounds
from projections.files.facts import WorkflowFacts
from projections.files.method import convert_values_to_text, describe_method
from projections.files.summary import FIGURES, Summary, build_summary, is_figure
from projections.files.sweep_numbers import SweepNumbers, collect_sweep_numbers
from projections.screens.next_actions import next_actions
from projections.words.result_origin import describe_agreement
from projections.words.rounds import LoopProgress, RoundRow, list_loop_progress, round_rows
from projections.words.text import format_duration, name_approver

#: Maximum size in bytes of one figure in a report, and of all figures together.
_FIGURE, _ALL_FIGURES = 2 << 20, 8 << 20


def export_report(source: ExportSource) -> Iterator[str]:
    """Yield the HTML report about the workflow up to the end of the source."""
    facts, spans = WorkflowFacts(source.state()), SpanFold()
    for event, state in source.steps():
        facts.add(event, state)
        spans.add(event, state)
    summary = build_summary(facts)
    return _render_page(
        "report.html.j2",
        facts=facts,
        state=facts.state,
        summary=summary,
        loops=collect_loop_tables(facts.state),
        sweeps=_collect_sweep_tables(source, facts.state),
        method=describe_method(facts),
        figures=_embed_figures(source, summary),
        counts=count_by_status(facts.state),
        next=next_actions(facts.state),
        graph=Markup(graph(facts.state)),  # The graph escapes its own text.
        timeline=Markup(timeline(spans.found)),  # The timeline escapes its own text.
        duration=format_duration,
        as_typed=convert_values_to_text,
    )


def collect_loop_tables(state: Workflow) -> list[tuple[LoopProgress, list[RoundRow], list[str]]]:
    """Return each optimisation loop, with a table row for each round, and its plots."""
    return [
        (
            one,
            round_rows(state, one.loop.name),
            [draw_plot_markup(plot) for plot in plots_of_rounds(state, one.loop.name)],
        )
        for one in list_loop_progress(state)
    ]


def draw_plot_markup(plot: Plot) -> str:
    """Return a plot as markup for a page. The drawing escapes its own text."""
    return Markup(reveal_control_characters(draw_plot(plot)))


def _collect_sweep_tables(
    source: ExportSource, state: Workflow
) -> list[tuple[SweepNumbers, list[str]]]:
    """Return the numbers of each completed sweep, with its plots as markup."""
    found = (collect_sweep_numbers(one, source.content) for one in state.stages.values())
    return [(one, [*map(draw_plot_markup, one.plots)]) for one in found if one is not None]


def _render_page(name: str, **told: Any) -> Iterator[str]:
    loader = PackageLoader("extensions.exports")
    colors = Markup(svg.format_color_variables(":root"))  # The colors contain no foreign text.
    return build_environment(loader).get_template(name).generate(**told, colors=colors)


def _embed_figures(source: ExportSource, summary: Summary) -> dict[str, str]:
    """Return the figures among the recorded outputs as ``data:`` URLs, by path.

    Figures that are missing, changed or too large are left out.
    """
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


def count_by_status(state: Workflow) -> list[tuple[str, int]]:
    """Return the number of stages in each status, in the order of a stage's life."""
    statuses = [stage.status for stage in state.stages.values()]
    return [(s.value, statuses.count(s)) for s in Status if s in statuses]


@dataclass(slots=True)
class _MachineFacts:
    """The events of a phase machine as text, in the order of recording."""

    approvals: list[dict[str, Any]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    def take(self, event: Event, state: Machine) -> None:
        data = event.data
        at, what = event.occurred_at, machine_message(event.type, data)
        self.log.append((at, what))
        if event.type in ("machine.approved", "machine.withdrawn", "machine.limited"):
            proof = data.get("proof") or {}
            by = name_approver(data.get("approved_by"), proof.get("database_user"))
            how = describe_agreement(proof.get("policy"), by)
            told = {"at": at, "what": what, "how": how or "no proof says who agreed"}
            self.approvals.append(told)
        if event.type == "machine.imported":
            self.imported = [one.phase for one in state.visits.values() if one.completed_at]


def render_machine_report(steps: Iterable[tuple[Any, Machine]]) -> Iterator[str]:
    """Yield the HTML report about a phase machine. Yield nothing if there are no events."""
    told, state = _MachineFacts(), None
    for event, state in steps:
        told.take(event, state)
    if state is None:
        return iter(())
    counts, loops = state.counts, state.definition.loops
    limits = [(one, counts.get(one, 0), state.limit_of(one)) for one in loops]
    return _render_page(
        "machine.html.j2", state=state, told=told, stays=_iterate_phase_periods(state), loops=limits
    )


def _iterate_phase_periods(state: Machine) -> Iterator[dict[str, Any]]:
    """Yield each period in a phase: start, end, and reason of the phase change."""
    phase = state.moves[0].source if state.moves else state.phase
    begun = state.created
    for move in state.moves:
        counted = f"{move.loop} {move.count} of {move.limit}" if move.loop else ""
        diverted = f"instead of {move.asked}" if move.is_diverted else ""
        why = ", ".join(one for one in (counted, diverted, move.reason or "") if one)
        yield {"phase": phase, "begun": begun, "ended": move.at, "why": why}
        phase, begun = move.to, move.at
    yield {"phase": phase, "begun": begun, "ended": None, "why": ""}
