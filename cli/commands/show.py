"""``wfctl show``: the definition, attempts and numbers of one stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cli.commands.tasks import _NEWEST, _WIDE
from cli.frame.context import Context
from cli.frame.options import AsOf, Stage
from cli.frame.workspace import open_for_reading
from cli.terminal.output import Output, format_compact_json
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Workflow
from lifecycle.state.workflow import Stage as StageState
from projections.words.format_results import describe_all_metrics
from projections.words.remaining_processes import describe_remaining_processes
from projections.words.text import (
    clip_text,
    compute_age,
    describe_requested_resources,
    describe_used_resources,
    describe_waiting_reason,
    truncate_utc_to_seconds,
)


def show(context: Context, stage: Stage, view: AsOf = None) -> None:
    """Show one stage and its attempts."""
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        found = state.stage(stage)
        otherwise = _find_changed_launch_fields(workflow.root.path, state, found)
        shown = {**asdict(found), "last_error": found.error}
        data = {"purpose": state.purpose, **shown, **otherwise}
        output = workflow.output
        output.result(
            data, lambda: "\n".join(_format_page(output, state, found, otherwise)), state=state
        )


def _find_changed_launch_fields(
    root: Path, state: Workflow, stage: StageState
) -> dict[str, dict[str, list[str]]]:
    """Return the fields in which the launch of a stage's attempt differs from the plan.

    Only an attempt that another program launched can differ. Return an empty dict for no
    difference.
    """
    if stage.source is None or not stage.source.taken_over:
        return {}
    from reconciler.files.described_submission import (
        explain_launch_differences,
    )  # only of what somebody else launched

    fields = explain_launch_differences(root, state, stage)
    return {"launched_otherwise": {stage.source.id: fields}} if fields else {}


def _format_page(
    output: Output, state: Workflow, stage: StageState, otherwise: dict[str, dict[str, list[str]]]
) -> Iterator[str]:
    from projections.screens.next_actions import suggest_actions_for_stage

    yield (
        output.style(f"{stage.id}: {clip_text(stage.name, _WIDE)}", "1") + f"  {stage.status.value}"
    )
    yield f"of {state.id}" + (f": {clip_text(state.purpose, _WIDE)}" if state.purpose else "")
    for name, values in _list_fields(state, stage):
        # If a field has several lines, print its name only on the first one.
        for place, value in enumerate([clip_text(str(value), _WIDE) for value in values if value]):
            yield f"  {'' if place else name:<9} {value}"
    yield from _format_attempts(output, stage)
    for id_, fields in otherwise.get("launched_otherwise", {}).items():
        yield f"  {id_} was launched with values that differ from the plan: {', '.join(fields)}"
    yield from (
        f"next: {one}"
        for one in suggest_actions_for_stage(state, stage.id, output.collect_surroundings(state))
    )


def _list_fields(state: Workflow, stage: StageState) -> Iterator[tuple[str, list[Any]]]:
    from projections.words.result_origin import describe_kept_tasks

    yield "needs", [f"{i} ({state.stages[i].status.value})" for i in stage.depends_on]
    yield "inputs", stage.inputs
    yield "outputs", stage.outputs
    yield "runs on", [stage.backend or state.default_backend]
    yield "criteria", [stage.success_criteria]
    values = {
        k: v if isinstance(v, str) else format_compact_json(v) for k, v in stage.parameters.items()
    }
    yield "with", [f"{k} = {v}" for k, v in values.items()]
    yield "began", [truncate_utc_to_seconds(stage.started_at)]
    yield "done", [truncate_utc_to_seconds(stage.completed_at)]
    sizes = [f", {o['size']} bytes" if o.get("size") is not None else "" for o in stage.results]
    digests = [str(one.get("sha256"))[:12] for one in stage.results]
    each = zip(stage.results, sizes, digests, strict=True)
    yield "results", [f"{one['path']}{size}, SHA-256 {digest}" for one, size, digest in each]
    yield "numbers", describe_all_metrics(stage, stage.metrics)
    yield "reused", [f"the outputs of {stage.reused}" if stage.reused else ""]
    if stage.status is Status.FAILED:
        because = f" ({stage.because})" if stage.because else ""
        yield "failed", [stage.error, stage.category and f"category: {stage.category}{because}"]
    if stage.retry_count:
        yield "retries", [f"{stage.retry_count}: {stage.fix or ''}".rstrip(": ")]
    yield "kept", list(describe_kept_tasks(stage))
    yield "left", stage.left_in_place


def _format_differing_metrics(stage: StageState, attempt: Attempt) -> Iterator[str]:
    """Yield a line for each metric of an attempt, if its metrics differ from the stage's."""
    if attempt.metrics != stage.metrics:
        yield from (f"    {told}" for told in describe_all_metrics(stage, attempt.metrics))


def _format_end(attempt: Attempt) -> str:
    if attempt.ended_at is None:
        return ""
    ended = f", ended {truncate_utc_to_seconds(attempt.ended_at)}"
    with suppress(ValueError):  # what is no time has no distance
        ended += f", {compute_age(attempt.started_at, attempt.ended_at)} s"
    return ended


def _format_code_and_environment(attempt: Attempt, before: Attempt) -> Iterator[str]:
    """Yield the Git commit of an attempt's files, and the changes of its environment.

    The environment is compared with that of the earlier attempt ``before``.
    """
    from projections.words.result_origin import compare_environments, describe_code_version

    if attempt.code is not None:
        yield f"    commit {clip_text(describe_code_version(attempt.code), _WIDE)}"
    for change in compare_environments(attempt.environment, before.environment, before.id):
        yield f"    environment: {clip_text(change, _WIDE)}"


def _format_verdict(attempt: Attempt) -> str:
    """Return the verdict (how the job of an attempt ended) with its reason.

    Also state if the results failed their check later.
    """
    verdict = f"{attempt.verdict}: {clip_text(attempt.reason or '', _WIDE)}"
    if attempt.is_refuted:
        return f"job {verdict}; then its results failed their check"
    return verdict


def _format_attempts(output: Output, stage: StageState) -> Iterator[str]:
    if stage.attempts:
        yield output.style("attempts:", "1")
    older = max(len(stage.attempts) - _NEWEST, 0)
    if older:
        yield f"  {older} before these"
    for place, one in enumerate(stage.attempts[older:], older):
        yield f"  {one.id}  {one.outcome or 'under way'}"
        yield f"    began {truncate_utc_to_seconds(one.started_at)} ({one.mode}){_format_end(one)}"
        yield from _format_differing_metrics(stage, one)
        requested = describe_requested_resources(one.requested)
        yield from [f"    requested {requested}"] if requested else []
        used = describe_used_resources(one.resources)
        yield from [f"    used {used}"] if used else []
        if one.job_ids:
            folder = one.submission.rpartition("/")[0]
            yield f"    jobs {', '.join(one.job_ids)}; files in {folder}"
        if one.verdict:
            yield f"    {_format_verdict(one)}"
        if text := describe_remaining_processes(stage.id, one):
            yield f"    warning: {text}"
        if waits := describe_waiting_reason(one):
            yield f"    waits: {waits}"
        yield from _format_code_and_environment(one, stage.attempts[max(place - 1, 0)])
