"""The errors of the lifecycle rules.

LifecycleError
├── InvalidPlan               the plan is not valid
├── InvalidPayload            data does not match its event type
├── UnknownEventType          the event type does not exist
├── UnknownStage              the stage does not exist
├── Refused                   the rules do not allow the command
│   ├── IllegalTransition     the change of status is not allowed
│   ├── DependenciesNotMet    a dependency is not completed
│   ├── AttemptMismatch       the named attempt is not the running one
│   ├── RetryLimitReached     all retries are used
│   ├── NothingToBuildFrom    a stage without a command has no submission
│   ├── MissingEvidence       a claim has no evidence
│   ├── AlreadyExists         the stream already has a workflow
│   ├── NoWorkflow            the stream has no workflow
│   ├── InvalidAmendment      a proposal changes too much or nothing
│   ├── StaleAmendment        the state changed after the proposal
│   ├── ImpactChanged         the impact changed after the question
│   ├── AmendmentDecided      the amendment was already decided
│   ├── NotFinished           a session claims completion too early
│   ├── BudgetLeft            a session has budget left
│   ├── NothingHinders        a session is not blocked
│   ├── NothingLeft           a session has completed every stage
│   ├── OutsideEnvelope       a loop may not compute the points
│   └── NoCommand             no command records the event directly
├── UnknownAmendment          the amendment does not exist
├── UnknownLoop               the loop does not exist
└── NeedsConsent              only a person may decide this
    └── NoAnswer              a person answered neither y nor n

Each error has a stable ``code`` and its values in ``data``.
"""

from __future__ import annotations

from collections.abc import Sequence

from wording import CodedError, TemplatedError


class LifecycleError(CodedError):
    """Base class of the errors of the rules.

    ``code`` is a stable identifier, ``message`` the text for users, and ``data`` has the values.
    """

    code = "lifecycle_error"


class InvalidPlan(TemplatedError, LifecycleError):
    """The plan is not valid."""

    code = "invalid_plan"
    text = (
        "the plan cannot become a workflow:\n  - {problems:\n  - }\nNothing was written. Correct "
        "the plan, then create the workflow again."
    )
    problems: list[str]


class InvalidPayload(TemplatedError, LifecycleError):
    """The data does not match its event type."""

    code = "invalid_payload"
    text = (
        "the data does not fit {type}: {problems:; }. `wfctl schema {type}` shows the expected "
        "fields.{_for_example}"
    )
    untold = ("example",)
    type: str
    problems: list[str]
    example: str = ""

    @property
    def _for_example(self) -> str:
        return f" For example: `{self.example}`." if self.example else ""


class UnknownEventType(TemplatedError, LifecycleError):
    """Workflows have no event of this type."""

    code = "unknown_event_type"
    text = "{_why}; expected one of: {known:, }"
    untold = ("known",)
    type: str
    known: list[str]

    @property
    def _why(self) -> str:
        if self.type.startswith("machine."):
            return (
                f"{self.type} is an event of a phase machine, and only the commands of "
                "`wfctl machine` record this event"
            )
        return f"unknown event type {self.type!r}; an example is `wfctl append note hello`"


class UnknownStage(TemplatedError, LifecycleError):
    """No stage has this id."""

    code = "unknown_stage"
    text = "the workflow has no stage {stage!r}. Its stages: {_shown}"
    untold = ("known",)
    stage: str
    known: list[str]

    @property
    def _shown(self) -> str:
        return ", ".join(self.known[:20]) + (" …" if len(self.known) > 20 else "")


class Refused(LifecycleError):
    """The rules do not allow the command in this state."""

    code = "refused"


class IllegalTransition(TemplatedError, Refused):
    """The stage cannot change from its current status to the requested one."""

    code = "illegal_transition"
    text = (
        "the stage {stage} cannot change from {status} to {target}: {why}. From {status}, the "
        "stage can change to: {_ways}."
    )
    untold = ("why",)
    stage: str
    status: str
    target: str
    why: str
    allowed: list[str]

    @property
    def _ways(self) -> str:
        return ", ".join(self.allowed) or "none"


class DependenciesNotMet(TemplatedError, Refused):
    """Not all dependencies of the stage are completed. ``data["waiting_for"]`` lists them."""

    code = "dependencies_not_met"
    text = (
        "{stage} cannot start yet, because stages on which {stage} depends are not completed: "
        "{_held}."
    )
    stage: str
    waiting_for: dict[str, str]

    @property
    def _held(self) -> str:
        return ", ".join(f"{stage} ({status})" for stage, status in self.waiting_for.items())


class AttemptMismatch(Refused):
    """The attempt that the command names is not the current attempt of the stage."""

    code = "attempt_mismatch"

    def __init__(self, stage: str, expected: str | None, found: str | None, why: str) -> None:
        super().__init__(
            f"{stage}: {why}. Running attempt: {expected or 'none'}; attempt in the command: "
            f"{found or 'none'}. `wfctl show {stage}` lists its attempts.",
            stage=stage,
            expected=expected,
            found=found,
        )


class RetryLimitReached(TemplatedError, Refused):
    """The stage has no retry left."""

    code = "retry_limit_reached"
    text = (
        "the stage {stage} has used all retries: {retry_count} of {limit} on a {backend_type} "
        "backend. A person can allow another run by approving an amendment of the type "
        "stage_rerun."
    )
    stage: str
    retry_count: int
    limit: int
    backend_type: str


class NothingToBuildFrom(TemplatedError, Refused):
    """wfctl cannot prepare a job, because the stage has no command."""

    code = "nothing_to_build_from"
    text = (
        "wfctl cannot build submission.json for the stage {stage}, because the stage has no "
        "parameters.command. Correct {stage}/submission.json by hand, then retry without "
        "--regenerate."
    )
    stage: str


class AlreadyExists(Refused):
    """The stream already contains a workflow."""

    code = "already_exists"


#: Advice for a folder that once had a workflow but whose log is empty now.
LOST = (
    "If this folder had a workflow, its log was lost. Restore a backup with `wfctl db restore "
    "FILE`. Without a backup, move .wfctl away and run `wfctl import .`, which imports "
    "workflow-state.json and progress.log."
)


class NoWorkflow(Refused):
    """The stream contains no workflow yet."""

    code = "no_workflow_yet"


class MissingEvidence(Refused):
    """A stage cannot be completed without evidence."""

    code = "missing_evidence"


class NoCommand(Refused):
    """No command can append an event of this type directly."""

    code = "no_command"


class NotFinished(TemplatedError, Refused):
    """A session cannot end with `completed` while a stage or a loop is unfinished."""

    code = "not_finished"
    text = (
        "the session cannot end with the reason completed, because these stages or loops are "
        "unfinished: {_unfinished}. Give another --reason, such as waiting."
    )
    stages: list[str]
    loops: list[str]

    @property
    def _unfinished(self) -> str:
        return ", ".join([*self.stages, *(f"loop {name}" for name in self.loops)])


class BudgetLeft(TemplatedError, Refused):
    """A session cannot end with `budget_exhausted` while its budget allows another stage."""

    code = "budget_left"
    text = (
        "the session cannot end with the reason budget_exhausted: it has spent {cost:g} of "
        "{budget:g}, which leaves enough for each remaining stage. Give another --reason, such as "
        "waiting."
    )
    cost: float
    budget: float


class NothingHinders(TemplatedError, Refused):
    """A session cannot end with `blocked` if nothing blocks it and no reason is given."""

    code = "nothing_hinders"
    text = (
        "the session cannot end with the reason blocked, because the log shows nothing that "
        "blocks a stage. State the obstacle with --next TEXT, or give --reason waiting."
    )


class NothingLeft(TemplatedError, Refused):
    """A session of a finished workflow can end only with `completed`."""

    code = "nothing_left"
    text = (
        "the session cannot end with the reason {reason}, because every stage is completed or "
        "skipped and every loop has ended. Give --reason completed."
    )
    reason: str


class UnknownLoop(TemplatedError, LifecycleError):
    """No loop has this name."""

    code = "unknown_loop"
    text = "the workflow has no loop {loop!r}. Its loops: {_there}"
    untold = ("known",)
    loop: str
    known: list[str]

    @property
    def _there(self) -> str:
        return ", ".join(self.known) or "no loops"


class OutsideEnvelope(TemplatedError, Refused):
    """The points are not allowed in the loop: too many, repeated, or outside its limits."""

    code = "outside_envelope"
    text = (
        "round {round} of {loop} cannot start: {problems:; }. Propose other points. To change the "
        "limits of the loop, run `wfctl amend propose --set rounds.{loop}.NAME=VALUE --reason "
        "TEXT`."
    )
    loop: str
    round: int
    problems: list[str]


class UnknownAmendment(LifecycleError):
    """No amendment has this id."""

    code = "unknown_amendment"

    def __init__(self, amendment: str, known: list[str], ineffective: Sequence[str] = ()) -> None:
        """Build the message. ``ineffective`` describes ignored records of amendments."""
        super().__init__(
            "; ".join(
                [
                    (
                        f"the workflow has no amendment {amendment!r}. Its amendments: "
                        f"{', '.join(known) or 'none'}"
                    ),
                    *ineffective,
                    "`wfctl amend list` shows them",
                ]
            ),
            amendment=amendment,
        )


class InvalidAmendment(TemplatedError, Refused):
    """The proposal is not valid."""

    code = "invalid_amendment"
    text = "the proposal is not valid: {problems:; }. Nothing was recorded."
    problems: list[str]


class StaleAmendment(TemplatedError, Refused):
    """The workflow changed after the proposal was made."""

    code = "stale_amendment"
    text = (
        "{place}: the proposal expects the value {expected}, but the value is now {found}. Reject "
        "the proposal and make a new one."
    )
    place: str
    expected: str
    found: str


class ImpactChanged(TemplatedError, Refused):
    """The impact of the change differs from the impact that the person saw."""

    code = "impact_changed"
    text = (
        "the impact of {amendment} has changed since it was approved (approved: {expected:.16}, "
        "now: {found:.16}). Nothing was written. `wfctl amend show {amendment}` shows the new "
        "impact."
    )
    amendment: str
    expected: str
    found: str


class AmendmentDecided(TemplatedError, Refused):
    """The amendment is already approved or rejected."""

    code = "amendment_decided"
    text = (
        "{amendment} is already {status}, so it cannot be decided again. To change something "
        "else, propose a new amendment."
    )
    amendment: str
    status: str


class NeedsConsent(LifecycleError):
    """Only a person may make this decision, with a proof of consent."""

    code = "needs_consent"


class NoAnswer(NeedsConsent):
    """The user answered neither y nor n to a question."""

    code = "no_answer"


def build_needs_consent_error(type_: str, way: str, **data: str) -> NeedsConsent:
    """Return the error for an event that only a person can decide.

    Such an event needs a proof of consent, which the command `append` cannot record. The message
    recommends the command ``way``.
    """
    return NeedsConsent(
        f"only a person can record the event {type_}, because the event needs a proof of consent. "
        f"The command append cannot record such a proof. Run `{way}` instead.",
        type=type_,
        **data,
    )
