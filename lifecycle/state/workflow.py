"""The state of a staged workflow, computed by folding its events."""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from lifecycle.errors import UnknownStage
from lifecycle.state.loops import LoopState
from lifecycle.state.status import FINISHED, Status, backend_type
from lifecycle.sweeps.work import Work, build_work
from lifecycle.words.mandates import MANDATES, Mandate, mandates_of
from lifecycle.words.metrics import RESULTS, results_of
from lifecycle.words.rounds import ROUNDS, LoopDefinition, envelope_of, loops_of

#: Verdicts on an attempt whose next step was refused by a check, a disk or a machine.
_OBSTACLES = frozenset({"HINDERED", "MACHINE_REFUSED"})
#: Id and kind of the initial plan, which a person approves like an amendment.
PLAN = "plan"
#: Kind of an amendment that changes several stages, made by applying an edited plan.
PLAN_CHANGE = "plan_change"
_OF_LOOP = "rounds."  # followed by the name of a loop, whose envelope is a mandate
#: Pattern of the name of an attempt's folder, in the path of its recorded submission.
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
    #: Number of consecutive relaunches for the same reason.
    relaunches_alike: int = 0
    relaunched_for: str | None = None
    row: int | None = None
    verdict: str | None = None
    action: str | None = None
    reason: str | None = None
    evidence: dict[str, Any] | None = None
    #: The cause and the start of a wait: ``reason`` and ``since``. None if the attempt continues.
    waiting: dict[str, str] | None = None
    ended_at: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    #: Files that the definition ran when the attempt started: path → SHA-256 in hex.
    scripts: dict[str, str] = field(default_factory=dict)
    #: Whether the attempt must be stopped, and when the end of all its processes was observed.
    stop: bool = False
    stopped_at: str | None = None
    #: Whether another user or program launched the attempt before the import.
    taken_over: bool = False
    #: Files with which the attempt continues, as `FileDigest`, and the attempt that wrote them.
    carried: list[dict[str, Any]] = field(default_factory=list)
    carried_from: str | None = None
    #: Environment of the jobs, as `JobEnvironment`, or None if unknown.
    environment: dict[str, Any] | None = None
    #: Variables of the jobs: name → digest with the key that ``variables_key`` identifies.
    variables: dict[str, str] = field(default_factory=dict)
    variables_key: str | None = None
    #: First program of the command, as `FileDigest`, or None if unknown.
    program: dict[str, Any] | None = None
    #: Other programs that the command and the verify commands start, as `FileDigest`.
    programs: list[dict[str, Any]] = field(default_factory=list)
    #: Python files at the start that a script would import by location, or None if unknown.
    beside: dict[str, str] | None = None
    #: Files of the check that changed after the start: path → SHA-256 in hex, or ``missing``.
    check_files: dict[str, str] = field(default_factory=dict)
    #: Commit of the code that the attempt uses, as `CodeVersion`, or None if unknown.
    code: dict[str, Any] | None = None
    #: The amendment that changed the definition of the attempt after its start.
    outdated_by: str | None = None
    #: Inputs of the attempt, as `FileDigest`.
    inputs: list[dict[str, Any]] = field(default_factory=list)
    #: Scripts that differed at the start from the last approval, or from the start of the workflow.
    unapproved: list[str] = field(default_factory=list)
    #: Scripts that were sent to the job and had changed when the job ended.
    exchanged: list[str] = field(default_factory=list)
    #: Leftover files of the attempt, as `LeftFile`.
    left: list[dict[str, Any]] = field(default_factory=list)
    #: Digest of the definition at the start, from `basis_of`, or "" if unknown.
    basis: str = ""
    #: Outputs at their verification, as `FileDigest`.
    results: list[dict[str, Any]] = field(default_factory=list)
    #: Numbers that were read from the outputs, as `MeasuredNumber`.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: Resources that the jobs used, in seconds and bytes, as in `StageComputed`.
    resources: dict[str, float] = field(default_factory=dict)
    #: Whether the outputs were verified and failed by the current definition.
    is_refuted: bool = False
    #: Version of the plan at the start, or 0 if unknown.
    plan: int = 0
    #: Round of the loop that the attempt computes, or 0 outside a loop.
    round: int = 0
    #: Hash of the event that started the attempt, or "" after an import.
    event: str = ""
    #: State of the tasks of a sweep at their last check, as `TasksObserved`.
    tasks: dict[str, Any] | None = None
    #: Number of tasks that an attempt of a sweep must compute, or None if unknown.
    tasks_given: int | None = None
    #: Charge of an attempt under mandates: ``mandates`` (names, newest first, the loop last),
    #: and the maximum ``tasks``, ``core_seconds`` and ``cores``.
    charged: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the attempt's folder: a number, and a mark unless the log is old."""
        return f"{self.number}-{self.mark}" if self.mark else self.number

    @property
    def number(self) -> str:
        """Return the id in the name of the attempt's folder, which a lost log may have assigned."""
        found = _NAME.fullmatch(self._folder)
        return found[1] if found else self.id

    @property
    def mark(self) -> str:
        """Return the mark that distinguishes equal ids in copies or earlier logs; may be empty."""
        found = _NAME.fullmatch(self._folder)
        return found[2] if found else ""

    @property
    def _folder(self) -> str:
        return self.submission.rpartition("/")[0].rpartition("/")[2]

    @property
    def is_open(self) -> bool:
        """Return whether the end of the attempt is undecided."""
        return self.ended_at is None

    @property
    def obstacle(self) -> str | None:
        """Return why the next step of the attempt was refused, or None if it was not."""
        return self.reason if self.verdict in _OBSTACLES else None

    @property
    def is_to_stop(self) -> bool:
        """Return whether the attempt must be stopped and its end was not observed."""
        return self.stop and self.stopped_at is None

    @property
    def may_run_on(self) -> bool:
        """Return whether the end was recorded without observing the end of the jobs."""
        seen = self.action in ("succeeded", "failed") or self.stopped_at is not None
        return not (seen or self.is_open or self.taken_over)


@dataclass(slots=True)
class Stage:
    """One stage: its definition and its status."""

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
    #: Diagnosis of the last failure: its category, and the line that shows it.
    category: str | None = None
    because: str | None = None
    #: Version of the plan when the stage failed last, or 0 if unknown.
    failed_plan: int = 0
    running_process: dict[str, Any] | None = None
    checkpoint: Any = None
    #: Fields outside the protocol, stored unchanged.
    extra: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    #: Dependencies that were already recorded as blocking this stage: id → status.
    blocked_by: dict[str, str] = field(default_factory=dict)
    #: The approved amendment that lets this failed stage run again.
    rerun_by: str | None = None
    #: Number of kept folders ``stage-N.vK``, and the name for the next kept folder, if one is due.
    kept: int = 0
    keep_as: str | None = None
    #: Whether finished tasks of a sweep stay in place while its submission is built again.
    keeps_tasks: bool = False
    #: Decisions that finished tasks stay valid although their inputs changed.
    #: ``attempt`` is the newest attempt with such tasks.
    #: ``by`` is the person, ``policy`` the consent policy.
    kept_tasks: list[dict[str, Any]] = field(default_factory=list)
    regenerate: bool = False
    fix: str | None = None  # the fix before the newest retry
    #: Whether work has ended in this session and was not charged yet.
    uncharged: bool = False
    #: Outputs at the completion of the stage, as `FileDigest`.
    results: list[dict[str, Any]] = field(default_factory=list)
    #: Numbers that were read from the outputs, as `MeasuredNumber`.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: Results that were observed to have changed, as `ChangedFile`.
    changed: list[dict[str, Any]] = field(default_factory=list)
    #: Each adoption of changed results: ``paths``, ``by``, ``policy``.
    adopted: list[dict[str, Any]] = field(default_factory=list)
    #: Results that were recorded as deleted.
    #: Each is a `FileDigest` with ``at``, ``by``, ``policy`` and ``reason``.
    deleted: list[dict[str, Any]] = field(default_factory=list)
    #: Whether the outputs are undeclared files that the newest attempt left.
    found_outputs: bool = False
    #: The attempt whose kept outputs the stage uses instead of a computation.
    reused: str | None = None
    #: Whether only the criteria changed, so that kept outputs are verified first.
    is_rejudged: bool = False
    #: Mandates that changed or reran the stage since a person's last approval, newest first.
    mandates: list[str] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """Return the error of a failed stage, else None.

        ``last_error`` keeps its value later.
        """
        return self.last_error if self.status is Status.FAILED else None

    @property
    def work(self) -> Work:
        """What the stage computes: one command, or one for each point of a map."""
        return build_work(self.id, self.parameters)

    @property
    def declared_outputs(self) -> list[str]:
        """The outputs that a run must produce."""
        return [] if self.found_outputs else self.outputs

    @property
    def left_in_place(self) -> list[str]:
        """Return the files that attempts left in the stage's folder, without its outputs."""
        files = [one for attempt in self.attempts for one in attempt.left]
        paths = dict.fromkeys(one["path"] for one in files if one.get("at") is None)
        return [path for path in paths if is_below(path, self.id)]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def source(self) -> Attempt | None:
        """Return the attempt that produced the outputs: the newest one, unless they were reused."""
        if self.reused is None:
            return self.attempt
        return next((one for one in self.attempts if one.id == self.reused), None)

    @property
    def open_attempt(self) -> Attempt | None:
        """Return the running attempt, or None."""
        newest = self.attempt
        return newest if newest is not None and newest.is_open else None


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is in a folder, both relative to the root."""
    first, *others = path.split("/")
    return first == folder and bool(others) and not {"", ".", ".."} & set(others)


@dataclass(slots=True)
class Amendment:
    """A change of the definition: proposed, then approved or rejected."""

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
    #: Other stages that run again with this stage, and the first round that is computed again.
    also: list[str] = field(default_factory=list)
    from_round: int | None = None
    status: str = "proposed"
    version: int | None = None
    decided_at: str | None = None
    approved_by: str | None = None
    #: Policy under which consent was given, or None for a record of another program.
    policy: str | None = None
    #: Account of the database server behind a name that the caller claimed, or None.
    database_user: str | None = None
    #: The mandate that covers the amendment, if the policy is that of mandates.
    mandate: str | None = None
    #: Version of the rules of mandates in the proof, or 0 before the approval.
    mandate_rule: int = 0
    invalidated_stages: list[str] = field(default_factory=list)
    #: Hash of the approval of the amendment.
    approval: str = ""
    #: Files that the definition ran at the approval.
    scripts: dict[str, str] = field(default_factory=dict)
    #: The record in an imported file. Another program wrote it, so it is shown unchanged.
    record: dict[str, Any] | None = None

    @property
    def is_plan(self) -> bool:
        """Return whether this is the initial plan and not a change of it."""
        return self.kind == PLAN and self.record is None

    @property
    def is_open(self) -> bool:
        """Return whether a person may still approve it.

        A rejected plan can be approved later.
        """
        return self.status == "proposed" or (self.is_plan and self.status == "rejected")

    @property
    def targets(self) -> list[str]:
        """Return the stages that the amendment names, empty if it concerns the workflow."""
        if self.kind == PLAN_CHANGE:
            return [*self.rewired]
        return [self.stage, *self.also] if self.stage is not None else []


@dataclass(slots=True)
class Session:
    """The current session, as ``session_config`` shows it."""

    count: int = 0
    id: str | None = None
    cost: float = 0
    exit_reason: str | None = None
    is_open: bool = False
    #: Whether a loop owns the session. An open session without a running loop has crashed.
    driven: bool = False
    #: Path of the report relative to the root, or None for the default path.
    report: str | None = None


@dataclass(slots=True)
class Drift:
    """A version of a file that another program wrote, kept until it is adopted or reverted.

    ``version`` is the version of its ``drift.detected`` event, ``base`` the version that the file
    had shown.
    """

    version: int
    file: str
    kind: str
    base: int
    kept_as: str
    #: Definitional fields of stages that the drift changes, such as ``stage-2.parameters.dt``.
    touches: list[str] = field(default_factory=list)
    #: Differences that are still undecided, or None for all.
    rest: list[str] | None = None


@dataclass(slots=True)
class Workflow:
    """A whole workflow. ``head`` is the version of the last folded event."""

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
    #: Number of completions, and the path of the last completion's report.
    completions: int = 0
    report: str | None = None
    root: dict[str, Any] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    #: Decided manual edits: ``file``, ``how`` (adopted or reverted), ``by``, ``policy``.
    edits: list[dict[str, Any]] = field(default_factory=list)
    #: Audit entries that a person accepted: id → ``by``, ``policy``, ``reason``.
    agreed: dict[str, dict[str, Any]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    #: Files that the definition ran when a person last approved a change.
    scripts: dict[str, str] = field(default_factory=dict)
    #: Last version of the log that was imported with the workflow, or 0 without an import.
    import_end: int = 0
    #: The imported document. Its unchanged parts are shown in their original form.
    source: dict[str, Any] | None = None
    #: Text of its numbers by JSON pointer, if they are written in an unusual form.
    spelling: dict[str, str] = field(default_factory=dict)
    #: The progress of each loop, by loop name.
    loops: dict[str, LoopState] = field(default_factory=dict)
    #: Events that are ignored because their data is invalid: ``version``, ``type``, ``why``.
    set_aside: list[dict[str, Any]] = field(default_factory=list)

    def stage(self, id_: str) -> Stage:
        """Return the stage. Raises `UnknownStage`."""
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
        """Return the dependencies that are not completed, or continue in a loop: id → status."""
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
        """Return the name of the loop that contains a stage, or None."""
        return next((name for name, loop in self.loops.items() if stage in loop.stages), None)

    @property
    def results(self) -> list[str]:
        """Return the names of the numbers and files that answer the workflow's question."""
        return results_of(self.extra.get(RESULTS))

    @results.setter
    def results(self, names: list[str]) -> None:
        self.extra[RESULTS] = names

    @property
    def mandates(self) -> dict[str, Any]:
        """Return the mandates of the definition, by name."""
        return _object(self.extra.get(MANDATES))

    @mandates.setter
    def mandates(self, given: dict[str, Any]) -> None:
        self.extra[MANDATES] = given

    @property
    def rounds(self) -> dict[str, Any]:
        """Return the loops of the definition, by name."""
        return _object(self.extra.get(ROUNDS))

    @rounds.setter
    def rounds(self, given: dict[str, Any]) -> None:
        self.extra[ROUNDS] = given

    def loop(self, name: str) -> LoopDefinition:
        """Return the definition of a loop. Raises KeyError."""
        return loops_of({name: self.rounds[name]})[name]

    def mandate(self, name: str) -> Mandate | None:
        """Return the valid mandate with this name, or None.

        The envelope of a loop is a mandate.
        """
        loop = name.removeprefix(_OF_LOOP)
        if loop != name:
            return envelope_of(self.loop(loop)) if loop in self.loops else None
        return mandates_of({name: self.mandates[name]}).get(name) if name in self.mandates else None

    def mandates_for(self, stage: Stage) -> list[str]:
        """Return all mandates under which a stage is computed: its own, and that of its loop."""
        loop = self.loop_of(stage.id)
        return [*stage.mandates, *([] if loop is None else [f"{_OF_LOOP}{loop}"])]

    @property
    def is_beginning(self) -> bool:
        """Return whether wfctl has started no attempt and no file of the definition is known."""
        tried = (one for stage in self.stages.values() for one in stage.attempts)
        return not self.scripts and all(one.taken_over for one in tried)

    @property
    def is_finished(self) -> bool:
        """Return whether every stage is completed or skipped, and every loop has ended."""
        done = all(stage.status in FINISHED for stage in self.stages.values())
        return done and not self.open_loops

    @property
    def open_loops(self) -> list[str]:
        """Return the names of the loops that have not ended."""
        return [name for name, loop in self.loops.items() if loop.over is None]

    @property
    def pending_amendments(self) -> list[Amendment]:
        """Return the amendments and the plan that wait for a person and block all stages."""
        return [a for a in self.amendments.values() if a.is_open]

    @property
    def plan(self) -> Amendment | None:
        """Return the initial plan if it needs a person's approval, else None."""
        found = self.amendments.get(PLAN)
        return found if found is not None and found.is_plan else None

    @property
    def is_plan_agreed(self) -> bool:
        """Return whether a person approved the plan."""
        return self.plan is not None and self.plan.status == "approved"

    @property
    def has_new_signers(self) -> bool:
        """Return whether the plan names signers that no person at a terminal has approved yet."""
        return self.consent == "signature" and self.plan is not None and self.plan.is_open

    def draft(self) -> Workflow:
        """Return a copy that a fold may change without changing this state."""
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


#: Reading all fields at once is faster than `copy` for thousands of stages.
_OF_STAGE = attrgetter(*[known.name for known in fields(Stage)])
_OF_ATTEMPT = attrgetter(*[known.name for known in fields(Attempt)])


def _draft_stage(stage: Stage) -> Stage:
    new = Stage(*_OF_STAGE(stage))
    new.attempts = [Attempt(*_OF_ATTEMPT(attempt)) for attempt in stage.attempts]
    new.blocked_by = dict(stage.blocked_by)
    new.parameters = dict(stage.parameters)
    new.extra = dict(stage.extra)
    return new
