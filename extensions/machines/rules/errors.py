"""The errors of phase machines.

MachineError
├── InvalidDefinition    the definition is not valid; lists every reason
├── InvalidInput         a path, a value or a name is not valid
│   └── ReservedField    only wfctl writes the field
├── InvalidTransition    no transition leads from the current phase to the named phase
├── GuardFailed          a transition is not allowed; lists every unmet condition
│   └── ApprovalMissing  only a person's approval is missing
├── UnsafeResume         the files contradict each other; a person must decide
├── CircuitOpen          a limit is reached; a person must decide
├── TaskHeld             another agent has claimed the task
├── AlreadyCancelled     the machine was already cancelled
├── StateNotFound        no machine has the id
└── StateAlreadyExists   a machine has the id or writes the same files

The codes are those that clients of the three protocols know. docs/cli.md explains the exit codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lifecycle.errors import LifecycleError
from wording import TemplatedError

Unmet = dict[str, Any]


class MachineError(LifecycleError):
    """A rule of a phase machine refused the command."""

    code = "MACHINE_ERROR"
    exit_code = 5


class InvalidDefinition(TemplatedError, MachineError):
    """The definition of a phase machine is not valid."""

    code = "INVALID_DEFINITION"
    exit_code = 1
    text = (
        "the definition {definition} has errors:\n  - {problems:\n  - }\nCorrect the "
        "definition and try again. Nothing was written."
    )
    definition: str
    problems: Sequence[str]


class InvalidInput(MachineError):
    """A path, a value or a name is not valid."""

    code = "INVALID_INPUT"
    exit_code = 2


class ReservedField(TemplatedError, InvalidInput):
    """Only wfctl itself may write the field."""

    code = "RESERVED_FIELD"
    exit_code = 5
    text = "{rejectedPath} cannot be written: {rule}. Instead: {alternateWritePath}"
    rejectedPath: str
    rule: str
    alternateWritePath: str


class InvalidTransition(MachineError):
    """The definition has no transition from the current phase to the requested phase."""

    code = "INVALID_TRANSITION"

    def __init__(self, phase: str, target: str | None, why: str, valid: Sequence[str]) -> None:
        super().__init__(
            f"{phase} cannot change to {target or 'another phase'}: {why}. Phases that can follow: "
            f"{', '.join(valid) or 'none'}.",
            phase=phase,
            target=target,
            validTargets=list(valid),
        )


class GuardFailed(MachineError):
    """Conditions of the transition are not met. They are listed in ``data["unmet"]``."""

    code = "GUARD_FAILED"

    def __init__(
        self,
        phase: str,
        target: str | None,
        unmet: Sequence[Unmet],
        valid: Sequence[str],
        lacking: dict[str, Any],
    ) -> None:
        lines = "\n".join(f"  - {one['condition']} (found {one['found']!r:.80})" for one in unmet)
        from_here = f"\nPhases that can follow: {', '.join(valid)}." if valid else ""
        super().__init__(
            (
                f"{phase} cannot change to {target or 'another phase'} yet. These "
                f"conditions are not met:\n{lines}{from_here}"
            ),
            phase=phase,
            target=target,
            unmet=list(unmet),
            validTargets=list(valid),
            expectedShape=lacking,
        )


class ApprovalMissing(GuardFailed):
    """The transition only lacks the approval of a person."""

    exit_code = 6


class CircuitOpen(MachineError):
    """The machine reached a limit, so that only a person can let it continue."""

    code = "CIRCUIT_OPEN"
    exit_code = 6

    def __init__(self, what: str, count: int, limit: int, instead: str, **data: Any) -> None:
        super().__init__(
            (f"{what} has used {count} of {limit}, and only a person can allow more. {instead}"),
            count=count,
            limit=limit,
            **data,
        )


class TaskHeld(MachineError):
    """The task is reserved.

    If ``is_own`` is true, the caller has reserved it and must ask to renew the reservation.
    """

    code = "TASK_HELD"
    exit_code = 4

    def __init__(
        self, machine: str, task: str, by: str, until: str, *, is_own: bool = False
    ) -> None:
        claim = f"wfctl machine task claim {machine} {task}"
        instead = (
            f"You hold the claim: `{claim} --renew --under CLAIM` extends it."
            if is_own
            else (
                "If the claim is yours, add --under CLAIM with the id that wfctl printed for "
                "the claim. Otherwise take another task, wait until the claim expires, or end "
                "the claim with --despite-claim REASON."
            )
        )
        super().__init__(
            f"{task} is claimed by {by} until {until[:19]}Z. {instead}",
            machine=machine,
            task=task,
            by=by,
            until=until,
        )


class UnsafeResume(MachineError):
    """The recorded state and the files contradict each other, so a person must choose.

    ``data["findings"]`` lists the contradictions, and ``data["choices"]`` the possible commands.
    """

    code = "UNSAFE_RESUME"
    exit_code = 6

    def __init__(self, machine: str, findings: Sequence[dict[str, Any]]) -> None:
        lines = "\n".join(f"  - {one['message']}" for one in findings)
        rehydrate = f"wfctl machine rehydrate {machine}"
        super().__init__(
            (
                f"{machine} was not resumed, and nothing was changed, because:\n{lines}\n"
                f"Start fresh? [y/N] A person decides: `{rehydrate} --start-fresh` archives "
                f"the state and starts again; `{rehydrate} --go-on` continues with the "
                "current state."
            ),
            machine=machine,
            findings=list(findings),
            choices=[f"{rehydrate} --start-fresh", f"{rehydrate} --go-on"],
        )


class AlreadyCancelled(TemplatedError, MachineError):
    """The machine is already cancelled."""

    code = "ALREADY_CANCELLED"
    text = (
        "{machine} was cancelled at {cancelledAt}. A cancelled machine cannot "
        "continue; start a new machine."
    )
    machine: str
    cancelledAt: str | None


class StateNotFound(MachineError):
    """No machine has this id."""

    code = "STATE_NOT_FOUND"
    exit_code = 3

    def __init__(self, machine: str, known: Sequence[str]) -> None:
        super().__init__(
            (
                f"no machine {machine!r}; machines: {', '.join(known) or 'none'}. `wfctl "
                "machine init ID --type TYPE` creates a machine."
            ),
            machine=machine,
            known=list(known),
        )


class StateAlreadyExists(TemplatedError, MachineError):
    """A machine with this id, or with the same files, already exists."""

    code = "STATE_ALREADY_EXISTS"
    exit_code = 4
    text = "{machine}: {why}"
    untold = ("why",)
    machine: str
    why: str
