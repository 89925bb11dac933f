"""The errors of services.

ServiceError
├── NoRoot            the folder contains no workflow
├── RootExists        the folder already contains a workflow
├── WorkflowExists    the id belongs to the workflow of another root in this log
├── UnreadablePlan    the plan file is not valid JSON, YAML or TOML
├── UnimportableState the workflow-state.json cannot be imported
├── AlreadyThere      the command would overwrite a file
├── RootElsewhere     the root was moved or copied
├── InvalidOption     the value of an option is not valid
├── VersionConflict   the machine is not at the expected version
├── FilesBehind       the event was recorded, but the files are not up to date
├── LogBehind         the log is older than the files that it wrote
├── NotFound          the requested version, session or item does not exist
├── SqlRefused        the SQL query would change data
├── SqlWrong          the database cannot parse the SQL query
├── SqlTooLong        the SQL query exceeded its time limit
└── RootBusy          another process keeps the root locked

Errors defined in the module that raises them:

ServiceError
├── OutsideRoot        a path leads out of the root (root/paths_within_root.py)
├── UntrustedDatabase  an unapproved database (root/trusted_databases.py)
├── UnreadablePins     the pins cannot be read (consent/approvals.py)
├── SignatureFailed    ssh-keygen failed to sign (consent/signature.py)
└── errors of extensions, in the errors.py of each extension

Subclasses of NeedsConsent
├── AnotherLog         the log is not the pinned log of its root (consent/approvals.py)
└── UndecidedEdit      only a person may decide on a hand edit (writing/undecided_edits.py)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventstore.disk_space import describe_os_error
from eventstore.errors import WrongExpectedVersion
from wording import CodedError, TemplatedError


class ServiceError(CodedError):
    """Base class of the errors of this package.

    Each error has a stable ``code``, a ``message``, and values in ``data``.
    """

    code = "service_error"


class NoRoot(TemplatedError, ServiceError):
    """Neither this folder nor a folder above it contains a workflow."""

    code = "no_workflow"
    text = (
        "no workflow found: neither {start} nor a folder above it contains a .wfctl folder. "
        "Create a workflow with `wfctl init PLAN`, or name its folder with `--root DIR`."
    )
    start: Path


class RootExists(TemplatedError, ServiceError):
    """The folder already contains a workflow."""

    code = "already_exists"
    text = (
        "the folder {root} already contains the workflow {_named}, and a folder can contain only "
        "one workflow. To show this workflow, run `wfctl status`."
    )
    root: Path
    workflow: str | None

    @property
    def _named(self) -> str:
        return self.workflow or "(unfinished init)"


class WorkflowExists(TemplatedError, ServiceError):
    """The shared log already contains a workflow with this id."""

    code = "already_exists"
    text = (
        "the log {url} already contains a workflow {workflow}. To create a new one, give the "
        "plan another workflow_id. To continue the existing one from this folder, copy the "
        ".wfctl/config.toml of its folder to this one and run `wfctl rehydrate --root-is "
        "copied`."
    )
    workflow: str
    url: str


class AlreadyThere(ServiceError):
    """The file to create already exists."""

    code = "already_exists"

    def __init__(self, path: Path) -> None:
        kind = "folder" if path.is_dir() else "file"
        super().__init__(
            f"{path} already exists (a {kind}); nothing was changed. Choose another path, or "
            f"move the {kind} away.",
            path=str(path),
        )


class RootElsewhere(ServiceError):
    """The workflow folder was moved or copied since the last command.

    The user must add ``--root-is moved`` or ``--root-is copied``. ``known`` and ``found`` describe
    the old and new place: path, host, device and inode.
    """

    code = "root_elsewhere"

    def __init__(self, known: dict[str, Any], found: dict[str, Any]) -> None:
        same = all(known.get(key) == found[key] for key in ("device", "inode", "host"))
        guess = (
            "the folder itself is the same, so it was probably moved"
            if same
            else ("the folder is another one, so it may be a copy")
        )
        super().__init__(
            f"this workflow was last used in {known.get('path')} on {known.get('host')}, and "
            f"now it is in {found['path']} on {found['host']}: {guess}. Add one of these "
            "options once to a command that writes: --root-is moved, if the folder was moved "
            "(wfctl then continues its attempts here); --root-is copied, if it is a copy "
            "(wfctl then leaves the attempts to the original).",
            known=known,
            found=found,
        )


class UnreadablePlan(ServiceError):
    """The plan file cannot be parsed."""

    code = "unreadable_plan"

    def __init__(self, path: str, kind: str, why: str, line: int | None, column: int | None):
        place = f", line {line}, column {column}" if line is not None else ""
        super().__init__(
            f"{path}{place}: not valid {kind}: {why}. Nothing was written.",
            path=path,
            kind=kind,
            line=line,
            column=column,
        )


class UnimportableState(TemplatedError, ServiceError):
    """The file ``workflow-state.json`` cannot be imported."""

    code = "unimportable_state"
    text = (
        "{path} cannot be imported:\n  - {problems:\n  - }\nNothing was written. Correct the "
        "file and import it again."
    )
    path: str
    problems: list[str]


class NotFound(ServiceError):
    """The named file or object does not exist."""

    code = "not_found"


class InvalidOption(ServiceError):
    """The value of an option is not valid."""

    code = "invalid_option"


class VersionConflict(ServiceError):
    """The log of the machine is not at the version that the caller expects."""

    code = "VERSION_CONFLICT"

    def __init__(self, machine: str, error: WrongExpectedVersion) -> None:
        super().__init__(
            f"the machine {machine} was changed in the meantime: the command expects version "
            f"{error.expected}, but the machine has version {error.found}. Read the "
            f"machine again (`wfctl machine get {machine}`), then repeat the command with the new "
            "version.",
            machine=machine,
            expected=error.expected,
            found=error.found,
        )


class FilesBehind(ServiceError):
    """The events were recorded, but the generated files of the workflow were not updated."""

    code = "files_behind"

    def __init__(self, version: int, cause: Exception) -> None:
        why = describe_os_error(cause) if isinstance(cause, OSError) else str(cause)
        why = why.removesuffix(".")
        super().__init__(
            f"the changes are recorded up to version {version}, but the files of the workflow "
            f"could not be updated: {why}. Nothing is lost: the next command that writes "
            "updates the files, or run `wfctl replay --rebuild`.",
            version=version,
            errno=getattr(cause, "errno", None),
        )


class LogBehind(TemplatedError, ServiceError):
    """The log is older than its files, because it was restored or its end was lost."""

    code = "log_behind"
    text = (
        "the log ends at version {found}, but the files next to it were written from version "
        "{shown}: the log is an older copy, or its last part was lost. If you have a newer "
        "copy, move .wfctl aside and restore that copy (`wfctl db restore FILE`). If not, "
        "and the log is empty, move .wfctl aside and run `wfctl import .`, which imports the "
        "content of the files. If not, and the log has events, run `wfctl replay --rebuild`: "
        "wfctl keeps the current files and writes new ones from the log. `wfctl rehydrate` "
        "then finds jobs that are still running."
    )
    shown: int
    found: int


class RootBusy(TemplatedError, ServiceError):
    """Another process held the lock of the workflow's files for too long."""

    code = "root_busy"
    text = (
        "another wfctl process holds the lock {path}, and wfctl waited {waited:.0f} s for this "
        "lock. Try again, or look for a wfctl process that hangs."
    )
    path: Path
    waited: float


class SqlRefused(TemplatedError, ServiceError):
    """The SQL query would change the database, so it was not run."""

    code = "sql_refused"
    text = (
        "the query must be one statement that only reads (SELECT, WITH, VALUES), found "
        "{why}. Nothing was changed."
    )
    why: str


class SqlWrong(TemplatedError, ServiceError):
    """The SQL query is not valid."""

    code = "sql_error"
    text = (
        "the query is not valid: {why}. Use SQL over v_events, v_transitions, v_attempts, "
        "v_amendments or v_sessions."
    )
    why: str


class SqlTooLong(TemplatedError, ServiceError):
    """The SQL query exceeded its time limit."""

    code = "sql_timeout"
    text = "the query took longer than {seconds:g} s. Allow more time with `--timeout SECONDS`"
    seconds: float
