"""The errors of phase machines.

MachineError
├── InvalidDefinition    a definition that cannot run, with every reason
├── InvalidInput         a path, a value or a name that cannot be
│   └── ReservedField    a field that only the engine writes
├── InvalidTransition    no way from here to there
├── GuardFailed          a way that is not open; lists every unmet condition
│   └── ApprovalMissing  what is missing is a person's approval, and nothing else
├── UnsafeResume         what is there contradicts itself; a person says how to go on
├── CircuitOpen          a limit is reached; a person decides
├── TaskHeld             a task that somebody else has claimed
├── AlreadyCancelled     cancelled before
├── StateNotFound        no machine of this id
└── StateAlreadyExists   a machine of this id, or one that writes the same files

The codes are those that clients of the three protocols know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lifecycle.errors import LifecycleError
from wording import Worded

Unmet = dict[str, Any]


class MachineError(LifecycleError):
    """Base of what the rules of machines raise."""

    code = "MACHINE_ERROR"


class InvalidDefinition(Worded, MachineError):
    """A definition that cannot run; ``data["problems"]`` lists every reason."""

    code = "INVALID_DEFINITION"
    text = (
        "the definition {definition} cannot run:\n  - {problems:\n  - }\nCorrect it; nothing was "
        "written."
    )
    definition: str
    problems: Sequence[str]


class InvalidInput(MachineError):
    """A path, a value or a name that cannot be what it should be."""

    code = "INVALID_INPUT"


class ReservedField(Worded, InvalidInput):
    """A field that only the engine writes."""

    code = "RESERVED_FIELD"
    text = "{rejectedPath} is reserved: {rule}. Instead: {alternateWritePath}"
    rejectedPath: str
    rule: str
    alternateWritePath: str


class InvalidTransition(MachineError):
    """There is no way from the phase to the target."""

    code = "INVALID_TRANSITION"

    def __init__(self, phase: str, target: str | None, why: str, valid: Sequence[str]) -> None:
        super().__init__(
            f"from {phase} to {target or '(the open way)'}: {why}. From here it may go to: "
            f"{', '.join(valid) or 'nothing'}.",
            phase=phase,
            target=target,
            validTargets=list(valid),
        )


class GuardFailed(MachineError):
    """The way is not open; ``data["unmet"]`` lists every unmet condition."""

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
        from_here = f"\nTargets from here: {', '.join(valid)}." if valid else ""
        super().__init__(
            f"{phase} may not go to {target or 'any phase'} yet; not met:\n{lines}{from_here}",
            phase=phase,
            target=target,
            unmet=list(unmet),
            validTargets=list(valid),
            expectedShape=lacking,
        )


class ApprovalMissing(GuardFailed):
    """Everything else is met: a person's approval is what is missing."""


class CircuitOpen(MachineError):
    """A limit is reached, and only a person may go on."""

    code = "CIRCUIT_OPEN"

    def __init__(self, what: str, count: int, limit: int, instead: str, **data: Any) -> None:
        super().__init__(
            f"{what}: {count} of {limit} are used up; a person decides. {instead}",
            count=count,
            limit=limit,
            **data,
        )


class TaskHeld(MachineError):
    """Somebody holds the task, and until then nobody else has it or changes it.

    ``is_own``: it is who asks, and only did not say that this is to be renewed.
    """

    code = "TASK_HELD"

    def __init__(
        self, machine: str, task: str, by: str, until: str, *, is_own: bool = False
    ) -> None:
        claim = f"wfctl machine task claim {machine} {task}"
        instead = (
            f"It is yours: `{claim} --renew --under CLAIM` goes on with it."
            if is_own
            else "If it is yours, say --under CLAIM, which `task claim` gave. Else take another "
            "task, or claim it once that time has passed; --despite-claim TEXT says why it cannot "
            "wait."
        )
        super().__init__(
            f"{task} is claimed by {by} until {until[:19]}Z. {instead}",
            machine=machine,
            task=task,
            by=by,
            until=until,
        )


class UnsafeResume(MachineError):
    """The state and the files contradict each other: a person decides before anything is mended.

    ``data["findings"]`` lists what was found, ``data["choices"]`` the commands to choose from.
    """

    code = "UNSAFE_RESUME"

    def __init__(self, machine: str, findings: Sequence[dict[str, Any]]) -> None:
        lines = "\n".join(f"  - {one['message']}" for one in findings)
        rehydrate = f"wfctl machine rehydrate {machine}"
        super().__init__(
            f"{machine} is not resumed, and nothing was changed, for:\n{lines}\n"
            f"Start fresh? [y/N] A person decides: `{rehydrate} --start-fresh` archives it and "
            f"begins anew, `{rehydrate} --go-on` goes on as it is.",
            machine=machine,
            findings=list(findings),
            choices=[f"{rehydrate} --start-fresh", f"{rehydrate} --go-on"],
        )


class AlreadyCancelled(Worded, MachineError):
    """The machine was cancelled before."""

    code = "ALREADY_CANCELLED"
    text = "{machine} was cancelled {cancelledAt}; a cancelled machine stays so, begin a new one."
    machine: str
    cancelledAt: str | None


class StateNotFound(MachineError):
    """No machine of this id."""

    code = "STATE_NOT_FOUND"

    def __init__(self, machine: str, known: Sequence[str]) -> None:
        super().__init__(
            f"no machine {machine!r} here; there is: {', '.join(known) or 'none'}. "
            "`wfctl machine init ID --type TYPE` makes one.",
            machine=machine,
            known=list(known),
        )


class StateAlreadyExists(Worded, MachineError):
    """A machine of this id is here, or another one that writes the same files."""

    code = "STATE_ALREADY_EXISTS"
    text = "{machine}: {why}"
    untold = ("why",)
    machine: str
    why: str
