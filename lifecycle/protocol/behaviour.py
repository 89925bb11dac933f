"""The protocol of a staged workflow, as its promises say it: could a log have come about?

It says the promises in docs/ and imports none of the rules or folds beside it, so that a fault in
one is seen by the other. Its author had read those rules: a promise that both misread is not
seen. It knows less: what an approval is bound to, and how often a stage may be retried, is not its
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from lifecycle.protocol.standing import (
    ACTIVE,
    PLAN,
    Breach,
    Broken,
    Chain,
    CheckedAmendment,
    CheckedAttempt,
    CheckedStage,
    Data,
    Standing,
    by_a_person,
    decided,
    describe,
    hold,
    looped,
    proposed,
    require_agreed,
    require_approving,
    spans_of,
)

_ALL = frozenset({"pending", "ready", "invalidated", "failed", "completed", *ACTIVE})


def first_breach(events: Iterable[tuple[Data, str]]) -> Breach | None:
    """Return the first event that cannot be, None if all can.

    ``events`` are envelopes in order of version, each lifted to the schema of today, with its hash.
    """
    log, envelope = Standing(), Chain()
    for number, (event, hash_) in enumerate(events, 1):
        try:
            envelope.take(event, hash_, number)
            _take(log, event)
            log.last = event["type"]
        except Broken as broken:
            return Breach(number, broken.promise, str(broken))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return Breach(number, "evolving", f"its data is not that of its type: {error!r:.200}")
    return None


def _take(log: Standing, event: Data) -> None:
    type_, version = event["type"], event["version"]
    first = type_ in ("workflow.created", "workflow.imported")
    hold(first == (version == 1), "ordered", f"{type_} at version {version}")
    if type_ in ("state.imported", "line.imported"):
        hold(version <= log.import_end, "ordered", "an import is over before it")
        if type_ == "state.imported":
            describe(log, event["data"]["document"], version == log.import_end)
        return
    hold(type_ in _RULES, "evolving", f"no event is called {type_!r:.80}")
    hold(first or version > log.import_end, "ordered", f"{type_} while an import is under way")
    _RULES[type_](log, event)


def _begin(log: Standing, event: Data) -> None:
    data = event["data"]
    log.consent = data.get("consent", "terminal")
    log.import_end = data.get("events", 0)
    log.sessions = 0 if event["type"] == "workflow.created" else None
    describe(log, data["document"], event["type"] == "workflow.imported" and not log.import_end)
    begun = [id_ for id_, one in log.stages.items() if one.status != "pending"]
    is_new = event["type"] == "workflow.imported" or not (begun or log.amendments)
    hold(is_new, "statuses", "a workflow is created before anything of it began")
    if data.get("proposed"):
        log.amendments[PLAN] = CheckedAmendment({"amendment": PLAN, "kind": PLAN})


def _stage(log: Standing, event: Data) -> CheckedStage:
    name = event["data"]["stage"]
    hold(name in log.stages, "a job is never lost", f"there is no {name!r:.80}")
    return log.stages[name]


def _from(log: Standing, event: Data, *statuses: str) -> CheckedStage:
    stage = _stage(log, event)
    text = f"{event['data']['stage']} is {stage.status}; expected {' or '.join(statuses)}"
    hold(stage.status in statuses, "statuses", text)
    return stage


def _met(log: Standing, stage: CheckedStage) -> None:
    missing = [need for need in stage.needs if log.stages[need].status != "completed"]
    hold(not missing, "order of stages", f"{', '.join(missing)} is not completed")


def _under_way(stage: CheckedStage, named: str | None) -> CheckedAttempt:
    found = stage.open
    if found is None or named not in (None, found.id):
        raise Broken("attempt fencing", f"the attempt {named or ''} is not under way")
    return found


def _readied(log: Standing, event: Data) -> None:
    is_prepared = event["type"] == "stage.prepared"
    held = ("ready",) if is_prepared else ("pending", "invalidated", "failed")
    stage = _from(log, event, *held)
    _met(log, stage)
    if stage.status == "failed":
        named = event["data"].get("amendment")
        require_agreed(log, event, named)
        hold(stage.rerun_by == named, "consent", f"it failed after {named} was approved")
    if not is_prepared:
        stage.blocked, stage.rerun_by = {}, None
    stage.status = "preparing" if is_prepared else "ready"
    stage.retries = 0 if event["data"].get("reset") else stage.retries


def _started(log: Standing, event: Data) -> None:
    data, lost = event["data"], event["data"].get("recovers")
    stage = _from(log, event, "preparing", *(("running",) if lost else ()))
    _met(log, stage)
    hold(not log.waiting, "consent", f"it starts while {log.waiting} waits for a decision")
    expected = f"att-{len(stage.attempts) + 1:04d}"
    hold(data["attempt"] == expected, "attempt fencing", f"expected the attempt {expected}")
    if lost is not None:
        before = _under_way(stage, lost)
        hold(before.action == "lost", "attempt fencing", f"{lost} was not observed as lost")
        alike = data["diagnostic"] == before.diagnostic
        hold(alike, "attempt fencing", f"of {lost} and it, one is a diagnostic run")
        before.is_open = False
    hold(stage.open is None, "attempt fencing", "another attempt is under way")
    stage.reused = None
    stage.attempts.append(CheckedAttempt(data["attempt"], data["mode"], True, data["diagnostic"]))


def _launched(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "preparing", "running"), event["data"]
    attempt = _under_way(stage, data["attempt"])
    same = (data["mode"] == "sync") == (attempt.mode == "sync")
    hold(same, "attempt fencing", f"{attempt.id} was started {attempt.mode}")
    new = attempt.jobs is None or data["job_ids"] not in ([], attempt.jobs)
    hold(new, "attempt fencing", f"{attempt.id} was launched before, with these jobs")
    attempt.jobs = data["job_ids"]
    stage.status = stage.status if data["mode"] == "sync" else "running"


def _computed(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "preparing", "running"), event["data"]
    attempt = _under_way(stage, data["attempt"])
    straight = stage.status == "running" or attempt.mode == "sync"
    hold(straight, "statuses", "only a synchronous attempt passes over running")
    hold(data["exit_code"] == 0, "verdicts", f"it ended with exit code {data['exit_code']}")
    hold(attempt.action != "failed", "verdicts", f"{attempt.id} was observed as failed")
    hold(not attempt.diagnostic, "verdicts", "a diagnostic run ends in failed")
    attempt.is_open, stage.status = False, "post_processing"


def _reused(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "preparing"), event["data"]
    hold(stage.open is None, "attempt fencing", "an attempt is under way")
    hold(not log.waiting, "consent", f"it goes on while {log.waiting} waits for a decision")
    hold(data["attempt"] in stage.good, "verified", "the outputs of that attempt never were")
    stage.status, stage.reused = "post_processing", data["attempt"]


def _completed(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "post_processing"), event["data"]
    failed = [one["name"] for one in data["checks"] if not one["passed"]]
    hold(not failed, "verified", f"{', '.join(map(str, failed))} did not pass")
    hold(bool(data["checks"] or data["evidence"]), "verified", "nothing was checked")
    found = data["attempt"] in (None, stage.source)
    hold(found, "attempt fencing", "it is of an earlier attempt")
    outdated = stage.reused is None and any(one.is_outdated for one in stage.attempts[-1:])
    hold(not outdated, "consent", "an amendment changed what it was computed from")
    stage.status, stage.is_due = "completed", True
    stage.results = {one["path"] for one in data["outputs"]}
    stage.good |= {stage.source} if stage.source else set()


def _failed(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, *sorted(ACTIVE)), event["data"]
    stage.rerun_by = data.get("superseded_by")
    if stage.rerun_by is not None:
        require_approving(log, event, stage.rerun_by)
    if data.get("attempt") is not None and stage.status != "post_processing":
        _under_way(stage, data["attempt"])
    if stage.status == "post_processing" and stage.source:
        stage.refuted.add(stage.source)
    for attempt in stage.attempts[-1:]:
        attempt.is_open = False
    stage.status, stage.reused, stage.is_due = "failed", None, stage.rerun_by is None


def _retried(log: Standing, event: Data) -> None:
    stage = _from(log, event, "failed")
    _met(log, stage)
    found, expected = event["data"]["retry"], stage.retries + 1
    hold(found == expected, "retries", f"expected retry {expected}, found {found}")
    stage.status, stage.retries = "ready", expected
    stage.blocked, stage.rerun_by = {}, None


def _invalidated(log: Standing, event: Data) -> None:
    skips, named = event["type"] == "stage.skipped", event["data"]["amendment"]
    stage = _from(log, event, *(sorted(_ALL) if skips else ("completed", "failed")))
    asked = require_approving(log, event, named).data
    is_skip = asked["kind"] == "stage_skip" and asked.get("stage") == event["data"]["stage"]
    hold(is_skip or not skips, "consent", "the amendment does not skip it")
    stage.rerun_by = None
    stage.status = "skipped" if skips else "invalidated"
    log.is_completed = log.is_completed and skips


def _blocked(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "pending", "ready", "invalidated"), event["data"]
    hold(data["dependency"] in stage.needs, "order of stages", "it does not depend on that")
    found = log.stages[data["dependency"]].status
    hold(found == data["dependency_status"], "order of stages", f"that stage is {found}")
    known = stage.blocked.get(data["dependency"])
    hold(known != found, "exactly once", "it was said before")
    stage.blocked[data["dependency"]] = found


def _plain(log: Standing, event: Data) -> None:
    """What may be said of a stage at any time; with an amendment, only as it is approved."""
    if event["type"] != "note.logged" or event["data"].get("stage") is not None:
        _stage(log, event)
    if event["data"].get("amendment") is not None:
        require_approving(log, event, event["data"]["amendment"])


def _results(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "completed"), event["data"]
    strange = {one["path"] for one in data.get("files", data.get("outputs"))} - stage.results
    hold(not strange, "verified", f"{', '.join(sorted(strange))} is no result of it")


def _looked(log: Standing, event: Data) -> None:
    attempt = _under_way(_stage(log, event), event["data"]["attempt"])
    attempt.action = event["data"].get("action", attempt.action)


def _known(log: Standing, event: Data) -> CheckedAttempt:
    named = event["data"]["attempt"]
    for attempt in _stage(log, event).attempts:
        if attempt.id == named:
            return attempt
    raise Broken("attempt fencing", f"there is no {named}")


def _stopped(log: Standing, event: Data) -> None:
    attempt = _known(log, event)
    hold(not attempt.is_open, "attempt fencing", f"{attempt.id} is under way")
    hold(not attempt.is_stopped, "exactly once", f"{attempt.id} was stopped before")
    attempt.is_stopped = True


def _tasks(log: Standing, event: Data) -> None:
    _known(log, event)
    total, points = event["data"]["total"], event["data"]["points"]
    states = [event["data"].get(name, "") for name in ("done", "failed", "lost", "running")]
    spans = sorted(span for ranges in states for span in spans_of(ranges))
    alone = all(end < start for (_, end), (start, _) in pairwise(spans))
    hold(alone, "tasks", "a task is in two states")
    hold(all(end < total for _, end in spans), "tasks", f"it tells of more tasks than {total}")
    hold(log.maps.setdefault(points, total) == total, "tasks", "these points were another number")
    over = event["data"].get("record") is not None
    hold(not (over and states[-1]), "tasks", "tasks run on behind the record of all")


def _freed(log: Standing, event: Data) -> None:
    stage = _from(log, event, "completed")
    earlier = [one.id for one in stage.attempts[:-1] if one.id != stage.source]
    hold(event["data"]["attempt"] in earlier, "files", "a result may rest on that attempt")


def _overruled(log: Standing, event: Data) -> None:
    stage = _stage(log, event)
    newest = stage.attempts[-1].id if stage.attempts else None
    hold(event["data"]["attempt"] == newest, "attempt fencing", "it is not the newest attempt")
    claim = event["data"]["claim"]
    held = stage.open is not None if claim == "computed" else stage.status == "post_processing"
    hold(held, "statuses", f"nobody can say that it is {claim} of a stage that is {stage.status}")
    by_a_person(log, event)


def _drift(log: Standing, event: Data) -> None:
    data = event["data"]
    if event["type"] == "drift.detected":
        log.drifts[event["version"]] = data["file"]
        return
    found = log.drifts.get(data["detected"])
    if not data.get("rest"):
        log.drifts.pop(data["detected"], None)
    hold(found == data["file"], "your files stay yours", "no such change of a file waits")


def _session(log: Standing, event: Data) -> None:
    if event["type"] == "session.ended":
        hold(log.in_session, "sessions", "no session is open")
        is_completed = event["data"]["reason"] == "completed"
        may_go_on = bool(log.unfinished) or (not is_completed and log.waits_for_points)
        hold(is_completed != may_go_on, "sessions", "its reason is not how the stages stand")
        log.in_session = False
        return
    number, expected = event["data"]["number"], (log.sessions or 0) + 1
    follows = log.sessions is None or number == expected
    hold(follows, "sessions", f"expected session {expected}, found {number}")
    log.sessions, log.in_session = number, True


def _charged(log: Standing, event: Data) -> None:
    stage = _stage(log, event)
    hold(log.in_session, "sessions", "no session is open that could be charged")
    hold(stage.is_due, "exactly once", "nothing ended that was not charged")
    stage.is_due = False
    hold(event["data"]["weight"] >= 0, "sessions", "a charge gives nothing back")


def _finished(log: Standing, event: Data) -> None:
    done = event["type"] == "workflow.completed"
    hold(log.is_completed != done, "statuses", f"it was {'' if done else 'not '}completed before")
    left = log.unfinished
    hold(not (done and left), "statuses", f"{', '.join(left)} is not finished")
    follows = done or log.last == "amendment.approved"
    hold(follows, "consent", "an approval reopens a workflow, and nothing else")
    log.is_completed = done


def _files(log: Standing, event: Data) -> None:
    begun = any(one.attempts for one in log.stages.values())
    first = event["version"] == log.import_end + 1 if log.import_end else not begun
    hold(first, "consent", "files are recorded where a workflow begins")


#: Rule → the types of the events that it is of.
_BY_RULE: dict[Callable[[Standing, Data], object], str] = {
    _begin: "workflow.created workflow.imported",
    _finished: "workflow.completed workflow.reopened",
    _readied: "stage.readied stage.prepared",
    _launched: "stage.launched",
    _computed: "stage.computed",
    _completed: "stage.completed",
    _reused: "outputs.reused",
    _failed: "stage.failed",
    _retried: "stage.retried",
    _invalidated: "stage.invalidated stage.skipped",
    _blocked: "stage.blocked",
    _started: "attempt.started",
    _looked: "attempt.observed attempt.relaunched",
    _stopped: "attempt.stopped",
    _known: "attempt.left",
    _tasks: "tasks.observed",
    _freed: "leftovers.freed",
    _plain: "outputs.recorded outputs.archived checkpoint.recorded note.logged",
    _results: "results.adopted results.changed",
    _overruled: "claim.overruled",
    proposed: "amendment.proposed",
    decided: "amendment.approved amendment.rejected",
    _session: "session.started session.ended",
    _charged: "cost.charged",
    _drift: "drift.detected drift.adopted drift.reverted",
    _files: "files.recorded",
    looped: "round.begun loop.stopped",
}
_RULES = {type_: rule for rule, types in _BY_RULE.items() for type_ in types.split()}
