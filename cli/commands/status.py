"""``wfctl status``: print the state of the workflow, or keep it up to date on the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.frame.context import Context
from cli.frame.options import AsOf, option
from cli.frame.workspace import OpenedWorkflow, journal_of, open_for_reading
from cli.terminal.output import Output
from lifecycle.state.conditions import describe_failure
from lifecycle.state.requested_resources import describe_grown_request
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage as StageState
from lifecycle.state.workflow import Workflow
from projections.words.account import (
    FileCheckResult,
    find_stale_stages,
    list_attention_items,
    list_waiting_items,
    to_dicts,
)
from projections.words.amendments import describe_pending_amendments
from projections.words.format_results import list_named_results
from projections.words.mandates import list_mandates
from projections.words.result_origin import (
    add_acceptance_to_item,
    describe_missing_outputs,
    group_decisions,
)
from projections.words.stage_progress import StageProgress, format_stage_progress
from projections.words.text import (
    clip_text,
    describe_waiting_reason,
    format_two_unit_duration,
    truncate_utc_to_seconds,
)
from service.consent.consent_weaknesses import list_consent_weaknesses
from service.errors import InvalidOption
from service.files.inspection import describe_kept_version
from service.reading import stream_log
from service.root.atomic_files import system_clock
from service.root.root import describe_copy_source

if TYPE_CHECKING:
    from projections.words.rounds import LoopProgress
    from reconciler.loop.background_runner import RunnerProcess
    from service.reading.point_in_history import Moment
    from service.root.root import Root


#: Maximum number of stages to list. If a workflow has more, list only up to the second number of
#: stages that need attention.
_SCREEN, _FEW_STAGES = 20, 8
#: Maximum number of characters of a line whose text may come from other programs.
_WIDE = 160
#: Statuses of stages that need attention, the most urgent first.
_TOLD_FIRST = (
    Status.FAILED,
    Status.RUNNING,
    Status.PREPARING,
    Status.POST_PROCESSING,
    Status.INVALIDATED,
    Status.READY,
)
_NOT_BEGUN = (Status.PENDING, Status.READY, Status.INVALIDATED)
_COLORS = {
    Status.COMPLETED: "32",
    Status.RUNNING: "36",
    Status.PREPARING: "36",
    Status.POST_PROCESSING: "36",
    Status.READY: "34",
    Status.FAILED: "31",
    Status.INVALIDATED: "33",
}


def status(
    context: Context,
    view: AsOf = None,
    follow: bool = option("Keep updating the state on the screen until you press q."),
    machine: str | None = option(
        "ID",
        "Follow this phase machine (the tracked work of an agent) instead of the "
        "workflow. Requires --follow.",
    ),
) -> None:
    """Show the state of the workflow and the next step.

    With --follow, the screen shows the stages, running attempts, open decisions and new log
    entries. To scroll, press j, k, the arrow keys, space, b, g or G. Press f to follow the running
    stages, and q to quit.
    """
    if machine is not None and not follow:
        raise InvalidOption(
            "the option --machine can be used only with the option --follow. To print the state "
            f"of the machine once, run `wfctl machine rehydrate {machine}`."
        )
    if follow:
        if view is not None:
            raise InvalidOption(
                "the options --follow and --at cannot be combined, because --follow always shows "
                "the current state. Remove one of these options."
            )
        from cli.frame.follow_state import follow_state

        follow_state(context, machine)
        return
    with open_for_reading(context) as workflow:
        found = status_of(workflow, view)
        state, seen = found.state, found.seen
        workflow.output.result(
            found.data,
            lambda: _prepend_runner_state(
                _format_status(state, found, workflow.output), found.data
            ),
            state=state,
            seen=seen,
        )


class StatusAnswer(NamedTuple):
    """The status of a workflow, as ``data`` for programs and ``notices`` for people."""

    data: dict[str, Any]
    notices: list[str]
    state: Workflow
    progress: dict[str, StageProgress]
    starts: dict[str, str]
    seen: FileCheckResult | None


def status_of(workflow: OpenedWorkflow, view: Moment | None = None) -> StatusAnswer:
    """Return the status of a workflow, now or at an earlier moment.

    Files, scripts and approvals are checked only for the current status.
    """
    state = workflow.state(view)
    is_now = view is None
    seen: FileCheckResult | None = None
    files: list[str] = []
    doubts: list[str] = []
    scripts: list[str] = []
    if is_now:
        from reconciler.files.freshness import find_log_differences

        seen = find_log_differences(workflow.root, workflow.log, state)
        files += (f"{name} {text}" for name, text in seen.files.items())
        files += map(describe_kept_version, state.drifts)
        doubts += list_consent_weaknesses(workflow.log.approvals, state)
        answered = (add_acceptance_to_item(one, state.agreed) for one in seen.scripts)
        scripts = [f"{one.subject}: {one.text}" for one in answered if one.agreed is None]
    stands = list_attention_items(state, seen)
    progress = _read_progress(workflow, state, live=is_now)
    starts = _describe_starts(workflow, state, progress) if is_now else {}
    journal, stages = journal_of(workflow.root), state.stages.values()
    original = describe_copy_source(workflow.root)
    marks = [str(one) for one in seen.log] if seen is not None else []
    runner = _last_runner(workflow.root) if is_now else None
    notices = [*marks, *([f"this root is a copy of {original}"] if original else [])]
    notices += files + doubts + stream_log.describe_ignored_events(state)
    notices += [str(one) for one in stands if not one.person and str(one) not in marks]
    if journal and journal.mode != "wal":
        notices.append(f"the log has a {journal.mode} journal: {journal.reason}")
    data = {
        "workflow": state.id,
        "status": state.workflow_status or "active",
        "purpose": state.purpose,
        "results": [one.to_dict() for one in list_named_results(state, seen)],
        "workflow_version": state.version,
        "stages": [_summarise_stage(one, progress, starts, state) for one in stages],
        "pending_amendments": [a.id for a in state.pending_amendments],
        "copy_of": original,
        "files": files,
        "set_aside": state.set_aside,
        "account": to_dicts(stands),
        "stale": find_stale_stages(state, seen.deviations) if seen else {},
        "changed": [one.to_dict() for one in seen.deviations if one.what == "result"]
        if seen
        else [],
        "consent": {
            "policy": state.consent,
            "warnings": doubts + scripts,
            "decisions": group_decisions(state),
        },
        "mandates": [one.to_dict() for one in list_mandates(state)],
        "rounds": [one.to_dict() for one in _list_loops(state)],
        "journal": journal._asdict() if journal else None,
        **({"runner": {**runner.to_dict(), "text": str(runner)}} if runner is not None else {}),
    }
    return StatusAnswer(data, notices, state, progress, starts, seen)


def _last_runner(root: Root) -> RunnerProcess | None:
    """Return the newest background runner, or None.

    Also return None if a person has run the workflow in the foreground since then.
    """
    if not root.runner_record.exists():
        return None
    from reconciler.loop.background_runner import read_last_runner  # only where a runner was

    return read_last_runner(root)


def _summarise_stage(
    stage: StageState,
    progress_of: Mapping[str, StageProgress],
    starts: Mapping[str, str],
    state: Workflow,
) -> dict[str, Any]:
    progress, start = progress_of.get(stage.id), starts.get(stage.id)
    unmet = list(state.unmet_dependencies(stage)) if stage.status in _NOT_BEGUN else []
    return {
        "id": stage.id,
        "name": stage.name,
        "status": stage.status.value,
        "depends_on": stage.depends_on,
        "retry_count": stage.retry_count,
        "last_error": stage.error,
        "attempt": stage.attempt.id if stage.attempt else None,
        "started_at": stage.started_at,
        "completed_at": stage.completed_at,
        **({"waits_for": unmet} if unmet else {}),
        **({"tasks": progress.counts} if progress is not None and progress.is_sweep else {}),
        **({"progress": progress.to_dict()} if progress is not None and stage.open_attempt else {}),
        **({"start": start} if start else {}),
    }


def _read_progress(
    workflow: OpenedWorkflow, state: Workflow, *, live: bool
) -> dict[str, StageProgress]:
    """Return the progress of each running stage, and of each sweep with known tasks.

    A sweep is a stage with one task per point. With ``live``, also check the tasks that are still
    running. Otherwise, return only sweeps, because the time of the state has passed.
    """
    from reconciler.sweep.stage_tasks import get_stage_tasks

    found = dict[str, StageProgress]()
    for id_, stage in state.stages.items():
        tasks = get_stage_tasks(workflow.root.path, state, stage)
        if live and stage.open_attempt is not None:
            found[id_] = tasks.measure(system_clock())
        elif counts := tasks.count(live=live):
            found[id_] = StageProgress(counts)
    return found


def _describe_starts(
    workflow: OpenedWorkflow, state: Workflow, progress: dict[str, StageProgress]
) -> dict[str, str]:
    """Return a sentence for each sweep whose first tasks must succeed before the others start."""
    from reconciler.sweep.stage_tasks import get_stage_tasks

    root = workflow.root.path
    counts = {id_: one.counts for id_, one in progress.items() if one.is_sweep}
    each = (
        (id_, get_stage_tasks(root, state, stage).describe_start(counts.get(id_)))
        for id_, stage in state.stages.items()
    )
    return {id_: start for id_, start in each if start is not None}


def _format_status(state: Workflow, answer: StatusAnswer, output: Output) -> str:
    notices, seen = answer.notices, answer.seen
    found = [
        clip_text(str(one), _WIDE)
        for one in list_named_results(state, seen)
        if state.is_finished or one.number
    ]
    lines = [output.style(one, "1") for one in _limit_lines(found, 3)] if state.is_finished else []
    lines += [
        (
            f"{output.style(state.id, '1')}  {state.workflow_status or 'active'}, "
            f"plan version {state.version}, log version {state.head}"
        )
    ]
    lines += [clip_text(state.purpose, _WIDE)] if state.purpose else []
    gone = seen.gone if seen is not None else {}
    lines += _format_stages(state, output, answer.progress, gone)
    lines += _limit_lines((f"{id_}: {start}" for id_, start in answer.starts.items()), 2)
    lines += [] if state.is_finished else _limit_lines((f"so far: {one}" for one in found), 3)
    agreed = (
        f"{', '.join(_limit_lines(ids, 4))} {how}" for how, ids in group_decisions(state).items()
    )
    lines += _limit_lines((f"decided: {one}" for one in agreed), 2)
    lines += _limit_lines((f"loop {clip_text(str(one), _WIDE)}" for one in _list_loops(state)), 3)
    lines += _limit_lines(
        (f"mandate {clip_text(str(one), _WIDE)}" for one in list_mandates(state)), 3
    )
    waiting = list_waiting_items(state, seen)
    lines += ["waits for a person:"] if waiting else []
    lines += _limit_lines((f"  {clip_text(str(one), _WIDE)}" for one in waiting), 4)
    lines += _limit_lines((f"warning: {notice}" for notice in notices), 4)
    lines += _limit_lines((f"next: {action}" for action in output.next_actions(state, seen)), 4)
    return "\n".join(lines)


def _prepend_runner_state(text: str, data: dict[str, Any]) -> str:
    """Return the text with the state of the background runner at its start.

    Users look for this state first.
    """
    runner = data.get("runner")
    return text if runner is None else f"{clip_text(runner['text'], _WIDE)}\n{text}"


def _list_loops(state: Workflow) -> list[LoopProgress]:
    if not state.loops:
        return []
    from projections.words.rounds import list_loop_progress  # only if there is one

    return list_loop_progress(state)


def _limit_lines(lines: Iterable[str], most: int) -> list[str]:
    every = list(lines)
    if len(every) <= most + 1:
        return every
    return [*every[:most], f"  and {len(every) - most} more (`-o json` has all)"]


def _group_open_amendments(state: Workflow) -> dict[str, list[str]]:
    """Return the ids of undecided amendments by the stages that they would affect."""
    if not state.pending_amendments:
        return {}
    from lifecycle.rules.impact import group_open_amendments_by_stage  # slow to load

    return group_open_amendments_by_stage(state)


def _format_stages(
    state: Workflow,
    output: Output,
    progress: dict[str, StageProgress],
    gone: Mapping[str, Sequence[str]],
) -> list[str]:
    stages = list(state.stages.values())
    head, most = [], _SCREEN
    if len(stages) > _SCREEN:
        counts = Counter(stage.status for stage in stages)
        known = (f"{counts[one]} {one.value}" for one in Status if counts[one])
        head, most = [f"  {len(stages)} stages: {', '.join(known)}"], _FEW_STAGES
        # There are too many stages for the screen, so keep only those that need attention.
        stages = [stage for status in _TOLD_FIRST for stage in stages if stage.status is status]
    shown, more = stages[:most], len(stages) - most
    wide = min(max((len(stage.name) for stage in shown), default=0), 40)
    width = max((len(stage.id) for stage in shown), default=9)
    acting = _group_open_amendments(state)
    lines = []
    for stage in shown:
        status = output.style(f"{stage.status.value:<15}", _COLORS.get(stage.status, "0"))
        note = _format_note(state, stage, progress.get(stage.id), gone, acting)
        note = ", ".join(filter(None, [note, describe_grown_request(state, stage)]))
        line = f"  {stage.id:<{max(width, 9)}} {stage.name[:40]:<{wide}}  {status} {note}"
        lines.append(" ".join(line.splitlines()).rstrip())
    return [*head, *lines, *([f"  and {more} more stages like these"] if more > 0 else [])]


def _format_note(
    state: Workflow,
    stage: StageState,
    progress: StageProgress | None,
    gone: Mapping[str, Sequence[str]],
    acting: Mapping[str, list[str]],
) -> str:
    unmet = list(state.unmet_dependencies(stage))
    more = f" and {len(unmet) - 3} more" if len(unmet) > 4 else ""
    named = ", ".join(unmet[:3] if more else unmet) + more
    if stage.id in gone:
        return f"taken over, {describe_missing_outputs(gone[stage.id])}"
    if stage.status is Status.FAILED:
        return clip_text(describe_failure(stage), 100)
    if progress is not None and progress.is_sweep:
        return format_stage_progress(progress)
    if stage.status is Status.COMPLETED:
        return truncate_utc_to_seconds(stage.completed_at) or ""
    if stage.status is Status.PENDING:
        return f"waits for {named}"
    if stage.status is Status.READY and unmet:
        return f"not yet: {named} must be completed again"
    if stage.status is Status.READY and stage.id in acting:
        return describe_pending_amendments(acting[stage.id])
    return _describe_attempt(stage, progress)


def _describe_attempt(stage: StageState, progress: StageProgress | None) -> str:
    """Return the progress of a running plain stage, and why it waits. Otherwise, return ""."""
    attempt = stage.open_attempt
    if attempt is None:
        return ""
    told = [attempt.id]
    if progress is not None and progress.elapsed is not None:
        told.append(format_two_unit_duration(progress.elapsed))
        told.append(format_stage_progress(progress))
    said = ", ".join(filter(None, told))
    return ": ".join(filter(None, [said, describe_waiting_reason(attempt)]))
