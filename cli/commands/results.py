"""``wfctl results``: show the numbers and files that answer the workflow's question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.frame.context import Context
from cli.frame.options import AsOf
from cli.frame.workspace import open_for_reading
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.words.format_results import describe_all_metrics, list_named_results


def results(context: Context, view: AsOf = None) -> None:
    """Show the numbers and files that the plan names as results."""
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        seen = None
        if view is None and state.results:
            from reconciler.files.freshness import (
                find_log_differences,
            )  # only where results are to be relied on

            seen = find_log_differences(workflow.root, workflow.log, state)
        found = list_named_results(state, seen)
        others = [] if found else [*_list_other_metrics(state)]
        data: dict[str, Any] = {"results": [one.to_dict() for one in found], "others": others}
        workflow.output.result(data, lambda: "\n".join(_format_results(state, data)), state=state)


def _list_other_metrics(state: Workflow) -> Iterator[dict[str, Any]]:
    """Yield the metrics of completed and failed stages.

    For a failed stage, yield the metrics of its last attempt, marked as not verified.
    """
    for stage in state.stages.values():
        is_failed = stage.status is Status.FAILED and bool(stage.attempts)
        metrics = stage.attempts[-1].metrics if is_failed else stage.metrics
        if is_failed or stage.status is Status.COMPLETED:
            remark = f" ({stage.id} failed: not verified)" if is_failed else ""
            for number, text in zip(metrics, describe_all_metrics(stage, metrics), strict=True):
                yield {"stage": stage.id, "text": f"{text}{remark}", "number": number}


def _format_results(state: Workflow, data: dict[str, Any]) -> Iterator[str]:
    for one in data["results"]:
        yield one["text"] + (f" ({one['lacking']})" if "lacking" in one else "")
    if data["results"]:
        return
    for one in data["others"]:
        yield f"{one['stage']}: {one['text']}"
    if not data["others"]:
        yield f"no stage of {state.id} has recorded a metric"
    yield (
        "the plan names no results; to choose the numbers that are shown here, add for example "
        '`results = ["stage-2.tc"]` to the plan and call `wfctl plan apply FILE --reason TEXT`'
    )
