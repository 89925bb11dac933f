"""The state that the protocol check derives from the events, and the promises of consent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Data: TypeAlias = Mapping[str, Any]

#: Statuses in which a stage can have an open attempt.
ACTIVE = frozenset({"preparing", "running", "post_processing"})
_ACTORS = frozenset({"user", "agent", "reconciler", "runner", "import"})
START = "0" * 64
#: The id and the kind of the initial plan.
PLAN = "plan"


class Breach(NamedTuple):
    """The first event that breaks a promise: its version, the promise, and the reason."""

    version: int
    promise: str
    message: str


class Broken(Exception):
    """An event that breaks a promise of the protocol."""

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(message)
        self.promise = promise


def require_promise(held: bool, promise: str, message: str) -> None:
    """Raise `Broken` unless the promise is kept."""
    if not held:
        raise Broken(promise, message)


@dataclass
class CheckedAttempt:
    """One run of a stage; open until its end is recorded."""

    id: str
    mode: str
    is_open: bool = True
    diagnostic: bool = False
    action: str | None = None
    #: The jobs of the launch, None before the launch.
    jobs: list[str] | None = None
    #: Whether all processes of the attempt were found to be stopped.
    is_stopped: bool = False
    #: Whether an amendment changed the inputs of the running attempt.
    is_outdated: bool = False


@dataclass
class CheckedStage:
    """The dependencies of a stage, and its status."""

    needs: list[str]
    status: str = "pending"
    retries: int = 0
    attempts: list[CheckedAttempt] = field(default_factory=list)
    #: The attempt whose kept outputs the stage reuses, and the attempts with verified outputs.
    reused: str | None = None
    good: set[str] = field(default_factory=set)
    #: Attempts with rejected outputs; an amendment may allow a new verification.
    refuted: set[str] = field(default_factory=set)
    #: Paths of the verified results.
    results: set[str] = field(default_factory=set)
    #: Failed dependency → its status, as recorded.
    blocked: dict[str, str] = field(default_factory=dict)
    #: The amendment that allows a new run without a retry.
    rerun_by: str | None = None
    #: Whether the stage ended and no session was charged for it.
    is_due: bool = False

    @property
    def source(self) -> str | None:
        """The attempt that produced the outputs."""
        return self.reused or (self.attempts[-1].id if self.attempts else None)

    @property
    def open(self) -> CheckedAttempt | None:
        """The attempt that is still running."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].is_open else None


@dataclass
class CheckedAmendment:
    """A proposed amendment, its status, and the stages that its approval affects."""

    data: Data
    status: str = "proposed"
    reach: frozenset[str] = frozenset()
    #: The command that approved the amendment and recorded all its consequences.
    command: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still be approved; a rejected plan can be approved later."""
        is_plan = self.data.get("kind") == PLAN
        return self.status == "proposed" or (is_plan and self.status == "rejected")


@dataclass
class Standing:
    """The state after the events so far."""

    stages: dict[str, CheckedStage] = field(default_factory=dict)
    amendments: dict[str, CheckedAmendment] = field(default_factory=dict)
    drifts: dict[int, str] = field(default_factory=dict)
    #: Digest of the keys of a sweep's tasks → the number of tasks.
    maps: dict[str, int] = field(default_factory=dict)
    #: The type of the previous event.
    last: str = ""
    consent: str = "terminal"
    #: The mandates by name, and the number of amendments that took effect by each mandate.
    mandates: Data = field(default_factory=dict)
    by_mandate: dict[str, int] = field(default_factory=dict)
    #: The loops by name, the number of the last round, and the loops that have ended.
    loops: Data = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    changes: int = 1
    sessions: int | None = 0
    in_session: bool = False
    is_completed: bool = False
    import_end: int = 0

    @property
    def unfinished(self) -> list[str]:
        """The stages that are neither completed nor skipped."""
        return [k for k, one in self.stages.items() if one.status not in ("completed", "skipped")]

    @property
    def waits_for_points(self) -> bool:
        """Whether another round may follow, unless a limit ended the loop."""
        limits = {
            name: loop.get("at_most") for name, loop in self.loops.items() if isinstance(loop, dict)
        }
        return any(
            isinstance(limit, int) and self.rounds.get(name, 1) < limit
            for name, limit in limits.items()
            if name not in self.over
        )

    @property
    def waiting(self) -> str:
        """The amendments that wait for a decision."""
        return ", ".join(id_ for id_, one in self.amendments.items() if one.is_open)


@dataclass
class Chain:
    """The promises of the log itself: ordered, linked, all or none, exactly once."""

    before: str = START
    stream: str | None = None
    command: str | None = None
    commands: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    def take(self, event: Data, hash_: str, number: int) -> None:
        """Check the next envelope against its place in the chain; ``hash_`` is its own hash."""
        version, command = event["version"], event["command_id"]
        require_promise(version == number, "ordered", f"expected version {number}, found {version}")
        require_promise(
            self.stream in (None, event["stream"]), "ordered", "the event belongs to another stream"
        )
        require_promise(
            event["prev_hash"] == self.before,
            "tamper-evident",
            "the event does not contain the hash of the event before it",
        )
        require_promise(
            event["event_id"] not in self.events, "exactly once", "the event id was already used"
        )
        again = command != self.command and command in self.commands
        require_promise(not again, "all or none", f"the command {command} had already ended")
        require_promise(
            event["actor"]["kind"] in _ACTORS, "ordered", "the kind of actor is unknown"
        )
        self.before, self.stream, self.command = hash_, event["stream"], command
        self.commands.add(command)
        self.events.add(event["event_id"])


def load_document(log: Standing, document: Data, takes_over: bool) -> None:
    """Set the state from a document; running stages of an import get an attempt."""
    log.stages = {one["id"]: _build_stage(one, takes_over) for one in document["stages"]}
    log.is_completed = document.get("workflow_status") == "completed"
    log.changes = document.get("version") or 1
    log.mandates = document.get("mandates") or {}
    log.loops = document.get("rounds") or {}
    records = document.get("amendments") or []
    plan = {id_: one for id_, one in log.amendments.items() if one.data.get("kind") == PLAN}
    log.amendments = {**{one["id"]: CheckedAmendment(one, "of another") for one in records}, **plan}


def _build_stage(one: Data, takes_over: bool) -> CheckedStage:
    stage = CheckedStage(list(one.get("depends_on") or []), one.get("status") or "pending")
    stage.retries = one.get("retry_count") or 0
    waits = stage.status == "preparing" and one.get("running_process") is None
    if takes_over and stage.status in ACTIVE and not waits:
        stage.attempts = [CheckedAttempt("att-0001", "tmux", stage.status != "post_processing")]
    return stage


def spans_of(ranges: str) -> list[tuple[int, int]]:
    """Return the first and last number of each range, for example in 0-3,7."""
    parts = [part.partition("-") for part in ranges.split(",") if part]
    return [(int(first), int(last or first)) for first, _, last in parts]


def check_proposal(log: Standing, event: Data) -> None:
    """Check that an amendment is proposed once, with the next number, for a known stage."""
    id_, stage = event["data"]["amendment"], event["data"].get("stage")
    numbers = [one.removeprefix("amend-") for one in log.amendments]
    expected = max((int(one) for one in numbers if one.isdecimal()), default=0) + 1
    require_promise(
        id_ == f"amend-{expected}", "consent", f"expected the amendment id {expected}, found {id_}"
    )
    require_promise(
        stage is None or stage in log.stages,
        "a job is never lost",
        f"the workflow has no stage {stage!r:.80}",
    )
    log.amendments[id_] = CheckedAmendment(event["data"])


def check_decision(log: Standing, event: Data) -> None:
    """Check that an amendment is decided once, by a person or within a mandate."""
    found = log.amendments.get(event["data"]["amendment"])
    approves = event["type"] == "amendment.approved"
    if found is None or not (found.is_open if approves else found.status == "proposed"):
        raise Broken(
            "consent",
            "the event refers to an amendment that was never proposed or was already decided",
        )
    found.status = "rejected"
    if approves:
        _require_agreement(log, found.data, event)
        log.changes += found.data.get("kind") != PLAN
        require_promise(
            event["data"]["version"] == log.changes, "consent", "the plan version was already used"
        )
        found.status = "approved"
        _apply_amendment(log, found.data)
        _apply_reach(log, found, event)


#: The kind of an amendment that changes several stages.
_OF_SEVERAL = "plan_change"
#: Parameters that affect only the verification, the waiting and the download of results.
_JUDGES = frozenset(
    {"verify", "task_verify", "tolerate", "task_retries", "expected_seconds", "bring_back_limit"}
    | {"carry", "verify_parameters"}
)


def _apply_reach(log: Standing, amendment: CheckedAmendment, event: Data) -> None:
    """Record the stages that an approval affects, and the results that become outdated."""
    kind = amendment.data.get("kind")
    named = {amendment.data.get("stage"), *amendment.data.get("also", [])} - {None}
    named |= {*amendment.data.get("rewired", {})} if kind == _OF_SEVERAL else set()
    affected = set(event["data"]["invalidated_stages"])
    amendment.reach, amendment.command = frozenset(named | affected), event["command_id"]
    for stage in (log.stages[id_] for id_ in named):
        if stage.status == "failed":
            stage.rerun_by = amendment.data["amendment"]
    for stage in (log.stages[id_] for id_ in affected | named):
        stage.good |= stage.refuted
    judged = {amendment.data.get("stage")} if _only_judges(amendment.data) else set()
    # If several stages change, select those whose changes affect only the verification.
    parts = (amendment.data.get("rewired") or {}) if kind == _OF_SEVERAL else {}
    judged |= {
        id_
        for id_, changes in parts.items()
        if _only_judges({"kind": "parameter_change", "changes": changes})
    }
    for stage in (log.stages[id_] for id_ in affected - judged):
        for attempt in stage.attempts[-1:]:
            attempt.is_outdated = attempt.is_outdated or stage.status in ACTIVE


def _only_judges(proposed: Data) -> bool:
    """Return whether the amendment changes only how attempts are judged at their end."""
    changes = proposed.get("changes") or {}
    return (
        proposed.get("kind") in ("parameter_change", "criteria_change")
        and set(changes) <= {"parameters", "success_criteria", "name"}
        and set(changes.get("parameters", {})) <= _JUDGES
    )


def _is_bound(proof: Data) -> None:
    bound = isinstance(proof.get("statement"), str) and len(proof["statement"]) == len(START)
    require_promise(bound, "consent", "the proof contains no digest of the text that was approved")


def by_a_person(log: Standing, event: Data) -> None:
    """Raise `Broken` without a proof that the consent policy accepts."""
    proof = event["data"].get("proof") or {}
    require_promise(
        proof.get("policy") == log.consent,
        "consent",
        f"the proof does not match the consent policy {log.consent}",
    )
    _is_bound(proof)
    agent = log.consent == "terminal" and event["actor"]["kind"] == "agent"
    require_promise(not agent, "consent", "an agent cannot approve")
    signed = log.consent != "signature" or bool(proof.get("signature") and proof.get("signer"))
    require_promise(signed, "consent", "the approval has no signature")
    plan = log.amendments.get(PLAN)
    new = log.consent == "signature" and plan is not None and plan.is_open
    require_promise(
        not new or "typed" in proof, "consent", "nobody confirmed the signers at a terminal"
    )


def _require_agreement(log: Standing, amendment: Data, event: Data) -> None:
    """Raise `Broken` unless a person approved, or a mandate allows the amendment."""
    proof = event["data"].get("proof") or {}
    if proof.get("policy") != "mandate":
        by_a_person(log, event)
        return
    _is_bound(proof)
    name = str(proof.get("mandate"))
    mandate, before = log.mandates.get(name), log.by_mandate.get(name, 0)
    if not isinstance(mandate, dict):
        raise Broken("consent", f"the workflow has no mandate {name!r:.60}")
    require_promise(
        before < mandate["amendments"], "consent", f"the mandate {name} was already used up"
    )
    kinds = ("parameter_change", "stage_rerun")
    within = amendment.get("kind") in kinds and amendment.get("stage") in mandate["stages"]
    require_promise(within, "consent", f"the mandate {name} does not allow this amendment")
    log.by_mandate[name] = before + 1


def _apply_amendment(log: Standing, amendment: Data) -> None:
    new = amendment.get("insert")
    if new is not None:
        require_promise(
            new["id"] not in log.stages, "consent", f"the stage {new['id']} already exists"
        )
        log.stages[new["id"]] = CheckedStage(list(new.get("depends_on") or []))
    changes = amendment.get("changes") or {}
    if amendment.get("stage") is None:
        log.consent = changes.get("consent", {}).get("new", log.consent)
        log.mandates = _change_entries(log.mandates, changes.get("mandates", {}))
        log.loops = _change_entries(log.loops, changes.get("rounds", {}))
    elif "depends_on" in changes:
        log.stages[amendment["stage"]].needs = changes["depends_on"]["new"]
    for stage, change in (amendment.get("rewired") or {}).items():
        log.stages[stage].needs = change.get("new", log.stages[stage].needs)


def _change_entries(entries: Data, leaves: Data) -> Data:
    left = {name: one for name, one in entries.items() if name not in leaves}
    return left | {name: leaf["new"] for name, leaf in leaves.items() if "new" in leaf}


def check_round(log: Standing, event: Data) -> None:
    """Check that a round follows the last one when its stages ended, and not after a stop."""
    data, name = event["data"], event["data"]["loop"]
    loop, last = log.loops.get(name), log.rounds.get(name, 1)
    if not isinstance(loop, dict) or name in log.over:
        raise Broken("exactly once", f"the loop {name!r:.60} does not exist, or has ended")
    if event["type"] == "loop.stopped":
        log.over.add(name)
        return
    require_promise(
        data["round"] == last + 1,
        "exactly once",
        f"expected round {last + 1}, found {data['round']}",
    )
    require_promise(
        last < loop["at_most"], "consent", f"the loop {name} allows at most {last} rounds"
    )
    require_promise(
        len(data["points"]) <= loop.get("each", len(data["points"])),
        "consent",
        "the round has more points than the loop allows",
    )
    stages = [log.stages[id_] for id_ in loop["stages"] if log.stages[id_].status != "skipped"]
    require_promise(
        all(one.status == "completed" for one in stages),
        "order of stages",
        "the current round has not ended",
    )
    require_promise(
        not log.waiting, "consent", f"the round starts while {log.waiting} waits for a decision"
    )
    log.rounds[name] = last + 1
    for stage in stages:
        stage.status, stage.retries, stage.blocked = "invalidated", 0, {}
    for stage in stages:
        if all(log.stages[need].status == "completed" for need in stage.needs):
            stage.status = "ready"


def require_approving(log: Standing, event: Data, id_: str) -> CheckedAmendment:
    """Return the amendment that reaches the stage of the event, and was approved with it."""
    require_agreed(log, event, id_)
    found = log.amendments[id_]
    require_promise(
        event["command_id"] == found.command,
        "all or none",
        f"the amendment {id_} was approved by an earlier command",
    )
    return found


def require_agreed(log: Standing, event: Data, id_: str | None) -> None:
    """Raise `Broken` unless an approved amendment reaches the stage of the event."""
    found, stage = log.amendments.get(id_ or ""), event["data"]["stage"]
    if found is None or found.status != "approved" or stage not in found.reach:
        raise Broken(
            "consent",
            f"the event changes the stage {stage}, but no approved amendment allows this change",
        )
