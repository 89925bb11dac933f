"""The errors of the rules.

LifecycleError
├── InvalidPlan               a plan that cannot become a workflow
├── InvalidPayload            data that does not fit its event type
├── UnknownEventType          no such event type
├── UnknownStage              no such stage
├── Refused                   the rules do not allow it
│   ├── IllegalTransition     not a transition of the table
│   ├── DependenciesNotMet    a dependency is not completed
│   ├── AttemptMismatch       not the attempt that is under way
│   ├── RetryLimitReached     no retry left
│   ├── NothingToBuildFrom    a submission to be built anew, of a stage without a command
│   ├── MissingEvidence       a claim without what would show it
│   ├── AlreadyExists         a second workflow in one stream
│   ├── NoWorkflow            nothing was created yet
│   ├── InvalidAmendment      a proposal that reaches too far, or changes nothing
│   ├── StaleAmendment        proposed on a state that is no more
│   ├── ImpactChanged         what was agreed to is not what would happen now
│   ├── AmendmentDecided      approved or rejected before
│   ├── NotFinished           a session that claims a completion that is not so
│   ├── BudgetLeft            a session that claims to have used up its budget
│   ├── NothingHinders        a session that claims to be blocked, and nobody says by what
│   ├── NothingLeft           a session that claims to be held up, with every stage done
│   ├── OutsideEnvelope       points that a loop may not compute
│   └── NoCommand             recorded only as a consequence, or by another command
├── UnknownAmendment          no such amendment
├── UnknownLoop               no such loop
└── NeedsConsent              only a person may decide this

Each carries a stable ``code``, and its values in ``data``.
"""

from __future__ import annotations

from collections.abc import Sequence

from wording import Coded, Worded


class LifecycleError(Coded):
    """Base of what the rules raise: a stable ``code``, a ``message``, the values in ``data``."""

    code = "lifecycle_error"


class InvalidPlan(Worded, LifecycleError):
    """A plan that cannot become a workflow; ``data["problems"]`` lists every one found."""

    code = "invalid_plan"
    text = (
        "the plan cannot become a workflow:\n  - {problems:\n  - }\nCorrect the plan and run init "
        "again; nothing was written."
    )
    problems: list[str]


class InvalidPayload(Worded, LifecycleError):
    """Data that does not fit its event type."""

    code = "invalid_payload"
    text = (
        "the data does not fit {type}: {problems:; }. `wfctl schema {type}` shows what is expected."
    )
    type: str
    problems: list[str]


class UnknownEventType(Worded, LifecycleError):
    """An event type that the staged workflow does not have."""

    code = "unknown_event_type"
    text = "unknown event type {type!r}; expected one of: {known:, }"
    untold = ("known",)
    type: str
    known: list[str]


class UnknownStage(Worded, LifecycleError):
    """No stage of this id in the workflow."""

    code = "unknown_stage"
    text = "no stage {stage!r}; this workflow has: {_shown}"
    untold = ("known",)
    stage: str
    known: list[str]

    @property
    def _shown(self) -> str:
        return ", ".join(self.known[:20]) + (" …" if len(self.known) > 20 else "")


class Refused(LifecycleError):
    """The rules do not allow the command in this state."""

    code = "refused"


class IllegalTransition(Worded, Refused):
    """A change of status that the transition table does not hold."""

    code = "illegal_transition"
    text = (
        "{stage} is {status} and cannot become {target}: {why}. From {status} it may go to: "
        "{_ways}."
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


class DependenciesNotMet(Worded, Refused):
    """A stage whose dependencies are not all completed; ``data["waiting_for"]`` names them."""

    code = "dependencies_not_met"
    text = "{stage} needs every stage it depends on to be completed; it waits for {_held}."
    stage: str
    waiting_for: dict[str, str]

    @property
    def _held(self) -> str:
        return ", ".join(f"{stage} ({status})" for stage, status in self.waiting_for.items())


class AttemptMismatch(Refused):
    """The attempt named is not the one under way."""

    code = "attempt_mismatch"

    def __init__(self, stage: str, expected: str | None, found: str | None, why: str) -> None:
        super().__init__(
            f"{stage}: {why} (attempt under way: {expected or 'none'}, named: {found or 'none'})."
            f" `wfctl show {stage}` lists its attempts.",
            stage=stage,
            expected=expected,
            found=found,
        )


class RetryLimitReached(Worded, Refused):
    """No retry left for the stage's kind of backend."""

    code = "retry_limit_reached"
    text = (
        "{stage} was retried {retry_count} times, the limit of a {backend_type} backend ({limit}). "
        "It stays failed until a person approves a stage_rerun amendment."
    )
    stage: str
    retry_count: int
    limit: int
    backend_type: str


class NothingToBuildFrom(Worded, Refused):
    """A submission is to be built anew, and the stage's parameters name no command."""

    code = "nothing_to_build_from"
    text = (
        "{stage}: expected parameters.command to build submission.json from, found none. "
        "Correct {stage}/submission.json itself and retry without --regenerate."
    )
    stage: str


class AlreadyExists(Refused):
    """A workflow was created in this stream before."""

    code = "already_exists"


#: The way back where a workflow was in a stream that is empty by now.
LOST = (
    "Where one was here, its log was lost: bring a backup back (`wfctl db restore FILE`), or move "
    ".wfctl aside and call `wfctl import .`, which takes up what workflow-state.json and "
    "progress.log show."
)


class NoWorkflow(Refused):
    """The stream holds no workflow yet."""

    code = "no_workflow_yet"


class MissingEvidence(Refused):
    """A stage cannot be called completed with nothing that shows it."""

    code = "missing_evidence"


class NoCommand(Refused):
    """An event type that no command of its own yields."""

    code = "no_command"


class NotFinished(Worded, Refused):
    """A session cannot end as completed while a stage or a loop is unfinished."""

    code = "not_finished"
    text = (
        "the session ends as completed once every stage is completed or skipped and every loop is "
        "over; unfinished: {_unfinished}. Name another reason."
    )
    stages: list[str]
    loops: list[str]

    @property
    def _unfinished(self) -> str:
        return ", ".join([*self.stages, *(f"loop {name}" for name in self.loops)])


class BudgetLeft(Worded, Refused):
    """A session cannot end for its budget while it affords every stage that is left."""

    code = "budget_left"
    text = (
        "the session has spent {cost:g} of {budget:g}, and affords each stage that is left: "
        "expected another reason than budget_exhausted, such as waiting."
    )
    cost: float
    budget: float


class NothingHinders(Worded, Refused):
    """A session cannot end as blocked while nothing in the log hinders, and no reason is given."""

    code = "nothing_hinders"
    text = (
        "the session ends as blocked where something keeps a stage from going on, and the log "
        "shows nothing that does: expected --next with what it waits for, or --reason waiting."
    )


class NothingLeft(Worded, Refused):
    """A session of a finished workflow cannot end with another reason than completed."""

    code = "nothing_left"
    text = (
        "every stage is completed or skipped, and every loop is over: "
        "expected --reason completed, found {reason}."
    )
    reason: str


class UnknownLoop(Worded, LifecycleError):
    """No loop of this name."""

    code = "unknown_loop"
    text = "no loop {loop!r}; this workflow has: {_there}"
    untold = ("known",)
    loop: str
    known: list[str]

    @property
    def _there(self) -> str:
        return ", ".join(self.known) or "no loops"


class OutsideEnvelope(Worded, Refused):
    """Points that a loop may not compute: outside its envelope, twice, or too many."""

    code = "outside_envelope"
    text = (
        "round {round} of {loop} does not begin: {problems:; }. Other points are proposed, or a "
        "person widens the envelope: `wfctl amend propose --set rounds.{loop}.NAME=VALUE --reason "
        "TEXT`."
    )
    loop: str
    round: int
    problems: list[str]


class UnknownAmendment(LifecycleError):
    """No amendment of this id."""

    code = "unknown_amendment"

    def __init__(self, amendment: str, known: list[str], ineffective: Sequence[str] = ()) -> None:
        """``ineffective`` tells of the rows about amendments that are ignored."""
        super().__init__(
            "; ".join(
                [
                    f"no amendment {amendment!r}; this workflow has: {', '.join(known) or 'none'}",
                    *ineffective,
                    "`wfctl amend list` shows them",
                ]
            ),
            amendment=amendment,
        )


class InvalidAmendment(Worded, Refused):
    """A proposal that cannot be one; ``data["problems"]`` lists every reason."""

    code = "invalid_amendment"
    text = "this cannot be proposed: {problems:; }. Nothing was recorded."
    problems: list[str]


class StaleAmendment(Worded, Refused):
    """The workflow is not what the proposal was made on."""

    code = "stale_amendment"
    text = (
        "{place}: the proposal was made where it was {expected}, it is {found} now; reject it "
        "and propose anew."
    )
    place: str
    expected: str
    found: str


class ImpactChanged(Worded, Refused):
    """The workflow moved on, and the impact is another than the one that was shown."""

    code = "impact_changed"
    text = (
        "the impact of {amendment} is not the one that was agreed to (agreed: {expected:.16}, "
        "now: {found:.16}); nothing was written. `wfctl amend show {amendment}` shows it."
    )
    amendment: str
    expected: str
    found: str


class AmendmentDecided(Worded, Refused):
    """The amendment was approved or rejected before."""

    code = "amendment_decided"
    text = "{amendment} is {status} already; a further change is a further amendment."
    amendment: str
    status: str


class NeedsConsent(LifecycleError):
    """Only a person may decide this."""

    code = "needs_consent"


def undecided(type_: str, way: str, **data: str) -> NeedsConsent:
    """Return the refusal of a person's decision that comes without a proof of consent."""
    return NeedsConsent(
        f"{type_} is a person's decision and takes a proof of consent, which `append` never does; "
        f"`{way}` asks for it.",
        type=type_,
        **data,
    )
