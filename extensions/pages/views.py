"""Render the web pages about a workflow as HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from eventstore.event import RecordedEvent
from extensions.exports.graph_svg import draw_graph as graph
from extensions.exports.markup import format_flat, reveal_control_characters
from extensions.exports.report import collect_loop_tables, count_by_status
from extensions.exports.timeline_svg import draw_timeline as timeline
from extensions.exports.timeline_svg import state_spans
from extensions.pages import render
from extensions.pages.comparison_view import render_comparison
from extensions.pages.newest_events import (
    FoundEvents,
    find_newest_events,
    make_text_needle,
    make_value_needle,
)
from extensions.pages.page_data import (
    PageLook,
    find_file_differences,
    format_known_duration,
    list_decision_commands,
    next_of,
)
from extensions.pages.render import PageRequest
from extensions.pages.served_workflows import ServedWorkflows, build_listing_row, contains_text
from extensions.pages.stage_views import (
    render_attempt_output,
    render_stage,
    render_task,
)
from lifecycle.state.session_budget import maximum_session_cost
from lifecycle.state.workflow import PLAN, Stage, Workflow
from projections.files.document_diff import find_differences
from projections.files.state_document import build_document
from projections.files.summary import figures_of
from projections.words.account import list_attention_items, list_waiting_items
from projections.words.format_results import describe_all_metrics, list_named_results
from projections.words.mandates import list_mandates
from projections.words.stage_progress import StageProgress
from service.errors import NotFound
from service.reading.point_in_history import parse_moment
from service.reading.selection import Selection

#: Maximum numbers on a page: stages, events, log lines next to a workflow, and differences.
_STAGES, _EVENTS, _LINES, _DIFFERENCES = 250, 100, 15, 100
#: Maximum number of running stages whose output lines are shown.
_TAILS = 8
#: Maximum number of stages for which a picture of the workflow is drawn.
_DRAWN = 400


def render_listing(shelf: ServedWorkflows) -> bytes:
    """Return the page that lists all workflows.

    Workflows with open decisions come first, then failed, running and recently changed ones.
    """
    records = []
    for entry in shelf.refresh():
        try:
            with entry.open() as log:
                records.append(build_listing_row(entry, shelf.state(entry, log)))
        except Exception as error:  # noqa: BLE001 - one that is broken hides no other
            records.append(
                build_listing_row(entry, None, str(getattr(error, "message", error))[:300])
            )
    records.sort(key=lambda one: one["updated"], reverse=True)
    records.sort(key=lambda one: one["urgency"])
    return render.render_page(
        "list.html.j2", records=records, is_live=True, commands=list_decision_commands
    )


def render_workflow(look: PageLook) -> bytes:
    """Return the page about a workflow, now or at a moment.

    For a past moment, the page shows the differences from the current state.
    """
    state, first = look.then, look.request.number("stages") or 0
    seen = find_file_differences(look)
    stands = list_attention_items(state, seen)
    every = list(state.stages.values())
    return render.render_page(
        "workflow.html.j2",
        **look.common,
        counts=count_by_status(state),
        answers=list_named_results(state, seen),
        figures=figures_of(state),
        bars=_measure_progress(look),
        numbers=describe_all_metrics,
        waits=[(one, list_decision_commands(look.entry, one)) for one in stands if one.person],
        others=[one for one in stands if not one.person],
        mandates=list_mandates(state),
        loops=collect_loop_tables(state),
        next=next_of(look),
        tails=look.running(_TAILS) if look.is_now else {},
        running=[stage for stage in every if stage.open_attempt is not None],
        stages=every[first : first + _STAGES],
        first=first,
        more=first + _STAGES if first + _STAGES < len(every) else None,
        stale={one.stage for one in stands if one.kind == "stale"},
        budget=maximum_session_cost(state),
        graph=_draw_if_small(lambda one: graph(one, _make_stage_address(look)), state),
        timeline=_draw_if_small(lambda one: timeline(state_spans(one)), state),
        took=format_known_duration,
        lines=find_newest_events(look.log, state.head + 1, _LINES, lambda _: True).events,
        differences=[]
        if look.is_now
        else find_differences(build_document(look.then), build_document(look.now))[:_DIFFERENCES],
    )


def _make_stage_address(look: PageLook) -> Callable[[str], str]:
    """Return a function that returns the URL of a stage's page at the requested moment."""
    at = look.request.text("at")
    moment = f"?{urlencode({'at': at})}" if at is not None else ""
    return lambda id_: f"{look.entry.address}stage/{quote(id_, safe='')}{moment}"


def _measure_progress(look: PageLook) -> dict[str, StageProgress]:
    """Return the progress of running stages and of sweeps, by stage id."""
    every = look.then.stages.values()
    wanted = [one for one in every if one.open_attempt is not None or one.work.tables]
    found = {one.id: look.progress(one) for one in wanted[:_STAGES]}
    return {id_: progress for id_, progress in found.items() if progress is not None}


def _draw_if_small(draw: Callable[[Workflow], str], state: Workflow) -> str:
    """Return a picture as markup, or an empty string if the workflow has too many stages."""
    return Markup(reveal_control_characters(draw(state))) if len(state.stages) <= _DRAWN else ""


_FILTERS = ("type", "stage", "actor", "session", "status", "amendment", "since", "until", "grep")


def render_history(look: PageLook) -> bytes:
    """Return the page that lists the events that match the filters, newest first."""
    request = look.request
    wanted = Selection(
        types=_split_list(request.text("type")),
        stages=_split_list(request.text("stage")),
        actor=request.text("actor"),
        session=request.number("session"),
        status=request.text("status"),
        amendment=request.text("amendment"),
        since=_resolve_bound(look, "since"),
        until=_resolve_bound(look, "until"),
    )
    grep = request.text("grep")
    before = look.last

    def fits(event: RecordedEvent) -> bool:
        return wanted.fits(event) and (grep is None or contains_text(event, grep))

    found = find_newest_events(look.log, before, _EVENTS, fits, list(_iterate_needles(request)))
    given = {name: request.text(name) for name in _FILTERS if request.text(name)}
    older = {**given, "at": request.text("at"), "before": found.before} if found.before else None
    return render.render_page(
        "history.html.j2", **look.common, found=found.events, older=older, filters=_FILTERS,
        before=before, is_first=before > look.then.head,
    )  # fmt: skip


def _iterate_needles(request: PageRequest) -> Iterator[list[str]]:
    """Yield groups of search strings.

    The text of each matching event contains at least one string of each group.
    """
    grep, amendment = request.text("grep"), request.text("amendment")
    stages, types = _split_list(request.text("stage")), _split_list(request.text("type"))
    if grep is not None:
        yield [make_text_needle(grep)]
    else:
        groups = (
            [make_value_needle(one) for one in stages],
            [make_value_needle(amendment)] if amendment else [],
            [make_value_needle(one)[:-1].rstrip("*") for one in types],
        )
        yield from filter(None, groups)


def _split_list(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").replace(",", " ").split() if part)


def _resolve_bound(look: PageLook, name: str) -> Any:
    text = look.request.text(name)
    return look.log.resolved(parse_moment(text)) if text is not None else None


def render_amendments(look: PageLook) -> bytes:
    """Return the page about amendments (plan changes).

    It shows the changes, the effects of pending amendments, and the consent for decided ones.
    """
    pending: dict[str, list[str]] = {one.id: [] for one in look.then.pending_amendments}
    if look.entry.root is not None and look.is_now:
        for one in look.then.pending_amendments:
            pending[one.id] = look.shelf.sight.impact(look.entry.root, look.now, one)
    every = list(look.then.amendments.values())[::-1]
    return render.render_page(
        "amendments.html.j2", **look.common, amendments=every, impact=pending,
        decisions=_find_decisions(look), commands=list_decision_commands,
        waits={w.subject: w for w in list_waiting_items(look.then) if w.kind == "amendment"},
    )  # fmt: skip


def _find_decisions(look: PageLook) -> dict[str, dict[str, Any]]:
    """Return the events that proposed and decided each amendment, by amendment id.

    Only a limited number of events is searched.
    """
    if not look.then.amendments:
        return {}
    found = find_newest_events(
        look.log, look.then.head + 1, 4 * len(look.then.amendments) + 20,
        lambda event: event.type.startswith("amendment."), [[make_value_needle("amendment.")[:-1]]],
    )  # fmt: skip
    told: dict[str, dict[str, Any]] = {}
    if look.then.plan is not None:
        told[PLAN] = {"proposed": next(look.log.store.read(look.log.stream, upto=1))}
    for event in reversed(found.events):
        one = told.setdefault(str(event.data.get("amendment")), {})
        role = "proposed" if event.type == "amendment.proposed" else "decided"
        one.setdefault(role, event)
    return told


def render_search(look: PageLook) -> bytes:
    """Return the page that lists the stages, amendments and events with a text."""
    text = look.request.text("q")
    stages: list[Stage] = []
    found = FoundEvents([], None)
    if text is not None:
        wanted = text.casefold()
        for one in look.then.stages.values():
            parts = (one.id, one.name, one.success_criteria, one.last_error, one.parameters,
                     one.inputs, one.outputs)  # fmt: skip
            if wanted in "\n".join(format_flat(part or "") for part in parts).casefold():
                stages.append(one)
        found = find_newest_events(
            look.log, look.last, _EVENTS, lambda event: contains_text(event, text),
            [[make_text_needle(text)]],
        )  # fmt: skip
    older = {"q": text, "at": look.request.text("at"), "before": found.before}
    return render.render_page(
        "search.html.j2", **look.common, q=text or "", stages=stages[:_STAGES],
        found=found.events, older=older if found.before else None,
    )  # fmt: skip


_PAGES: dict[str, Callable[[PageLook], bytes]] = {
    "": render_workflow,
    "history": render_history,
    "amendments": render_amendments,
    "compare": render_comparison,
    "search": render_search,
}


def render_requested_page(look: PageLook) -> bytes:
    """Return the page at a path below a workflow's address.

    Raises `NotFound` if there is no such page.
    """
    parts = look.request.parts[2:]
    if len(parts) in (2, 3) and parts[0] == "stage":
        pages = {"": render_stage, "task": render_task, "log": render_attempt_output}
        named = parts[2] if len(parts) == 3 else ""
        if named in pages:
            return pages[named](look)
    if len(parts) == 1 and parts[0] in _PAGES:
        return _PAGES[parts[0]](look)
    raise NotFound(
        f"the server has no page {look.request.path!r:.200}. Open a page through the list of "
        "workflows"
    )
