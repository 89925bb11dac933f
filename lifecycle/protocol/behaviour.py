"""The protocol of a staged workflow, as its promises say it: could a log have come about?

It says the promises in docs/ and imports none of the rules or folds beside it, so that a fault in
one is seen by the other. Whoever wrote it had read those rules: a promise that both misread is not
seen. It knows less: what an approval is bound to, and how often a stage may be retried, is not its
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lifecycle.protocol.consent import by_a_person, decided, proposed, require_agreed
from lifecycle.protocol.standing import (
    ACTIVE,
    Attempt,
    Breach,
    Broken,
    Chain,
    Data,
    Stage,
    Standing,
    describe,
    hold,
)

_ALL = frozenset({"pending", "ready", "invalidated", "failed", "completed", *ACTIVE})


def first_breach(events: Iterable[tuple[Data, str]]) -> Breach | None:
    """Return the first event that cannot be, None where all can.

    ``events`` are envelopes in order of version, each lifted to the schema of today, with its hash.
    """
    log, envelope = Standing(), Chain()
    for number, (event, hash_) in enumerate(events, 1):
        try:
            envelope.take(event, hash_, number)
            _take(log, event)
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
    known = _RULES.get(type_)
    hold(known is not None, "evolving", f"no event is called {type_!r:.80}")
    if known is not None and version > (0 if first else log.import_end):
        known(log, event)


def _begin(log: Standing, event: Data) -> None:
    data = event["data"]
    log.consent = data.get("consent", "terminal")
    log.import_end = data.get("events", 0)
    log.sessions = 0 if event["type"] == "workflow.created" else None
    describe(log, data["document"], event["type"] == "workflow.imported" and not log.import_end)


def _stage(log: Standing, event: Data) -> Stage:
    name = event["data"]["stage"]
    hold(name in log.stages, "a job is never lost", f"there is no {name!r:.80}")
    return log.stages[name]


def _from(log: Standing, event: Data, *statuses: str) -> Stage:
    stage = _stage(log, event)
    text = f"{event['data']['stage']} is {stage.status}; expected {' or '.join(statuses)}"
    hold(stage.status in statuses, "statuses", text)
    return stage


def _met(log: Standing, stage: Stage) -> None:
    missing = [need for need in stage.needs if log.stages[need].status != "completed"]
    hold(not missing, "order of stages", f"{', '.join(missing)} is not completed")


def _under_way(stage: Stage, named: str | None) -> Attempt:
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
        require_agreed(log, event, event["data"].get("amendment"))
    stage.status = "preparing" if is_prepared else "ready"
    stage.retries = 0 if event["data"].get("reset") else stage.retries


def _started(log: Standing, event: Data) -> None:
    data, lost = event["data"], event["data"].get("recovers")
    stage = _from(log, event, "preparing", *(("running",) if lost else ()))
    _met(log, stage)
    waiting = [id_ for id_, one in log.amendments.items() if one.status == "proposed"]
    hold(not waiting, "consent", f"it starts while {', '.join(waiting)} waits for a decision")
    expected = f"att-{len(stage.attempts) + 1:04d}"
    hold(data["attempt"] == expected, "attempt fencing", f"expected the attempt {expected}")
    if lost is not None:
        before = _under_way(stage, lost)
        hold(before.action == "lost", "attempt fencing", f"{lost} was not observed as lost")
        before.is_open = False
    hold(stage.open is None, "attempt fencing", "another attempt is under way")
    stage.reused = None
    stage.attempts.append(Attempt(data["attempt"], data["mode"], True, data["diagnostic"]))


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
    hold(not attempt.diagnostic, "verdicts", "a diagnostic run ends in failed")
    attempt.is_open, stage.status = False, "post_processing"


def _reused(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "preparing"), event["data"]
    hold(stage.open is None, "attempt fencing", "an attempt is under way")
    hold(data["attempt"] in stage.good, "verified", "the outputs of that attempt never were")
    stage.status, stage.reused = "post_processing", data["attempt"]


def _completed(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "post_processing"), event["data"]
    failed = [one["name"] for one in data["checks"] if not one["passed"]]
    hold(not failed, "verified", f"{', '.join(map(str, failed))} did not pass")
    hold(bool(data["checks"] or data["evidence"]), "verified", "nothing was checked")
    found = data["attempt"] in (None, stage.source)
    hold(found, "attempt fencing", "it is of an earlier attempt")
    stage.status = "completed"
    stage.good |= {stage.source} if stage.source else set()


def _failed(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, *sorted(ACTIVE)), event["data"]
    if data.get("superseded_by") is not None:
        require_agreed(log, event, data["superseded_by"])
    if data.get("attempt") is not None and stage.status != "post_processing":
        _under_way(stage, data["attempt"])
    for attempt in stage.attempts[-1:]:
        attempt.is_open = False
    stage.status, stage.reused = "failed", None


def _retried(log: Standing, event: Data) -> None:
    stage = _from(log, event, "failed")
    _met(log, stage)
    found, expected = event["data"]["retry"], stage.retries + 1
    hold(found == expected, "retries", f"expected retry {expected}, found {found}")
    stage.status, stage.retries = "ready", expected


def _invalidated(log: Standing, event: Data) -> None:
    skips, named = event["type"] == "stage.skipped", event["data"]["amendment"]
    stage = _from(log, event, *(sorted(_ALL) if skips else ("completed", "failed")))
    require_agreed(log, event, named)
    is_skip = log.amendments[named].data.get("kind") == "stage_skip"
    hold(is_skip or not skips, "consent", "the amendment skips nothing")
    stage.status = "skipped" if skips else "invalidated"
    log.is_completed = log.is_completed and skips


def _blocked(log: Standing, event: Data) -> None:
    stage, data = _from(log, event, "pending", "ready", "invalidated"), event["data"]
    hold(data["dependency"] in stage.needs, "order of stages", "it does not depend on that")
    found = log.stages[data["dependency"]].status
    hold(found == data["dependency_status"], "order of stages", f"that stage is {found}")


def _plain(log: Standing, event: Data) -> None:
    """What may be said of a stage at any time, or of one that is completed."""
    statuses = (
        ("completed",) if event["type"].startswith("results.") else sorted(_ALL | {"skipped"})
    )
    _from(log, event, *statuses)


def _of_attempt(log: Standing, event: Data) -> None:
    stage, data = _stage(log, event), event["data"]
    if event["type"] in ("attempt.observed", "attempt.relaunched"):
        _under_way(stage, data["attempt"]).action = data.get("action")
        return
    over = [one.id for one in stage.attempts if not one.is_open]
    known = over if event["type"] == "attempt.stopped" else [one.id for one in stage.attempts]
    hold(data["attempt"] in known, "attempt fencing", f"no {data['attempt']} it can be said of")


def _freed(log: Standing, event: Data) -> None:
    stage = _from(log, event, "completed")
    earlier = [one.id for one in stage.attempts[:-1] if one.id != stage.source]
    hold(event["data"]["attempt"] in earlier, "files", "a result may rest on that attempt")


def _overruled(log: Standing, event: Data) -> None:
    stage = _stage(log, event)
    newest = stage.attempts[-1].id if stage.attempts else None
    hold(event["data"]["attempt"] == newest, "attempt fencing", "it is not the newest attempt")
    by_a_person(log, event)


def _drift(log: Standing, event: Data) -> None:
    data = event["data"]
    if event["type"] == "drift.detected":
        log.drifts[event["version"]] = data["file"]
        return
    found = log.drifts.pop(data["detected"], None)
    hold(found == data["file"], "your files stay yours", "no such change of a file waits")


def _session(log: Standing, event: Data) -> None:
    if event["type"] == "session.ended":
        hold(log.in_session, "sessions", "no session is open")
        log.in_session = False
        return
    number, expected = event["data"]["number"], (log.sessions or 0) + 1
    follows = log.sessions is None or number == expected
    hold(follows, "sessions", f"expected session {expected}, found {number}")
    log.sessions, log.in_session = number, True


def _charged(log: Standing, event: Data) -> None:
    _stage(log, event)
    hold(log.in_session, "sessions", "no session is open that could be charged")
    hold(event["data"]["weight"] >= 0, "sessions", "a charge gives nothing back")


def _finished(log: Standing, event: Data) -> None:
    done = event["type"] == "workflow.completed"
    hold(log.is_completed != done, "statuses", f"it was {'' if done else 'not '}completed before")
    left = [i for i, one in log.stages.items() if one.status not in ("completed", "skipped")]
    hold(not (done and left), "statuses", f"{', '.join(left)} is not finished")
    log.is_completed = done


def _noted(log: Standing, event: Data) -> None:
    """A note may be made at any time."""


def _files(log: Standing, event: Data) -> None:
    begun = any(one.attempts for one in log.stages.values())
    first = event["version"] == log.import_end + 1 if log.import_end else not begun
    hold(first, "consent", "files are recorded where a workflow begins")


#: Rule → the types of the events that it is of.
_BY_RULE: dict[Callable[[Standing, Data], None], str] = {
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
    _of_attempt: "attempt.observed attempt.relaunched attempt.stopped attempt.left tasks.observed",
    _freed: "leftovers.freed",
    _plain: "outputs.recorded outputs.archived checkpoint.recorded results.adopted results.changed",
    _overruled: "claim.overruled",
    proposed: "amendment.proposed",
    decided: "amendment.approved amendment.rejected",
    _session: "session.started session.ended",
    _charged: "cost.charged",
    _drift: "drift.detected drift.adopted drift.reverted",
    _noted: "note.logged",
    _files: "files.recorded",
}
_RULES = {type_: rule for rule, types in _BY_RULE.items() for type_ in types.split()}
