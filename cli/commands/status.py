"""``wfctl status``: where it stands, on a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from cli.frame.options import At, KnownAt
from cli.frame.workspace import Reading, journal_of, reading
from cli.terminal.output import Output
from lifecycle.state.hindrance import reason
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage as StageState
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.screens.waits import waits
from projections.words.times import utc_seconds
from service.consent.doubts import doubts_of
from service.reading import set_aside
from service.writing.place import original_of

if TYPE_CHECKING:
    from reconciler.files.freshness import Deviation

#: Stages that are listed one by one; of more than these only so many that want a look.
_SCREEN, _FEW_STAGES = 20, 8
#: Characters of a line that others may have written.
_WIDE = 160
#: Those that want a look, the most urgent first.
_TOLD_FIRST = (
    Status.FAILED,
    Status.RUNNING,
    Status.PREPARING,
    Status.POST_PROCESSING,
    Status.INVALIDATED,
    Status.READY,
)
_COLORS = {
    Status.COMPLETED: "32",
    Status.RUNNING: "36",
    Status.PREPARING: "36",
    Status.POST_PROCESSING: "36",
    Status.READY: "34",
    Status.FAILED: "31",
    Status.INVALIDATED: "33",
}


def status(context: typer.Context, at: At = None, known_at: KnownAt = None) -> None:
    """Where the workflow stands."""
    with reading(context) as workflow:
        state = workflow.state(at, known_at)
        is_now = at is None and known_at is None
        files = workflow.files.stale(state) if is_now else []
        found, outdated = _freshness(workflow, state) if is_now else ([], {})
        told = _tasks(workflow, state, live=is_now)
        doubts = doubts_of(workflow.log.approvals, state) if is_now else []
        journal = journal_of(workflow.root)
        slower = [f"the log has a {journal.mode} journal: {journal.reason}"] if journal else []
        original = original_of(workflow.root)
        copied = [f"this root is a copy of {original}"] if original else []
        slower = slower if journal and journal.mode != "wal" else []
        changed = [str(one) for one in found if one.what == "result" and one.kind != "touched"]
        changed += [_told(outdated)] if outdated else []
        notices = copied + files + doubts + set_aside.told(state) + changed + slower
        data = {
            "workflow": state.id,
            "status": state.workflow_status or "active",
            "purpose": state.purpose,
            "workflow_version": state.version,
            "stages": [_summary(stage, told.get(stage.id)) for stage in state.stages.values()],
            "pending_amendments": [a.id for a in state.pending_amendments],
            "copy_of": original,
            "files": files,
            "set_aside": state.set_aside,
            "stale": outdated,
            "changed": [one.to_dict() for one in found if one.what == "result"],
            "consent": {"policy": state.consent, "warnings": doubts},
            "journal": journal._asdict() if journal else None,
        }
        workflow.output.result(
            data, lambda: _text(state, notices, workflow.output, told), state=state
        )


def _freshness(workflow: Reading, state: Workflow) -> tuple[list[Deviation], dict[str, list[str]]]:
    """Return what differs of completed stages, and which are stale; without any, load nothing."""
    if not any(stage.status is Status.COMPLETED for stage in state.stages.values()):
        return [], {}
    from reconciler.files.freshness import deviations, stale

    found = deviations(workflow.root.path, state)
    return found, stale(state, found)


def _told(outdated: dict[str, list[str]]) -> str:
    from reconciler.files.freshness import told

    return told(outdated)


def _summary(stage: StageState, tasks: dict[str, int] | None) -> dict[str, Any]:
    attempt = stage.attempt
    return {
        "id": stage.id,
        "name": stage.name,
        "status": stage.status.value,
        "depends_on": stage.depends_on,
        "retry_count": stage.retry_count,
        "last_error": stage.last_error,
        "attempt": attempt.id if attempt else None,
        "started_at": stage.started_at,
        "completed_at": stage.completed_at,
    } | ({"tasks": tasks} if tasks else {})


def _tasks(workflow: Reading, state: Workflow, *, live: bool) -> dict[str, dict[str, int]]:
    """Return by stage how many tasks stand where; what runs is looked at where it is ``live``."""
    stages = [stage for stage in state.stages.values() if is_sweep(stage.parameters)]
    if not stages:
        return {}
    from cli.commands.tasks import counted  # only where a stage has a map

    found = {one.id: counted(workflow, state, one, live=live) for one in stages}
    return {id_: counts for id_, counts in found.items() if counts is not None}


def _text(
    state: Workflow, notices: list[str], output: Output, told: dict[str, dict[str, int]]
) -> str:
    lines = [
        (
            f"{output.style(state.id, '1')}  {state.workflow_status or 'active'}, "
            f"plan version {state.version}, log version {state.head}"
        )
    ]
    lines += [_clip(state.purpose)] if state.purpose else []
    lines += _stages(state, output, told)
    waiting = waits(state)
    lines += ["waits for a person:"] if waiting else []
    lines += _few((f"  {_clip(str(one))}" for one in waiting), 4)
    lines += _few((f"warning: {notice}" for notice in notices), 4)
    lines += _few((f"next: {action}" for action in output.next_actions(state)), 4)
    return "\n".join(lines)


def _few(lines: Iterable[str], most: int) -> list[str]:
    """Return so many lines, and how many more there are."""
    every = list(lines)
    if len(every) <= most + 1:
        return every
    return [*every[:most], f"  and {len(every) - most} more (`-o json` has all)"]


def _stages(state: Workflow, output: Output, told: dict[str, dict[str, int]]) -> list[str]:
    """Return a line for each stage; of more than a screen holds, for those that want a look."""
    stages = list(state.stages.values())
    head = []
    if len(stages) > _SCREEN:
        head = [f"  {_counted(stages)}"]
        stages = [stage for status in _TOLD_FIRST for stage in stages if stage.status is status]
    shown = stages[:_SCREEN] if not head else stages[:_FEW_STAGES]
    wide = min(max((len(stage.name) for stage in shown), default=0), 40)
    width = max((len(stage.id) for stage in shown), default=9)
    lines = []
    for stage in shown:
        status = output.style(f"{stage.status.value:<15}", _COLORS.get(stage.status, "0"))
        name = f"{stage.name[:40]:<{wide}}"
        line = f"  {stage.id:<{max(width, 9)}} {name}  {status} {_note(state, stage, told)}"
        lines.append(" ".join(line.splitlines()).rstrip())
    more = len(stages) - len(shown)
    return [*head, *lines, *([f"  and {more} more of these"] if more else [])]


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def _counted(stages: list[StageState]) -> str:
    """Count the stages by status; of so many only those that want a look are listed."""
    counts = Counter(stage.status.value for stage in stages)
    known = [f"{counts[status.value]} {status.value}" for status in Status if counts[status.value]]
    return f"{len(stages)} stages: {', '.join(known)}"


def _note(state: Workflow, stage: StageState, told: dict[str, dict[str, int]]) -> str:
    if stage.id in told:
        from projections.words.sweeps import line_of

        return line_of(told[stage.id])
    if stage.status is Status.FAILED:
        return reason(stage)[:100]
    if stage.status is Status.COMPLETED:
        return utc_seconds(stage.completed_at) or ""
    if stage.status is Status.PENDING:
        return f"waits for {_named(list(state.unmet(stage)))}"
    return f"{stage.attempt.id}" if stage.open_attempt and stage.attempt else ""


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - 3} more" if len(ids) > 4 else ""
    return ", ".join(ids[:3] if more else ids) + more
