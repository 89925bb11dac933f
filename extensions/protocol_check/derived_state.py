"""Compute a workflow's state for the protocol check, and check the promises about consent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Data: TypeAlias = Mapping[str, Any]

#: Statuses in which a stage can have a running attempt.
ACTIVE = frozenset({"preparing", "running", "post_processing"})
_ACTORS = frozenset({"user", "agent", "reconciler", "runner", "import"})
START = "0" * 64
#: Id and kind of the initial plan, which is approved like an amendment.
PLAN = "plan"


class Breach(NamedTuple):
    """A broken promise of the protocol: the event's version, the promise, and the reason."""

    version: int
    promise: str
    message: str


class Broken(Exception):
    """An event breaks a promise of the protocol."""

    def __init__(self, promise: str, message: str) -> None:
        super().__init__(message)
        self.promise = promise


def require_promise(held: bool, promise: str, message: str) -> None:
    """Raise `Broken` if ``held`` is false, that is, if the promise is not kept."""
    if not held:
        raise Broken(promise, message)


@dataclass
class CheckedAttempt:
    """An attempt (one run of a stage), as the protocol check sees it.

    It is open until its end is recorded.
    """

    id: str
    mode: str
    is_open: bool = True
    diagnostic: bool = False
    action: str | None = None
    #: Ids of the launched jobs, or None before the launch.
    jobs: list[str] | None = None
    #: Whether all processes of the attempt are known to have stopped.
    is_stopped: bool = False
    #: Whether an amendment (plan change) changed the inputs while the attempt was running.
    is_outdated: bool = False


@dataclass
class CheckedStage:
    """A stage as the protocol check sees it.

    ``needs`` are its dependencies.
    """

    needs: list[str]
    status: str = "pending"
    retries: int = 0
    attempts: list[CheckedAttempt] = field(default_factory=list)
    #: The earlier attempt whose outputs the stage reuses, and all attempts whose outputs were
    #: verified.
    reused: str | None = None
    good: set[str] = field(default_factory=set)
    #: The shortage of a resource that ended the last attempt, or None.
    short_of: str | None = None
    #: Attempts whose outputs were rejected. An amendment (plan change) may allow a new
    #: verification.
    refuted: set[str] = field(default_factory=set)
    #: Paths of the verified output files.
    results: set[str] = field(default_factory=set)
    #: Failed dependency → its status when it blocked this stage.
    blocked: dict[str, str] = field(default_factory=dict)
    #: The amendment (plan change) that allows the failed stage to run again without a retry.
    rerun_by: str | None = None
    #: Whether the stage has ended, but no session has been charged for it yet.
    is_due: bool = False

    @property
    def source(self) -> str | None:
        """The id of the attempt that produced the outputs of the stage, or None."""
        return self.reused or (self.attempts[-1].id if self.attempts else None)

    @property
    def open(self) -> CheckedAttempt | None:
        """The running attempt of the stage, or None."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].is_open else None


@dataclass
class CheckedAmendment:
    """An amendment (plan change), its status, and the stages that its approval affects."""

    data: Data
    status: str = "proposed"
    reach: frozenset[str] = frozenset()
    #: Id of the command that approved the amendment. The same command must record all consequences.
    command: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the amendment can still be approved.

        The initial plan can be approved even after it was rejected.
        """
        is_plan = self.data.get("kind") == PLAN
        return self.status == "proposed" or (is_plan and self.status == "rejected")


@dataclass
class CheckedWorkflow:
    """The state of a workflow after the events that were checked so far."""

    stages: dict[str, CheckedStage] = field(default_factory=dict)
    amendments: dict[str, CheckedAmendment] = field(default_factory=dict)
    drifts: dict[int, str] = field(default_factory=dict)
    #: Digest of the task keys of a sweep → the number of its tasks.
    maps: dict[str, int] = field(default_factory=dict)
    #: Type of the previous event.
    last: str = ""
    consent: str = "terminal"
    #: The mandates (permissions given in advance) by name, and the number of amendments that each
    #: mandate has approved.
    mandates: Data = field(default_factory=dict)
    by_mandate: dict[str, int] = field(default_factory=dict)
    #: The optimisation loops by name, the number of their last round, and the loops that have
    #: ended.
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
        """The ids of the stages that are neither completed nor skipped."""
        return [k for k, one in self.stages.items() if one.status not in ("completed", "skipped")]

    @property
    def waits_for_points(self) -> bool:
        """Whether an optimisation loop may still start another round."""
        limits = {
            name: loop.get("at_most") for name, loop in self.loops.items() if isinstance(loop, dict)
        }
        return any(
            isinstance(limit, int) and self.rounds.get(name, 1) < limit
            for name, limit in limits.items()
            if name not in self.over
        )

    @property
    def open_amendment_ids(self) -> str:
        """The ids of the amendments (plan changes) that can still be decided, as one text."""
        return ", ".join(id_ for id_, one in self.amendments.items() if one.is_open)


@dataclass
class Chain:
    """Checks the promises of the log itself.

    Events are ordered and linked by hashes. A command is recorded completely or not at all, and
    only once.
    """

    before: str = START
    stream: str | None = None
    command: str | None = None
    commands: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    def take(self, event: Data, hash_: str, number: int) -> None:
        """Check that an event follows the previous event in the log.

        ``hash_`` is the hash of this event.

        Raises `Broken` if a promise is broken.
        """
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


def set_initial_state(log: CheckedWorkflow, document: Data, takes_over: bool) -> None:
    """Set the state from the document with which a workflow was created or imported.

    ``takes_over`` is true for an import. A running stage then gets an attempt.
    """
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


def parse_ranges(ranges: str) -> list[tuple[int, int]]:
    """Return the first and last number of each range in a text such as ``0-3,7``."""
    parts = [part.partition("-") for part in ranges.split(",") if part]
    return [(int(first), int(last or first)) for first, _, last in parts]


def check_proposal(log: CheckedWorkflow, event: Data) -> None:
    """Check the proposal of an amendment (plan change).

    Its id must have the next number, and its stage must exist.
    """
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


def check_decision(log: CheckedWorkflow, event: Data) -> None:
    """Check the decision on an amendment (plan change).

    The amendment must be undecided. Its approval must come from a person or be allowed by a mandate
    (permission given in advance).
    """
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
        _record_affected_stages(log, found, event)


#: Kind of an amendment (plan change) that changes several stages.
_OF_SEVERAL = "plan_change"
#: Parameters whose change lets a running attempt continue. They affect only the verification of
#: results, the waiting for them, their download, the numbers read from them, or the next attempt.
_NOT_COMPUTED = frozenset(
    {"verify", "task_verify", "tolerate", "task_retries", "expected_seconds", "bring_back_limit"}
    | {"carry", "verify_parameters", "metrics", "resources"}
)


def _record_affected_stages(log: CheckedWorkflow, amendment: CheckedAmendment, event: Data) -> None:
    """Record the stages that an approved amendment affects.

    Running attempts of these stages become outdated, unless only their verification changes.
    """
    kind = amendment.data.get("kind")
    named = {amendment.data.get("stage"), *amendment.data.get("also", [])} - {None}
    named |= {*amendment.data.get("rewired", {})} if kind == _OF_SEVERAL else set()
    affected = set(event["data"]["invalidated_stages"])
    is_of_plan = amendment.data.get("stage") is None and "parameters" in (
        amendment.data.get("changes") or {}
    )
    named |= affected if is_of_plan else set()
    amendment.reach, amendment.command = frozenset(named | affected), event["command_id"]
    for stage in (log.stages[id_] for id_ in named):
        if stage.status == "failed":
            stage.rerun_by = amendment.data["amendment"]
    for stage in (log.stages[id_] for id_ in affected | named):
        stage.good |= stage.refuted
    judged = {amendment.data.get("stage")} if _is_verification_only(amendment.data) else set()
    # For a change of several stages, also find the stages for which only the verification changes.
    parts = (amendment.data.get("rewired") or {}) if kind == _OF_SEVERAL else {}
    judged |= {
        id_
        for id_, changes in parts.items()
        if _is_verification_only({"kind": "parameter_change", "changes": changes})
    }
    for stage in (log.stages[id_] for id_ in affected - judged):
        for attempt in stage.attempts[-1:]:
            attempt.is_outdated = attempt.is_outdated or stage.status in ACTIVE


def _is_verification_only(proposed: Data) -> bool:
    """Return whether an amendment changes only the verification of results or the next attempt.

    The computation of the results must not change.
    """
    changes = proposed.get("changes") or {}
    parameters = changes.get("parameters", {})
    return (
        proposed.get("kind") in ("parameter_change", "criteria_change")
        and set(changes) <= {"parameters", "success_criteria", "name"}
        and all(
            name in _NOT_COMPUTED or (name == "map" and _is_order_only(parameters[name]))
            for name in parameters
        )
    )


def _is_order_only(change: Data) -> bool:
    """Return whether a change of a map affects only how many tasks are computed first."""
    before, after = ({**(change.get(side) or {}), "first": None} for side in ("old", "new"))
    return before == after


def _require_bound_proof(proof: Data) -> None:
    bound = isinstance(proof.get("statement"), str) and len(proof["statement"]) == len(START)
    require_promise(bound, "consent", "the proof contains no digest of the text that was approved")


def require_person_consent(log: CheckedWorkflow, event: Data) -> None:
    """Raise `Broken` if an event lacks a proof of consent that fits the consent policy."""
    proof = event["data"].get("proof") or {}
    require_promise(
        proof.get("policy") == log.consent,
        "consent",
        f"the proof does not match the consent policy {log.consent}",
    )
    _require_bound_proof(proof)
    agent = log.consent == "terminal" and event["actor"]["kind"] == "agent"
    require_promise(not agent, "consent", "an agent cannot approve")
    signed = log.consent != "signature" or bool(proof.get("signature") and proof.get("signer"))
    require_promise(signed, "consent", "the approval has no signature")
    plan = log.amendments.get(PLAN)
    new = log.consent == "signature" and plan is not None and plan.is_open
    require_promise(
        not new or "typed" in proof, "consent", "nobody confirmed the signers at a terminal"
    )


def _require_agreement(log: CheckedWorkflow, amendment: Data, event: Data) -> None:
    """Raise `Broken` if neither a person nor a mandate approved an amendment.

    An amendment is a plan change. A mandate is a permission that a person gave in advance.
    """
    proof = event["data"].get("proof") or {}
    if proof.get("policy") != "mandate":
        require_person_consent(log, event)
        return
    _require_bound_proof(proof)
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


def _apply_amendment(log: CheckedWorkflow, amendment: Data) -> None:
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


def check_round(log: CheckedWorkflow, event: Data) -> None:
    """Check the start of a round, or the stop, of an optimisation loop.

    A round must have the next number, respect the limits of the loop, and start only after all
    stages of the previous round were completed.
    """
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
        not log.open_amendment_ids,
        "consent",
        f"the round starts while {log.open_amendment_ids} waits for a decision",
    )
    log.rounds[name] = last + 1
    for stage in stages:
        stage.status, stage.retries, stage.blocked = "invalidated", 0, {}
    for stage in stages:
        if all(log.stages[need].status == "completed" for need in stage.needs):
            stage.status = "ready"


def require_permitting_amendment(log: CheckedWorkflow, event: Data, id_: str) -> CheckedAmendment:
    """Return the amendment (plan change) that permits an event.

    It must affect the stage of the event and must have been approved by the same command.
    Otherwise, `Broken` is raised.
    """
    require_approved_amendment(log, event, id_)
    found = log.amendments[id_]
    require_promise(
        event["command_id"] == found.command,
        "all or none",
        f"the amendment {id_} was approved by an earlier command",
    )
    return found


def require_approved_amendment(log: CheckedWorkflow, event: Data, id_: str | None) -> None:
    """Raise `Broken` unless an approved amendment affects the stage of the event.

    ``id_`` names the amendment (plan change).
    """
    found, stage = log.amendments.get(id_ or ""), event["data"]["stage"]
    if found is None or found.status != "approved" or stage not in found.reach:
        raise Broken(
            "consent",
            f"the event changes the stage {stage}, but no approved amendment allows this change",
        )
