"""The state of a staged workflow: what the fold of its events yields."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from lifecycle.errors import UnknownStage
from lifecycle.state.loops import LoopState
from lifecycle.state.status import FINISHED, Status, backend_type
from lifecycle.words.mandates import MANDATES, Mandate, mandates_of
from lifecycle.words.metrics import RESULTS, results_of
from lifecycle.words.rounds import ROUNDS, LoopDefinition, envelope_of, loops_of

#: The id and the kind of the plan as it was begun, which a person decides like an amendment.
PLAN = "plan"
#: The kind of an amendment that holds what changes of several stages: a plan taken anew.
PLAN_CHANGE = "plan_change"
_OF_LOOP = "rounds."  # and the name of a loop: its envelope is a mandate
#: What an attempt's folder is called; its path is recorded with the submission that lies in it.
_NAME = re.compile(r"(att-[0-9]{4,})-([0-9a-f]{8})")


@dataclass(slots=True)
class Attempt:
    """One submission and one run of a stage's computation."""

    id: str
    started_at: str
    mode: str
    root: str
    work_dir: str
    submission: str
    submission_sha256: str
    wrapper: str
    session: str | None = None
    host: str | None = None
    boot_id: str | None = None
    recovers: str | None = None
    diagnostic: bool = False
    launched_at: str | None = None
    submission_hash: str | None = None
    job_ids: list[str] = field(default_factory=list)
    dpdispatcher_version: str | None = None
    relaunches: int = 0
    #: Relaunches in a row for one and the same reason.
    relaunches_alike: int = 0
    relaunched_for: str | None = None
    row: int | None = None
    verdict: str | None = None
    action: str | None = None
    reason: str | None = None
    evidence: dict[str, Any] | None = None
    #: Why it does not continue and since when: ``reason`` and ``since``. None if it does.
    waiting: dict[str, str] | None = None
    ended_at: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    #: Files that the definition runs, as they were when it started: path → SHA-256 in hex.
    scripts: dict[str, str] = field(default_factory=dict)
    #: Whether it is to be ended where it runs, and when it was seen that nothing is left of it.
    stop: bool = False
    stopped_at: str | None = None
    #: Somebody else launched it, before the workflow was imported.
    taken_over: bool = False
    #: The files that it goes on from, as `FileDigest` has them, and the attempt that left them.
    carried: list[dict[str, Any]] = field(default_factory=list)
    carried_from: str | None = None
    #: What its jobs were given, as `JobEnvironment` has it; None if nobody knows.
    environment: dict[str, Any] | None = None
    #: Python files that a script would import by their place, as they were when it started; None
    #: if nobody looked.
    beside: dict[str, str] | None = None
    #: The commit of what it computes with, as `CodeVersion` has it; None if nobody knows.
    code: dict[str, Any] | None = None
    #: The amendment that changed what the attempt had been started from.
    outdated_by: str | None = None
    #: What it computes from, as `FileDigest` has it.
    inputs: list[dict[str, Any]] = field(default_factory=list)
    #: The files that it left, as `LeftFile` has them.
    left: list[dict[str, Any]] = field(default_factory=list)
    #: The digest of what it was started from, as `basis_of` has it; empty if nobody knows.
    basis: str = ""
    #: Its outputs as they were verified, as `FileDigest` has them.
    results: list[dict[str, Any]] = field(default_factory=list)
    #: The numbers that were read from its outputs, as `MeasuredNumber` has them.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: What its jobs used, in seconds and bytes, as `StageComputed` has it.
    resources: dict[str, float] = field(default_factory=dict)
    #: Its outputs were verified, and failed by the definition that there still is.
    is_refuted: bool = False
    #: The version of the plan when it started; 0 if nobody knows.
    plan: int = 0
    #: The round of its loop that it computes; 0 if it is in none.
    round: int = 0
    #: The hash of the event that started it; empty if an import brought it.
    event: str = ""
    #: Where the tasks of a sweep stood when they were last looked at, as `TasksObserved` has it.
    tasks: dict[str, Any] | None = None
    #: Of one by a mandate: its name (``mandate``), ``tasks``, the most ``core_seconds``, ``cores``.
    charged: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its folder is called: a number, and a mark unless it is of an old log."""
        return f"{self.number}-{self.mark}" if self.mark else self.number

    @property
    def number(self) -> str:
        """The id in its folder's name: its own, or that of a log that was lost."""
        found = _NAME.fullmatch(self._folder)
        return found[1] if found else self.id

    @property
    def mark(self) -> str:
        """What tells it from an attempt of the same id in another life or a copy; may be empty."""
        found = _NAME.fullmatch(self._folder)
        return found[2] if found else ""

    @property
    def _folder(self) -> str:
        return self.submission.rpartition("/")[0].rpartition("/")[2]

    @property
    def is_open(self) -> bool:
        """Whether nothing has been decided of its end yet."""
        return self.ended_at is None

    @property
    def is_to_stop(self) -> bool:
        """Whether it was to be ended and is not seen to be."""
        return self.stop and self.stopped_at is None

    @property
    def may_run_on(self) -> bool:
        """Whether its end was said by somebody who did not see its jobs end."""
        seen = self.action in ("succeeded", "failed") or self.stopped_at is not None
        return not (seen or self.is_open or self.taken_over)


@dataclass(slots=True)
class Stage:
    """One stage: its definition, and where it stands."""

    id: str
    name: str
    status: Status = Status.PENDING
    depends_on: list[str] = field(default_factory=list)
    backend: str | None = None
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    success_criteria: str = ""
    started_at: str | None = None
    completed_at: str | None = None
    retry_count: int = 0
    last_error: str | None = None
    #: The diagnosis of the last failure: its category, and the line that shows it.
    category: str | None = None
    because: str | None = None
    running_process: dict[str, Any] | None = None
    checkpoint: Any = None
    #: Fields that nobody specified, kept as they came.
    extra: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    #: Dependencies that this stage was already called blocked by: id → status.
    blocked_by: dict[str, str] = field(default_factory=dict)
    #: The approved amendment by which this failed stage runs again once it may.
    rerun_by: str | None = None
    #: How often its folder was kept as ``stage-N.vK``; the name it is still to be kept under.
    kept: int = 0
    keep_as: str | None = None
    #: Tasks of a sweep that are done stay where they are; its submission is built anew.
    keeps_tasks: bool = False
    #: Each decision that finished tasks count although their inputs changed: ``attempt`` is the
    #: newest attempt with such tasks, ``by`` the person and ``policy`` the policy of consent.
    kept_tasks: list[dict[str, Any]] = field(default_factory=list)
    regenerate: bool = False
    fix: str | None = None  # what the newest retry put right
    #: Its work has ended in this session, and was not charged yet.
    uncharged: bool = False
    #: Its outputs as they were when it was completed, as `FileDigest` has them.
    results: list[dict[str, Any]] = field(default_factory=list)
    #: The numbers that were read from them, as `MeasuredNumber` has them.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: Those of them that were seen to be no more so, as `ChangedFile` has them.
    changed: list[dict[str, Any]] = field(default_factory=list)
    #: Each time that changed results were taken as they are: ``paths``, ``by``, ``policy``.
    adopted: list[dict[str, Any]] = field(default_factory=list)
    #: Nobody declared its outputs: its newest attempt left them.
    found_outputs: bool = False
    #: The attempt whose kept outputs it has, instead of a computation.
    reused: str | None = None
    #: Its criteria changed and nothing that it computes from: kept outputs are verified first.
    is_rejudged: bool = False
    mandate: str | None = None  # by which it was changed, or runs again, since a person agreed

    @property
    def error(self) -> str | None:
        """Why it is failed; None if it is not: ``last_error`` stays when it goes on."""
        return self.last_error if self.status is Status.FAILED else None

    @property
    def declared_outputs(self) -> list[str]:
        """The outputs that a run must produce."""
        return [] if self.found_outputs else self.outputs

    @property
    def left_in_place(self) -> list[str]:
        """What its attempts left in its folder beside its outputs."""
        files = [one for attempt in self.attempts for one in attempt.left]
        paths = dict.fromkeys(one["path"] for one in files if one.get("at") is None)
        return [path for path in paths if is_below(path, self.id)]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def source(self) -> Attempt | None:
        """The attempt that its outputs come from: the newest, unless they were reused."""
        if self.reused is None:
            return self.attempt
        return next((one for one in self.attempts if one.id == self.reused), None)

    @property
    def open_attempt(self) -> Attempt | None:
        """The attempt under way; None if nothing is under way."""
        newest = self.attempt
        return newest if newest is not None and newest.is_open else None


def is_below(path: str, folder: str) -> bool:
    """Whether a path is one of a file in a folder, both relative to the root."""
    first, *others = path.split("/")
    return first == folder and bool(others) and not {"", ".", ".."} & set(others)


@dataclass(slots=True)
class Amendment:
    """A definitional change: proposed, then approved or rejected."""

    id: str
    kind: str
    stage: str | None
    description: str
    proposed_at: str
    changes: dict[str, Any]
    insert: dict[str, Any] | None = None
    place: int | None = None
    reason: str | None = None
    rewired: dict[str, Any] = field(default_factory=dict)
    #: Stages that run again with its own; the first round of its loop that is computed anew.
    also: list[str] = field(default_factory=list)
    from_round: int | None = None
    status: str = "proposed"
    version: int | None = None
    decided_at: str | None = None
    approved_by: str | None = None
    #: How consent was given; None of a record of another's keeping.
    policy: str | None = None
    #: The mandate that it is within, if its policy is that of mandates.
    mandate: str | None = None
    invalidated_stages: list[str] = field(default_factory=list)
    #: The hash of the approval that put it in force.
    approval: str = ""
    #: The files that the definition runs, as they were when it was approved.
    scripts: dict[str, str] = field(default_factory=dict)
    #: As an imported file held it; a record of another's keeping is shown as it came.
    record: dict[str, Any] | None = None

    @property
    def is_plan(self) -> bool:
        """Whether it is the plan as the workflow was begun, and no change of it."""
        return self.kind == PLAN and self.record is None

    @property
    def is_open(self) -> bool:
        """Whether a person may approve it yet; a plan that was rejected can be taken up again."""
        return self.status == "proposed" or (self.is_plan and self.status == "rejected")

    @property
    def targets(self) -> list[str]:
        """The stages that it names, none where it is about the workflow."""
        if self.kind == PLAN_CHANGE:
            return [*self.rewired]
        return [self.stage, *self.also] if self.stage is not None else []


@dataclass(slots=True)
class Session:
    """The executor's session as ``session_config`` shows it."""

    count: int = 0
    id: str | None = None
    cost: float = 0
    exit_reason: str | None = None
    is_open: bool = False
    #: A loop keeps it: open without a loop at work, it has died.
    driven: bool = False
    #: Where the report is to be written, relative to the root; None for the usual place.
    report: str | None = None


@dataclass(slots=True)
class Drift:
    """A foreign version of a file that is kept, until it is adopted or reverted.

    ``version`` is that of its ``drift.detected``, ``base`` the one the file had shown.
    """

    version: int
    file: str
    kind: str
    base: int
    kept_as: str
    #: The definitional fields of stages that it changes, as in ``stage-2.parameters.dt``.
    touches: list[str] = field(default_factory=list)
    #: The differences that are still to be decided; None: all of them.
    rest: list[str] | None = None


@dataclass(slots=True)
class Workflow:
    """A whole workflow. ``head`` is the version of the last event folded in."""

    id: str
    created: str
    updated: str
    head: int = 0
    version: int = 1
    workflow_status: str | None = None
    experiment_design: str | None = None
    workflow_plan: str | None = None
    amendments: dict[str, Amendment] = field(default_factory=dict)
    session_config: dict[str, Any] = field(default_factory=dict)
    session: Session = field(default_factory=Session)
    default_backend: str = "local"
    backend_profiles: dict[str, Any] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    purpose: str | None = None
    consent: str = "terminal"
    signers: list[str] = field(default_factory=list)
    #: How often it was completed, and where the report of the last time is kept.
    completions: int = 0
    report: str | None = None
    root: dict[str, Any] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    #: Hand edits that were decided: ``file``, ``how`` (adopted or reverted), ``by``, ``policy``.
    edits: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    #: Files that the definition runs, as they were when a person last approved a change.
    scripts: dict[str, str] = field(default_factory=dict)
    #: The last version of the log that was imported with the workflow; 0 if none was.
    import_end: int = 0
    #: The document as it was imported; what nothing has changed since is shown so.
    source: dict[str, Any] | None = None
    #: The letters of its numbers, by pointer, where they are not the usual ones.
    spelling: dict[str, str] = field(default_factory=dict)
    #: How far its loops are, by name.
    loops: dict[str, LoopState] = field(default_factory=dict)
    #: Events that are ignored as they are no such event: ``version``, ``type``, ``why``.
    set_aside: list[dict[str, Any]] = field(default_factory=list)

    def stage(self, id_: str) -> Stage:
        """Return the stage; raises `UnknownStage`."""
        try:
            return self.stages[id_]
        except KeyError:
            raise UnknownStage(id_, list(self.stages)) from None

    def profile(self, stage: Stage) -> dict[str, Any]:
        """Return the backend profile that the stage runs on."""
        return _object(self.backend_profiles.get(stage.backend or self.default_backend))

    def backend_type(self, stage: Stage) -> str:
        """Return ``local`` or ``remote`` for the stage."""
        return backend_type(self.backend_profiles, stage.backend or self.default_backend)

    def unmet(self, stage: Stage) -> dict[str, str]:
        """Return the dependencies that are not completed, or go on in a loop: id → status."""
        found = {
            dep: self.stages[dep].status.value
            for dep in stage.depends_on
            if self.stages[dep].status is not Status.COMPLETED
        }
        for name, loop in self.loops.items():
            if loop.over is None and stage.id not in loop.stages:
                behind = [dep for dep in stage.depends_on if dep in loop.stages]
                found |= dict.fromkeys(behind, f"in round {loop.round.number} of {name}")
        return found

    def loop_of(self, stage: str) -> str | None:
        """Return the name of the loop that a stage is in."""
        return next((name for name, loop in self.loops.items() if stage in loop.stages), None)

    @property
    def results(self) -> list[str]:
        """The numbers and files that answer its question, as a plan names them."""
        return results_of(self.extra.get(RESULTS))

    @results.setter
    def results(self, names: list[str]) -> None:
        self.extra[RESULTS] = names

    @property
    def mandates(self) -> dict[str, Any]:
        """What a person allowed beforehand, by name, as the definition has it."""
        return _object(self.extra.get(MANDATES))

    @mandates.setter
    def mandates(self, given: dict[str, Any]) -> None:
        self.extra[MANDATES] = given

    @property
    def rounds(self) -> dict[str, Any]:
        """The loops of the definition, by name, as the definition has them."""
        return _object(self.extra.get(ROUNDS))

    @rounds.setter
    def rounds(self, given: dict[str, Any]) -> None:
        self.extra[ROUNDS] = given

    def loop(self, name: str) -> LoopDefinition:
        """Return a loop as the definition has it; raises KeyError."""
        return loops_of({name: self.rounds[name]})[name]

    def mandate(self, name: str) -> Mandate | None:
        """Return the mandate of this name; None if it is not in force. A loop's envelope is one."""
        loop = name.removeprefix(_OF_LOOP)
        if loop != name:
            return envelope_of(self.loop(loop)) if loop in self.loops else None
        return mandates_of({name: self.mandates[name]}).get(name) if name in self.mandates else None

    def mandate_of(self, stage: Stage) -> str | None:
        """Return the mandate within which a stage is computed: its own, or that of its loop."""
        loop = self.loop_of(stage.id)
        return stage.mandate or (None if loop is None else f"{_OF_LOOP}{loop}")

    @property
    def is_beginning(self) -> bool:
        """Whether no attempt of ours was started yet, and no file of the definition is known."""
        tried = (one for stage in self.stages.values() for one in stage.attempts)
        return not self.scripts and all(one.taken_over for one in tried)

    @property
    def is_finished(self) -> bool:
        """Whether every stage is completed or skipped, and every loop is over."""
        done = all(stage.status in FINISHED for stage in self.stages.values())
        return done and not self.open_loops

    @property
    def open_loops(self) -> list[str]:
        """The names of the loops that are not over."""
        return [name for name, loop in self.loops.items() if loop.over is None]

    @property
    def pending_amendments(self) -> list[Amendment]:
        """What waits for a person, and keeps every stage from a start: amendments, the plan."""
        return [a for a in self.amendments.values() if a.is_open]

    @property
    def plan(self) -> Amendment | None:
        """The plan as the workflow began, where it takes a person's approval."""
        found = self.amendments.get(PLAN)
        return found if found is not None and found.is_plan else None

    @property
    def is_plan_agreed(self) -> bool:
        """Whether a person approved the plan."""
        return self.plan is not None and self.plan.status == "approved"

    @property
    def has_new_signers(self) -> bool:
        """Whether nobody at a terminal has agreed to the signers yet: the plan names them."""
        return self.consent == "signature" and self.plan is not None and self.plan.is_open

    def draft(self) -> Workflow:
        """Return a copy that a fold may change without touching this one."""
        new = copy(self)
        new.session, new.drifts = copy(self.session), list(self.drifts)
        new.set_aside = list(self.set_aside)
        new.extra = dict(self.extra)
        new.loops = {key: replace(one, rounds=[*one.rounds]) for key, one in self.loops.items()}
        new.amendments = {key: copy(value) for key, value in self.amendments.items()}
        new.stages = {key: _draft_stage(value) for key, value in self.stages.items()}
        return new


def _object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


#: `copy` asks each object how it is to be copied: too slow for thousands of them.
_OF_STAGE = attrgetter(*(known.name for known in fields(Stage)))
_OF_ATTEMPT = attrgetter(*(known.name for known in fields(Attempt)))


def _draft_stage(stage: Stage) -> Stage:
    new = Stage(*_OF_STAGE(stage))
    new.attempts = [Attempt(*_OF_ATTEMPT(attempt)) for attempt in stage.attempts]
    new.blocked_by = dict(stage.blocked_by)
    new.parameters = dict(stage.parameters)
    new.extra = dict(stage.extra)
    return new
