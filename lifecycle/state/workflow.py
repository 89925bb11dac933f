"""The state of a workflow, which is computed by folding its events."""

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
from lifecycle.words.mandates import MANDATES, Mandate, parse_valid_mandates
from lifecycle.words.metrics import RESULTS, parse_result_entries
from lifecycle.words.plan_parameters import PLAN_PARAMETERS, list_used_names
from lifecycle.words.rounds import ROUNDS, LoopDefinition, loop_limits_as_mandate, parse_valid_loops

#: Verdicts on an attempt whose next step failed because of a check, a disk or a machine.
_OBSTACLES = frozenset({"HINDERED", "MACHINE_REFUSED"})
#: Id of the initial plan, which a person approves like an amendment. Its type has the same name.
PLAN = "plan"
#: Type of an amendment that applies an edited plan and may change several stages.
PLAN_CHANGE = "plan_change"
_OF_LOOP = "rounds."  # followed by the name of a loop, whose envelope is a mandate
#: Pattern of the name of an attempt's folder: the id of the attempt and a random mark.
_NAME = r"(att-[0-9]{4,})-([0-9a-f]{8})"


@dataclass(slots=True)
class Attempt:
    """One attempt to run the computation of a stage."""

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
    #: Number of consecutive restarts of the monitor for the same reason.
    relaunches_alike: int = 0
    relaunched_for: str | None = None
    row: int | None = None
    verdict: str | None = None
    action: str | None = None
    reason: str | None = None
    evidence: dict[str, Any] | None = None
    #: The reason why the attempt is waiting, and the time since which it waits: ``reason`` and
    #: ``since``. None if it is not waiting.
    waiting: dict[str, str] | None = None
    ended_at: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    #: Scripts that the plan runs, when the attempt started: path → SHA-256 in hex.
    scripts: dict[str, str] = field(default_factory=dict)
    #: True if the attempt must be stopped. The next field is the time at which all its processes
    #: were seen to have ended.
    stop: bool = False
    stopped_at: str | None = None
    #: True if a person or another program launched the attempt, and wfctl only took it over.
    taken_over: bool = False
    #: Files of an earlier attempt from which this attempt continues (`FileDigest`), and the id of
    #: the earlier attempt.
    carried: list[dict[str, Any]] = field(default_factory=list)
    carried_from: str | None = None
    #: The environment of the jobs (`JobEnvironment`), or None if unknown.
    environment: dict[str, Any] | None = None
    #: The environment variables of the jobs: name → keyed digest of the value. ``variables_key``
    #: identifies the key.
    variables: dict[str, str] = field(default_factory=dict)
    variables_key: str | None = None
    #: The program that the command starts first (`FileDigest`), or None if unknown.
    program: dict[str, Any] | None = None
    #: Other programs that the command and the verify commands start (`FileDigest`).
    programs: list[dict[str, Any]] = field(default_factory=list)
    #: Python files next to a script at the start of the attempt, which the script could import.
    #: None if unknown.
    beside: dict[str, str] | None = None
    #: Files used by the verification that changed after the start of the attempt: path → SHA-256 in
    #: hex, or ``missing``.
    check_files: dict[str, str] = field(default_factory=dict)
    #: The git commit of the code that the attempt uses (`CodeVersion`), or None if unknown.
    code: dict[str, Any] | None = None
    #: Id of an amendment that changed the definition of the stage after the start of the attempt.
    outdated_by: str | None = None
    #: The input files of the attempt (`FileDigest`).
    inputs: list[dict[str, Any]] = field(default_factory=list)
    #: Scripts that at the start of the attempt differed from their approved contents.
    unapproved: list[str] = field(default_factory=list)
    #: Scripts that were sent to the job and had different contents when the job ended.
    exchanged: list[str] = field(default_factory=list)
    #: Files that the attempt wrote in addition to the outputs (`LeftFile`).
    left: list[dict[str, Any]] = field(default_factory=list)
    #: The basis of the attempt: a digest of everything that determines its results. It is computed
    #: by `compute_basis_digest`, and empty if unknown.
    basis: str = ""
    #: The outputs with their digests at the time of verification (`FileDigest`).
    results: list[dict[str, Any]] = field(default_factory=list)
    #: Metrics that were read from the outputs (`MeasuredNumber`).
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: Resources that the jobs used, in seconds and bytes. See `StageComputed`.
    resources: dict[str, float] = field(default_factory=dict)
    #: Resources that the attempt requested. See `AttemptStarted`.
    requested: dict[str, float] = field(default_factory=dict)
    #: The shortage that ended the attempt: ``memory`` or ``time``, or None.
    short_of: str | None = None
    #: The resource of which the next attempt requests more, or None.
    grown: str | None = None
    #: True if the outputs did not pass the verification under the current plan.
    is_refuted: bool = False
    #: Version of the plan at the start of the attempt, or 0 if unknown.
    plan: int = 0
    #: Number of the loop round that the attempt computes, or 0 outside a loop.
    round: int = 0
    #: Hash of the event that started the attempt. Empty after an import.
    event: str = ""
    #: The states of a sweep's tasks at the last check (`TasksObserved`).
    tasks: dict[str, Any] | None = None
    #: Number of tasks that the attempt of a sweep must compute, or None if unknown.
    tasks_given: int | None = None
    #: Costs that are charged to mandates (permissions given in advance): ``mandates`` (names,
    #: newest first, the loop last), and the maximum ``tasks``, ``core_seconds`` and ``cores``.
    charged: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the attempt's folder: its number, followed by a mark if it has one.

        The mark distinguishes attempts with equal numbers. Attempts of very old logs have no mark.
        """
        return f"{self.number}-{self.mark}" if self.mark else self.number

    @property
    def number(self) -> str:
        """Return the id in the name of the attempt's folder.

        It differs from the attempt's id if an earlier, lost log assigned it.
        """
        found = re.fullmatch(_NAME, self._folder)
        return found[1] if found else self.id

    @property
    def mark(self) -> str:
        """Return the mark in the name of the attempt's folder, or "" if the name has none.

        It distinguishes attempts with equal ids in copies of the workflow or earlier logs.
        """
        found = re.fullmatch(_NAME, self._folder)
        return found[2] if found else ""

    @property
    def _folder(self) -> str:
        return self.submission.rpartition("/")[0].rpartition("/")[2]

    @property
    def is_open(self) -> bool:
        """Return whether no end of the attempt is recorded."""
        return self.ended_at is None

    @property
    def obstacle(self) -> str | None:
        """Return the reason why the next step of the attempt failed, or None if it did not fail."""
        return self.reason if self.verdict in _OBSTACLES else None

    @property
    def is_to_stop(self) -> bool:
        """Return whether the attempt must be stopped and its end was not observed yet."""
        return self.stop and self.stopped_at is None

    @property
    def can_have_running_jobs(self) -> bool:
        """Return whether jobs of an ended attempt may still be running.

        This is possible if the end of the attempt was recorded without observing that its jobs
        ended.
        """
        seen = self.action in ("succeeded", "failed") or self.stopped_at is not None
        return not (seen or self.is_open or self.taken_over)


@dataclass(slots=True)
class Stage:
    """One stage of a workflow: its definition in the plan, its status and its attempts."""

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
    #: Diagnosis of the last failure: its category, and the line of output that shows it.
    category: str | None = None
    because: str | None = None
    #: The shortage that caused the last failure: ``memory`` or ``time``, or None.
    short_of: str | None = None
    #: Version of the plan at the last failure of the stage, or 0 if unknown.
    failed_plan: int = 0
    running_process: dict[str, Any] | None = None
    checkpoint: Any = None
    #: Fields that the protocol does not define. They are stored unchanged.
    extra: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    #: Dependencies for which the log already records that they block this stage: id → status.
    blocked_by: dict[str, str] = field(default_factory=dict)
    #: Id of the approved amendment because of which this failed stage runs again.
    rerun_by: str | None = None
    #: The highest number K of the archive folders ``stage-N.vK``, and the name of the archive
    #: folder to be created next. The name is None if no archiving is due.
    kept: int = 0
    keep_as: str | None = None
    #: True if finished tasks of a sweep stay valid when the stage runs again.
    keeps_tasks: bool = False
    #: Decisions that finished tasks stay valid although their inputs changed. ``attempt`` is the
    #: newest attempt with such tasks, ``by`` the person, and ``policy`` the consent policy.
    kept_tasks: list[dict[str, Any]] = field(default_factory=list)
    regenerate: bool = False
    fix: str | None = None  # the fix before the newest retry
    #: True if the cost of ended work was not charged to a session yet.
    uncharged: bool = False
    #: Outputs at the completion of the stage (`FileDigest`).
    results: list[dict[str, Any]] = field(default_factory=list)
    #: Metrics that were read from the outputs (`MeasuredNumber`).
    metrics: list[dict[str, Any]] = field(default_factory=list)
    #: Results that have changed since the completion of the stage (`ChangedFile`).
    changed: list[dict[str, Any]] = field(default_factory=list)
    #: Changed results that a person accepted: ``paths``, ``by``, ``policy``.
    adopted: list[dict[str, Any]] = field(default_factory=list)
    #: Results that were recorded as deleted: the fields of `FileDigest`, and ``at``, ``by``,
    #: ``policy`` and ``reason``.
    deleted: list[dict[str, Any]] = field(default_factory=list)
    #: True if the plan declares no outputs, and the outputs are files that the newest attempt
    #: wrote.
    found_outputs: bool = False
    #: Id of the attempt whose archived outputs the stage uses instead of a new computation.
    reused: str | None = None
    #: True if only the criteria changed. Existing outputs are then checked before anything is
    #: computed.
    is_rejudged: bool = False
    #: Mandates (permissions given in advance) under which the stage was changed or rerun since a
    #: person's last approval, newest first.
    mandates: list[str] = field(default_factory=list)

    @property
    def error(self) -> str | None:
        """Return the error of a failed stage, or None if the stage has not failed.

        ``last_error`` keeps the error even after the stage runs again.
        """
        return self.last_error if self.status is Status.FAILED else None

    @property
    def work(self) -> Work:
        """The computation of the stage: one command, or one task for each point of a map."""
        return build_work(self.id, self.parameters)

    @property
    def declared_outputs(self) -> list[str]:
        """The output files that the plan declares, which an attempt must write."""
        return [] if self.found_outputs else self.outputs

    @property
    def left_in_place(self) -> list[str]:
        """Return files in the stage's folder that attempts wrote in addition to the outputs."""
        files = [one for attempt in self.attempts for one in attempt.left]
        paths = dict.fromkeys(one["path"] for one in files if one.get("at") is None)
        return [path for path in paths if is_below(path, self.id)]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt of the stage, or None."""
        return self.attempts[-1] if self.attempts else None

    @property
    def source(self) -> Attempt | None:
        """Return the attempt that produced the stage's outputs, or None.

        This is the newest attempt, unless the stage reuses the outputs of an earlier one.
        """
        if self.reused is None:
            return self.attempt
        return next((one for one in self.attempts if one.id == self.reused), None)

    @property
    def open_attempt(self) -> Attempt | None:
        """Return the newest attempt if it has not ended, otherwise None."""
        newest = self.attempt
        return newest if newest is not None and newest.is_open else None


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is inside a folder. Both are relative to the root."""
    first, *others = path.split("/")
    return first == folder and bool(others) and not {"", ".", ".."} & set(others)


@dataclass(slots=True)
class Amendment:
    """A change of the plan, which is proposed and then approved or rejected."""

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
    #: Other stages that run again together with this stage, and the first loop round whose results
    #: become invalid.
    also: list[str] = field(default_factory=list)
    from_round: int | None = None
    status: str = "proposed"
    version: int | None = None
    decided_at: str | None = None
    approved_by: str | None = None
    #: The consent policy under which the amendment was approved, or None if another program
    #: recorded it.
    policy: str | None = None
    #: The user account that the database server verified, in addition to the name that the caller
    #: claimed. None if there is no server.
    database_user: str | None = None
    #: Name of the mandate (permission given in advance) under which the amendment was approved.
    mandate: str | None = None
    #: Version of the mandate rules in the proof of consent, or 0 before the approval.
    mandate_rule: int = 0
    invalidated_stages: list[str] = field(default_factory=list)
    #: Hash of the event that approved the amendment.
    approval: str = ""
    #: Scripts that the plan runs, at the approval: path → SHA-256 in hex.
    scripts: dict[str, str] = field(default_factory=dict)
    #: The original record in an imported file. It is shown unchanged, because another program wrote
    #: it.
    record: dict[str, Any] | None = None

    @property
    def is_plan(self) -> bool:
        """Return whether this object is the initial plan and not a later change."""
        return self.kind == PLAN and self.record is None

    @property
    def is_open(self) -> bool:
        """Return whether a person may still approve the amendment.

        A rejected initial plan can be approved later.
        """
        return self.status == "proposed" or (self.is_plan and self.status == "rejected")

    @property
    def targets(self) -> list[str]:
        """Return the stages that the amendment names.

        The list is empty if it changes the workflow as a whole.
        """
        if self.kind == PLAN_CHANGE:
            return [*self.rewired]
        return [self.stage, *self.also] if self.stage is not None else []


@dataclass(slots=True)
class Session:
    """The current session, as the field ``session_config`` of the state file shows it."""

    count: int = 0
    id: str | None = None
    cost: float = 0
    exit_reason: str | None = None
    is_open: bool = False
    #: True if an automatic run loop opened the session. If such a session is open without a running
    #: loop, the loop has crashed.
    driven: bool = False
    #: Path of the workflow's report relative to the root, or None for the default path.
    report: str | None = None


@dataclass(slots=True)
class Drift:
    """A manual edit of a generated file that waits to be adopted or reverted.

    ``version`` is the version of the event that detected the edit. ``base`` is the version of the
    log that the file showed before the edit. ``kept_as`` is the archived copy of the edited file.
    """

    version: int
    file: str
    kind: str
    base: int
    kept_as: str
    #: Fields of a stage's definition that the edit changes, such as ``stage-2.parameters.dt``.
    touches: list[str] = field(default_factory=list)
    #: The differences that are not decided yet. None means all of them.
    rest: list[str] | None = None


@dataclass(slots=True)
class Workflow:
    """The complete state of a workflow. ``head`` is the version of the last folded event."""

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
    #: Number of times that the workflow was completed, and the path of the last report.
    completions: int = 0
    report: str | None = None
    root: dict[str, Any] = field(default_factory=dict)
    drifts: list[Drift] = field(default_factory=list)
    #: Manual edits that were decided: ``file``, ``how`` (adopted or reverted), ``by``, ``policy``.
    edits: list[dict[str, Any]] = field(default_factory=list)
    #: Audit entries that a person accepted: id → ``by``, ``policy``, ``reason``.
    agreed: dict[str, dict[str, Any]] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    #: Scripts that the plan runs, when a person last approved a change: path → SHA-256 in hex.
    scripts: dict[str, str] = field(default_factory=dict)
    #: Version of the last imported event, or 0 if the workflow was not imported.
    import_end: int = 0
    #: The imported document. Parts that have not changed are shown in their original form.
    source: dict[str, Any] | None = None
    #: Original text of numbers in the imported document that have an unusual notation, by JSON
    #: pointer.
    spelling: dict[str, str] = field(default_factory=dict)
    #: The progress of each loop, by loop name.
    loops: dict[str, LoopState] = field(default_factory=dict)
    #: Events that are ignored because they are not valid: ``version``, ``type`` and the reason
    #: ``why``.
    set_aside: list[dict[str, Any]] = field(default_factory=list)

    def stage(self, id_: str) -> Stage:
        """Return the stage with the given id. Raises `UnknownStage`."""
        try:
            return self.stages[id_]
        except KeyError:
            raise UnknownStage(id_, list(self.stages)) from None

    def profile(self, stage: Stage) -> dict[str, Any]:
        """Return the settings of the backend on which the stage runs."""
        return _object(self.backend_profiles.get(stage.backend or self.default_backend))

    def backend_type(self, stage: Stage) -> str:
        """Return the type of the stage's backend, ``local`` or ``remote``."""
        return backend_type(self.backend_profiles, stage.backend or self.default_backend)

    def unmet_dependencies(self, stage: Stage) -> dict[str, str]:
        """Return the dependencies for which a stage still has to wait, each with its status.

        These are stages that are not completed, and stages in a loop that is not over.
        """
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
        """Return the names of the metrics and files that the plan lists as results."""
        return parse_result_entries(self.extra.get(RESULTS))

    @results.setter
    def results(self, names: list[str]) -> None:
        self.extra[RESULTS] = names

    @property
    def mandates(self) -> dict[str, Any]:
        """Return the mandates (permissions given in advance) in the plan, by name."""
        return _object(self.extra.get(MANDATES))

    @mandates.setter
    def mandates(self, given: dict[str, Any]) -> None:
        self.extra[MANDATES] = given

    @property
    def rounds(self) -> dict[str, Any]:
        """Return the definitions of the loops in the plan, by name."""
        return _object(self.extra.get(ROUNDS))

    @rounds.setter
    def rounds(self, given: dict[str, Any]) -> None:
        self.extra[ROUNDS] = given

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the whole plan, by name."""
        return _object(self.extra.get(PLAN_PARAMETERS))

    @parameters.setter
    def parameters(self, given: dict[str, Any]) -> None:
        self.extra[PLAN_PARAMETERS] = given

    def list_parameter_users(self, amendment: Amendment) -> list[str]:
        """Return the stages that use a parameter of the plan that the amendment changes."""
        found = amendment.changes.get(PLAN_PARAMETERS) if amendment.stage is None else None
        changed = _object(found).keys()
        return [
            id_
            for id_, stage in self.stages.items()
            if changed and not changed.isdisjoint(list_used_names(stage.parameters))
        ]

    def loop(self, name: str) -> LoopDefinition:
        """Return the definition of the loop. Raises KeyError if no loop has this name."""
        return parse_valid_loops({name: self.rounds[name]})[name]

    def mandate(self, name: str) -> Mandate | None:
        """Return the mandate (permission given in advance) with this name.

        Return None if it does not exist or is not valid. The limits of a loop are a mandate with
        the name ``rounds.NAME``.
        """
        loop = name.removeprefix(_OF_LOOP)
        if loop != name:
            return loop_limits_as_mandate(self.loop(loop)) if loop in self.loops else None
        return (
            parse_valid_mandates({name: self.mandates[name]}).get(name)
            if name in self.mandates
            else None
        )

    def mandates_for(self, stage: Stage) -> list[str]:
        """Return the names of all mandates (permissions given in advance) that a stage uses.

        The limits of its loop are one of them.
        """
        loop = self.loop_of(stage.id)
        return [*stage.mandates, *([] if loop is None else [f"{_OF_LOOP}{loop}"])]

    @property
    def is_beginning(self) -> bool:
        """Return whether the workflow is just being created.

        This is the case until an attempt was started by wfctl or digests of scripts were recorded.
        """
        tried = (one for stage in self.stages.values() for one in stage.attempts)
        return not self.scripts and all(one.taken_over for one in tried)

    @property
    def is_finished(self) -> bool:
        """Return whether every stage is completed or skipped, and every loop is over."""
        done = all(stage.status in FINISHED for stage in self.stages.values())
        return done and not self.open_loops

    @property
    def open_loops(self) -> list[str]:
        """Return the names of the loops that are not over."""
        return [name for name, loop in self.loops.items() if loop.over is None]

    @property
    def pending_amendments(self) -> list[Amendment]:
        """Return the amendments, including the initial plan, that wait for a person's decision.

        While such an amendment exists, no stage can start.
        """
        return [a for a in self.amendments.values() if a.is_open]

    @property
    def plan(self) -> Amendment | None:
        """Return the initial plan as an amendment, or None if it needs no approval."""
        found = self.amendments.get(PLAN)
        return found if found is not None and found.is_plan else None

    @property
    def is_plan_agreed(self) -> bool:
        """Return whether a person approved the initial plan."""
        return self.plan is not None and self.plan.status == "approved"

    @property
    def has_new_signers(self) -> bool:
        """Return whether no person has approved the signers that the initial plan names.

        The signers are the people whose signatures are accepted as approvals.
        """
        return self.consent == "signature" and self.plan is not None and self.plan.is_open

    def draft(self) -> Workflow:
        """Return a copy of the state that can be modified without modifying the original."""
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


#: Reading all fields of a stage at once is faster than `copy`, which matters for thousands of
#: stages.
_OF_STAGE = attrgetter(*[known.name for known in fields(Stage)])
_OF_ATTEMPT = attrgetter(*[known.name for known in fields(Attempt)])


def _draft_stage(stage: Stage) -> Stage:
    new = Stage(*_OF_STAGE(stage))
    new.attempts = [Attempt(*_OF_ATTEMPT(attempt)) for attempt in stage.attempts]
    new.blocked_by = dict(stage.blocked_by)
    new.parameters = dict(stage.parameters)
    new.extra = dict(stage.extra)
    return new
