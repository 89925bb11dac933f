"""``workflow-state.json``: the state as the document that people and agents read.

Names and order of the fields are those of the staged-workflow protocol.
"""

from __future__ import annotations

import json
from typing import Any

from lifecycle.fold.amendments import rewired_fields
from lifecycle.fold.imported import workflow_of
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS
from projections.files.imported_document import as_it_came, spelled
from projections.words.text import utc_seconds

FILE_NAME = "workflow-state.json"


def render(state: Workflow) -> bytes:
    """Return the file's bytes: UTF-8 JSON, 2-space indent, a newline at the end."""
    text = json.dumps(document(state), indent=2, ensure_ascii=False)
    if state.source is not None and state.spelling:
        text = spelled(text, state.source, state.spelling)
    return f"{text}\n".encode()


def document(state: Workflow) -> dict[str, Any]:
    """Return the document; a field without a value that is not usual then is left out.

    What was imported and has not changed since is shown as it came.
    """
    if state.source is None:
        return _document(state)
    return as_it_came(_document(state), _document(workflow_of(state.source)), state.source)


def part(state: Workflow, name: str, default: Any = None) -> Any:
    """Return the entry of a stage, or a field of the workflow, as wfctl itself spells it.

    ``default`` where there is none. Of an import it is not what the document shows, but differs
    wherever that differs, as long as no further version is imported.
    """
    if name in state.stages:
        return _stage(state.stages[name])
    return {**_fields(state), **state.extra}.get(name, default)


def _document(state: Workflow) -> dict[str, Any]:
    fields = _fields(state)
    stages = [_stage(stage) for stage in state.stages.values()]
    return {**fields, "stages": stages, **state.extra}


def _fields(state: Workflow) -> dict[str, Any]:
    # The published file has no place for the plan's own approval.
    every = state.amendments.values()
    changes = [one for one in every if one.status == "approved" and not one.is_plan]
    fields = {
        "workflow_id": state.id,
        "version": state.version,
        "workflow_status": state.workflow_status,
        "created": utc_seconds(state.created),
        "updated": utc_seconds(state.updated),
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "amendments": [_amendment(a) for a in changes],
        "session_config": _session_config(state),
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
    }
    if state.workflow_status is None:
        del fields["workflow_status"]
    if not state.session_config and state.session.count == 0:
        del fields["session_config"]
    return fields


def _session_config(state: Workflow) -> dict[str, Any]:
    session = state.session
    now = {
        "session_count": session.count,
        "session_id": utc_seconds(session.id),
        "session_cost": int(session.cost) if session.cost == int(session.cost) else session.cost,
        "exit_reason": session.exit_reason,
    }
    return {**state.session_config, **now}


def _stage(stage: Stage) -> dict[str, Any]:
    fields = {name: getattr(stage, name) for name in STAGE_FIELDS}
    fields["status"] = stage.status.value
    fields["started_at"] = utc_seconds(stage.started_at)
    fields["completed_at"] = utc_seconds(stage.completed_at)
    process = stage.running_process
    if process is not None and "launched_at" in process:
        fields["running_process"] = {**process, "launched_at": utc_seconds(process["launched_at"])}
    if stage.checkpoint is None:
        del fields["checkpoint"]
    return {**fields, **stage.extra}


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
        "changes": changes_of(amendment),
        "invalidated_stages": amendment.invalidated_stages,
        "approved_by": amendment.approved_by,
    }


def changes_of(amendment: Amendment) -> dict[str, Any]:
    """Return every change with old and new, those of other stages below ``stages``."""
    stages: dict[str, Any] = {id_: rewired_fields(c) for id_, c in amendment.rewired.items()}
    if amendment.insert is not None:
        stages[amendment.insert["id"]] = {"old": None, "new": amendment.insert}
    return {**amendment.changes, "stages": stages} if stages else amendment.changes
