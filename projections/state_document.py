"""``workflow-state.json``: the state as the document that people and agents read.

Names and order of the fields are those of the staged-workflow protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lifecycle.workflow import Amendment, Stage, Workflow
from projections.times import utc_seconds

FILE_NAME = "workflow-state.json"


def render(state: Workflow) -> bytes:
    """Return the file's bytes: UTF-8 JSON, 2-space indent, a newline at the end."""
    return (json.dumps(document(state), indent=2, ensure_ascii=False) + "\n").encode()


def document(state: Workflow) -> dict[str, Any]:
    """Return the document; a field without a value that is not usual then is left out."""
    fields = {
        "workflow_id": state.id,
        "version": state.version,
        "workflow_status": state.workflow_status,
        "created": utc_seconds(state.created),
        "updated": utc_seconds(state.updated),
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "amendments": [_amendment(a) for a in state.amendments.values() if a.status == "approved"],
        "session_config": _session_config(state),
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
        "stages": [_stage(stage) for stage in state.stages.values()],
    }
    if state.workflow_status is None:
        del fields["workflow_status"]
    if not state.session_config and state.session.count == 0:
        del fields["session_config"]
    return _ordered({**fields, **state.extra}, state.order)


def _ordered(fields: dict[str, Any], order: Iterable[str] | None) -> dict[str, Any]:
    first = {key: fields[key] for key in order or () if key in fields}
    return first | fields


def _session_config(state: Workflow) -> dict[str, Any]:
    session = state.session
    now = {
        "session_count": session.count,
        "session_id": utc_seconds(session.id),
        "session_cost": session.cost,
        "exit_reason": session.exit_reason,
    }
    return {**state.session_config, **now}


def _stage(stage: Stage) -> dict[str, Any]:
    fields = {
        "id": stage.id,
        "name": stage.name,
        "status": stage.status.value,
        "depends_on": stage.depends_on,
        "backend": stage.backend,
        "inputs": stage.inputs,
        "outputs": stage.outputs,
        "parameters": stage.parameters,
        "success_criteria": stage.success_criteria,
        "started_at": utc_seconds(stage.started_at),
        "completed_at": utc_seconds(stage.completed_at),
        "retry_count": stage.retry_count,
        "last_error": stage.last_error,
        "running_process": _running_process(stage),
    }
    if stage.checkpoint is not None:
        fields["checkpoint"] = stage.checkpoint
    return _ordered({**fields, **stage.extra}, stage.order)


def _running_process(stage: Stage) -> dict[str, Any] | None:
    process = stage.running_process
    if process is None or "launched_at" not in process:
        return process
    return {**process, "launched_at": utc_seconds(process["launched_at"])}


def _amendment(amendment: Amendment) -> dict[str, Any]:
    if amendment.record is not None:
        return amendment.record
    return {
        "id": amendment.id,
        "version": amendment.version,
        "timestamp": utc_seconds(amendment.decided_at),
        "type": amendment.kind,
        "stage_id": amendment.stage,
        "description": amendment.description,
        "changes": amendment.changes,
        "invalidated_stages": amendment.invalidated_stages,
        "approved_by": amendment.approved_by,
    }
