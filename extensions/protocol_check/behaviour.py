"""Check whether a log keeps the promises of the protocol.

This module implements the promises in docs/ again, without importing the rules or the state
computation of wfctl. It can therefore detect errors in them. Its author had read these rules, so a
promise that both misunderstand is not detected. The content of approvals and the number of retries
are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from extensions.protocol_check.derived_state import (
    ACTIVE,
    PLAN,
    Breach,
    Broken,
    Chain,
    CheckedAmendment,
    CheckedAttempt,
    CheckedStage,
    CheckedWorkflow,
    Data,
    check_decision,
    check_proposal,
    check_round,
    parse_ranges,
    require_approved_amendment,
    require_permitting_amendment,
    require_person_consent,
    require_promise,
    set_initial_state,
)

_ALL = frozenset({"pending", "ready", "invalidated", "failed", "completed", *ACTIVE})


def first_breach(events: Iterable[tuple[Data, str]]) -> Breach | None:
    """Return the first event that breaks a promise of the protocol, or None.

    ``events`` are the recorded events in order of version, converted to the current schema, each
    with its hash.
    """
    log, envelope = CheckedWorkflow(), Chain()
    for number, (event, hash_) in enumerate(events, 1):
        try:
            envelope.take(event, hash_, number)
            _take_event(log, event)
            log.last = event["type"]
        except Broken as broken:
            return Breach(number, broken.promise, str(broken))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return Breach(
                number,
                "evolving",
                f"the data of the event does not match the type of the event: {error!r:.200}",
            )
    return None


def _take_event(log: CheckedWorkflow, event: Data) -> None:
    type_, version = event["type"], event["version"]
    first = type_ in ("workflow.created", "workflow.imported")
    require_promise(
        first == (version == 1),
        "ordered",
        (
            f"found {type_} at version {version}; only the first event may create or "
            "import a workflow"
        ),
    )
    if type_ in ("state.imported", "line.imported"):
        require_promise(
            version <= log.import_end,
            "ordered",
            "an event of the import follows after the end of the import",
        )
        if type_ == "state.imported":
            set_initial_state(log, event["data"]["document"], version == log.import_end)
        return
    require_promise(type_ in _RULES, "evolving", f"no event is called {type_!r:.80}")
    require_promise(
        first or version > log.import_end, "ordered", f"{type_} was recorded during an import"
    )
    _RULES[type_](log, event)


def _check_beginning(log: CheckedWorkflow, event: Data) -> None:
    data = event["data"]
    log.consent = data.get("consent", "terminal")
    log.import_end = data.get("events", 0)
    log.sessions = 0 if event["type"] == "workflow.created" else None
    set_initial_state(
        log, data["document"], event["type"] == "workflow.imported" and not log.import_end
    )
    begun = [id_ for id_, one in log.stages.items() if one.status != "pending"]
    is_new = event["type"] == "workflow.imported" or not (begun or log.amendments)
    require_promise(
        is_new, "statuses", "a new workflow must start with pending stages and no amendments"
    )
    if data.get("proposed"):
        log.amendments[PLAN] = CheckedAmendment({"amendment": PLAN, "kind": PLAN})


def _get_stage(log: CheckedWorkflow, event: Data) -> CheckedStage:
    name = event["data"]["stage"]
    require_promise(
        name in log.stages, "a job is never lost", f"the workflow has no stage {name!r:.80}"
    )
    return log.stages[name]


def _require_status(log: CheckedWorkflow, event: Data, *statuses: str) -> CheckedStage:
    stage = _get_stage(log, event)
    text = f"{event['data']['stage']} is {stage.status}; expected {' or '.join(statuses)}"
    require_promise(stage.status in statuses, "statuses", text)
    return stage


def _require_dependencies(log: CheckedWorkflow, stage: CheckedStage) -> None:
    missing = [need for need in stage.needs if log.stages[need].status != "completed"]
    require_promise(
        not missing, "order of stages", f"the stage needs completed results of {', '.join(missing)}"
    )


def _require_running_attempt(stage: CheckedStage, named: str | None) -> CheckedAttempt:
    found = stage.open
    if found is None or named not in (None, found.id):
        raise Broken("attempt fencing", f"the attempt {named or ''} is not running")
    return found


def _check_ready(log: CheckedWorkflow, event: Data) -> None:
    is_prepared = event["type"] == "stage.prepared"
    held = ("ready",) if is_prepared else ("pending", "invalidated", "failed")
    stage = _require_status(log, event, *held)
    _require_dependencies(log, stage)
    if stage.status == "failed" and event["data"].get("grown") is not None:
        require_promise(
            stage.short_of is not None and stage.rerun_by is None,
            "retries",
            "the last attempt neither ran out of memory nor exceeded its time limit",
        )
    elif stage.status == "failed":
        named = event["data"].get("amendment")
        require_approved_amendment(log, event, named)
        require_promise(
            stage.rerun_by == named, "consent", f"the stage failed after {named} was approved"
        )
    if not is_prepared:
        stage.blocked, stage.rerun_by = {}, None
    stage.status = "preparing" if is_prepared else "ready"
    stage.retries = 0 if event["data"].get("reset") else stage.retries


def _check_start(log: CheckedWorkflow, event: Data) -> None:
    data, lost = event["data"], event["data"].get("recovers")
    stage = _require_status(log, event, "preparing", *(("running",) if lost else ()))
    _require_dependencies(log, stage)
    require_promise(
        not log.open_amendment_ids,
        "consent",
        f"the attempt starts while {log.open_amendment_ids} waits for a decision",
    )
    expected = f"att-{len(stage.attempts) + 1:04d}"
    require_promise(
        data["attempt"] == expected, "attempt fencing", f"expected the attempt id {expected}"
    )
    if lost is not None:
        before = _require_running_attempt(stage, lost)
        require_promise(
            before.action in ("lost", "continue"),
            "attempt fencing",
            f"{lost} was not recorded as lost",
        )
        alike = data["diagnostic"] == before.diagnostic
        require_promise(
            alike,
            "attempt fencing",
            (
                f"the new attempt and the lost attempt {lost} must both be diagnostic runs, "
                "or both not"
            ),
        )
        before.is_open = False
    require_promise(stage.open is None, "attempt fencing", "another attempt is still running")
    stage.reused = None
    stage.attempts.append(CheckedAttempt(data["attempt"], data["mode"], True, data["diagnostic"]))


def _check_launch(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "preparing", "running"), event["data"]
    attempt = _require_running_attempt(stage, data["attempt"])
    same = (data["mode"] == "sync") == (attempt.mode == "sync")
    require_promise(
        same, "attempt fencing", f"the attempt {attempt.id} was started in the mode {attempt.mode}"
    )
    new = attempt.jobs is None or data["job_ids"] not in ([], attempt.jobs)
    require_promise(
        new, "attempt fencing", f"the launch of {attempt.id} with these jobs was already recorded"
    )
    attempt.jobs = data["job_ids"]
    stage.status = stage.status if data["mode"] == "sync" else "running"


def _check_computed(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "preparing", "running"), event["data"]
    attempt = _require_running_attempt(stage, data["attempt"])
    straight = stage.status == "running" or attempt.mode == "sync"
    require_promise(straight, "statuses", "only a synchronous attempt may skip the status running")
    require_promise(
        data["exit_code"] == 0,
        "verdicts",
        f"the computation ended with exit code {data['exit_code']}",
    )
    require_promise(
        attempt.action != "failed", "verdicts", f"the attempt {attempt.id} was recorded as failed"
    )
    require_promise(not attempt.diagnostic, "verdicts", "a diagnostic run must end as failed")
    attempt.is_open, stage.status = False, "post_processing"


def _check_reuse(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "preparing"), event["data"]
    require_promise(stage.open is None, "attempt fencing", "an attempt is still running")
    require_promise(
        not log.open_amendment_ids,
        "consent",
        f"the stage continues while {log.open_amendment_ids} waits for a decision",
    )
    require_promise(
        data["attempt"] in stage.good, "verified", "the outputs of that attempt were never verified"
    )
    stage.status, stage.reused = "post_processing", data["attempt"]


def _check_completion(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "post_processing"), event["data"]
    failed = [one["name"] for one in data["checks"] if not one["passed"]]
    require_promise(not failed, "verified", f"these checks failed: {', '.join(map(str, failed))}")
    require_promise(
        bool(data["checks"] or data["evidence"]),
        "verified",
        "the event names neither checks nor evidence",
    )
    found = data["attempt"] in (None, stage.source)
    require_promise(
        found, "attempt fencing", "the event names an attempt that is not the newest one"
    )
    outdated = stage.reused is None and any(one.is_outdated for one in stage.attempts[-1:])
    require_promise(
        not outdated, "consent", "an amendment changed the definition after the attempt started"
    )
    stage.status, stage.is_due = "completed", True
    stage.results = {one["path"] for one in data["outputs"]}
    stage.good |= {stage.source} if stage.source else set()


def _check_failure(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, *sorted(ACTIVE)), event["data"]
    stage.rerun_by, stage.short_of = data.get("superseded_by"), data.get("short_of")
    if stage.rerun_by is not None:
        require_permitting_amendment(log, event, stage.rerun_by)
    if data.get("attempt") is not None and stage.status != "post_processing":
        _require_running_attempt(stage, data["attempt"])
    if stage.status == "post_processing" and stage.source:
        stage.refuted.add(stage.source)
    for attempt in stage.attempts[-1:]:
        attempt.is_open = False
    stage.status, stage.reused, stage.is_due = "failed", None, stage.rerun_by is None


def _check_retry(log: CheckedWorkflow, event: Data) -> None:
    stage = _require_status(log, event, "failed")
    _require_dependencies(log, stage)
    found, expected = event["data"]["retry"], stage.retries + 1
    require_promise(
        found == expected, "retries", f"expected retry number {expected}, found {found}"
    )
    stage.status, stage.retries = "ready", expected
    stage.blocked, stage.rerun_by = {}, None


def _check_invalidation(log: CheckedWorkflow, event: Data) -> None:
    skips, named = event["type"] == "stage.skipped", event["data"]["amendment"]
    stage = _require_status(log, event, *(sorted(_ALL) if skips else ("completed", "failed")))
    asked = require_permitting_amendment(log, event, named).data
    is_skip = asked["kind"] == "stage_skip" and asked.get("stage") == event["data"]["stage"]
    require_promise(is_skip or not skips, "consent", "the amendment does not skip the stage")
    stage.rerun_by = None
    stage.status = "skipped" if skips else "invalidated"
    log.is_completed = log.is_completed and skips


def _check_block(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "pending", "ready", "invalidated"), event["data"]
    require_promise(
        data["dependency"] in stage.needs,
        "order of stages",
        "the stage does not depend on that stage",
    )
    found = log.stages[data["dependency"]].status
    require_promise(found == data["dependency_status"], "order of stages", f"that stage is {found}")
    known = stage.blocked.get(data["dependency"])
    require_promise(known != found, "exactly once", "the same block was already recorded")
    stage.blocked[data["dependency"]] = found


def _check_plain_event(log: CheckedWorkflow, event: Data) -> None:
    """Check an event that is allowed at any time.

    Its stage must exist. If it names an amendment (plan change), the amendment must be approved.
    """
    if event["type"] != "note.logged" or event["data"].get("stage") is not None:
        _get_stage(log, event)
    if event["data"].get("amendment") is not None:
        require_permitting_amendment(log, event, event["data"]["amendment"])


def _check_results(log: CheckedWorkflow, event: Data) -> None:
    stage, data = _require_status(log, event, "completed"), event["data"]
    named = [*data.get("files", data.get("outputs")), *data.get("deleted", [])]
    strange = {one["path"] for one in named} - stage.results
    require_promise(
        not strange, "verified", f"the stage has no result {', '.join(sorted(strange))}"
    )


def _record_observation(log: CheckedWorkflow, event: Data) -> None:
    attempt = _require_running_attempt(_get_stage(log, event), event["data"]["attempt"])
    attempt.action = event["data"].get("action", attempt.action)


def _get_attempt(log: CheckedWorkflow, event: Data) -> CheckedAttempt:
    named = event["data"]["attempt"]
    for attempt in _get_stage(log, event).attempts:
        if attempt.id == named:
            return attempt
    raise Broken("attempt fencing", f"the stage has no attempt {named}")


def _check_stop(log: CheckedWorkflow, event: Data) -> None:
    attempt = _get_attempt(log, event)
    require_promise(
        not attempt.is_open, "attempt fencing", f"the attempt {attempt.id} is still running"
    )
    require_promise(
        not attempt.is_stopped, "exactly once", f"the stop of {attempt.id} was already recorded"
    )
    attempt.is_stopped = True


def _check_tasks(log: CheckedWorkflow, event: Data) -> None:
    _get_attempt(log, event)
    total, points = event["data"]["total"], event["data"]["points"]
    states = [event["data"].get(name, "") for name in ("done", "failed", "lost", "running")]
    spans = sorted(span for ranges in states for span in parse_ranges(ranges))
    alone = all(end < start for (_, end), (start, _) in pairwise(spans))
    require_promise(alone, "tasks", "a task has two states")
    require_promise(
        all(end < total for _, end in spans),
        "tasks",
        f"a task number is not below the total of {total}",
    )
    require_promise(
        log.maps.setdefault(points, total) == total,
        "tasks",
        "another event gives another total for the same points",
    )
    over = event["data"].get("record") is not None
    require_promise(
        not (over and states[-1]),
        "tasks",
        "tasks are still running although the record says that all have ended",
    )


def _check_freed_attempt(log: CheckedWorkflow, event: Data) -> None:
    stage = _require_status(log, event, "completed")
    earlier = [one.id for one in stage.attempts[:-1] if one.id != stage.source]
    require_promise(
        event["data"]["attempt"] in earlier,
        "files",
        "the newest attempt and the source of the results keep their files",
    )


def _check_overruling(log: CheckedWorkflow, event: Data) -> None:
    stage = _get_stage(log, event)
    newest = stage.attempts[-1].id if stage.attempts else None
    require_promise(
        event["data"]["attempt"] == newest, "attempt fencing", "the attempt is not the newest one"
    )
    claim = event["data"]["claim"]
    held = stage.open is not None if claim == "computed" else stage.status == "post_processing"
    require_promise(
        held, "statuses", f"a stage with the status {stage.status} cannot be claimed as {claim}"
    )
    require_person_consent(log, event)


def _check_drift(log: CheckedWorkflow, event: Data) -> None:
    data = event["data"]
    if event["type"] == "drift.detected":
        log.drifts[event["version"]] = data["file"]
        return
    found = log.drifts.get(data["detected"])
    if not data.get("rest"):
        log.drifts.pop(data["detected"], None)
    require_promise(
        found == data["file"], "your files stay yours", "no such manual edit waits for a decision"
    )


def _check_session(log: CheckedWorkflow, event: Data) -> None:
    if event["type"] == "session.ended":
        require_promise(log.in_session, "sessions", "no session is open")
        is_completed = event["data"]["reason"] == "completed"
        may_go_on = bool(log.unfinished) or (not is_completed and log.waits_for_points)
        require_promise(
            is_completed != may_go_on,
            "sessions",
            "the reason of the end contradicts the status of the stages",
        )
        log.in_session = False
        return
    number, expected = event["data"]["number"], (log.sessions or 0) + 1
    follows = log.sessions is None or number == expected
    require_promise(follows, "sessions", f"expected session {expected}, found {number}")
    log.sessions, log.in_session = number, True


def _check_charge(log: CheckedWorkflow, event: Data) -> None:
    stage = _get_stage(log, event)
    require_promise(log.in_session, "sessions", "a cost was charged while no session was open")
    require_promise(
        stage.is_due, "exactly once", "a cost was charged, but no stage ended since the last charge"
    )
    stage.is_due = False
    require_promise(event["data"]["weight"] >= 0, "sessions", "a charge must not be negative")


def _check_finish(log: CheckedWorkflow, event: Data) -> None:
    done = event["type"] == "workflow.completed"
    require_promise(
        log.is_completed != done,
        "statuses",
        f"the workflow was {('' if done else 'not ')}completed before",
    )
    left = log.unfinished
    require_promise(
        not (done and left), "statuses", f"these stages are not finished: {', '.join(left)}"
    )
    follows = done or log.last == "amendment.approved"
    require_promise(follows, "consent", "only an approved amendment may reopen a workflow")
    log.is_completed = done


def _check_input_files(log: CheckedWorkflow, event: Data) -> None:
    begun = any(one.attempts for one in log.stages.values())
    first = event["version"] == log.import_end + 1 if log.import_end else not begun
    require_promise(first, "consent", "input files may be recorded only at the start of a workflow")


#: Function that checks a rule → the event types to which the rule applies.
_BY_RULE: dict[Callable[[CheckedWorkflow, Data], object], str] = {
    _check_beginning: "workflow.created workflow.imported",
    _check_finish: "workflow.completed workflow.reopened",
    _check_ready: "stage.readied stage.prepared",
    _check_launch: "stage.launched",
    _check_computed: "stage.computed",
    _check_completion: "stage.completed",
    _check_reuse: "outputs.reused",
    _check_failure: "stage.failed",
    _check_retry: "stage.retried",
    _check_invalidation: "stage.invalidated stage.skipped",
    _check_block: "stage.blocked",
    _check_start: "attempt.started",
    _record_observation: "attempt.observed attempt.relaunched",
    _check_stop: "attempt.stopped",
    _get_attempt: "attempt.left",
    _check_tasks: "tasks.observed",
    _check_freed_attempt: "leftovers.freed",
    _check_plain_event: "outputs.recorded outputs.archived checkpoint.recorded note.logged",
    _check_results: "results.adopted results.changed",
    _check_overruling: "claim.overruled",
    require_person_consent: "audit.agreed",
    check_proposal: "amendment.proposed",
    check_decision: "amendment.approved amendment.rejected",
    _check_session: "session.started session.ended",
    _check_charge: "cost.charged",
    _check_drift: "drift.detected drift.adopted drift.reverted",
    _check_input_files: "files.recorded",
    check_round: "round.begun loop.stopped",
}
_RULES = {type_: rule for rule, types in _BY_RULE.items() for type_ in types.split()}
