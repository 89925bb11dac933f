"""The pages: from a workflow and what was asked for to HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.fold.evolve import parameters_then
from lifecycle.state.conditions import budget_of
from lifecycle.state.workflow import PLAN, Attempt, Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.metrics import metrics_of
from pages import render
from pages.render import PageRequest, previews, tail_of
from pages.shelf import FoundEvents, ServedRoot, Shelf, holds, newest, quoted, record, written
from projections.drawing.plots import drawing as plot_drawing
from projections.drawing.plots import plot_of_attempts, plot_of_tasks
from projections.exports.graph_svg import drawing as graph
from projections.exports.markup import flat, shown
from projections.exports.report import counts
from projections.exports.timeline_svg import drawing as timeline
from projections.exports.timeline_svg import state_spans
from projections.files.comparison import ComparedSide, of_runs, order_of, plain, rows
from projections.files.document_diff import differences
from projections.files.state_document import document
from projections.files.summary import figures_of
from projections.screens.next_actions import Surroundings, next_actions
from projections.words.account import Seen, account, waits
from projections.words.answers import answers, told_all
from projections.words.came_about import Item, counts_of
from projections.words.text import NextAction, duration, told_used
from service.errors import NotFound
from service.files.surroundings import surroundings
from service.questions.sides import side_of, sides_of
from service.reading.log import Selection, WorkflowLog
from service.reading.moment import parse_moment
from service.root.root import Root

#: Stages of a page, events of a page, lines beside a workflow, attempts of a stage, differences.
_STAGES, _EVENTS, _LINES, _ATTEMPTS, _DIFFERENCES = 250, 100, 15, 20, 100
#: Running stages whose lines are shown.
_TAILS = 8
#: Tasks of a grid, failed tasks that are listed, plots of a stage.
_GRID, _FAILED, _PLOTS = 5000, 50, 6
#: What is told of a comparison though it is the same, and columns of a table of runs.
_ALWAYS, _COLUMNS = ("metric", "output"), 12
#: Stages up to which a picture of all of them is drawn.
_DRAWN = 400


@dataclass(frozen=True, slots=True)
class PageLook:
    """A workflow opened for one request: ``then`` is the state at ``?at=``, else that of now."""

    shelf: Shelf
    entry: ServedRoot
    log: WorkflowLog
    request: PageRequest
    now: Workflow
    then: Workflow

    @property
    def is_now(self) -> bool:
        """Whether no moment was named."""
        return self.request.text("at") is None

    @property
    def last(self) -> int:
        """Below which version events are looked for."""
        end = self.then.head + 1
        return min(self.request.number("before") or end, end)

    def running(self, most: int) -> dict[str, str]:
        """Return by stage the last lines of what runs."""
        return self.shelf.running(self.entry, self.log, self.then, most)

    def counts(self, stage: Stage) -> dict[str, int] | None:
        """Return how many tasks of a sweep stand where; None if nothing is known of any."""
        if self.is_now and self.entry.root is not None:
            return self.shelf.sight.counts(self.entry.root, self.then, stage)
        seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
        return counts_of(seen) if seen is not None else None

    def tasks(self, stage: Stage) -> list[dict[str, Any]]:
        """Return a record of each task of a sweep, nothing of what is not looked at."""
        if not (self.is_now and self.entry.root is not None and is_sweep(stage.parameters)):
            return []
        return self.shelf.sight.tasks(self.entry.root, self.then, stage)

    @property
    def common(self) -> dict[str, Any]:
        """What every page of a workflow shows."""
        return {
            "entry": self.entry,
            "state": self.then,
            "now": self.now,
            "at": self.request.text("at"),
            "is_live": self.is_now,
            "values": dict(self.request.values),
        }


def looked(shelf: Shelf, entry: ServedRoot, log: WorkflowLog, request: PageRequest) -> PageLook:
    """Return the workflow as the request wants to see it; raises as `WorkflowLog.current`."""
    now = shelf.state(entry, log)
    at = request.text("at")
    then = now if at is None else log.current(parse_moment(at))
    return PageLook(shelf, entry, log, request, now, then)


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
    return render.page("list.html.j2", records=records, is_live=True, commands=_commands)


def workflow(look: PageLook) -> bytes:
    """Return the page of a workflow, now or at a moment with what differs from now."""
    state, first = look.then, look.request.number("stages") or 0
    stands = account(state, _seen(look))
    every = list(state.stages.values())
    return render.page(
        "workflow.html.j2",
        **look.common,
        counts=counts(state),
        answers=answers(state),
        figures=figures_of(state),
        bars=_bars(look),
        numbers=told_all,
        waits=[(one, _commands(look.entry, one)) for one in stands if one.person],
        others=[one for one in stands if not one.person],
        next=_next(look),
        tails=look.running(_TAILS) if look.is_now else {},
        running=[stage for stage in every if stage.open_attempt is not None],
        stages=every[first : first + _STAGES],
        first=first,
        more=first + _STAGES if first + _STAGES < len(every) else None,
        stale={one.stage for one in stands if one.kind == "stale"},
        budget=budget_of(state),
        graph=_drawn(lambda one: graph(one, _places(look)), state),
        timeline=_drawn(lambda one: timeline(state_spans(one)), state),
        took=_took,
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


def _took(began: str | None, ended: str | None) -> str:
    return duration(began, ended) if began and ended else ""


def _drawn(draw: Callable[[Workflow], str], state: Workflow) -> str:
    """Return a picture as markup of ours; of too many stages none."""
    return Markup(shown(draw(state))) if len(state.stages) <= _DRAWN else ""


def _seen(look: PageLook) -> Seen | None:
    if not look.is_now or look.entry.root is None:
        return None
    return look.shelf.sight.seen(look.entry.root, look.log, look.now)


def _next(look: PageLook) -> list[NextAction]:
    """Return what leads on, each with the root that it is for."""
    if not look.is_now:
        return []
    root = look.entry.root
    around = surroundings(Root(root), look.now, look.log, _seen(look)) if root else Surroundings()
    found = next_actions(look.now, around)
    return [
        one._replace(command=f"{look.entry.command}{one.command.removeprefix('wfctl')}")
        for one in found[:_STAGES]
    ]


#: By its kind, the commands with which a person decides what waits for one.
_DECIDES = {
    "amendment": ("amend approve {}", "amend reject {}"),
    "drift": ("drift show",),
    "stale": ("rerun {}",),
    "failure": ("why {}",),
    "judgement": ('stage complete {} --evidence "TEXT"',),
}


def _commands(entry: ServedRoot, wait: Item) -> list[str]:
    """Return the commands that a person decides with."""
    lines = _DECIDES.get(wait.kind, ("reconcile",))
    if wait.is_of_files and wait.kind not in ("amendment", "drift", "stale", "failure"):
        lines = (f"verify {wait.stage}",)
    return [f"{entry.command} {line.format(wait.subject)}" for line in lines]


def stage(look: PageLook) -> bytes:
    """Return the page of a stage: attempts, evidence, parameters and who set them, files."""
    found = look.then.stage(look.request.parts[3])
    listed = found.attempts[-_ATTEMPTS:][::-1]
    root = look.entry.root
    source = found.source
    stands = [one for one in account(look.then, _seen(look)) if one.stage == found.id]
    runs = look.is_now and found.open_attempt is not None
    tasks = look.tasks(found)
    tails = look.running(len(look.then.stages)) if runs else {}
    return render.page(
        "stage.html.j2",
        **look.common,
        stage=found,
        attempts=listed,
        older=len(found.attempts) - len(listed),
        judged=_judgements(look, found, listed),
        ran_with={one.id: _ran_with(look.now, found, one) for one in listed},
        numbers=told_all(found, found.metrics),
        numbers_of=partial(told_all, found),
        took=_took,
        used=told_used,
        bar_of=look.counts(found) if is_sweep(found.parameters) else None,
        tasks=tasks[:_GRID],
        more_tasks=len(tasks) - _GRID,
        failed=[one for one in tasks if one["state"] in ("failed", "lost")][:_FAILED],
        plots=list(_plots(found, tasks)),
        setters=_setters(look.then, found),
        others=[one for one in stands if not one.person],
        tail=tails.get(found.id, ""),
        results=previews(root, found.results),
        inputs=previews(root, source.inputs if source else ()),
        dependents=[one for one in look.then.stages.values() if found.id in one.depends_on],
        next=[one for one in _next(look) if found.id in str(one).split()],
        waits=[(one, _commands(look.entry, one)) for one in stands if one.person],
    )


def _ran_with(state: Workflow, stage: Stage, attempt: Attempt) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that an attempt ran with and that are others now, with those of now."""
    then, now = parameters_then(state, stage, attempt.plan), stage.parameters
    names = dict.fromkeys((*then, *now))
    return {n: (then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)}


def _plots(stage: Stage, tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a small plot of each number of a stage: over its points, else over its attempts."""
    done = [one for one in tasks if one["state"] == "done"]
    for name in list(metrics_of(stage.parameters))[:_PLOTS]:
        plot = plot_of_tasks(done, name) if done else plot_of_attempts(stage.attempts, name)
        if plot is not None:
            yield Markup(shown(plot_drawing(plot)))


def task(look: PageLook) -> bytes:
    """Return the page of a task: what became of it, its numbers, and what it printed."""
    found = look.then.stage(look.request.parts[3])
    key = look.request.text("key") or ""
    one = next((row for row in look.tasks(found) if row["key"] == key), None)
    if one is None:
        raise NotFound(f"{found.id} has no task {key!r:.200} to look at; its page lists them")
    root = look.entry.root
    names = ("log", "err") if one["folder"] and root is not None else ()
    printed = {name: tail_of(root, f"{one['folder']}/{name}") for name in names if root is not None}
    outputs = [{**file, "path": f"{one['folder']}/{file['path']}"} for file in one["outputs"]]
    return render.page(
        "task.html.j2", **look.common, stage=found, task=one, printed=printed,
        left=previews(root, outputs), used=_used,
    )  # fmt: skip


def _used(task: Mapping[str, Any]) -> str:
    found = {"cpu_seconds": task["cpu_seconds"], "peak_memory_bytes": task["memory"]}
    return told_used({name: value for name, value in found.items() if value is not None})


def compare(look: PageLook) -> bytes:
    """Return the page of sides of the workflow beside each other; of many a line a run."""
    given = [look.request.text(name) for name in ("a", "b")]
    asked = [one for one in given if one is not None]
    names = sides_of(asked[0], look.then) if len(asked) == 1 else asked
    found = rows([_side(look, name) for name in names]) if len(names) > 1 else []
    columns = of_runs(found)
    sort = look.request.text("sort") or ""
    by = next((row for row in columns if row.name == sort.removeprefix("-")), None)
    values = list(map(plain, by.values)) if by is not None else [None] * len(names)
    return render.page(
        "compare.html.j2", **look.common, a=given[0] or "", b=given[1] or "", names=names,
        rows=[row for row in found if row.kind in _ALWAYS or not row.is_same][:_DIFFERENCES],
        columns=columns[:_COLUMNS], sort=sort, is_runs=len(asked) == 1,
        order=order_of(values, down=sort.startswith("-")),
    )  # fmt: skip


def _side(look: PageLook, name: str) -> ComparedSide:
    def tasks(stage: Stage) -> list[dict[str, Any]]:
        return [one for one in look.tasks(stage) if one["state"] == "done"]

    return side_of(name, name, look.log, look.then, tasks)


def printed(look: PageLook) -> bytes:
    """Return the page of what an attempt printed, ended or not."""
    found = look.then.stage(look.request.parts[3])
    id_ = look.request.text("attempt") or ""
    attempt = next((one for one in found.attempts if one.id == id_), None)
    if attempt is None or look.entry.root is None:
        raise NotFound(f"{found.id} has no attempt {id_!r:.80} to look at; its page lists them")
    sight = look.shelf.sight.printed
    said = {
        name: sight(look.entry.root, look.log, look.then, found, id_, name == "stderr")
        for name in ("stdout", "stderr")
    }
    return render.page("printed.html.j2", **look.common, stage=found, attempt=attempt, said=said)


#: Looks back for the judgements of a stage, each as far as `newest` goes.
_LOOKS = 2
_JUDGED = ("stage.completed", "stage.failed")


def _judgements(look: PageLook, stage: Stage, listed: list[Attempt]) -> dict[str, dict[str, Any]]:
    """Return by attempt the checks and the words with which it was judged, of those shown."""
    ended = {attempt.id for attempt in listed if attempt.outcome in ("completed", "failed")}
    needles = [[quoted(type_) for type_ in _JUDGED], [quoted(stage.id)]]
    last = listed[0].id if listed else ""
    found: dict[str, dict[str, Any]] = {}
    before: int | None = look.then.head + 1

    def fits(event: RecordedEvent) -> bool:
        return event.type in _JUDGED and event.data.get("stage") == stage.id

    for _ in range(_LOOKS):
        if before is None or ended <= set(found):
            break
        events, before = newest(look.log, before, _ATTEMPTS, fits, needles)
        for event in events:
            found.setdefault(str(event.data.get("attempt") or last), event.data)
    return found


def _setters(state: Workflow, stage: Stage) -> dict[str, str]:
    """Return by parameter who set it: the plan, or the last amendment that changed it."""
    found = dict.fromkeys(map(str, stage.parameters), "the plan")
    for amendment in state.amendments.values():
        changed = amendment.changes.get("parameters") if amendment.status == "approved" else None
        if stage.id in amendment.targets and isinstance(changed, dict):
            by = f"{amendment.id}, approved by {amendment.approved_by or 'a person'}"
            found.update(dict.fromkeys(map(str, changed), by))
    return found


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
        decisions=_decisions(look), commands=_commands,
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
