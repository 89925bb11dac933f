"""Apply the events of an imported workflow to its state."""

from __future__ import annotations

import re
from typing import Any

from lifecycle.event import Event
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Session, Stage, Workflow
from lifecycle.words.document import (
    STAGE_FIELDS,
    WORKFLOW_FIELDS,
    default_session_config,
    restore_key_order,
)
from lifecycle.words.limits import MAX_COUNT
from lifecycle.words.plan_parameters import add_plan_values

TYPES = frozenset({"line.imported", "state.imported"})
#: Id of the attempt that was running when the workflow was imported. Another program or a lost log
#: started it.
TAKEN_OVER = "att-0001"
#: Pattern of the folder of an attempt that wfctl launched, relative to the stage's folder.
_OWN = r"\.attempts/att-[0-9]{4,}-[0-9a-f]{8}"


def build_imported_workflow(document: dict[str, Any]) -> Workflow:
    """Return the state that a workflow document (an imported state file) describes.

    Fields that are missing or null get their default values.
    """
    state = Workflow(id=document["workflow_id"], created="", updated="")
    replace_state_from_document(state, document)
    return state


def replace_state_from_document(draft: Workflow, document: dict[str, Any]) -> None:
    """Replace the state by the contents of a workflow document.

    The position in the log and the root folder do not change.
    """
    given = {key: value for key, value in document.items() if value is not None}
    config = given.get("session_config", {})
    draft.id = given["workflow_id"]
    draft.created = given.get("created", "")
    draft.updated = given.get("updated", "")
    draft.version = given.get("version", 1)
    draft.workflow_status = given.get("workflow_status")
    draft.experiment_design = given.get("experiment_design")
    draft.workflow_plan = given.get("workflow_plan")
    plan = {PLAN: draft.plan} if draft.plan is not None else {}
    draft.amendments = {**_build_imported_amendments(given.get("amendments", [])), **plan}
    draft.session_config = config
    draft.session = _build_session(config or default_session_config())
    draft.default_backend = given.get("default_backend", "local")
    draft.backend_profiles = given.get("backend_profiles", {})
    draft.stages = {entry["id"]: build_imported_stage(entry) for entry in given["stages"]}
    draft.extra = {k: v for k, v in document.items() if k not in WORKFLOW_FIELDS}
    for stage in draft.stages.values():
        stage.parameters = add_plan_values(stage.parameters, draft.parameters)


def build_imported_stage(entry: dict[str, Any]) -> Stage:
    """Return the stage that an entry in the ``stages`` of a workflow document describes."""
    known = {k: v for k, v in entry.items() if k in STAGE_FIELDS and v is not None}
    known["status"] = Status(known.get("status", "pending"))
    known.setdefault("name", known["id"])
    return Stage(**known, extra={k: v for k, v in entry.items() if k not in STAGE_FIELDS})


def _build_imported_amendments(records: list[dict[str, Any]]) -> dict[str, Amendment]:
    """Return the amendments of an imported state file. They have the status "approved"."""
    return {
        record["id"]: Amendment(
            id=record["id"],
            kind=record.get("type", ""),
            stage=record.get("stage_id"),
            description=record.get("description", ""),
            proposed_at=record.get("timestamp", ""),
            changes=record.get("changes", {}),
            status="approved",
            version=record.get("version"),
            record=record,
        )
        for record in records
    }


def _build_session(config: dict[str, Any]) -> Session:
    """Return the session that the ``session_config`` of a state file describes."""
    return Session(
        count=int(_positive_number_or_zero(config.get("session_count"))),
        id=config.get("session_id"),
        cost=_positive_number_or_zero(config.get("session_cost")),
        exit_reason=config.get("exit_reason"),
    )


def _positive_number_or_zero(found: Any) -> float:
    """Return the value if it is a positive number in the allowed range, otherwise 0."""
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and 0 < found <= MAX_COUNT // 2 else 0


def is_part_of_import(draft: Workflow, event: Event) -> bool:
    """Return whether an event belongs to the import that started the stream."""
    return event.version <= draft.import_end


def fold_imported_state(draft: Workflow, event: Event) -> None:
    """Replace the state by an imported version of the state file.

    wfctl continues from the last imported version.
    """
    if not is_part_of_import(draft, event):
        return
    document: dict[str, Any] = restore_key_order(
        event.data["document"], event.data.get("layout", {})
    )
    replace_state_from_document(draft, document)
    draft.source = document
    draft.spelling = dict(event.data.get("spelling", {}))
    if event.version == draft.import_end:
        for stage in draft.stages.values():
            _add_attempt_to_imported_stage(stage, event)


def _add_attempt_to_imported_stage(stage: Stage, event: Event) -> None:
    """Add an attempt to an imported stage that was running.

    If wfctl launched the attempt before its log was lost, treat it like any other attempt.
    """
    process = stage.running_process
    if stage.status not in ACTIVE or (stage.status is Status.PREPARING and process is None):
        return
    process = process or {}
    since = process.get("launched_at") or stage.started_at or event.occurred_at
    submission = process.get("submission_json") or f"{stage.id}/submission.json"
    session = process.get("tmux_session")
    folder = submission.removesuffix("/submission.json")
    is_own = bool(re.fullmatch(_OWN, folder.removeprefix(f"{stage.id}/")))
    attempt = Attempt(
        id=TAKEN_OVER,
        started_at=since,
        launched_at=None if stage.status is Status.PREPARING else since,
        mode="tmux" if session or not is_own else "setsid",
        root=event.data.get("source", {}).get("root", ""),
        work_dir=f"{folder}/work" if is_own else stage.id,
        submission=submission,
        submission_sha256="",
        wrapper=process.get("wrapper_script") or f"{stage.id}/dpdisp-run.sh",
        session=session,
        taken_over=not is_own,
    )
    if stage.status is Status.POST_PROCESSING:
        attempt.ended_at, attempt.outcome = event.occurred_at, "computed"
    stage.attempts = [attempt]


def fold_imported_line(draft: Workflow, event: Event) -> None:
    """Apply the changes of status in an imported log line, without checking the transitions."""
    if not is_part_of_import(draft, event):
        return
    data = event.data
    draft.updated = max(draft.updated, event.occurred_at)
    if data.get("session") is not None:
        draft.session = Session(count=data["session"], id=event.occurred_at)
    if data.get("workflow_completed"):
        draft.workflow_status = "completed"
    stage = draft.stages.get(data.get("stage") or "")
    if stage is None:
        return
    if data.get("retry") is not None:
        stage.retry_count, stage.status = data["retry"], Status.READY
    for status in data.get("statuses", []):
        _set_status(stage, Status(status), event)


def _set_status(stage: Stage, status: Status, event: Event) -> None:
    """Set the status of a stage, and the times or the error message that belong to the status."""
    stage.status = status
    if status is Status.PREPARING:
        stage.started_at, stage.completed_at = event.occurred_at, None
    elif status is Status.COMPLETED:
        stage.completed_at = event.occurred_at
    elif status is Status.FAILED:
        stage.last_error = event.data["text"]
