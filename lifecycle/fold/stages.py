"""The fold of what happens to stages and their attempts."""

from __future__ import annotations

from lifecycle.event import Event
from lifecycle.state.dependencies import basis_of
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Workflow


def readied(draft: Workflow, event: Event) -> None:
    """A stage may be picked up; ``reset`` gives it a clean slate."""
    stage = draft.stages[event.data["stage"]]
    if stage.status is not Status.PENDING:
        stage.running_process = None
    if event.data.get("reset"):
        stage.fix = None
        stage.started_at = stage.completed_at = None
        stage.retry_count = 0
    stage.status = Status.READY
    stage.blocked_by = {}
    stage.rerun_by = None


def prepared(draft: Workflow, event: Event) -> None:
    """A stage was picked up."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.PREPARING
    stage.started_at = event.occurred_at
    stage.completed_at = None
    stage.running_process = None


def attempt_started(draft: Workflow, event: Event) -> None:
    """An attempt is about to be launched; ``running_process`` shows it from here on."""
    data = event.data
    stage = draft.stages[data["stage"]]
    if stage.attempts and stage.attempts[-1].is_open:
        _end(stage.attempts[-1], event, "lost")
    stage.keep_as, stage.keeps_tasks = None, False
    stage.regenerate = False
    # Nobody declared what an earlier attempt happened to leave.
    stage.outputs, stage.found_outputs = stage.declared_outputs, False
    stage.reused, stage.is_rejudged = None, False
    stage.attempts.append(
        Attempt(
            id=data["attempt"],
            started_at=event.occurred_at,
            mode=data["mode"],
            root=data["root"],
            work_dir=data["work_dir"],
            submission=data["submission"],
            submission_sha256=data["submission_sha256"],
            wrapper=data["wrapper"],
            session=data.get("session"),
            host=data.get("host"),
            boot_id=data.get("boot_id"),
            recovers=data.get("recovers"),
            inputs=data.get("inputs", []),
            diagnostic=data.get("diagnostic", False),
            scripts=data.get("scripts", {}),
            taken_over=data.get("taken_over", False),
            carried=data.get("carried", []),
            carried_from=data.get("carried_from"),
            environment=data.get("environment"),
            beside=data.get("beside"),
            basis=basis_of(draft, stage),
            event=event.hash,
        )
    )
    stage.running_process = {
        "tmux_session": data.get("session"),
        "submission_json": data["submission"],
        "wrapper_script": data["wrapper"],
        "done_marker": f"{stage.id}/DPDISP_DONE",
        "exit_code_file": f"{stage.id}/DPDISP_EXIT_CODE",
        "recovery_attempted": data.get("recovers") is not None,
        "launched_at": event.occurred_at,
    }


def launched(draft: Workflow, event: Event) -> None:
    """The attempt's processes run."""
    data = event.data
    stage = draft.stages[data["stage"]]
    if data["mode"] != "sync":
        stage.status = Status.RUNNING
    attempt = stage.attempts[-1]
    attempt.launched_at = attempt.launched_at or event.occurred_at
    attempt.mode = data["mode"]
    attempt.session = data.get("session")
    attempt.submission_hash = data.get("submission_hash")
    attempt.job_ids = data.get("job_ids", [])
    attempt.host = data.get("host") or attempt.host
    attempt.boot_id = data.get("boot_id") or attempt.boot_id
    attempt.dpdispatcher_version = data.get("dpdispatcher_version")
    stage.running_process = {
        **(stage.running_process or {}),
        "tmux_session": data.get("session"),
        "launched_at": attempt.launched_at,
    }


def computed(draft: Workflow, event: Event) -> None:
    """The computation is over."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.POST_PROCESSING
    stage.attempts[-1].exit_code = event.data["exit_code"]
    _end(stage.attempts[-1], event, "computed")


def _end(attempt: Attempt, event: Event, outcome: str) -> None:
    attempt.ended_at = event.occurred_at
    attempt.outcome = outcome


def completed(draft: Workflow, event: Event) -> None:
    """The outputs were verified."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.COMPLETED
    stage.completed_at = event.occurred_at
    stage.results, stage.changed = event.data.get("outputs", []), []
    stage.adopted = []
    stage.uncharged = True
    if stage.source is not None:
        stage.source.outcome = "completed"
        stage.source.results = stage.results


def failed(draft: Workflow, event: Event) -> None:
    """The stage failed, and its attempt with it."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.FAILED
    stage.last_error = event.data["error"]
    stage.category = event.data.get("category")
    stage.because = event.data.get("because")
    stage.rerun_by = event.data.get("superseded_by")
    stage.uncharged = stage.rerun_by is None
    judged = any(not check["passed"] for check in event.data.get("checks", []))
    if stage.source is not None and (judged or stage.reused is not None):
        stage.source.results = event.data.get("outputs") or stage.source.results
        stage.source.is_refuted = stage.rerun_by is None
    stage.reused = None
    if stage.attempts and stage.attempts[-1].outcome in (None, "computed"):
        superseded = event.data.get("superseded_by") is not None
        stage.attempts[-1].exit_code = event.data.get("exit_code")
        _end(stage.attempts[-1], event, "superseded" if superseded else "failed")
        stage.attempts[-1].stop = superseded or bool(event.data.get("stop"))


def retried(draft: Workflow, event: Event) -> None:
    """The stage may run again; ``last_error`` stays."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.READY
    stage.retry_count = event.data["retry"]
    stage.fix = event.data["fix"]
    stage.running_process = None
    stage.blocked_by = {}
    stage.rerun_by = None
    stage.regenerate = stage.regenerate or bool(event.data.get("regenerate"))


def invalidated(draft: Workflow, event: Event) -> None:
    """What the stage did counts no longer: it waits for what it rests on."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.INVALIDATED
    stage.changed = []
    stage.rerun_by = None
    draft.workflow_status = None if draft.workflow_status == "completed" else draft.workflow_status


def skipped(draft: Workflow, event: Event) -> None:
    """The stage is not needed."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.SKIPPED
    stage.running_process = None
    stage.rerun_by = None


def blocked(draft: Workflow, event: Event) -> None:
    """A dependency holds the stage back, and it was said."""
    stage = draft.stages[event.data["stage"]]
    stage.blocked_by[event.data["dependency"]] = event.data["dependency_status"]


def observed(draft: Workflow, event: Event) -> None:
    """Keep the newest verdict on an attempt and its evidence."""
    for attempt in draft.stages[event.data["stage"]].attempts:
        if attempt.id == event.data["attempt"]:
            attempt.row = event.data["row"]
            attempt.verdict = event.data["verdict"]
            attempt.action = event.data["action"]
            attempt.reason = event.data["reason"]
            attempt.evidence = event.data["evidence"]


def relaunched(draft: Workflow, event: Event) -> None:
    """An attempt's monitor was started again."""
    attempt = draft.stages[event.data["stage"]].attempts[-1]
    attempt.relaunches += 1
    alike = attempt.relaunched_for == event.data["reason"]
    attempt.relaunches_alike = attempt.relaunches_alike + 1 if alike else 1
    attempt.relaunched_for = event.data["reason"]
    attempt.session = event.data.get("session")


def stopped(draft: Workflow, event: Event) -> None:
    """Nothing is left of an attempt."""
    for attempt in draft.stages[event.data["stage"]].attempts:
        if attempt.id == event.data["attempt"]:
            attempt.stopped_at = event.occurred_at


def tasks_observed(draft: Workflow, event: Event) -> None:
    """Where the tasks of a sweep stand."""
    data = event.data
    for attempt in draft.stages[data["stage"]].attempts:
        if attempt.id == data["attempt"]:
            known = {name: data.get(name, "") for name in ("done", "failed", "lost", "running")}
            attempt.tasks = {
                **known,
                "total": data["total"],
                "points": data["points"],
                "ended": data.get("ended", 0),
                "failures": data.get("failures", []),
                "record": data.get("record"),
                "journals": data.get("journals", []),
                "edited": data.get("edited", []),
                "late": data.get("late", []),
            }


def left(draft: Workflow, event: Event) -> None:
    """An attempt left files beside the outputs."""
    for attempt in draft.stages[event.data["stage"]].attempts:
        if attempt.id == event.data["attempt"]:
            attempt.left = event.data["files"]


def freed(draft: Workflow, event: Event) -> None:
    """What an attempt left behind is removed."""
    gone = set(event.data["files"])
    for attempt in draft.stages[event.data["stage"]].attempts:
        if attempt.id == event.data["attempt"]:
            attempt.left = [one for one in attempt.left if one["path"] not in gone]


def outputs(draft: Workflow, event: Event) -> None:
    """The list of outputs changed."""
    stage = draft.stages[event.data["stage"]]
    stage.outputs = event.data["outputs"]
    stage.found_outputs = bool(event.data.get("found"))


def reused(draft: Workflow, event: Event) -> None:
    """The kept outputs of an earlier attempt lie in place; they are to be verified."""
    stage = draft.stages[event.data["stage"]]
    stage.status = Status.POST_PROCESSING
    stage.reused = event.data["attempt"]
    stage.keep_as, stage.is_rejudged = None, False
    if not stage.declared_outputs:
        stage.outputs = [one["path"] for one in event.data["outputs"]]
        stage.found_outputs = True


def adopted(draft: Workflow, event: Event) -> None:
    """Results count as they are now."""
    stage = draft.stages[event.data["stage"]]
    new = {one["path"]: one for one in event.data["outputs"]}
    stage.results = [new.get(one["path"], one) for one in stage.results]
    stage.changed = [one for one in stage.changed if one["path"] not in new]
    policy = (event.data.get("proof") or {}).get("policy")
    agreed = {"paths": list(new), "by": event.data.get("approved_by"), "policy": policy}
    stage.adopted = [*stage.adopted, agreed]


def results_changed(draft: Workflow, event: Event) -> None:
    """Results are no more as recorded, or are so again."""
    draft.stages[event.data["stage"]].changed = event.data["files"]


def archived(draft: Workflow, event: Event) -> None:
    """The stage's folder is to be kept under another name before it runs again."""
    stage = draft.stages[event.data["stage"]]
    stage.keep_as = event.data["kept_as"]
    stage.kept = int(event.data["kept_as"].rpartition(".v")[2])


def checkpoint(draft: Workflow, event: Event) -> None:
    """A checkpoint was recorded."""
    draft.stages[event.data["stage"]].checkpoint = event.data["checkpoint"]
