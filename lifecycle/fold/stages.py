"""The fold of events about stages and their attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lifecycle.event import Event
from lifecycle.state.basis import compute_basis_digest
from lifecycle.state.requested_resources import cores_per_task, get_time_limit
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.mandates import GRACE
from lifecycle.words.scripts import INIT, has_script_ending


def consent_of(event: Event) -> dict[str, Any]:
    """Return the person who agreed to an event, and the consent policy.

    For a database on a server, also return the `database_user`.
    """
    proof = event.data.get("proof") or {}
    user = proof.get("database_user")
    agreed = {"by": event.data.get("approved_by"), "policy": proof.get("policy")}
    return {**agreed, **({"database_user": user} if user is not None else {})}


#: Fields that are copied from the start of an attempt, and fields that are copied from its
#: observations.
_BEGUN = (
    *("mode", "root", "work_dir", "submission", "submission_sha256", "wrapper", "session", "host"),
    *("boot_id", "recovers", "inputs", "diagnostic", "scripts", "taken_over", "carried"),
    *("carried_from", "environment", "beside", "code"),
    *("variables", "variables_key", "program", "programs", "requested"),
)
_SEEN = ("row", "verdict", "action", "reason", "evidence")


def _fold_readied(draft: Workflow, stage: Stage, event: Event) -> None:
    """Make the stage ready to run. With ``reset``, also clear its retry count and times."""
    if stage.status is not Status.PENDING:
        stage.running_process = None
    if event.data.get("grown") is not None and stage.attempts:
        stage.attempts[-1].grown, stage.uncharged = event.data["grown"], False
    if event.data.get("reset"):
        stage.fix = None
        stage.started_at = stage.completed_at = None
        stage.retry_count = 0
    stage.status, stage.blocked_by, stage.rerun_by = Status.READY, {}, None


def _fold_prepared(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status = Status.PREPARING
    stage.started_at, stage.completed_at = event.occurred_at, None
    stage.running_process = None


def _fold_attempt_started(draft: Workflow, stage: Stage, event: Event) -> None:
    """Add an attempt that is about to be launched, and describe it in ``running_process``."""
    data = event.data
    if stage.attempts and stage.attempts[-1].is_open:
        computed = stage.attempts[-1].action == "continue"
        _end_attempt(stage.attempts[-1], event, "computed" if computed else "lost")
    if stage.keep_as is not None and not stage.keeps_tasks:
        stage.kept_tasks = []
    stage.keep_as, stage.keeps_tasks = None, False
    stage.regenerate = False
    # Forget the output files that were detected for an earlier attempt and are not declared in the
    # plan.
    stage.outputs, stage.found_outputs = stage.declared_outputs, False
    stage.reused, stage.is_rejudged = None, False
    known: dict[str, Any] = {name: data[name] for name in _BEGUN if name in data}
    known |= {
        "basis": compute_basis_digest(draft, stage),
        "event": event.hash,
        "plan": draft.version,
    }
    loop = draft.loops.get(draft.loop_of(stage.id) or "")
    known |= {"round": 0 if loop is None else loop.round.number}
    known |= {"charged": _compute_charge_to_mandates(draft, stage, data.get("tasks"))}
    known |= {"tasks_given": data.get("tasks")}
    known |= {"unapproved": _unapproved_scripts(draft, stage, data.get("scripts", {}))}
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


def _unapproved_scripts(draft: Workflow, stage: Stage, scripts: dict[str, str]) -> list[str]:
    """Return the scripts of an attempt whose contents nobody approved.

    Their contents differ from the approved contents, and no mandate (permission given in advance)
    allows them. A script that is missing in the approval was created later. Older approvals,
    without ``init.sh``, do not list missing scripts; a script that they do not mention is accepted.
    """
    agreed = draft.scripts
    others = [path for path, sha in scripts.items() if agreed.get(path, sha) != sha]
    if INIT in agreed:
        others += [path for path in scripts if path not in agreed and has_script_ending(path)]
    known = map(draft.mandate, draft.mandates_for(stage)) if others else ()
    allowed = [one.scripts for one in known if one is not None]
    return [
        path for path in others if not any(scripts[path] in one.get(path, ()) for one in allowed)
    ]


def _compute_charge_to_mandates(draft: Workflow, stage: Stage, tasks: int | None) -> dict[str, Any]:
    """Return the maximum cost of an attempt that its mandates are charged.

    A mandate is a permission given in advance, with a cost limit. Return an empty dictionary if the
    stage uses no mandate.
    """
    names = draft.mandates_for(stage)
    if not names:
        return {}
    count = 1 if tasks is None else tasks
    each = cores_per_task(draft, stage)
    most = count * each * ((get_time_limit(draft, stage) or 0) + GRACE)
    return {
        "mandates": names,
        "tasks": count,
        "core_seconds": most,
        "cores": each * min(count, stage.work.task_rules.at_once),
    }


def _fold_launched(draft: Workflow, stage: Stage, event: Event) -> None:
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


def _fold_computed(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status = Status.POST_PROCESSING
    stage.attempts[-1].exit_code = event.data["exit_code"]
    stage.attempts[-1].resources = event.data.get("resources", {})
    _end_attempt(stage.attempts[-1], event, "computed")


def _end_attempt(attempt: Attempt, event: Event, outcome: str) -> None:
    attempt.ended_at, attempt.outcome = event.occurred_at, outcome


def _fold_completed(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status, stage.completed_at = Status.COMPLETED, event.occurred_at
    stage.results, stage.changed = event.data.get("outputs", []), []
    stage.adopted, stage.deleted = [], []
    stage.metrics = event.data.get("metrics", [])
    stage.uncharged = True
    if stage.source is not None:
        stage.source.outcome = "completed"
        stage.source.results, stage.source.metrics = stage.results, stage.metrics
        stage.source.check_files = event.data.get("check_files", {})


def _fold_failed(draft: Workflow, stage: Stage, event: Event) -> None:
    data = event.data
    stage.status, stage.last_error = Status.FAILED, data["error"]
    stage.category, stage.because = data.get("category"), data.get("because")
    stage.short_of = data.get("short_of")
    named = data.get("attempt") and stage.attempts
    stage.failed_plan = stage.attempts[-1].plan if named else draft.version
    stage.rerun_by = data.get("superseded_by")
    superseded = stage.rerun_by is not None
    stage.uncharged = not superseded
    judged = any(not check["passed"] for check in data.get("checks", []))
    if stage.source is not None and (judged or stage.reused is not None):
        stage.source.results = data.get("outputs") or stage.source.results
        stage.source.metrics = data.get("metrics") or stage.source.metrics
        stage.source.is_refuted = not superseded
        stage.source.check_files = data.get("check_files", {})
    stage.reused = None
    if stage.attempts and stage.attempts[-1].outcome in (None, "computed"):
        stage.attempts[-1].exit_code = data.get("exit_code")
        stage.attempts[-1].resources = data.get("resources") or stage.attempts[-1].resources
        stage.attempts[-1].short_of = data.get("short_of")
        _end_attempt(stage.attempts[-1], event, "superseded" if superseded else "failed")
        stage.attempts[-1].stop = superseded or bool(data.get("stop"))


def _fold_retried(draft: Workflow, stage: Stage, event: Event) -> None:
    """Make a failed stage ready for a retry, and keep the message of its last error."""
    stage.status, stage.blocked_by, stage.rerun_by = Status.READY, {}, None
    stage.retry_count, stage.fix = event.data["retry"], event.data["fix"]
    stage.running_process = None
    stage.regenerate = stage.regenerate or bool(event.data.get("regenerate"))
    if event.data.get("failed_only") and stage.attempts:
        decision = {"attempt": stage.attempts[-1].id, **consent_of(event)}
        stage.kept_tasks = [*stage.kept_tasks, decision]


def _fold_invalidated(draft: Workflow, stage: Stage, event: Event) -> None:
    """Mark the results of a stage as invalid. A completed workflow becomes unfinished."""
    stage.status, stage.changed, stage.rerun_by = Status.INVALIDATED, [], None
    stage.metrics = []  # the attempt keeps its metrics
    draft.workflow_status = None if draft.workflow_status == "completed" else draft.workflow_status


def _fold_skipped(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.status, stage.running_process, stage.rerun_by = Status.SKIPPED, None, None


def _fold_blocked(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.blocked_by[event.data["dependency"]] = event.data["dependency_status"]


def _fold_attempt_event(draft: Workflow, stage: Stage, event: Event) -> None:
    """Update the attempt that the event names."""
    data = event.data
    for attempt in (one for one in stage.attempts if one.id == data["attempt"]):
        match event.type:
            case "attempt.observed":
                for name in _SEEN:
                    setattr(attempt, name, data[name])
                _set_waiting_reason(attempt, data.get("waiting"), event.occurred_at)
            case "attempt.stopped":
                attempt.stopped_at = event.occurred_at
            case "attempt.left":
                attempt.left = data["files"]
                exchanged = [*_find_scripts_changed_by_job(attempt), *data.get("exchanged", [])]
                attempt.exchanged = list(dict.fromkeys(exchanged))
            case "leftovers.freed":
                attempt.left = [one for one in attempt.left if one["path"] not in data["files"]]
            case "tasks.observed":
                known = {name: data.get(name, "") for name in ("done", "failed", "lost", "running")}
                known |= {"total": data["total"], "points": data["points"]}
                known |= {"ended": data.get("ended", 0), "failures": data.get("failures", [])}
                lists = {name: data.get(name, []) for name in ("journals", "edited", "late")}
                attempt.tasks = {**known, "record": data.get("record"), **lists}
                _forget_kept_task_decisions(stage, attempt, data["total"])


def _find_scripts_changed_by_job(attempt: Attempt) -> list[str]:
    """Return the scripts of an attempt whose contents its job changed.

    Only files that are recorded as scripts are compared, because a job may write to other files.
    """
    sent = {one["path"] for one in attempt.inputs}
    recorded = {**(attempt.beside or {}), **attempt.scripts}
    left = {one["path"]: one["sha256"] for one in attempt.left if one["path"] in sent}
    return [path for path, digest in left.items() if digest != recorded.get(path, digest)]


def _forget_kept_task_decisions(stage: Stage, attempt: Attempt, total: int) -> None:
    """Forget earlier decisions to keep finished tasks, if this attempt computes all tasks again."""
    if attempt.tasks_given != total:
        return
    earlier = {one.id for one in stage.attempts[: stage.attempts.index(attempt)]}
    stage.kept_tasks = [one for one in stage.kept_tasks if one["attempt"] not in earlier]


def _set_waiting_reason(attempt: Attempt, reason: str | None, at: str) -> None:
    """Store the reason why an attempt is waiting, and the time since which it applies.

    Without a reason, clear the stored one.
    """
    if reason is None:
        attempt.waiting = None
    elif attempt.waiting is None or attempt.waiting["reason"] != reason:
        attempt.waiting = {"reason": reason, "since": at}


def _fold_relaunched(draft: Workflow, stage: Stage, event: Event) -> None:
    attempt, reason = stage.attempts[-1], event.data["reason"]
    attempt.relaunches += 1
    alike = attempt.relaunched_for == reason
    attempt.relaunches_alike = attempt.relaunches_alike + 1 if alike else 1
    attempt.relaunched_for, attempt.session = reason, event.data.get("session")


def _fold_outputs(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.outputs, stage.found_outputs = event.data["outputs"], bool(event.data.get("found"))


def _fold_reused(draft: Workflow, stage: Stage, event: Event) -> None:
    """Use the archived outputs of an earlier attempt for the stage. wfctl checks them next."""
    stage.status, stage.reused = Status.POST_PROCESSING, event.data["attempt"]
    stage.keep_as, stage.is_rejudged = None, False
    if not stage.declared_outputs:
        stage.outputs = [one["path"] for one in event.data["outputs"]]
        stage.found_outputs = True


def _fold_adopted_results(draft: Workflow, stage: Stage, event: Event) -> None:
    """Record that a person accepted changed or deleted result files of a stage.

    Changed files get their new digests. Deleted files are listed with the reason.
    """
    new = {one["path"]: one for one in event.data["outputs"]}
    stage.results = [new.get(one["path"], one) for one in stage.results]
    stage.metrics = event.data.get("metrics", stage.metrics)
    gone = {one["path"]: one for one in event.data.get("deleted", [])}
    stage.changed = [one for one in stage.changed if one["path"] not in {*new, *gone}]
    stage.deleted = [one for one in stage.deleted if one["path"] not in {*new, *gone}]
    agreed = consent_of(event)
    if new:
        stage.adopted = [*stage.adopted, {"paths": list(new), **agreed}]
    about = {**agreed, "at": event.occurred_at, "reason": event.data["reason"]}
    stage.deleted += [{**one, **about} for one in gone.values()]


def _fold_changed_results(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.changed = event.data["files"]


def _fold_archived(draft: Workflow, stage: Stage, event: Event) -> None:
    """Store the folder to which the outputs of a stage move before the stage runs again."""
    stage.keep_as = event.data["kept_as"]
    stage.kept = int(event.data["kept_as"].rpartition(".v")[2])


def _fold_checkpoint(draft: Workflow, stage: Stage, event: Event) -> None:
    stage.checkpoint = event.data["checkpoint"]


APPLY: Mapping[str, Callable[[Workflow, Stage, Event], None]] = {
    "stage.readied": _fold_readied,
    "stage.prepared": _fold_prepared,
    "attempt.started": _fold_attempt_started,
    "stage.launched": _fold_launched,
    "stage.computed": _fold_computed,
    "stage.completed": _fold_completed,
    "stage.failed": _fold_failed,
    "stage.retried": _fold_retried,
    "stage.invalidated": _fold_invalidated,
    "stage.skipped": _fold_skipped,
    "stage.blocked": _fold_blocked,
    "attempt.observed": _fold_attempt_event,
    "attempt.relaunched": _fold_relaunched,
    "attempt.stopped": _fold_attempt_event,
    "attempt.left": _fold_attempt_event,
    "tasks.observed": _fold_attempt_event,
    "leftovers.freed": _fold_attempt_event,
    "outputs.recorded": _fold_outputs,
    "outputs.reused": _fold_reused,
    "outputs.archived": _fold_archived,
    "results.adopted": _fold_adopted_results,
    "results.changed": _fold_changed_results,
    "checkpoint.recorded": _fold_checkpoint,
}
