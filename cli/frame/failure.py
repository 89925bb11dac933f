"""From an error to a message and an exit code of the contract."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from typer.exceptions import Abort, Exit, TyperException

from cli.frame.options import (
    CONFLICT,
    FAILED,
    FINDINGS,
    NEEDS_PERSON,
    NOT_FOUND,
    REFUSED,
    USAGE,
    value_of,
)
from cli.settings import Format, Settings
from cli.terminal.output import as_json, escaped, failure, say
from eventstore import errors as log
from eventstore.disk_space import is_no_room, reason_of
from lifecycle import errors as rules
from lifecycle.machines import errors as machines
from reconciler import errors as jobs
from service import errors as use
from service.machines import errors as use_machines
from service.proofs import note as proofs
from service.root.root import MARKER
from service.root.trust import UntrustedDatabase

if TYPE_CHECKING:
    from projections.words.text import NextAction

#: Exit code → classes of errors; the nearest class above an error decides. What has no row is a
#: failure of this run (1).
_CODES: dict[int, tuple[type[Exception], ...]] = {
    FAILED: (machines.InvalidDefinition,),
    USAGE: (
        machines.InvalidInput, rules.InvalidPayload, rules.UnknownEventType, use.InvalidOption,
        use.SqlWrong, log.InvalidData,
    ),
    NOT_FOUND: (
        machines.StateNotFound, rules.UnknownStage, rules.UnknownAmendment, rules.UnknownLoop,
        rules.NoWorkflow,
        use.NoRoot, use.NotFound, jobs.NoRunner, log.DatabaseMissing,
    ),
    CONFLICT: (
        machines.StateAlreadyExists, machines.TaskHeld, use_machines.VersionConflict,
        rules.AlreadyExists, rules.StaleAmendment, rules.ImpactChanged, use.RootExists,
        use.WorkflowExists, use.AlreadyThere, log.TransferConflict, log.WrongExpectedVersion,
        log.CommandConflict, jobs.AlreadyDriven, jobs.AlreadyAutonomous,
    ),
    REFUSED: (
        machines.ReservedField, machines.MachineError, rules.Refused, use.SqlRefused,
        jobs.InlineSecret, jobs.MachineFileMissing,
    ),
    NEEDS_PERSON: (
        machines.ApprovalMissing, machines.CircuitOpen, machines.UnsafeResume, rules.NeedsConsent,
        use.RootElsewhere, UntrustedDatabase,
    ),
    FINDINGS: (
        use.LogBehind, proofs.UnverifiedNote, proofs.CheckpointDenied, proofs.ProofRejected,
        proofs.NotWitnessed, log.UnsoundLog, log.UnknownStoredType, log.NewerEventSchema,
        log.ForeignRule,
    ),
}  # fmt: skip
_CODE_OF = {kind: code for code, kinds in _CODES.items() for kind in kinds}

#: Words of the libraries in which a wrong value is told, and what people are told.
_THEIRS = (
    ("Value error, ", ""),
    ("Input should be ", "expected "),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
)
#: What a rule or a person's decision stands against: something else can be done.
_REFUSALS = (rules.Refused, rules.NeedsConsent, rules.StaleAmendment, jobs.ReconcilerError)
_OF_SYSTEM = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
#: Next actions that a refusal tells of.
_FEW = 3
_OURS = (rules.LifecycleError, use.ServiceError, log.EventStoreError, jobs.ReconcilerError)


def exit_code(error: Exception) -> int:
    """Return the exit code of the contract for an error."""
    return next((_CODE_OF[kind] for kind in type(error).__mro__ if kind in _CODE_OF), FAILED)


def report(error: Exception, arguments: list[str]) -> int:
    """Print the error where the caller looks for it, and return the exit code.

    ``arguments`` is the hoisted line: with JSON the error is the one document on stdout, else
    talk on stderr, so that JSON lines stay bare records.
    """
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, TyperException):
        return _print(arguments, "usage", _usage(error), {}, USAGE)
    if isinstance(error, Abort):
        return _print(arguments, "aborted", "aborted", {}, FAILED)
    if os.environ.get("WFCTL_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, _OURS):
        code, actions = exit_code(error), []
        if isinstance(error, _REFUSALS):
            actions = _leading_on(arguments)
        return _print(arguments, error.code, error.message, error.data, code, actions)
    if isinstance(error, OSError):
        said = _told_by_system(error)
        return _print(arguments, _OF_SYSTEM.get(error.errno or 0, "os_error"), said, {}, FAILED)
    message = (
        f"{type(error).__name__}: {error}. This is a fault of wfctl; WFCTL_DEBUG=1 shows more."
    )
    return _print(arguments, "internal", message, {}, FAILED)


def _told_by_system(error: OSError) -> str:
    """Return the message for an error of the operating system."""
    if is_no_room(error) and error.filename:
        return f"{reason_of(error)}; nothing that was acknowledged is lost."
    where = f" ({error.filename})" if error.filename else ""
    said = f"{error.strerror or error}{where}; nothing that was acknowledged is lost."
    return said + (_how_to_share(error.filename) if isinstance(error, PermissionError) else "")


def _how_to_share(path: object) -> str:
    """Return whose root a file is in and what its owner can do, if that is another user."""
    if not isinstance(path, str | os.PathLike):
        return ""
    for folder in Path(path).absolute().parents:
        # A closed folder is passed by; its own folder shows it.
        if not _is_folder(folder / MARKER):
            continue
        uid = (folder / MARKER).stat().st_uid
        if uid == os.geteuid():
            return ""
        owner = str(uid)
        with suppress(KeyError):
            owner = pwd.getpwuid(uid).pw_name
        root = shlex.quote(str(folder))
        return (
            f" The root {folder} belongs to {owner}, who can share it with a group: "
            f"`chgrp -R GROUP {root}; chmod -R g+rwX {root}; "
            f"find {root} -type d -exec chmod g+s {{}} +; "
            f"find {root} -path '*/.attempts/*/environment' -exec chmod 600 {{}} +`."
        )
    return ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _leading_on(arguments: list[str]) -> list[NextAction]:
    """Return the first commands that lead on from where a refusal left the workflow."""
    from cli.frame.workspace import reading_of

    root = value_of(arguments, "--root")
    folder = Path(root) if root is not None else None
    settings = Settings(folder, value_of(arguments, "--database-url"))
    try:
        with reading_of(settings) as workflow:
            from reconciler.files.freshness import look

            state = workflow.state()
            seen = look(workflow.root, workflow.log, state)
            refused = f"wfctl {' '.join(arguments)}"
            found = workflow.output.next_actions(state, seen)
            # What was just refused is not offered again as it stands.
            return [one for one in found if one.needs or not _is(one.command, refused)][:_FEW]
    except Exception:  # noqa: BLE001 - the refusal is told, whatever keeps us from looking further
        return []


def _is(command: str, line: str) -> bool:
    """Whether a line calls a command, with whatever options."""
    words = iter(line.split())
    return all(word in words for word in command.split())


def _print(
    arguments: list[str],
    code: str,
    message: str,
    data: dict[str, object],
    exit_: int,
    actions: Sequence[NextAction] = (),
) -> int:
    if value_of(arguments, "-o", "--output") == Format.JSON:
        document = as_json(failure(code, message, data, [one.to_dict() for one in actions]))
        print(escaped(document))
    else:
        say(f"wfctl: {message}")
        for action in actions[:1]:
            say(f"next: {action}")
    sys.stdout.flush()
    return exit_


def _usage(error: TyperException) -> str:
    said = error.format_message() or "expected a command."
    for found, ours in _THEIRS:
        said = said.replace(found, ours)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wfctl"
    end = "" if said.endswith("?") else "."
    return f"{said.rstrip('.')}{end} `{command} --help` lists what there is."
