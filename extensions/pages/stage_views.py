"""Render the pages about a stage, its tasks and its attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from eventstore.event import RecordedEvent
from extensions.exports.report import draw_plot_markup
from extensions.pages import render
from extensions.pages.newest_events import find_newest_events, make_value_needle
from extensions.pages.page_data import (
    PageLook,
    find_file_differences,
    format_known_duration,
    list_decision_commands,
    next_of,
)
from extensions.pages.previews import build_previews, tail_of
from lifecycle.fold.evolve import parameters_in_plan_version
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.metrics import parse_valid_metrics
from projections.drawing.plots import plot_of_attempts, plots_of_tasks
from projections.words.account import list_attention_items
from projections.words.format_numbers import format_task_number
from projections.words.format_results import describe_all_metrics
from projections.words.text import describe_requested_resources, describe_used_resources
from service.errors import NotFound

#: Maximum numbers on a page: attempts, tasks in a grid, listed failures, and plots.
_ATTEMPTS, _GRID, _FAILED, _PLOTS = 20, 5000, 50, 6


def render_stage(look: PageLook) -> bytes:
    """Return the page about a stage: its attempts, evidence, parameters and files.

    For each parameter, the page names its origin.
    """
    found = look.then.stage(look.request.parts[3])
    listed = found.attempts[-_ATTEMPTS:][::-1]
    root = look.entry.root
    source = found.source
    stands = [
        one
        for one in list_attention_items(look.then, find_file_differences(look))
        if one.stage == found.id
    ]
    runs = look.is_now and found.open_attempt is not None
    tasks = look.tasks(found)
    tails = look.running(len(look.then.stages)) if runs else {}
    return render.render_page(
        "stage.html.j2",
        **look.common,
        stage=found,
        attempts=listed,
        older=len(found.attempts) - len(listed),
        judged=_find_verdicts(look, found, listed),
        ran_with={one.id: _find_changed_parameters(look.now, found, one) for one in listed},
        numbers=describe_all_metrics(found, found.metrics),
        numbers_of=partial(describe_all_metrics, found),
        took=format_known_duration,
        used=describe_used_resources,
        requested=describe_requested_resources,
        bar_of=look.progress(found),
        tasks=tasks[:_GRID],
        more_tasks=len(tasks) - _GRID,
        failed=[one for one in tasks if one["state"] in ("failed", "lost")][:_FAILED],
        plots=list(_iterate_plots(found, tasks)),
        setters=_find_parameter_origins(look.then, found),
        others=[one for one in stands if not one.person],
        tail=tails.get(found.id, ""),
        results=build_previews(root, found.results),
        inputs=build_previews(root, source.inputs if source else ()),
        dependents=[one for one in look.then.stages.values() if found.id in one.depends_on],
        next=[one for one in next_of(look) if found.id in str(one).split()],
        waits=[(one, list_decision_commands(look.entry, one)) for one in stands if one.person],
    )


def _find_changed_parameters(
    state: Workflow, stage: Stage, attempt: Attempt
) -> dict[str, tuple[Any, Any]]:
    """Return the parameters of an attempt that have changed since.

    Each parameter has its value in the attempt and its current value.
    """
    then, now = parameters_in_plan_version(state, stage, attempt.plan), stage.parameters
    names = dict.fromkeys((*then, *now))
    return {n: (then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)}


def _iterate_plots(stage: Stage, tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a small plot of each number of a stage, over its tasks or its attempts."""
    metrics = parse_valid_metrics(stage.parameters)
    done = [one for one in tasks if one["state"] == "done"]
    of_attempts = (plot_of_attempts(stage.attempts, name) for name in [*metrics][:_PLOTS])
    found = plots_of_tasks(done, metrics) if done else filter(None, of_attempts)
    yield from map(draw_plot_markup, found)


def render_task(look: PageLook) -> bytes:
    """Return the page about a task of a sweep: its result, its numbers, and its output."""
    found = look.then.stage(look.request.parts[3])
    key = look.request.text("key") or ""
    one = next((row for row in look.tasks(found) if row["key"] == key), None)
    if one is None:
        raise NotFound(
            f"the stage {found.id} has no task {key!r:.200}. The page of the stage lists its tasks"
        )
    root = look.entry.root
    names = ("log", "err") if one["folder"] and root is not None else ()
    printed = {name: tail_of(root, f"{one['folder']}/{name}") for name in names if root is not None}
    outputs = [{**file, "path": f"{one['folder']}/{file['path']}"} for file in one["outputs"]]
    return render.render_page(
        "task.html.j2", **look.common, stage=found, task=one, printed=printed,
        left=build_previews(root, outputs), used=_format_usage,
        numbers={name: format_task_number(one, name, metric.unit)
                 for name, metric in found.work.task_metrics.items()},
    )  # fmt: skip


def _format_usage(task: Mapping[str, Any]) -> str:
    found = {"cpu_seconds": task["cpu_seconds"], "peak_memory_bytes": task["memory"]}
    return describe_used_resources(
        {name: value for name, value in found.items() if value is not None}
    )


def render_attempt_output(look: PageLook) -> bytes:
    """Return the page with the output of an attempt, which may still be running."""
    found = look.then.stage(look.request.parts[3])
    id_ = look.request.text("attempt") or ""
    attempt = next((one for one in found.attempts if one.id == id_), None)
    if attempt is None or look.entry.root is None:
        raise NotFound(
            f"the stage {found.id} has no attempt {id_!r:.80}. The page of the stage lists its "
            "attempts"
        )
    sight = look.shelf.sight.printed
    said = {
        name: sight(look.entry.root, look.log, look.then, found, id_, name == "stderr")
        for name in ("stdout", "stderr")
    }
    return render.render_page(
        "printed.html.j2", **look.common, stage=found, attempt=attempt, said=said
    )


#: Maximum number of searches for the verdicts about a stage's attempts. Each search covers the
#: range of `find_newest_events`.
_LOOKS = 2
_JUDGED = ("stage.completed", "stage.failed")


def _find_verdicts(
    look: PageLook, stage: Stage, listed: list[Attempt]
) -> dict[str, dict[str, Any]]:
    """Return the checks and reasons of each listed attempt's verdict, by attempt id."""
    ended = {attempt.id for attempt in listed if attempt.outcome in ("completed", "failed")}
    needles = [[make_value_needle(type_) for type_ in _JUDGED], [make_value_needle(stage.id)]]
    last = listed[0].id if listed else ""
    found: dict[str, dict[str, Any]] = {}
    before: int | None = look.then.head + 1

    def fits(event: RecordedEvent) -> bool:
        return event.type in _JUDGED and event.data.get("stage") == stage.id

    for _ in range(_LOOKS):
        if before is None or ended <= set(found):
            break
        events, before = find_newest_events(look.log, before, _ATTEMPTS, fits, needles)
        for event in events:
            found.setdefault(str(event.data.get("attempt") or last), event.data)
    return found


def _find_parameter_origins(state: Workflow, stage: Stage) -> dict[str, str]:
    """Return the origin of each parameter: the plan, or the last amendment changing it."""
    found = dict.fromkeys(map(str, stage.parameters), "the plan")
    for amendment in state.amendments.values():
        changed = amendment.changes.get("parameters") if amendment.status == "approved" else None
        named = (*amendment.targets, *state.list_parameter_users(amendment))
        if stage.id in named and isinstance(changed, dict):
            by = f"{amendment.id}, approved by {amendment.approved_by or 'a person'}"
            found.update(dict.fromkeys(map(str, changed), by))
    return found
