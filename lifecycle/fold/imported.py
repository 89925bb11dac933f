"""The fold of an import: a history of another's keeping, taken as it says it was.

No rule is checked here, since the history may have broken all of them; so nothing of this kind
counts once the import is over (`Workflow.import_end`).
"""

from __future__ import annotations

import re
from typing import Any

from lifecycle.event import Event
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Session, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS, default_session_config, restore
from lifecycle.words.values import MAX_COUNT

TYPES = frozenset({"line.imported", "state.imported"})

#: What the attempt is called that was under way: of an earlier log, or launched by somebody else.
TAKEN_OVER = "att-0001"
#: The folder of an attempt that wfctl launched, in that of its stage.
_OWN = re.compile(r"\.attempts/att-[0-9]{4,}-[0-9a-f]{8}")


def workflow_of(document: dict[str, Any]) -> Workflow:
    """Return the state that a document describes; a field that is null or not there is empty."""
    state = Workflow(id=document["workflow_id"], created="", updated="")
    describe(state, document)
    return state


def describe(draft: Workflow, document: dict[str, Any]) -> None:
    """Make the state what the document says, its place in the log and its root aside."""
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
    draft.amendments = {**_amendments(given.get("amendments", [])), **plan}
    draft.session_config = config
    draft.session = _session(config or default_session_config())
    draft.default_backend = given.get("default_backend", "local")
    draft.backend_profiles = given.get("backend_profiles", {})
    draft.stages = {entry["id"]: stage_of(entry) for entry in given["stages"]}
    draft.extra = {k: v for k, v in document.items() if k not in WORKFLOW_FIELDS}


def stage_of(entry: dict[str, Any]) -> Stage:
    """Return the stage that an entry of the document's ``stages`` describes."""
    known = {k: v for k, v in entry.items() if k in STAGE_FIELDS and v is not None}
    known["status"] = Status(known.get("status", "pending"))
    known.setdefault("name", known["id"])
    return Stage(**known, extra={k: v for k, v in entry.items() if k not in STAGE_FIELDS})


def _amendments(records: list[dict[str, Any]]) -> dict[str, Amendment]:
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


def _session(config: dict[str, Any]) -> Session:
    return Session(
        count=int(_number(config.get("session_count"))),
        id=config.get("session_id"),
        cost=_number(config.get("session_cost")),
        exit_reason=config.get("exit_reason"),
    )


def _number(found: Any) -> float:
    """Return what a file holds where it is a number that can be gone on from, else 0."""
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and 0 < found <= MAX_COUNT // 2 else 0


def counts(draft: Workflow, event: Event) -> bool:
    """Whether an event is a part of the import that the stream began with."""
    return event.version <= draft.import_end


def fold_state(draft: Workflow, event: Event) -> None:
    """The state becomes what a version of the file says; the last one is where wfctl goes on."""
    if not counts(draft, event):
        return
    document: dict[str, Any] = restore(event.data["document"], event.data.get("layout", {}))
    describe(draft, document)
    draft.source = document
    draft.spelling = dict(event.data.get("spelling", {}))
    if event.version == draft.import_end:
        for stage in draft.stages.values():
            _take_over(stage, event)


def _take_over(stage: Stage, event: Event) -> None:
    """Give a stage that is under way the attempt that its file tells of.

    One that wfctl launched for a log that was lost is an attempt like any other.
    """
    process = stage.running_process
    if stage.status not in ACTIVE or (stage.status is Status.PREPARING and process is None):
        return
    process = process or {}
    since = process.get("launched_at") or stage.started_at or event.occurred_at
    submission = process.get("submission_json") or f"{stage.id}/submission.json"
    session = process.get("tmux_session")
    folder = submission.removesuffix("/submission.json")
    is_own = bool(_OWN.fullmatch(folder.removeprefix(f"{stage.id}/")))
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


def fold_line(draft: Workflow, event: Event) -> None:
    """What a line of the log said became so, whether or not it could."""
    if not counts(draft, event):
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
        _become(stage, Status(status), event)


def _become(stage: Stage, status: Status, event: Event) -> None:
    stage.status = status
    if status is Status.PREPARING:
        stage.started_at, stage.completed_at = event.occurred_at, None
    elif status is Status.COMPLETED:
        stage.completed_at = event.occurred_at
    elif status is Status.FAILED:
        stage.last_error = event.data["text"]
