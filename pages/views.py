"""The pages: from a workflow and what was asked for to HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.state.conditions import budget_of
from lifecycle.state.workflow import PLAN, Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from pages import render
from pages.looking import PageLook, commands_of, next_of, seen_of, took
from pages.render import PageRequest
from pages.shelf import FoundEvents, Shelf, holds, newest, quoted, record, written
from pages.stage_views import compare, printed, stage, task
from projections.exports.graph_svg import drawing as graph
from projections.exports.markup import flat, shown
from projections.exports.report import counts, loops_shown
from projections.exports.timeline_svg import drawing as timeline
from projections.exports.timeline_svg import state_spans
from projections.files.document_diff import differences
from projections.files.state_document import document
from projections.files.summary import figures_of
from projections.words.account import account, waits
from projections.words.answers import answers, told_all
from projections.words.mandates import standings
from service.errors import NotFound
from service.reading.log import Selection
from service.reading.moment import parse_moment

#: Stages of a page, events of a page, lines beside a workflow, differences.
_STAGES, _EVENTS, _LINES, _DIFFERENCES = 250, 100, 15, 100
#: Running stages whose lines are shown.
_TAILS = 8
#: Stages up to which a picture of all of them is drawn.
_DRAWN = 400


def listing(shelf: Shelf) -> bytes:
    """Return the list: what waits for a person first, then what failed, what runs, the newest."""
    records = []
    for entry in shelf.refresh():
        try:
            with entry.open() as log:
                records.append(record(entry, shelf.state(entry, log)))
        except Exception as error:  # noqa: BLE001 - one that is broken hides no other
            records.append(record(entry, None, str(getattr(error, "message", error))[:300]))
    records.sort(key=lambda one: one["updated"], reverse=True)
    records.sort(key=lambda one: one["urgency"])
    return render.page("list.html.j2", records=records, is_live=True, commands=commands_of)


def workflow(look: PageLook) -> bytes:
    """Return the page of a workflow, now or at a moment with what differs from now."""
    state, first = look.then, look.request.number("stages") or 0
    seen = seen_of(look)
    stands = account(state, seen)
    every = list(state.stages.values())
    return render.page(
        "workflow.html.j2",
        **look.common,
        counts=counts(state),
        answers=answers(state, seen),
        figures=figures_of(state),
        bars=_bars(look),
        numbers=told_all,
        waits=[(one, commands_of(look.entry, one)) for one in stands if one.person],
        others=[one for one in stands if not one.person],
        mandates=standings(state),
        loops=loops_shown(state),
        next=next_of(look),
        tails=look.running(_TAILS) if look.is_now else {},
        running=[stage for stage in every if stage.open_attempt is not None],
        stages=every[first : first + _STAGES],
        first=first,
        more=first + _STAGES if first + _STAGES < len(every) else None,
        stale={one.stage for one in stands if one.kind == "stale"},
        budget=budget_of(state),
        graph=_drawn(lambda one: graph(one, _places(look)), state),
        timeline=_drawn(lambda one: timeline(state_spans(one)), state),
        took=took,
        lines=newest(look.log, state.head + 1, _LINES, lambda _: True).events,
        differences=[]
        if look.is_now
        else differences(document(look.then), document(look.now))[:_DIFFERENCES],
    )


def _places(look: PageLook) -> Callable[[str], str]:
    """Return what gives the address of a stage's page, at the moment that is looked at."""
    at = look.request.text("at")
    moment = f"?{urlencode({'at': at})}" if at is not None else ""
    return lambda id_: f"{look.entry.address}stage/{quote(id_, safe='')}{moment}"


def _bars(look: PageLook) -> dict[str, dict[str, int]]:
    """Return by sweep how many of its tasks stand where."""
    sweeps = [one for one in look.then.stages.values() if is_sweep(one.parameters)]
    found = {one.id: look.counts(one) for one in sweeps[:_STAGES]}
    return {id_: counts for id_, counts in found.items() if counts is not None}


def _drawn(draw: Callable[[Workflow], str], state: Workflow) -> str:
    """Return a picture as markup of ours; of too many stages none."""
    return Markup(shown(draw(state))) if len(state.stages) <= _DRAWN else ""


_FILTERS = ("type", "stage", "actor", "session", "status", "amendment", "since", "until", "grep")


def history(look: PageLook) -> bytes:
    """Return a page of events, the newest first, of those that the filters let through."""
    request = look.request
    wanted = Selection(
        types=_listed(request.text("type")),
        stages=_listed(request.text("stage")),
        actor=request.text("actor"),
        session=request.number("session"),
        status=request.text("status"),
        amendment=request.text("amendment"),
        since=_bound(look, "since"),
        until=_bound(look, "until"),
    )
    grep = request.text("grep")
    before = look.last

    def fits(event: RecordedEvent) -> bool:
        return wanted.fits(event) and (grep is None or holds(event, grep))

    found = newest(look.log, before, _EVENTS, fits, list(_needles(request)))
    given = {name: request.text(name) for name in _FILTERS if request.text(name)}
    older = {**given, "at": request.text("at"), "before": found.before} if found.before else None
    return render.page(
        "history.html.j2", **look.common, found=found.events, older=older, filters=_FILTERS,
        before=before, is_first=before > look.then.head,
    )  # fmt: skip


def _needles(request: PageRequest) -> Iterator[list[str]]:
    """Yield groups of letters of which the text of every event that fits has one."""
    grep, amendment = request.text("grep"), request.text("amendment")
    stages, types = _listed(request.text("stage")), _listed(request.text("type"))
    if grep is not None:
        yield [written(grep)]
    else:
        groups = (
            [quoted(one) for one in stages],
            [quoted(amendment)] if amendment else [],
            [quoted(one)[:-1].rstrip("*") for one in types],
        )
        yield from filter(None, groups)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part for part in (text or "").replace(",", " ").split() if part)


def _bound(look: PageLook, name: str) -> Any:
    text = look.request.text(name)
    return look.log.resolved(parse_moment(text)) if text is not None else None


def amendments(look: PageLook) -> bytes:
    """Return the amendments: what changes, the impact of what is pending, consent of the rest."""
    pending: dict[str, list[str]] = {one.id: [] for one in look.then.pending_amendments}
    if look.entry.root is not None and look.is_now:
        for one in look.then.pending_amendments:
            pending[one.id] = look.shelf.sight.impact(look.entry.root, look.now, one)
    every = list(look.then.amendments.values())[::-1]
    return render.page(
        "amendments.html.j2", **look.common, amendments=every, impact=pending,
        decisions=_decisions(look), commands=commands_of,
        waits={w.subject: w for w in waits(look.then) if w.kind == "amendment"},
    )  # fmt: skip


def _decisions(look: PageLook) -> dict[str, dict[str, Any]]:
    """Return by amendment who proposed and who decided it, as far back as one page looks."""
    if not look.then.amendments:
        return {}
    found = newest(
        look.log, look.then.head + 1, 4 * len(look.then.amendments) + 20,
        lambda event: event.type.startswith("amendment."), [[quoted("amendment.")[:-1]]],
    )  # fmt: skip
    told: dict[str, dict[str, Any]] = {}
    if look.then.plan is not None:
        told[PLAN] = {"proposed": next(look.log.store.read(look.log.stream, upto=1))}
    for event in reversed(found.events):
        one = told.setdefault(str(event.data.get("amendment")), {})
        role = "proposed" if event.type == "amendment.proposed" else "decided"
        one.setdefault(role, event)
    return told


def search(look: PageLook) -> bytes:
    """Return the stages, amendments and events that hold a text."""
    text = look.request.text("q")
    stages: list[Stage] = []
    found = FoundEvents([], None)
    if text is not None:
        wanted = text.casefold()
        for one in look.then.stages.values():
            parts = (one.id, one.name, one.success_criteria, one.last_error, one.parameters,
                     one.inputs, one.outputs)  # fmt: skip
            if wanted in "\n".join(flat(part or "") for part in parts).casefold():
                stages.append(one)
        found = newest(
            look.log, look.last, _EVENTS, lambda event: holds(event, text),
            [[written(text)]],
        )  # fmt: skip
    older = {"q": text, "at": look.request.text("at"), "before": found.before}
    return render.page(
        "search.html.j2", **look.common, q=text or "", stages=stages[:_STAGES],
        found=found.events, older=older if found.before else None,
    )  # fmt: skip


_PAGES: dict[str, Callable[[PageLook], bytes]] = {
    "": workflow,
    "history": history,
    "amendments": amendments,
    "compare": compare,
    "search": search,
}


def page_of(look: PageLook) -> bytes:
    """Return the page that a path below a workflow's own names; raises `NotFound`."""
    parts = look.request.parts[2:]
    if len(parts) in (2, 3) and parts[0] == "stage":
        pages = {"": stage, "task": task, "log": printed}
        named = parts[2] if len(parts) == 3 else ""
        if named in pages:
            return pages[named](look)
    if len(parts) == 1 and parts[0] in _PAGES:
        return _PAGES[parts[0]](look)
    raise NotFound(f"no page {look.request.path!r:.200}; the list leads to all there are")
