"""The fold of what happens to stages and their attempts: by event type, on the stage it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lifecycle.event import Event
from lifecycle.state.conditions import basis_of, cores
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Session, Stage, Workflow
from lifecycle.sweeps.definition import sweep_of
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS, default_session_config, restore
from lifecycle.words.mandates import GRACE, time_limit
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


#: What is recorded of an attempt that begins and of one that is seen, under the names it has there.
_BEGUN = (
    *("mode", "root", "work_dir", "submission", "submission_sha256", "wrapper", "session", "host"),
    *("boot_id", "recovers", "inputs", "diagnostic", "scripts", "taken_over", "carried"),
    *("carried_from", "environment", "beside", "code"),
)
_SEEN = ("row", "verdict", "action", "reason", "evidence")


def _readied(draft: Workflow, stage: Stage, event: Event) -> None:
    """It may be picked up; ``reset`` gives it a clean slate."""
    if stage.status is not Status.PENDING:
        stage.running_process = None
    if event.data.get("reset"):
        stage.fix = None
        stage.started_at = stage.completed_at = None
        stage.retry_count = 0
    stage.status, stage.blocked_by, stage.rerun_by = Status.READY, {}, None


def _prepared(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status = Status.PREPARING
    stage.started_at, stage.completed_at = event.occurred_at, None
    stage.running_process = None


def _started(draft: Workflow, stage: Stage, event: Event) -> None:
    """An attempt is about to be launched; ``running_process`` shows it from here on."""
    data = event.data
    if stage.attempts and stage.attempts[-1].is_open:
        _end(stage.attempts[-1], event, "lost")
    if stage.keep_as is not None and not stage.keeps_tasks:
        stage.kept_tasks = []
    stage.keep_as, stage.keeps_tasks = None, False
    stage.regenerate = False
    # Nobody declared what an earlier attempt happened to leave.
    stage.outputs, stage.found_outputs = stage.declared_outputs, False
    stage.reused, stage.is_rejudged = None, False
    known: dict[str, Any] = {name: data[name] for name in _BEGUN if name in data}
    known |= {"basis": basis_of(draft, stage), "event": event.hash, "plan": draft.version}
    loop = draft.loops.get(draft.loop_of(stage.id) or "")
    known |= {"round": 0 if loop is None else loop.round.number}
    known |= {"charged": _charged(draft, stage, data.get("tasks"))}
    stage.attempts.append(Attempt(id=data["attempt"], started_at=event.occurred_at, **known))
    stage.running_process = {
        "tmux_session": data.get("session"),
        "submission_json": data["submission"],
        "wrapper_script": data["wrapper"],
        "done_marker": f"{stage.id}/DPDISP_DONE",
        "exit_code_file": f"{stage.id}/DPDISP_EXIT_CODE",
        "recovery_attempted": data.get("recovers") is not None,
        "launched_at": event.occurred_at,
    }


def _charged(draft: Workflow, stage: Stage, tasks: int | None) -> dict[str, Any]:
    """Return the most that an attempt by a mandate may use; nothing of one without."""
    name = draft.mandate_of(stage)
    if name is None:
        return {}
    count, at_once = (1, 1) if tasks is None else (tasks, sweep_of(stage.parameters).at_once)
    each = cores(draft, stage)
    most = count * each * ((time_limit(stage.parameters) or 0) + GRACE)
    return {
        "mandate": name,
        "tasks": count,
        "core_seconds": most,
        "cores": each * min(count, at_once),
    }


def _launched(draft: Workflow, stage: Stage, event: Event) -> None:
    data, attempt = event.data, stage.attempts[-1]
    if data["mode"] != "sync":
        stage.status = Status.RUNNING
    attempt.launched_at = attempt.launched_at or event.occurred_at
    attempt.mode, attempt.session = data["mode"], data.get("session")
    attempt.submission_hash = data.get("submission_hash")
    attempt.job_ids = data.get("job_ids", [])
    attempt.host = data.get("host") or attempt.host
    attempt.boot_id = data.get("boot_id") or attempt.boot_id
    attempt.dpdispatcher_version = data.get("dpdispatcher_version")
    shown = {"tmux_session": attempt.session, "launched_at": attempt.launched_at}
    stage.running_process = {**(stage.running_process or {}), **shown}


def _computed(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status = Status.POST_PROCESSING
    stage.attempts[-1].exit_code = event.data["exit_code"]
    stage.attempts[-1].resources = event.data.get("resources", {})
    _end(stage.attempts[-1], event, "computed")


def _end(attempt: Attempt, event: Event, outcome: str) -> None:
    attempt.ended_at, attempt.outcome = event.occurred_at, outcome


def _completed(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status, stage.completed_at = Status.COMPLETED, event.occurred_at
    stage.results, stage.changed, stage.adopted = event.data.get("outputs", []), [], []
    stage.metrics = event.data.get("metrics", [])
    stage.uncharged = True
    if stage.source is not None:
        stage.source.outcome = "completed"
        stage.source.results, stage.source.metrics = stage.results, stage.metrics


def _failed(draft: Workflow, stage: Stage, event: Event) -> None:
    data = event.data
    stage.status, stage.last_error = Status.FAILED, data["error"]
    stage.category, stage.because = data.get("category"), data.get("because")
    stage.rerun_by = data.get("superseded_by")
    superseded = stage.rerun_by is not None
    stage.uncharged = not superseded
    judged = any(not check["passed"] for check in data.get("checks", []))
    if stage.source is not None and (judged or stage.reused is not None):
        stage.source.results = data.get("outputs") or stage.source.results
        stage.source.metrics = data.get("metrics") or stage.source.metrics
        stage.source.is_refuted = not superseded
    stage.reused = None
    if stage.attempts and stage.attempts[-1].outcome in (None, "computed"):
        stage.attempts[-1].exit_code = data.get("exit_code")
        stage.attempts[-1].resources = data.get("resources") or stage.attempts[-1].resources
        _end(stage.attempts[-1], event, "superseded" if superseded else "failed")
        stage.attempts[-1].stop = superseded or bool(data.get("stop"))


def _retried(draft: Workflow, stage: Stage, event: Event) -> None:
    """It may run again; ``last_error`` stays."""
    stage.status, stage.blocked_by, stage.rerun_by = Status.READY, {}, None
    stage.retry_count, stage.fix = event.data["retry"], event.data["fix"]
    stage.running_process = None
    stage.regenerate = stage.regenerate or bool(event.data.get("regenerate"))
    if event.data.get("failed_only") and stage.attempts:
        policy = (event.data.get("proof") or {}).get("policy")
        decision = {"by": event.data.get("approved_by"), "policy": policy}
        stage.kept_tasks = [*stage.kept_tasks, {"attempt": stage.attempts[-1].id, **decision}]


def _invalidated(draft: Workflow, stage: Stage, event: Event) -> None:
    """What it did counts no longer: it waits for what it rests on."""
    stage.status, stage.changed, stage.rerun_by = Status.INVALIDATED, [], None
    stage.metrics = []  # the attempt has them
    draft.workflow_status = None if draft.workflow_status == "completed" else draft.workflow_status


def _skipped(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status, stage.running_process, stage.rerun_by = Status.SKIPPED, None, None


def _blocked(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.blocked_by[event.data["dependency"]] = event.data["dependency_status"]


def _of_attempt(draft: Workflow, stage: Stage, event: Event) -> None:
    """What was seen of the attempt that the event names."""
    data = event.data
    for attempt in (one for one in stage.attempts if one.id == data["attempt"]):
        match event.type:
            case "attempt.observed":
                for name in _SEEN:
                    setattr(attempt, name, data[name])
                _wait(attempt, data.get("waiting"), event.occurred_at)
            case "attempt.stopped":
                attempt.stopped_at = event.occurred_at
            case "attempt.left":
                attempt.left = data["files"]
            case "leftovers.freed":
                attempt.left = [one for one in attempt.left if one["path"] not in data["files"]]
            case "tasks.observed":
                known = {name: data.get(name, "") for name in ("done", "failed", "lost", "running")}
                known |= {"total": data["total"], "points": data["points"]}
                known |= {"ended": data.get("ended", 0), "failures": data.get("failures", [])}
                lists = {name: data.get(name, []) for name in ("journals", "edited", "late")}
                attempt.tasks = {**known, "record": data.get("record"), **lists}


def _wait(attempt: Attempt, reason: str | None, at: str) -> None:
    """Keep why an attempt does not continue; the same reason counts from its first observation."""
    if reason is None:
        attempt.waiting = None
    elif attempt.waiting is None or attempt.waiting["reason"] != reason:
        attempt.waiting = {"reason": reason, "since": at}


def _relaunched(draft: Workflow, stage: Stage, event: Event) -> None:
    attempt, reason = stage.attempts[-1], event.data["reason"]
    attempt.relaunches += 1
    alike = attempt.relaunched_for == reason
    attempt.relaunches_alike = attempt.relaunches_alike + 1 if alike else 1
    attempt.relaunched_for, attempt.session = reason, event.data.get("session")


def _outputs(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.outputs, stage.found_outputs = event.data["outputs"], bool(event.data.get("found"))


def _reused(draft: Workflow, stage: Stage, event: Event) -> None:
    """The kept outputs of an earlier attempt lie in place; they are to be verified."""
    stage.status, stage.reused = Status.POST_PROCESSING, event.data["attempt"]
    stage.keep_as, stage.is_rejudged = None, False
    if not stage.declared_outputs:
        stage.outputs = [one["path"] for one in event.data["outputs"]]
        stage.found_outputs = True


def _adopted(draft: Workflow, stage: Stage, event: Event) -> None:
    """Results count as they are now."""
    new = {one["path"]: one for one in event.data["outputs"]}
    stage.results = [new.get(one["path"], one) for one in stage.results]
    stage.metrics = event.data.get("metrics", stage.metrics)
    stage.changed = [one for one in stage.changed if one["path"] not in new]
    policy = (event.data.get("proof") or {}).get("policy")
    agreed = {"paths": list(new), "by": event.data.get("approved_by"), "policy": policy}
    stage.adopted = [*stage.adopted, agreed]


def _results_changed(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.changed = event.data["files"]


def _archived(draft: Workflow, stage: Stage, event: Event) -> None:
    """Its folder is to be kept under another name before it runs again."""
    stage.keep_as = event.data["kept_as"]
    stage.kept = int(event.data["kept_as"].rpartition(".v")[2])


def _checkpoint(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.checkpoint = event.data["checkpoint"]


APPLY: Mapping[str, Callable[[Workflow, Stage, Event], None]] = {
    "stage.readied": _readied,
    "stage.prepared": _prepared,
    "attempt.started": _started,
    "stage.launched": _launched,
    "stage.computed": _computed,
    "stage.completed": _completed,
    "stage.failed": _failed,
    "stage.retried": _retried,
    "stage.invalidated": _invalidated,
    "stage.skipped": _skipped,
    "stage.blocked": _blocked,
    "attempt.observed": _of_attempt,
    "attempt.relaunched": _relaunched,
    "attempt.stopped": _of_attempt,
    "attempt.left": _of_attempt,
    "tasks.observed": _of_attempt,
    "leftovers.freed": _of_attempt,
    "outputs.recorded": _outputs,
    "outputs.reused": _reused,
    "outputs.archived": _archived,
    "results.adopted": _adopted,
    "results.changed": _results_changed,
    "checkpoint.recorded": _checkpoint,
}
