"""The pages of a stage, its tasks and attempts, and of what is compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from markupsafe import Markup

from eventstore.event import RecordedEvent
from lifecycle.fold.evolve import parameters_then
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.metrics import metrics_of
from pages import render
from pages.looking import PageLook, commands_of, next_of, seen_of, took
from pages.render import previews, tail_of
from pages.shelf import newest, quoted
from projections.drawing.plots import drawing as plot_drawing
from projections.drawing.plots import plot_of_attempts, plot_of_tasks
from projections.exports.markup import shown
from projections.files.comparison import ComparedSide, heads_of, of_runs, order_of, plain, rows
from projections.words.account import account
from projections.words.answers import told_all
from projections.words.text import told_used
from service.errors import NotFound
from service.questions.sides import side_of, sides_of

#: Attempts of a page, tasks of a grid, failed tasks that are listed, plots, columns of runs.
_ATTEMPTS, _GRID, _FAILED, _PLOTS, _COLUMNS = 20, 5000, 50, 6, 12
#: What is told of a comparison though it is the same, and how many differences.
_ALWAYS, _DIFFERENCES = ("metric", "output"), 100


def stage(look: PageLook) -> bytes:
    """Return the page of a stage: attempts, evidence, parameters and who set them, files."""
    found = look.then.stage(look.request.parts[3])
    listed = found.attempts[-_ATTEMPTS:][::-1]
    root = look.entry.root
    source = found.source
    stands = [one for one in account(look.then, seen_of(look)) if one.stage == found.id]
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
        took=took,
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
        next=[one for one in next_of(look) if found.id in str(one).split()],
        waits=[(one, commands_of(look.entry, one)) for one in stands if one.person],
    )


def _ran_with(state: Workflow, stage: Stage, attempt: Attempt) -> dict[str, tuple[Any, Any]]:
    """Return the parameters that an attempt ran with and that are others now, with those of now."""
    then, now = parameters_then(state, stage, attempt.plan), stage.parameters
    names = dict.fromkeys((*then, *now))
    return {n: (then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)}


def _plots(stage: Stage, tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a small plot of each number of a stage: over its points, else over its attempts."""
    done = [one for one in tasks if one["state"] == "done"]
    for name, metric in list(metrics_of(stage.parameters).items())[:_PLOTS]:
        of_tasks = plot_of_tasks(done, name, unit=metric.unit) if done else None
        plot = of_tasks if done else plot_of_attempts(stage.attempts, name)
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
    told = of_runs(found)
    columns = dict(zip(heads_of(told), told, strict=True))
    sort = look.request.text("sort") or ""
    by = columns.get(sort.removeprefix("-"))
    values = list(map(plain, by.values)) if by is not None else [None] * len(names)
    return render.page(
        "compare.html.j2", **look.common, a=given[0] or "", b=given[1] or "", names=names,
        rows=[row for row in found if row.kind in _ALWAYS or not row.is_same][:_DIFFERENCES],
        columns=[*columns.items()][:_COLUMNS], sort=sort, is_runs=len(asked) == 1,
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
