"""What the events of a log add up to, as far as the protocol asks, and the promises of consent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Data: TypeAlias = Mapping[str, Any]

#: The statuses in which an attempt may be under way.
ACTIVE = frozenset({"preparing", "running", "post_processing"})
_ACTORS = frozenset({"user", "agent", "reconciler", "runner", "import"})
START = "0" * 64
#: The id and the kind of the plan as it was begun.
PLAN = "plan"


class Breach(NamedTuple):
    """The first event that cannot be: its version, the promise it breaks, and how."""

    version: int
    promise: str
    message: str


class Broken(Exception):
    """An event that cannot be, and the promise it breaks."""

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(message)
        self.promise = promise


def hold(held: bool, promise: str, message: str) -> None:
    """Raise `Broken` unless it is so."""
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
    #: The jobs it was launched with, None before.
    jobs: list[str] | None = None
    #: Nothing of it is left, as somebody saw.
    is_stopped: bool = False
    #: An amendment changed what it computes from.
    is_outdated: bool = False


@dataclass
class CheckedStage:
    """What a stage needs, and where it stands."""

    needs: list[str]
    status: str = "pending"
    retries: int = 0
    attempts: list[CheckedAttempt] = field(default_factory=list)
    #: The attempt whose kept outputs it has, and those whose outputs were verified.
    reused: str | None = None
    good: set[str] = field(default_factory=set)
    #: The attempts whose outputs were found bad; an amendment may have them judged anew.
    refuted: set[str] = field(default_factory=set)
    #: The paths of its verified results.
    results: set[str] = field(default_factory=set)
    #: What holds it back, as was said.
    blocked: dict[str, str] = field(default_factory=dict)
    #: The amendment by which it runs again without a retry.
    rerun_by: str | None = None
    #: It ended, and no session was charged for it.
    is_due: bool = False

    @property
    def source(self) -> str | None:
        """The attempt that its outputs come from."""
        return self.reused or (self.attempts[-1].id if self.attempts else None)

    @property
    def open(self) -> CheckedAttempt | None:
        """The attempt under way."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].is_open else None


@dataclass
class CheckedAmendment:
    """What was proposed, what became of it, and the stages that its approval reaches."""

    data: Data
    status: str = "proposed"
    reach: frozenset[str] = frozenset()
    #: The command that approved it, all that follows at once included.
    command: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it may be approved yet; a plan that was rejected can be taken up again."""
        is_plan = self.data.get("kind") == PLAN
        return self.status == "proposed" or (is_plan and self.status == "rejected")


@dataclass
class Standing:
    """What the events so far add up to."""

    stages: dict[str, CheckedStage] = field(default_factory=dict)
    amendments: dict[str, CheckedAmendment] = field(default_factory=dict)
    drifts: dict[int, str] = field(default_factory=dict)
    #: Digest of the keys of a sweep's tasks → how many they are.
    maps: dict[str, int] = field(default_factory=dict)
    #: The type of the event before.
    last: str = ""
    consent: str = "terminal"
    #: What was allowed beforehand, by name, and how many amendments took effect by it.
    mandates: Data = field(default_factory=dict)
    by_mandate: dict[str, int] = field(default_factory=dict)
    #: What is computed in rounds, by name, the number of the last round, and who goes on no more.
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
        """Whether another round of a loop may follow; a limit may have ended the loop already."""
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
        """Hold the next envelope to its place; ``hash_`` is its own."""
        version, command = event["version"], event["command_id"]
        hold(version == number, "ordered", f"expected version {number}, found {version}")
        hold(self.stream in (None, event["stream"]), "ordered", "it is of another stream")
        hold(event["prev_hash"] == self.before, "tamper-evident", "it does not follow the last")
        hold(event["event_id"] not in self.events, "exactly once", "its id was given before")
        again = command != self.command and command in self.commands
        hold(not again, "all or none", f"the command {command} was over before")
        hold(event["actor"]["kind"] in _ACTORS, "ordered", "nobody of that kind acts")
        self.before, self.stream, self.command = hash_, event["stream"], command
        self.commands.add(command)
        self.events.add(event["event_id"])


def describe(log: Standing, document: Data, takes_over: bool) -> None:
    """Take a document as it stands; what is under way in an imported one has an attempt."""
    log.stages = {one["id"]: _described(one, takes_over) for one in document["stages"]}
    log.is_completed = document.get("workflow_status") == "completed"
    log.changes = document.get("version") or 1
    log.mandates = document.get("mandates") or {}
    log.loops = document.get("rounds") or {}
    records = document.get("amendments") or []
    plan = {id_: one for id_, one in log.amendments.items() if one.data.get("kind") == PLAN}
    log.amendments = {**{one["id"]: CheckedAmendment(one, "of another") for one in records}, **plan}


def _described(one: Data, takes_over: bool) -> CheckedStage:
    stage = CheckedStage(list(one.get("depends_on") or []), one.get("status") or "pending")
    stage.retries = one.get("retry_count") or 0
    waits = stage.status == "preparing" and one.get("running_process") is None
    if takes_over and stage.status in ACTIVE and not waits:
        stage.attempts = [CheckedAttempt("att-0001", "tmux", stage.status != "post_processing")]
    return stage


def spans_of(ranges: str) -> list[tuple[int, int]]:
    """Return the first and the last number of each range, such as of 0-3,7."""
    parts = [part.partition("-") for part in ranges.split(",") if part]
    return [(int(first), int(last or first)) for first, _, last in parts]


def proposed(log: Standing, event: Data) -> None:
    """An amendment is proposed once, with the next number, for a stage that there is."""
    id_, stage = event["data"]["amendment"], event["data"].get("stage")
    numbers = [one.removeprefix("amend-") for one in log.amendments]
    expected = max((int(one) for one in numbers if one.isdecimal()), default=0) + 1
    hold(id_ == f"amend-{expected}", "consent", f"expected amend-{expected}, found {id_}")
    hold(stage is None or stage in log.stages, "a job is never lost", f"there is no {stage!r:.80}")
    log.amendments[id_] = CheckedAmendment(event["data"])


def decided(log: Standing, event: Data) -> None:
    """An amendment is decided once, and approved by a person, or by a mandate of one."""
    found = log.amendments.get(event["data"]["amendment"])
    approves = event["type"] == "amendment.approved"
    if found is None or not (found.is_open if approves else found.status == "proposed"):
        raise Broken("consent", "what is decided was not proposed, or was decided before")
    found.status = "rejected"
    if approves:
        _agreed(log, found.data, event)
        log.changes += found.data.get("kind") != PLAN
        hold(event["data"]["version"] == log.changes, "consent", "its number was given before")
        found.status = "approved"
        _apply(log, found.data)
        _reach(log, found, event)


#: The kind of an amendment that changes several stages at once.
_OF_SEVERAL = "plan_change"
#: Parameters by which a result is judged, waited for or brought back, and none is computed.
_JUDGES = frozenset(
    {"verify", "task_verify", "tolerate", "task_retries", "expected_seconds", "bring_back_limit"}
    | {"carry"}
)


def _reach(log: Standing, amendment: CheckedAmendment, event: Data) -> None:
    """Note what an approval lets become of stages, and which results count no longer."""
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
    # Of several stages that change at once, those of which a verdict alone changes.
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
    """Whether an attempt under way goes on, and is judged at its end by what is changed."""
    changes = proposed.get("changes") or {}
    return (
        proposed.get("kind") in ("parameter_change", "criteria_change")
        and set(changes) <= {"parameters", "success_criteria", "name"}
        and set(changes.get("parameters", {})) <= _JUDGES
    )


def _is_bound(proof: Data) -> None:
    bound = isinstance(proof.get("statement"), str) and len(proof["statement"]) == len(START)
    hold(bound, "consent", "its proof is bound to no statement")


def by_a_person(log: Standing, event: Data) -> None:
    """Raise `Broken` without a proof that the policy in force could take."""
    proof = event["data"].get("proof") or {}
    hold(proof.get("policy") == log.consent, "consent", f"no proof for the policy {log.consent}")
    _is_bound(proof)
    agent = log.consent == "terminal" and event["actor"]["kind"] == "agent"
    hold(not agent, "consent", "an agent cannot agree")
    signed = log.consent != "signature" or bool(proof.get("signature") and proof.get("signer"))
    hold(signed, "consent", "it is not signed")
    plan = log.amendments.get(PLAN)
    new = log.consent == "signature" and plan is not None and plan.is_open
    hold(not new or "typed" in proof, "consent", "nobody at a terminal agreed to the signers")


def _agreed(log: Standing, amendment: Data, event: Data) -> None:
    """Raise `Broken` unless a person agrees, or a mandate is for one more such amendment."""
    proof = event["data"].get("proof") or {}
    if proof.get("policy") != "mandate":
        by_a_person(log, event)
        return
    _is_bound(proof)
    name = str(proof.get("mandate"))
    mandate, before = log.mandates.get(name), log.by_mandate.get(name, 0)
    if not isinstance(mandate, dict):
        raise Broken("consent", f"there is no mandate {name!r:.60}")
    hold(before < mandate["amendments"], "consent", f"the mandate {name} was used up before")
    kinds = ("parameter_change", "stage_rerun")
    within = amendment.get("kind") in kinds and amendment.get("stage") in mandate["stages"]
    hold(within, "consent", f"the mandate {name} is not for that")
    log.by_mandate[name] = before + 1


def _apply(log: Standing, amendment: Data) -> None:
    new = amendment.get("insert")
    if new is not None:
        hold(new["id"] not in log.stages, "consent", f"there is a {new['id']} already")
        log.stages[new["id"]] = CheckedStage(list(new.get("depends_on") or []))
    changes = amendment.get("changes") or {}
    if amendment.get("stage") is None:
        log.consent = changes.get("consent", {}).get("new", log.consent)
        log.mandates = _changed(log.mandates, changes.get("mandates", {}))
        log.loops = _changed(log.loops, changes.get("rounds", {}))
    elif "depends_on" in changes:
        log.stages[amendment["stage"]].needs = changes["depends_on"]["new"]
    for stage, change in (amendment.get("rewired") or {}).items():
        log.stages[stage].needs = change.get("new", log.stages[stage].needs)


def _changed(entries: Data, leaves: Data) -> Data:
    left = {name: one for name, one in entries.items() if name not in leaves}
    return left | {name: leaf["new"] for name, leaf in leaves.items() if "new" in leaf}


def looped(log: Standing, event: Data) -> None:
    """A round follows the last one, once all of its stages are over; nothing follows a stop."""
    data, name = event["data"], event["data"]["loop"]
    loop, last = log.loops.get(name), log.rounds.get(name, 1)
    if not isinstance(loop, dict) or name in log.over:
        raise Broken("exactly once", f"there is no loop {name!r:.60}, or it is over")
    if event["type"] == "loop.stopped":
        log.over.add(name)
        return
    hold(
        data["round"] == last + 1, "exactly once", f"round {last + 1} follows, not {data['round']}"
    )
    hold(last < loop["at_most"], "consent", f"{name} is for {last} rounds at most")
    hold(len(data["points"]) <= loop.get("each", len(data["points"])), "consent", "too many points")
    stages = [log.stages[id_] for id_ in loop["stages"] if log.stages[id_].status != "skipped"]
    hold(all(one.status == "completed" for one in stages), "order of stages", "it goes on")
    hold(not log.waiting, "consent", f"it begins while {log.waiting} waits for a decision")
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
    hold(event["command_id"] == found.command, "all or none", f"{id_} was approved before")
    return found


def require_agreed(log: Standing, event: Data, id_: str | None) -> None:
    """Raise `Broken` unless an approved amendment reaches the stage of the event."""
    found, stage = log.amendments.get(id_ or ""), event["data"]["stage"]
    if found is None or found.status != "approved" or stage not in found.reach:
        raise Broken("consent", f"no approved amendment lets this become of {stage}")
