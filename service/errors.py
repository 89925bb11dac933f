"""The errors of the use cases.

ServiceError
├── NoRoot            no workflow here
├── RootExists        a second init
├── WorkflowExists    an init with the id of a workflow that the log holds for another root
├── UnreadablePlan    a plan file that is not JSON, YAML or TOML
├── UnimportableState a workflow-state.json that cannot be taken over
├── AlreadyThere      a file that would be overwritten
├── RootElsewhere     a root that is not where it was
├── InvalidOption     a value that cannot be what it should be
├── FilesBehind       recorded, but the files could not be brought up to date
├── LogBehind         a log that ends before what its files show
├── NotFound          no such version, session or thing that was asked for
├── SqlRefused        a question in SQL that would do more than read
├── SqlWrong          a question in SQL that the database does not understand
├── SqlTooLong        a question in SQL that took longer than it may
└── RootBusy          another process holds the root for too long

Of one module each, beside the code that raises them:

ServiceError
├── OutsideRoot        a path that leads out of the root (root/below.py)
├── UntrustedDatabase  a database that this login did not agree to (root/trust.py)
├── UnreadablePins     pins that cannot be read (consent/approvals.py)
├── SignatureFailed    ssh-keygen made no signature (consent/signature.py)
├── UnusableArchive    an archive that is not what its manifest says (handover/manifest.py)
├── those of machines, in machines/errors.py; of proofs, in proofs/note.py, these:
├── UnreadableNote     not a signed note
├── UnverifiedNote     no signature of a key that is known
├── CheckpointDenied   a log that is not the one that was signed
├── ProofRejected      a proof that does not hold
└── NotWitnessed       no cosignature of a witness

NeedsConsent, of the rules
├── AnotherLog         a log that is not the pinned one of its root (consent/approvals.py)
└── UndecidedEdit      a hand edit that only a person may decide on (writing/undecided.py)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventstore.disk_space import reason_of
from wording import Coded, Worded


class ServiceError(Coded):
    """Base of what the use cases raise: a stable ``code``, a ``message``, values in ``data``."""

    code = "service_error"


class NoRoot(Worded, ServiceError):
    """Neither this folder nor one above it holds a workflow."""

    code = "no_workflow"
    text = (
        "no workflow here: expected a .wfctl folder in {start} or above it. "
        "`wfctl init PLAN` makes one; `--root DIR` names another place."
    )
    start: Path


class RootExists(Worded, ServiceError):
    """The folder holds a workflow already."""

    code = "already_exists"
    text = "{root} holds the workflow {_named} already; a root holds one. `wfctl status` shows it."
    root: Path
    workflow: str | None

    @property
    def _named(self) -> str:
        return self.workflow or "(unfinished init)"


class WorkflowExists(Worded, ServiceError):
    """The log, which many workflows share, holds one of this id."""

    code = "already_exists"
    text = (
        "expected a new workflow, found {workflow} in {url} already. Give the plan another "
        "workflow_id; or, to work on that one from here, put the .wfctl/config.toml of its "
        "root here and run `wfctl rehydrate --root-is copied`."
    )
    workflow: str
    url: str


class AlreadyThere(ServiceError):
    """A file in the place of one that is to be made."""

    code = "already_exists"

    def __init__(self, path: Path) -> None:
        kind = "folder" if path.is_dir() else "file"
        super().__init__(
            f"{path}: expected nothing, found a {kind}, and it is left as it is; name another or "
            "move it away",
            path=str(path),
        )


class RootElsewhere(ServiceError):
    """The root is not the one that its log was written for; nothing is written until it is said.

    ``known`` and ``found`` hold path, host, device and inode.
    """

    code = "root_elsewhere"

    def __init__(self, known: dict[str, Any], found: dict[str, Any]) -> None:
        same = all(known.get(key) == found[key] for key in ("device", "inode", "host"))
        guess = (
            "the folder itself is the same, so it was most likely moved"
            if same
            else ("it is another folder, so it may be a copy")
        )
        super().__init__(
            f"expected this workflow in {known.get('path')} on {known.get('host')}, found it in "
            f"{found['path']} on {found['host']}: {guess}. Say which, once, with any command that "
            "writes: --root-is moved, and what was begun there is judged by what is so here; "
            "--root-is copied, and it is left to the original.",
            known=known,
            found=found,
        )


class UnreadablePlan(ServiceError):
    """A file that cannot be decoded; line and column count from 1."""

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


class UnimportableState(Worded, ServiceError):
    """A ``workflow-state.json`` that cannot be taken over; ``problems`` lists every one."""

    code = "unimportable_state"
    text = (
        "{path} cannot be taken over:\n  - {problems:\n  - }\nCorrect it and import again; nothing "
        "was written."
    )
    path: str
    problems: list[str]


class NotFound(ServiceError):
    """A file or a thing that was named is not there."""

    code = "not_found"


class InvalidOption(ServiceError):
    """A value that cannot be what it should be."""

    code = "invalid_option"


class FilesBehind(ServiceError):
    """The events are recorded; the files that show them could not be written."""

    code = "files_behind"

    def __init__(self, version: int, cause: Exception) -> None:
        why = reason_of(cause) if isinstance(cause, OSError) else str(cause)
        why = why.removesuffix(".")
        super().__init__(
            f"recorded up to version {version}, but the files could not be brought up to date: "
            f"{why}. Nothing is lost: the next write command does it, or "
            "`wfctl replay --rebuild`.",
            version=version,
            errno=getattr(cause, "errno", None),
        )


class LogBehind(Worded, ServiceError):
    """The log ends before what its files show: it was restored, or its last part was lost."""

    code = "log_behind"
    text = (
        "the log ends at version {found}, and the files beside it were written from version "
        "{shown}: an older copy of the log lies in its place, or a part was lost. "
        "Where there is a newer copy, put it back (`wfctl db restore FILE` into "
        "an empty place); else `wfctl replay --rebuild` writes the files as the log has them, "
        "keeps what they showed, and `wfctl rehydrate` then takes up jobs that are at work."
    )
    shown: int
    found: int


class RootBusy(Worded, ServiceError):
    """Another process holds the lock on the root's files for too long."""

    code = "root_busy"
    text = (
        "waited {waited:.0f} s for {path}, which another wfctl holds; try again, or look for "
        "a process that hangs."
    )
    path: Path
    waited: float


class SqlRefused(Worded, ServiceError):
    """A question in SQL that would do more than read."""

    code = "sql_refused"
    text = (
        "expected one statement that reads (SELECT, WITH, VALUES), found {why}. Nothing was "
        "changed; the history changes through commands only."
    )
    why: str


class SqlWrong(Worded, ServiceError):
    """A question in SQL that the database does not understand."""

    code = "sql_error"
    text = (
        "expected SQL over v_events, v_transitions, v_attempts, v_amendments or v_sessions; "
        "the database says: {why}"
    )
    why: str


class SqlTooLong(Worded, ServiceError):
    """A question in SQL that took longer than it may."""

    code = "sql_timeout"
    text = "expected an answer within {seconds:g} s, found none; `--timeout SECONDS` allows more"
    seconds: float
