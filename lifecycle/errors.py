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
│   └── NoCommand             recorded only as a consequence, or by another command
├── UnknownAmendment          no such amendment
└── NeedsConsent              only a person may decide this

Each carries a stable ``code``, and its values in ``data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class LifecycleError(Exception):
    """Base of what the rules raise: a stable ``code``, a ``message``, the values in ``data``."""

    code = "lifecycle_error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class InvalidPlan(LifecycleError):
    """A plan that cannot become a workflow; ``data["problems"]`` lists every one found."""

    code = "invalid_plan"

    def __init__(self, problems: list[str]) -> None:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(
            f"the plan cannot become a workflow:\n{lines}\nCorrect the plan and run init again; "
            "nothing was written.",
            problems=problems,
        )


class InvalidPayload(LifecycleError):
    """Data that does not fit its event type."""

    code = "invalid_payload"

    def __init__(self, type_: str, problems: list[str]) -> None:
        super().__init__(
            f"the data does not fit {type_}: {'; '.join(problems)}. "
            f"`wfctl schema {type_}` shows what is expected.",
            type=type_,
            problems=problems,
        )


class UnknownEventType(LifecycleError):
    """An event type that the staged workflow does not have."""

    code = "unknown_event_type"

    def __init__(self, type_: str, known: list[str]) -> None:
        super().__init__(
            f"unknown event type {type_!r}; expected one of: {', '.join(known)}", type=type_
        )


class UnknownStage(LifecycleError):
    """No stage of this id in the workflow."""

    code = "unknown_stage"

    def __init__(self, stage: str, known: list[str]) -> None:
        shown = ", ".join(known[:20]) + (" …" if len(known) > 20 else "")
        super().__init__(f"no stage {stage!r}; this workflow has: {shown}", stage=stage)


class Refused(LifecycleError):
    """The rules do not allow the command in this state."""

    code = "refused"


class IllegalTransition(Refused):
    """A change of status that the transition table does not hold."""

    code = "illegal_transition"

    def __init__(self, stage: str, status: str, target: str, why: str, allowed: list[str]) -> None:
        ways = ", ".join(allowed) or "none"
        super().__init__(
            f"{stage} is {status} and cannot become {target}: {why}. From {status} it may go to: "
            f"{ways}.",
            stage=stage,
            status=status,
            target=target,
            allowed=allowed,
        )


class DependenciesNotMet(Refused):
    """A stage whose dependencies are not all completed; ``data["waiting_for"]`` names them."""

    code = "dependencies_not_met"

    def __init__(self, stage: str, waiting_for: dict[str, str]) -> None:
        held = ", ".join(f"{dep} ({status})" for dep, status in waiting_for.items())
        super().__init__(
            f"{stage} needs every stage it depends on to be completed; it waits for {held}.",
            stage=stage,
            waiting_for=waiting_for,
        )


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


class RetryLimitReached(Refused):
    """No retry left for the stage's kind of backend."""

    code = "retry_limit_reached"

    def __init__(self, stage: str, count: int, limit: int, kind: str) -> None:
        super().__init__(
            f"{stage} was retried {count} times, the limit of a {kind} backend ({limit}). "
            "It stays failed until a person approves a stage_rerun amendment.",
            stage=stage,
            retry_count=count,
            limit=limit,
            backend_type=kind,
        )


class NothingToBuildFrom(Refused):
    """A submission is to be built anew, and the stage's parameters name no command."""

    code = "nothing_to_build_from"

    def __init__(self, stage: str) -> None:
        super().__init__(
            f"{stage}: expected parameters.command to build submission.json from, found none. "
            f"Correct {stage}/submission.json itself and retry without --regenerate.",
            stage=stage,
        )


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


class NotFinished(Refused):
    """A session cannot end as completed while stages are unfinished."""

    code = "not_finished"

    def __init__(self, stages: list[str]) -> None:
        super().__init__(
            f"the session ends as completed once every stage is completed or skipped; unfinished: "
            f"{', '.join(stages)}. Name another reason.",
            stages=stages,
        )


class BudgetLeft(Refused):
    """A session cannot end for its budget while it affords every stage that is left."""

    code = "budget_left"

    def __init__(self, cost: float, budget: float) -> None:
        super().__init__(
            f"the session has spent {cost:g} of {budget:g}, and affords each stage that is left: "
            "expected another reason than budget_exhausted, such as waiting.",
            cost=cost,
            budget=budget,
        )


class NothingHinders(Refused):
    """A session cannot end as blocked while nothing in the log hinders, and no reason is given."""

    code = "nothing_hinders"

    def __init__(self) -> None:
        super().__init__(
            "the session ends as blocked where something keeps a stage from going on, and the log "
            "shows nothing that does: expected --next with what it waits for, or --reason waiting."
        )


class NothingLeft(Refused):
    """A session cannot be held up where every stage is completed or skipped."""

    code = "nothing_left"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"every stage is completed or skipped: expected --reason completed, found {reason}.",
            reason=reason,
        )


class UnknownAmendment(LifecycleError):
    """No amendment of this id."""

    code = "unknown_amendment"

    def __init__(self, amendment: str, known: list[str], ineffective: Sequence[str] = ()) -> None:
        """``ineffective`` tells of the rows about amendments that count for nothing."""
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


class InvalidAmendment(Refused):
    """A proposal that cannot be one; ``data["problems"]`` lists every reason."""

    code = "invalid_amendment"

    def __init__(self, problems: list[str]) -> None:
        super().__init__(
            f"this cannot be proposed: {'; '.join(problems)}. Nothing was recorded.",
            problems=problems,
        )


class StaleAmendment(Refused):
    """The workflow is not what the proposal was made on."""

    code = "stale_amendment"

    def __init__(self, place: str, expected: str, found: str) -> None:
        super().__init__(
            f"{place}: the proposal was made where it was {expected}, it is {found} now; reject it "
            "and propose anew.",
            place=place,
            expected=expected,
            found=found,
        )


class ImpactChanged(Refused):
    """The workflow moved on, and the impact is another than the one that was shown."""

    code = "impact_changed"

    def __init__(self, amendment: str, expected: str, found: str) -> None:
        super().__init__(
            f"the impact of {amendment} is not the one that was agreed to (agreed: {expected:.16}, "
            f"now: {found:.16}); nothing was written. `wfctl amend show {amendment}` shows it.",
            amendment=amendment,
            expected=expected,
            found=found,
        )


class AmendmentDecided(Refused):
    """The amendment was approved or rejected before."""

    code = "amendment_decided"

    def __init__(self, amendment: str, status: str) -> None:
        super().__init__(
            f"{amendment} is {status} already; a further change is a further amendment.",
            amendment=amendment,
            status=status,
        )


class NeedsConsent(LifecycleError):
    """Only a person may decide this."""

    code = "needs_consent"


def undecided(type_: str, way: str) -> NeedsConsent:
    """Return the refusal of a person's decision that comes without a proof of consent."""
    return NeedsConsent(
        f"{type_} is a person's decision and takes a proof of consent, which `append` never does; "
        f"`{way}` asks for it.",
        type=type_,
    )
