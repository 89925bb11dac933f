"""The errors of the job side.

ReconcilerError
├── InvalidSubmission        a submission file that is not JSON, or not an object
├── UnusableSubmission       a submission that cannot be run as an attempt
├── UnusableProfile          a backend profile that no submission can be built from
├── UnusablePath             a path of a stage that leaves the root or its folder
├── RejectedSubmission       DPDispatcher's own check refused it
├── MissingInput             an input is not there
├── EmptyInput               an input is there and holds nothing
├── ProgramMissing           a program that the job side runs is not installed
├── AlreadyMonitored         another monitor watches this stage
├── AlreadyDriven            another loop drives this workflow
└── LaunchFailed             the monitor ended before it took up its work

Each carries a stable ``code``, its ``message``, and its values in ``data``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class ReconcilerError(Exception):
    """Base of what the job side raises: a stable ``code``, a ``message``, values in ``data``."""

    code = "reconciler_error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class InvalidSubmission(ReconcilerError):
    """A submission file that cannot be read as a JSON object."""

    code = "invalid_submission"

    def __init__(
        self, path: Path, why: str, line: int | None = None, column: int | None = None
    ) -> None:
        place = f", line {line}, column {column}" if line is not None else ""
        super().__init__(
            f"{path}{place}: expected a JSON object as DPDispatcher reads it, found: {why}. "
            "Correct the file, or remove it to have it built from the stage's parameters.",
            path=str(path),
            line=line,
            column=column,
        )


class UnusableSubmission(ReconcilerError):
    """A submission that cannot be run as an attempt."""

    code = "unusable_submission"

    def __init__(self, field: str, expected: str, found: object, remedy: str) -> None:
        super().__init__(
            f"submission: {field} must be {expected}, found {found!r}. {remedy}",
            field=field,
            expected=expected,
            found=found,
        )


class UnusableProfile(ReconcilerError):
    """A backend profile that no submission can be built from."""

    code = "unusable_profile"

    def __init__(self, field: str, expected: str, found: object) -> None:
        super().__init__(
            f"backend profile: {field} must be {expected}, found {found!r}. "
            "Correct the profile in the plan, or prepare the stage's submission.json by hand.",
            field=field,
            expected=expected,
            found=found,
        )


class UnusablePath(ReconcilerError):
    """A path of a stage that is absolute, leaves the root, or lies where a job cannot write."""

    code = "unusable_path"

    def __init__(self, stage: str, field: str, path: str, expected: str) -> None:
        super().__init__(
            f"{stage}: {field} holds {path!r}; expected {expected}. Correct the stage's {field}.",
            stage=stage,
            field=field,
            path=path,
        )


class RejectedSubmission(ReconcilerError):
    """DPDispatcher's own check refused the submission; ``data["output"]`` holds its last lines."""

    code = "rejected_submission"

    def __init__(self, path: Path, output: str) -> None:
        super().__init__(
            f"{path}: `dargs check` refused it:\n{output}\n"
            "Correct stage parameters, resource_overrides or the prepared submission.json.",
            path=str(path),
            output=output,
        )


class MissingInput(ReconcilerError):
    """An input of the stage is not there."""

    code = "missing_input"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"input {path} is missing; expected a file or a folder below the workflow root. "
            "Produce it, or correct the stage's inputs.",
            path=path,
        )


class EmptyInput(ReconcilerError):
    """An input of the stage holds nothing."""

    code = "empty_input"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"input {path} is empty; expected content. Produce it anew, or correct the inputs.",
            path=path,
        )


class ProgramMissing(ReconcilerError):
    """A program that the job side runs is not installed."""

    code = "program_missing"

    def __init__(self, program: str, looked: tuple[str, ...], remedy: str) -> None:
        super().__init__(
            f"{program} was not found; looked at: {', '.join(looked)}. {remedy}",
            program=program,
            looked=list(looked),
        )


class AlreadyMonitored(ReconcilerError):
    """Another monitor watches this stage; nothing was started."""

    code = "already_monitored"

    def __init__(self, stage: str, lock: Path) -> None:
        super().__init__(
            f"{stage} has a monitor already (it holds {lock}); nothing was started. "
            f"`wfctl wait {stage}` waits for it.",
            stage=stage,
            lock=str(lock),
        )


class AlreadyDriven(ReconcilerError):
    """Another loop drives this workflow; this one did nothing."""

    code = "already_driven"

    def __init__(self, lock: Path) -> None:
        super().__init__(
            f"another `wfctl run` drives this workflow (it holds {lock}); expected none. "
            "Let it work, `wfctl events --follow` shows what it does; or end it and run again.",
            lock=str(lock),
        )


class LaunchFailed(ReconcilerError):
    """The monitor ended before it took up its work; ``data["output"]`` says what it printed."""

    code = "launch_failed"

    def __init__(self, stage: str, exit_code: int | None, output: str) -> None:
        super().__init__(
            f"{stage}: the monitor did not start (exit code {exit_code}); it printed:\n{output}\n"
            "Correct the cause; `wfctl rehydrate` says how to go on.",
            stage=stage,
            exit_code=exit_code,
            output=output,
        )
