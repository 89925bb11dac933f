"""``wfctl status`` and ``show``: where it stands, for people."""

from __future__ import annotations

from typing import Any

import typer

from cli.options import At, KnownAt, Stage
from cli.output import Output
from cli.workspace import Reading, journal_of, reading
from lifecycle.status import Status
from lifecycle.workflow import Attempt, Workflow
from lifecycle.workflow import Stage as StageState
from projections.next_actions import next_actions
from projections.times import utc_seconds

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
        stale = workflow.files.stale(state) if is_now else []
        doubts = _of_consent(workflow, state) if is_now else []
        journal = journal_of(workflow.root)
        slower = [f"the log has a {journal.mode} journal: {journal.reason}"] if journal else []
        notices = stale + doubts + (slower if journal and journal.mode != "wal" else [])
        data = {
            "workflow": state.id,
            "status": state.workflow_status or "active",
            "workflow_version": state.version,
            "stages": [_summary(stage) for stage in state.stages.values()],
            "pending_amendments": [a.id for a in state.pending_amendments],
            "files": stale,
            "consent": {"policy": state.consent, "warnings": doubts},
            "journal": journal._asdict() if journal else None,
        }
        workflow.output.result(data, lambda: _text(state, notices, workflow.output), state=state)


def _of_consent(workflow: Reading, state: Workflow) -> list[str]:
    """Say what weakens the consent to amendments."""
    if state.consent == "trust":
        return ["consent is by trust: whoever calls wfctl can approve an amendment, agents too"]
    if state.consent != "signature":
        return []
    why = workflow.log.approvals.pin_objection()
    if why is not None:
        return [f"no approval counts: {why}; `wfctl audit bypasses` says more"]
    if not workflow.log.approvals.is_pinned():
        return ["this login has not pinned this log; its first event is taken on trust"]
    return []


def _summary(stage: StageState) -> dict[str, Any]:
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
    }


def _text(state: Workflow, stale: list[str], output: Output) -> str:
    lines = [
        (
            f"{output.style(state.id, '1')}  {state.workflow_status or 'active'}, "
            f"plan version {state.version}, log version {state.head}"
        )
    ]
    width = max(len(stage.name) for stage in state.stages.values())
    for stage in state.stages.values():
        shown = output.style(f"{stage.status.value:<15}", _COLORS.get(stage.status, "0"))
        lines.append(
            f"  {stage.id:<9} {stage.name:<{width}}  {shown} {_note(state, stage)}".rstrip()
        )
    lines += [f"warning: {file}" for file in stale]
    lines += [f"next: {action.command}  ({action.reason})" for action in next_actions(state)]
    return "\n".join(lines)


def _note(state: Workflow, stage: StageState) -> str:
    if stage.status is Status.FAILED:
        return (stage.last_error or "").splitlines()[0][:100] if stage.last_error else ""
    if stage.status is Status.COMPLETED:
        return utc_seconds(stage.completed_at) or ""
    if stage.status is Status.PENDING:
        return f"waits for {', '.join(state.unmet(stage))}"
    return f"{stage.attempt.id}" if stage.open_attempt and stage.attempt else ""


def show(context: typer.Context, stage: Stage, at: At = None, known_at: KnownAt = None) -> None:
    """One stage, its attempts and their evidence."""
    import json
    from dataclasses import asdict

    with reading(context) as workflow:
        state = workflow.state(at, known_at)
        found = state.stage(stage)
        data = asdict(found)

        def text() -> str:
            fields = {k: v for k, v in data.items() if k not in ("attempts", "extra", "order")}
            lines = [f"{key:<17} {json.dumps(v, ensure_ascii=False)}" for key, v in fields.items()]
            return "\n".join(lines + [line for a in found.attempts for line in _attempt(a)])

        workflow.output.result(data, text, state=state)


def _attempt(attempt: Attempt) -> list[str]:
    lines = [
        f"{attempt.id}  {attempt.outcome or 'under way'}",
        f"  started     {attempt.started_at} ({attempt.mode})",
        f"  submission  {attempt.submission} {attempt.submission_hash or ''}".rstrip(),
        f"  jobs        {', '.join(attempt.job_ids) or 'none known'}",
    ]
    if attempt.verdict:
        lines.append(f"  verdict     {attempt.verdict} (row {attempt.row}): {attempt.reason}")
    if attempt.ended_at:
        lines.append(f"  ended       {attempt.ended_at}")
    return lines
