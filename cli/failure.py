"""From an error to a message and an exit code of the contract."""

from __future__ import annotations

import errno
import os
import sys
import traceback

from typer.exceptions import Abort, Exit, TyperException

from cli.hoist import value_of
from cli.output import escaped, failure, pretty, say
from cli.settings import Format
from eventstore import errors as log
from lifecycle import errors as rules
from lifecycle.machines import errors as machines
from reconciler import errors as jobs
from service import errors as use
from service.machines import errors as use_machines

DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, REFUSED, NEEDS_PERSON, FINDINGS = range(8)

#: The first row whose class fits decides; what has no row is a failure of this run (1).
EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (machines.ApprovalMissing, NEEDS_PERSON),
    (machines.CircuitOpen, NEEDS_PERSON),
    (machines.ReservedField, REFUSED),
    (machines.InvalidInput, USAGE),
    (machines.InvalidDefinition, FAILED),
    (machines.StateNotFound, NOT_FOUND),
    (machines.StateAlreadyExists, CONFLICT),
    (machines.MachineError, REFUSED),
    (use_machines.VersionConflict, CONFLICT),
    (rules.AlreadyExists, CONFLICT),
    (rules.InvalidPayload, USAGE),
    (rules.UnknownEventType, USAGE),
    (rules.UnknownStage, NOT_FOUND),
    (rules.UnknownAmendment, NOT_FOUND),
    (rules.StaleAmendment, CONFLICT),
    (rules.ImpactChanged, CONFLICT),
    (rules.NoWorkflow, NOT_FOUND),
    (rules.Refused, REFUSED),
    (rules.NeedsConsent, NEEDS_PERSON),
    (use.RootExists, CONFLICT),
    (use.WorkflowExists, CONFLICT),
    (use.AlreadyThere, CONFLICT),
    (log.TransferConflict, CONFLICT),
    (use.NoRoot, NOT_FOUND),
    (use.NotFound, NOT_FOUND),
    (use.InvalidOption, USAGE),
    (use.SqlWrong, USAGE),
    (use.SqlRefused, REFUSED),
    (use.RootElsewhere, NEEDS_PERSON),
    (log.WrongExpectedVersion, CONFLICT),
    (log.CommandConflict, CONFLICT),
    (jobs.AlreadyDriven, CONFLICT),
    (jobs.AlreadyAutonomous, CONFLICT),
    (jobs.NoRunner, NOT_FOUND),
    (jobs.InlineSecret, REFUSED),
    (jobs.MachineFileMissing, REFUSED),
    (log.InvalidData, USAGE),
    (log.DatabaseMissing, NOT_FOUND),
)

_OURS = (rules.LifecycleError, use.ServiceError, log.EventStoreError, jobs.ReconcilerError)


def exit_code(error: Exception) -> int:
    """Return the exit code of the contract for an error."""
    for kind, code in EXIT_CODES:
        if isinstance(error, kind):
            return code
    return FAILED


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
        return _print(arguments, error.code, error.message, error.data, exit_code(error))
    if isinstance(error, OSError):
        return _print(arguments, _os_code(error), _os_message(error), {}, FAILED)
    message = (
        f"{type(error).__name__}: {error}. This is a fault of wfctl; WFCTL_DEBUG=1 shows more."
    )
    return _print(arguments, "internal", message, {}, FAILED)


def _print(
    arguments: list[str], code: str, message: str, data: dict[str, object], exit_: int
) -> int:
    if _wants_json(arguments):
        document = pretty(failure(code, message, data))
        print(escaped(document) if sys.stdout.isatty() else document)
    else:
        say(f"wfctl: {message}")
    sys.stdout.flush()
    return exit_


def _usage(error: TyperException) -> str:
    return f"{error.format_message() or 'expected a command.'} `wfctl --help` lists what there is."


def _wants_json(arguments: list[str]) -> bool:
    return value_of(arguments, "-o", "--output") == Format.JSON


def _os_code(error: OSError) -> str:
    names = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
    return names.get(error.errno or 0, "os_error")


def _os_message(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}; nothing that was acknowledged is lost."
