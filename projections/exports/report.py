"""``report``: one HTML page that needs no network and no script, of a workflow or a machine."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.event import Event
from lifecycle.machines.machine import Machine
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.drawing import svg
from projections.exports.formats import ExportSource, Steps, amended_by
from projections.exports.graph_svg import drawing as graph
from projections.exports.markup import environment
from projections.exports.timeline_svg import SpanFold
from projections.exports.timeline_svg import drawing as timeline
from projections.files import summary as results
from projections.files.progress_log import message
from projections.files.summary import FIGURES, Summary, is_figure, summarised
from projections.machines.history import message as machine_message
from projections.screens.next_actions import next_actions
from projections.words.came_about import agreement
from projections.words.text import seconds

#: Bytes of one figure that a report holds, and of all of them.
_FIGURE, _ALL_FIGURES = 2 << 20, 8 << 20
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
#: Lines of the log that a page still shows; an export of the log has them all.
_LINES = 2000
Fields = dict[str, Any]


def export(source: ExportSource) -> Iterator[str]:
    """Yield the page of everything up to the source's end."""
    facts, spans, found = WorkflowFacts(), SpanFold(), dict[str, results.StageResult]()

    def steps() -> Steps:
        for event, state in results.gathered(source.steps(), found):
            facts.add(event, state)
            spans.add(event, state)
            yield event, state

    told = results.sessions(steps())
    state = source.state()
    summary = summarised(state, found)
    return _page(
        "report.html.j2",
        state=state,
        facts=facts,
        spans=spans.found,
        summary=summary,
        figures=_figures(source, summary),
        sessions=told,
        counts=counts(state),
        next=next_actions(state),
        graph=Markup(graph(state)),  # ours, escaped where it was made
        timeline=Markup(timeline(spans.found)),  # ours, escaped where it was made
        lasted=lasted(spans.found.first, spans.found.last),
        took=lambda attempt: (
            lasted(attempt.started_at, attempt.ended_at) if attempt.ended_at else "under way"
        ),
        between=lasted,
        fields=_fields,
        method=results.method_of(state, found),
        judgement=facts.judgements.get,
        environment_of=results.environment_of,
    )


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


def _fields(stage: Stage) -> list[tuple[str, str]]:
    """Return what defines a stage, what is empty left out."""
    listed = {
        "depends on": ", ".join(stage.depends_on),
        "backend": stage.backend or "",
        "inputs": "\n".join(stage.inputs),
        "outputs": "\n".join(stage.outputs),
        "success criteria": stage.success_criteria,
    }
    return [(name, value) for name, value in listed.items() if value]


def lasted(start: str, end: str) -> str:
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


@dataclass(slots=True)
class WorkflowFacts:
    """What a report tells beside the state, as the template names it.

    ``decisions``: amendment → who proposed and decided it, and how consent was given.
    ``judgements``: stage and attempt → the checks, the words, who judged. ``found`` are changes of
    files by somebody else, and what became of them; ``lines`` are those of the history.
    """

    decisions: dict[str, Fields] = field(default_factory=dict)
    judgements: dict[tuple[str, str | None], Fields] = field(default_factory=dict)
    found: list[Fields] = field(default_factory=list)
    lines: deque[Fields] = field(default_factory=lambda: deque(maxlen=_LINES))
    line_count: int = 0
    actors: Counter[str] = field(default_factory=Counter)
    version: int = 0
    head: str = ""

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event and the state after it."""
        self.version, self.head = event.version, event.hash
        actor = str(event.actor)
        self.actors[actor] += 1
        text = message(event, state)
        if text is not None:
            self.line_count += 1
            at = event.occurred_at if event.actor.kind == "import" else event.recorded_at
            self.lines.append({"at": at, "actor": actor, "kind": event.type, "text": text})
        if amended := amended_by(event, state):
            self._decision(event, *amended)
        elif event.type in ("stage.completed", "stage.failed"):
            data, newest = event.data, state.stages[event.data["stage"]].source
            attempt = data.get("attempt") or (newest.id if newest is not None else None)
            told = {name: data.get(name) for name in ("evidence", "judged_by", "error")}
            self.judgements[data["stage"], attempt] = told | {"checks": data.get("checks", [])}
        elif event.type.startswith("drift."):
            data, is_new = event.data, event.type == "drift.detected"
            what = data["kind"] if is_new else event.type.split(".")[1]
            touched = [_place_of(difference) for difference in data.get("differences", [])]
            told = {"file": data["file"], "kept_as": data.get("kept_as"), "touched": touched}
            self.found.append({"at": event.recorded_at, "what": what, **told})

    def _decision(self, event: RecordedEvent, amendment: Amendment, is_new: bool) -> None:
        actor = str(event.actor)
        if is_new:
            undecided = {"proposed_by": actor, "decided_by": None, "policy": None}
            self.decisions.setdefault(amendment.id, undecided)
            return
        decision = self.decisions.get(amendment.id)
        if decision is not None and decision["decided_by"] is None:
            proof, reason = event.data.get("proof") or {}, event.data.get("reason")
            decision |= {"policy": proof.get("policy"), "signer": proof.get("signer")}
            decision |= {"decided_by": actor, "answer": reason}


def _place_of(difference: Mapping[str, Any]) -> str:
    """Return where a difference lies, in dots; of one of another shape what can be told."""
    path = difference.get("path")
    steps = path if isinstance(path, list) else [path]
    return ".".join(str(step) for step in (difference.get("stage"), *steps) if step is not None)


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
