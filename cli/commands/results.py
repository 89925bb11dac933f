"""``wfctl results``: the answer of a workflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from cli.frame.options import AsOf
from cli.frame.workspace import reading
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.words.answers import answers, told_all


def results(context: typer.Context, view: AsOf = None) -> None:
    """Show the numbers and files the plan names as results."""
    with reading(context) as workflow:
        state = workflow.state(view)
        seen = None
        if view is None and state.results:
            from reconciler.files.freshness import look  # only where results are to be relied on

            seen = look(workflow.root, workflow.log, state)
        found = answers(state, seen)
        others = [] if found else [*_others(state)]
        data: dict[str, Any] = {"results": [one.to_dict() for one in found], "others": others}
        workflow.output.result(data, lambda: "\n".join(_lines(state, data)), state=state)


def _others(state: Workflow) -> Iterator[dict[str, Any]]:
    """Yield the numbers of completed stages, of a plan that names no results."""
    for stage in state.stages.values():
        if stage.status is Status.COMPLETED:
            for number, text in zip(stage.metrics, told_all(stage, stage.metrics), strict=True):
                yield {"stage": stage.id, "text": text, "number": number}


def _lines(state: Workflow, data: dict[str, Any]) -> Iterator[str]:
    for one in data["results"]:
        yield one["text"] + (f" ({one['lacking']})" if "lacking" in one else "")
    if data["results"]:
        return
    for one in data["others"]:
        yield f"{one['stage']}: {one['text']}"
    if not data["others"]:
        yield f"{state.id} has no number on record"
    yield (
        'the plan names no results: add `results` to it, such as ["stage-2.tc"], and '
        "`wfctl plan apply` it"
    )
