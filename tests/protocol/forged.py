"""Forged logs: each is a valid log with one more event that breaks a rule of the protocol."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

Event = dict[str, Any]


def one(type_: str, *, command: str | None = None, actor: str = "user", **data: Any) -> Event:
    """Return an event with type, data and actor, but without version and hashes."""
    return {"type": type_, "data": data, "command_id": command, "actor": {"kind": actor}}


def linked(events: list[Event]) -> list[Event]:
    """Return copies of the events with versions and hashes that link them to a log.

    Envelope fields that an event already has are kept.
    """
    before, made = "0" * 64, []
    for number, event in enumerate(deepcopy(events), 1):
        usual = {"version": number, "stream": "workflow-w", "event_id": f"event-{number}"}
        whole = {**usual, "prev_hash": before, **event, "hash": f"{number:064x}"}
        whole["command_id"] = whole["command_id"] or f"command-{number}"
        before = whole["hash"]
        made.append(whole)
    return made


def begun(stage: str = "a", number: int = 1, **data: Any) -> list[Event]:
    """Return the event of an attempt's start, as a list."""
    usual = {"attempt": f"att-{number:04d}", "mode": "setsid", "diagnostic": False}
    return [one("attempt.started", stage=stage, **{**usual, **data})]


def of(type_: str, number: int = 1, stage: str = "a", **data: Any) -> Event:
    """Return an event of the given type about an attempt."""
    return one(type_, stage=stage, attempt=f"att-{number:04d}", **data)


def launch(number: int = 1, **data: Any) -> Event:
    """Return the event of an attempt's launch."""
    return of("stage.launched", number, **{"mode": "setsid", "job_ids": ["1"], **data})


def complete(number: int = 1, stage: str = "a", **data: Any) -> Event:
    """Return the event that completes a stage, with evidence and one output."""
    usual = {"checks": [], "evidence": "seen", "outputs": [{"path": "a/out"}]}
    return of("stage.completed", number, stage, **{**usual, **data})


def propose(number: int = 1, **data: Any) -> Event:
    """Return the event of a proposed amendment, by default a rerun of stage a."""
    usual = {"kind": "stage_rerun", "stage": "a", "changes": {}}
    return one("amendment.proposed", amendment=f"amend-{number}", **{**usual, **data})


def approve(number: int = 1, *affected: str, actor: str = "user", **data: Any) -> Event:
    """Return the event of an approved amendment, with a proof under the policy `trust`."""
    proof = {"policy": "trust", "statement": "0" * 64}
    name, stages = f"amend-{number}", {"invalidated_stages": list(affected)}
    usual = {"amendment": name, "version": number + 1, "proof": proof, **stages}
    return one("amendment.approved", command=f"approve-{number}", actor=actor, **{**usual, **data})


def by(number: int, type_: str, **data: Any) -> Event:
    """Return an event that follows from an approval and has the same command id."""
    return one(type_, command=f"approve-{number}", **{"stage": "a", **data})


def tasks(**data: Any) -> Event:
    """Return an observation of the tasks of an attempt."""
    return of(
        "tasks.observed", **{"total": 3, "points": "p", "done": "0", "running": "1-2", **data}
    )


def imported(*events: Event, length: int = 2, **document: Any) -> list[Event]:
    """Return the two events of an import, followed by the given events."""
    known = {"stages": [{"id": "a", "status": "ready"}], **document}
    first = one("workflow.imported", document=known, consent="trust", events=length)
    return [first, one("state.imported", document=known), *events]


DOCUMENT = {"stages": [{"id": "a"}, {"id": "b", "depends_on": ["a"]}, {"id": "c"}]}
CREATED = [one("workflow.created", document=DOCUMENT, consent="trust")]
READY = [*CREATED, one("stage.readied", stage="a")]
PREPARED = [*READY, one("stage.prepared", stage="a")]
STARTED = [*PREPARED, *begun()]
LAUNCHED = [*STARTED, launch()]
LOST = [*LAUNCHED, of("attempt.observed", action="lost")]
COMPUTED = [*LAUNCHED, of("stage.computed", exit_code=0)]
DONE = [*COMPUTED, complete()]
FAILED = [*LAUNCHED, one("stage.failed", stage="a", error="e")]
FREE = [*FAILED, one("stage.retried", stage="a", fix="f", retry=1)]
ANEW = [*FREE, one("stage.prepared", stage="a")]
DIAGNOSTIC = [*ANEW, *begun(number=2, diagnostic=True), launch(2)]
RERUN = [*DONE, propose(), approve(1, "a"), by(1, "stage.invalidated", amendment="amend-1")]
AGAIN = [*RERUN, one("stage.readied", stage="a", reset=True), one("stage.prepared", stage="a")]
TWICE = [*AGAIN, *begun(number=2), launch(2), of("stage.computed", 2, exit_code=0)]
REUSED = [*AGAIN, of("outputs.reused")]
RUNNING_OVERTAKEN = [*COMPUTED, propose(), approve(1, "a")]
REFUTED = [*COMPUTED, of("stage.failed")]
_OTHER = {"parameters": {"verify": {"new": "true"}, "n": {"new": 2}}}
_VERIFY = {"parameters": {"verify": {"new": "true"}}}
JUDGED_OTHERWISE = [propose(kind="parameter_change", changes=_VERIFY), approve(1, "a")]
JUDGED_ANEW = [
    *REFUTED,
    propose(kind="criteria_change"),
    approve(1, "a"),
    one("stage.retried", stage="a", retry=1),
    one("stage.prepared", stage="a"),
]
AGREED = [*FAILED, propose(), approve(1)]
SKIPPED = [
    *FAILED,
    propose(kind="stage_skip"),
    approve(1, "b"),
    by(1, "stage.skipped", amendment="amend-1"),
]
ALL_OVER = [
    *CREATED[:0],
    one("workflow.created", document={"stages": [{"id": "a"}]}, consent="trust"),
    *DONE[1:],
    one("workflow.completed", stages=1),
]
SESSION = [*CREATED, one("session.started", number=1)]
IN_SESSION = [CREATED[0], SESSION[1], *DONE[1:]]
BLOCK = one("stage.blocked", stage="b", dependency="a", dependency_status="failed")
SIGNED = one("workflow.created", document=DOCUMENT, consent="signature")
TERMINAL = one("workflow.created", document=DOCUMENT, consent="terminal")
PROPOSED = one("workflow.created", document=DOCUMENT, consent="signature", proposed=True)
NOTE = one("note.logged", text="t")
DRIFT = [*CREATED, one("drift.detected", file="plan.json", kept_as="x", differences=[{}])]
_TERMINAL = {"policy": "terminal", "statement": "0" * 64}
_SIGNATURE = {**_TERMINAL, "policy": "signature", "signature": "s", "signer": "ann"}


_OF_A = {"m": {"stages": ["a"], "amendments": 1}}
ALLOWED = [
    one("workflow.created", document={**DOCUMENT, "mandates": _OF_A}, consent="signature"),
    *DONE[1:],
    propose(kind="parameter_change", changes={"parameters": {"n": {"new": 2}}}),
]
_MANDATE = {"policy": "mandate", "mandate": "m", "statement": "0" * 64}
BY_MANDATE = [*ALLOWED, approve(1, "a", proof=_MANDATE, actor="agent")]
TAKEN_BACK = [
    ALLOWED[0],
    propose(kind="parameter_change", stage=None, changes={"mandates": {"m": {}}}),
    approve(proof=_SIGNATURE),
    propose(2, kind="stage_rerun"),
]


def further(number: int = 2, *points: Any, **data: Any) -> Event:
    """Return the event that starts the given round of a loop."""
    known = {"loop": "l", "round": number, "points": [*points] or [{"x": 2}], "by": "x"}
    return one("round.begun", **{**known, **data})


_LOOP = {"l": {"stages": ["a"], "points": "a", "ask": "agent", "at_most": 3, "each": 2}}
LOOPED = [
    one("workflow.created", document={**DOCUMENT, "rounds": _LOOP}, consent="trust"),
    *DONE[1:],
]
ROUND_2 = [
    *LOOPED,
    further(),
    one("stage.prepared", stage="a"),
    *begun(number=2),
    launch(2),
    of("stage.computed", 2, exit_code=0),
    complete(2),
]
STOPPED = [*LOOPED, one("loop.stopped", loop="l", reason="r")]
_SHORT = {"l": {"stages": ["a"], "points": "a", "ask": "agent", "at_most": 1}}
SHORTENED = [
    *LOOPED,
    propose(kind="parameter_change", stage=None, changes={"rounds": {"l": {"new": _SHORT["l"]}}}),
    approve(),
]


def agree(version: int = 1, **proof: str) -> Event:
    """Return the event that approves the initial plan."""
    return approve(amendment="plan", version=version, proof={**_SIGNATURE, **proof})


#: The event that records the digests of scripts at the start of a workflow.
SCRIPTS = one("files.recorded", scripts={"verify.sh": "0" * 64}, attempts={})

#: Valid logs that together contain every type of event and every allowed order.
GOOD: tuple[list[Event], ...] = (
    BY_MANDATE,
    TAKEN_BACK,
    ROUND_2,
    STOPPED,
    SHORTENED,
    [*CREATED, SCRIPTS],
    imported(SCRIPTS),
    LOST,
    [*LOST, *begun(number=2, recovers="att-0001"), launch(2)],
    [*LOST, of("attempt.observed", action="wait"), of("stage.computed", exit_code=0)],
    [
        *LAUNCHED,
        of("attempt.relaunched"),
        launch(job_ids=["2"]),
        tasks(),
        tasks(done="0-2", running=""),
    ],
    [*PREPARED, *begun(mode="sync"), launch(mode="sync"), of("stage.computed", exit_code=0)],
    [*FAILED, BLOCK, of("attempt.stopped"), of("attempt.left")],
    [*FAILED, BLOCK, one("stage.retried", stage="a", retry=1)],
    [*DIAGNOSTIC, of("stage.failed", 2, error="e")],
    [*TWICE, complete(2), of("leftovers.freed")],
    [*REUSED, complete()],
    [*JUDGED_ANEW, of("outputs.reused")],
    [*AGREED, one("stage.readied", stage="a", amendment="amend-1", reset=True)],
    [*RUNNING_OVERTAKEN, by(1, "stage.failed", superseded_by="amend-1")],
    [*COMPUTED, propose(kind="criteria_change"), approve(1, "a"), complete()],
    [*LAUNCHED, *JUDGED_OTHERWISE, of("stage.computed", exit_code=0), complete()],
    [*RERUN, by(1, "outputs.archived", amendment="amend-1")],
    [*SKIPPED, by(1, "outputs.recorded")],
    [
        *DONE,
        propose(),
        one("amendment.rejected", amendment="amend-1"),
        propose(2),
        approve(2, version=2),
    ],
    [*DONE, one("results.changed", stage="a", files=[{"path": "a/out"}])],
    [*DONE, one("results.adopted", stage="a", outputs=[{"path": "a/out"}])],
    [*DONE, one("stage.readied", stage="b"), one("checkpoint.recorded", stage="b")],
    [*ALL_OVER, propose(), approve(), by(1, "workflow.reopened")],
    [*ALL_OVER, one("session.started", number=1), one("session.ended", reason="completed")],
    [*SESSION, one("session.started", number=2), one("session.ended", reason="waiting")],
    [*IN_SESSION, one("cost.charged", stage="a", weight=1)],
    [*LAUNCHED, of("claim.overruled", claim="computed", proof=approve()["data"]["proof"])],
    [*COMPUTED, of("claim.overruled", claim="over", proof=approve()["data"]["proof"])],
    [*LAUNCHED, one("audit.agreed", entry="3f9c", proof=approve()["data"]["proof"])],
    [*DRIFT, one("drift.adopted", file="plan.json", detected=2)],
    [*DRIFT, one("drift.reverted", file="plan.json", detected=2)],
    [TERMINAL, propose(), approve(proof=_TERMINAL)],
    [SIGNED, propose(), approve(proof=_SIGNATURE)],
    [PROPOSED, agree(typed="y"), *PREPARED[1:], *begun()],
    [PROPOSED, one("amendment.rejected", amendment="plan"), agree(typed="y")],
    [*CREATED, one("note.logged", text="t"), one("note.logged", text="t", stage="a")],
    imported(one("stage.prepared", stage="a"), *begun()),
    [imported(length=3)[0], one("line.imported"), imported()[1]],
)


class Forged(NamedTuple):
    """A valid log, an event that must not follow it, and the broken promise (group of rules)."""

    good: list[Event]
    event: Event
    promise: str


_WAITS = propose(kind="parameter_change", stage="c")
_TO_SKIP = [*FAILED, propose(kind="stage_skip"), approve(1, "b")]


#: For each forged log, by name: the valid log, the forged event, and the broken promise.
_ROWS: dict[str, tuple[list[Event], Event, str]] = {
    "a second beginning": (CREATED, CREATED[0], "ordered"),
    "an end before the beginning": ([], one("note.logged", text="t"), "ordered"),
    "an import that is over": (CREATED, one("line.imported"), "ordered"),
    "a state that is imported late": (imported(), imported()[1], "ordered"),
    "an event amid an import": (imported(length=3)[:1], one("note.logged"), "ordered"),
    "a type that is not": (CREATED, one("stage.made-up", stage="a"), "evolving"),
    "a field that is missing": (STARTED, one("stage.launched", stage="a"), "evolving"),
    "created and begun": (
        [],
        one("workflow.created", document={"stages": [{"id": "a", "status": "completed"}]}),
        "statuses",
    ),
    "readied without its need": (READY, one("stage.readied", stage="b"), "order of stages"),
    "readied twice": (READY, READY[-1], "statuses"),
    "readied from failed by nobody": (FAILED, READY[-1], "consent"),
    "readied by an amendment of before": (
        [*RERUN, *TWICE[len(RERUN) :], of("stage.failed", 2)],
        one("stage.readied", stage="a", amendment="amend-1"),
        "consent",
    ),
    "prepared twice": (PREPARED, PREPARED[-1], "statuses"),
    "started when not prepared": (READY, begun()[0], "statuses"),
    "started while one waits for a decision": ([*PREPARED, _WAITS], begun()[0], "consent"),
    "started with another number": (PREPARED, begun(number=2)[0], "attempt fencing"),
    "started beside another": (STARTED, begun(number=2)[0], "attempt fencing"),
    "recovered though it was not lost": (
        LAUNCHED,
        begun(number=2, recovers="att-0001")[0],
        "attempt fencing",
    ),
    "a diagnostic run in place of another": (
        LOST,
        begun(number=2, recovers="att-0001", diagnostic=True)[0],
        "attempt fencing",
    ),
    "recovered, of one that is not": (
        LOST,
        begun(number=2, recovers="att-0009")[0],
        "attempt fencing",
    ),
    "launched and never started": (PREPARED, launch(), "attempt fencing"),
    "launched after computed": (COMPUTED, launch(job_ids=["2"]), "statuses"),
    "launched as another mode": (STARTED, launch(mode="sync"), "attempt fencing"),
    "launched twice alike": (LAUNCHED, launch(), "attempt fencing"),
    "computed and never launched": (STARTED, of("stage.computed", exit_code=0), "statuses"),
    "computed with an exit code": (LAUNCHED, of("stage.computed", exit_code=1), "verdicts"),
    "computed though it was seen to fail": (
        [*LAUNCHED, of("attempt.observed", action="failed")],
        of("stage.computed", exit_code=0),
        "verdicts",
    ),
    "a diagnostic run computed": (
        DIAGNOSTIC,
        of("stage.computed", 2, exit_code=0),
        "verdicts",
    ),
    "computed twice": (COMPUTED, COMPUTED[-1], "statuses"),
    "completed and not computed": (LAUNCHED, complete(), "statuses"),
    "completed on a check that failed": (
        COMPUTED,
        complete(checks=[{"name": "n", "passed": False}]),
        "verified",
    ),
    "completed on nothing": (COMPUTED, complete(evidence=None), "verified"),
    "completed by an earlier attempt": (TWICE, complete(), "attempt fencing"),
    "completed from what was changed": (RUNNING_OVERTAKEN, complete(), "consent"),
    "completed from another parameter": (
        [*COMPUTED, propose(kind="parameter_change", changes=_OTHER), approve(1, "a")],
        complete(),
        "consent",
    ),
    "reused beside an attempt": (
        [*AGAIN, *begun(number=2)],
        of("outputs.reused"),
        "attempt fencing",
    ),
    "reused while one waits for a decision": (
        [*AGAIN, propose(2, kind="parameter_change", stage="c")],
        of("outputs.reused"),
        "consent",
    ),
    "reused and never verified": (ANEW, of("outputs.reused"), "verified"),
    "reused though it was found bad": (
        [*REFUTED, *JUDGED_ANEW[-2:]],
        of("outputs.reused"),
        "verified",
    ),
    "reused when not prepared": (RERUN, of("outputs.reused"), "statuses"),
    "failed when it is over": (FAILED, of("stage.failed"), "statuses"),
    "failed by another attempt": (LAUNCHED, of("stage.failed", 2), "attempt fencing"),
    "superseded by nothing": (LAUNCHED, by(1, "stage.failed", superseded_by="amend-1"), "consent"),
    "superseded afterwards": (
        RUNNING_OVERTAKEN,
        one("stage.failed", stage="a", superseded_by="amend-1"),
        "all or none",
    ),
    "retried and not failed": (DONE, one("stage.retried", stage="a", retry=1), "statuses"),
    "retried with another number": (
        FAILED,
        one("stage.retried", stage="a", retry=2),
        "retries",
    ),
    "skipped by nothing": (READY, by(1, "stage.skipped", amendment="amend-1"), "consent"),
    "skipped twice": (SKIPPED, SKIPPED[-1], "statuses"),
    "skipped by another kind": (RERUN, by(1, "stage.skipped", amendment="amend-1"), "consent"),
    "skipped, as another is": (
        _TO_SKIP,
        by(1, "stage.skipped", stage="b", amendment="amend-1"),
        "consent",
    ),
    "skipped by one that waits": (
        [*READY, propose(kind="stage_skip")],
        by(1, "stage.skipped", amendment="amend-1"),
        "consent",
    ),
    "invalidated and not completed": (RERUN, RERUN[-1], "statuses"),
    "invalidated out of reach": (
        [*FAILED, propose(stage="c"), approve(1)],
        RERUN[-1],
        "consent",
    ),
    "invalidated by an approval of before": (
        [*TWICE, complete(2)],
        one("stage.invalidated", stage="a", amendment="amend-1"),
        "all or none",
    ),
    "blocked by another": (
        FAILED,
        {**BLOCK, "data": {**BLOCK["data"], "dependency": "c"}},
        "order of stages",
    ),
    "blocked by what did not fail": (DONE, BLOCK, "order of stages"),
    "blocked twice": ([*FAILED, BLOCK], BLOCK, "exactly once"),
    "blocked when it is under way": (
        FAILED,
        {**BLOCK, "data": {**BLOCK["data"], "stage": "a"}},
        "statuses",
    ),
    "a stage that is not": (CREATED, one("stage.readied", stage="z"), "a job is never lost"),
    "a checkpoint of none": (
        CREATED,
        one("checkpoint.recorded", stage="z"),
        "a job is never lost",
    ),
    "outputs of none": (CREATED, one("outputs.recorded", stage="z"), "a job is never lost"),
    "a note on none": (CREATED, one("note.logged", stage="z"), "a job is never lost"),
    "archived by nothing": (DONE, by(1, "outputs.archived", amendment="amend-1"), "consent"),
    "changed results of what runs": (
        COMPUTED,
        one("results.changed", stage="a", files=[]),
        "statuses",
    ),
    "changed results that are not results": (
        DONE,
        one("results.changed", stage="a", files=[{"path": "a/other"}]),
        "verified",
    ),
    "adopted results that are not results": (
        DONE,
        one("results.adopted", stage="a", outputs=[{"path": "a/other"}]),
        "verified",
    ),
    "observed and never started": (
        PREPARED,
        of("attempt.observed", action="wait"),
        "attempt fencing",
    ),
    "observed when it is over": (FAILED, of("attempt.observed", action="wait"), "attempt fencing"),
    "relaunched when it is over": (FAILED, of("attempt.relaunched"), "attempt fencing"),
    "left by no attempt": (PREPARED, of("attempt.left"), "attempt fencing"),
    "stopped under way": (LAUNCHED, of("attempt.stopped"), "attempt fencing"),
    "stopped twice": ([*FAILED, of("attempt.stopped")], of("attempt.stopped"), "exactly once"),
    "tasks of no attempt": (PREPARED, tasks(), "attempt fencing"),
    "a task in two states": (LAUNCHED, tasks(failed="2"), "tasks"),
    "a task too many": (LAUNCHED, tasks(running="1-3"), "tasks"),
    "more tasks of the same points": ([*LAUNCHED, tasks()], tasks(total=4), "tasks"),
    "tasks that run behind the end": (LAUNCHED, tasks(record={}), "tasks"),
    "freed, of the newest": ([*TWICE, complete(2)], of("leftovers.freed", 2), "files"),
    "freed, of what is under way": (TWICE, of("leftovers.freed"), "statuses"),
    "overruled, of an earlier attempt": (
        TWICE,
        of("claim.overruled", claim="over", proof=approve()["data"]["proof"]),
        "attempt fencing",
    ),
    "overruled when it is over": (
        FAILED,
        of("claim.overruled", claim="computed", proof=approve()["data"]["proof"]),
        "statuses",
    ),
    "overruled without a proof": (
        LAUNCHED,
        of("claim.overruled", claim="computed", proof={}),
        "consent",
    ),
    "agreed without a proof": (LAUNCHED, one("audit.agreed", entry="3f9c", proof={}), "consent"),
    "adopted, of another file": (
        DRIFT,
        one("drift.adopted", file="z", detected=2),
        "your files stay yours",
    ),
    "reverted and never seen": (
        CREATED,
        one("drift.reverted", file="plan.json", detected=2),
        "your files stay yours",
    ),
    "a session that never began": (
        CREATED,
        one("session.ended", reason="waiting"),
        "sessions",
    ),
    "a session that completed too little": (
        SESSION,
        one("session.ended", reason="completed"),
        "sessions",
    ),
    "a session left out": (SESSION, one("session.started", number=3), "sessions"),
    "a charge to no session": (
        DONE,
        one("cost.charged", stage="a", weight=1),
        "sessions",
    ),
    "a charge for nothing": (
        SESSION,
        one("cost.charged", stage="a", weight=1),
        "exactly once",
    ),
    "a charge that gives back": (
        IN_SESSION,
        one("cost.charged", stage="a", weight=-1),
        "sessions",
    ),
    "completed twice": (ALL_OVER, ALL_OVER[-1], "statuses"),
    "all completed too early": (DONE, one("workflow.completed", stages=3), "statuses"),
    "reopened, and open": (
        [*DONE, propose(), approve()],
        by(1, "workflow.reopened"),
        "statuses",
    ),
    "reopened by nothing": (ALL_OVER, one("workflow.reopened", reason="r"), "consent"),
    "one number for two proposals": ([*DONE, propose()], propose(stage="c"), "consent"),
    "a number left out": (DONE, propose(2), "consent"),
    "a proposal for none": (DONE, propose(stage="z"), "a job is never lost"),
    "approved and never proposed": (DONE, approve(), "consent"),
    "approved twice": (
        [*DONE, propose(), approve()],
        {**approve(version=3), "command_id": None},
        "consent",
    ),
    "rejected twice": (
        [*DONE, propose(), one("amendment.rejected", amendment="amend-1")],
        one("amendment.rejected", amendment="amend-1"),
        "consent",
    ),
    "approved with a number of before": ([*DONE, propose()], approve(version=1), "consent"),
    "approved by another policy": ([*DONE, propose()], approve(proof=_TERMINAL), "consent"),
    "approved by no proof": ([*DONE, propose()], approve(proof={"policy": "trust"}), "consent"),
    "approved by an agent": (
        [TERMINAL, propose()],
        approve(proof=_TERMINAL, actor="agent"),
        "consent",
    ),
    "started by no approved plan": ([PROPOSED, *PREPARED[1:]], begun()[0], "consent"),
    "signed by signers that nobody agreed to": ([PROPOSED], agree(), "consent"),
    "a plan approved as a change": ([PROPOSED], agree(2, typed="y"), "consent"),
    "approved and not signed": (
        [SIGNED, propose()],
        approve(proof={**_TERMINAL, "policy": "signature"}),
        "consent",
    ),
    "inserted, though there is one": (
        [*DONE, propose(kind="stage_insert", stage=None, insert={"id": "c"})],
        approve(),
        "consent",
    ),
    "a round of no loop": (LOOPED, further(loop="m"), "exactly once"),
    "a round twice": (ROUND_2, further(2), "exactly once"),
    "a round left out": (LOOPED, further(3), "exactly once"),
    "a round while one goes on": (ROUND_2[:-1], further(3), "order of stages"),
    "a round more than agreed to": (SHORTENED, further(), "consent"),
    "a round of too many points": (LOOPED, further(2, {}, {}, {}), "consent"),
    "a round while a change waits": ([*LOOPED, propose()], further(), "consent"),
    "a round after a stop": (STOPPED, further(), "exactly once"),
    "a loop stopped twice": (STOPPED, STOPPED[-1], "exactly once"),
    "by a mandate that is used up": (
        [*BY_MANDATE, propose(2, kind="stage_rerun")],
        approve(2, proof=_MANDATE),
        "consent",
    ),
    "by a mandate for another stage": (
        [ALLOWED[0], propose(kind="stage_rerun", stage="b")],
        approve(proof=_MANDATE),
        "consent",
    ),
    "by a mandate, and of no statement": (
        ALLOWED,
        approve(proof={**_MANDATE, "statement": "0"}),
        "consent",
    ),
    "by a mandate that was taken back": (TAKEN_BACK, approve(2, proof=_MANDATE), "consent"),
    "of another version": (CREATED, {**NOTE, "version": 3}, "ordered"),
    "of another stream": (CREATED, {**NOTE, "stream": "workflow-x"}, "ordered"),
    "behind another event": (CREATED, {**NOTE, "prev_hash": "f" * 64}, "tamper-evident"),
    "an id that was given": (CREATED, {**NOTE, "event_id": "event-1"}, "exactly once"),
    "a command that was over": (DRIFT, {**NOTE, "command_id": "command-1"}, "all or none"),
    "files after an attempt": (STARTED, SCRIPTS, "consent"),
    "files long after an import": (imported(NOTE), SCRIPTS, "consent"),
    "of nobody": (CREATED, {**NOTE, "actor": {"kind": "nobody"}}, "ordered"),
}

#: The same forged logs as named tuples.
FORGED = {name: Forged(*row) for name, row in _ROWS.items()}
