"""Convert an error into an error message and an exit code."""

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

from cli.frame.exit_codes import CONFLICT, FAILED, FINDINGS, NEEDS_PERSON, NOT_FOUND, REFUSED, USAGE
from cli.frame.options import find_option_value
from cli.settings import Format, Settings
from cli.terminal.output import build_failure, escape_json, format_json_for_output, print_message
from eventstore import errors as log
from eventstore.disk_space import describe_os_error, is_disk_full_error
from lifecycle import errors as rules
from reconciler import errors as jobs
from service import errors as use
from service.root.root import MARKER
from service.root.trusted_databases import UntrustedDatabase
from wording import CodedError

if TYPE_CHECKING:
    from projections.words.text import NextAction

#: Exit code → error classes. For an error of another class, its nearest base class in this table
#: decides. An error without any entry has the exit code 1.
_CODES: dict[int, tuple[type[Exception], ...]] = {
    USAGE: (
        rules.InvalidPayload, rules.UnknownEventType, use.InvalidOption,
        use.SqlWrong, log.InvalidData,
    ),
    NOT_FOUND: (
        rules.UnknownStage, rules.UnknownAmendment, rules.UnknownLoop,
        rules.NoWorkflow,
        use.NoRoot, use.NotFound, jobs.NoRunner, log.DatabaseMissing,
    ),
    CONFLICT: (
        use.VersionConflict,
        rules.AlreadyExists, rules.StaleAmendment, rules.ImpactChanged, use.RootExists,
        use.WorkflowExists, use.AlreadyThere, log.TransferConflict, log.WrongExpectedVersion,
        log.CommandConflict, jobs.AlreadyDriven, jobs.AlreadyAutonomous,
    ),
    REFUSED: (
        rules.Refused, use.SqlRefused,
        jobs.InlineSecret, jobs.MachineFileMissing,
    ),
    NEEDS_PERSON: (
        rules.NeedsConsent,
        use.RootElsewhere, UntrustedDatabase,
    ),
    FINDINGS: (
        use.LogBehind, log.UnsoundLog, log.UnknownStoredType, log.NewerEventSchema,
        log.ForeignRule,
    ),
}  # fmt: skip
_CODE_OF = {kind: code for code, kinds in _CODES.items() for kind in kinds}

#: Wording in error messages of pydantic and typer → wording of wfctl.
_THEIRS = (
    ("Value error, ", ""),
    ("Input should be ", "expected "),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
)
#: Errors for a command that wfctl refused. The message lists commands that are possible instead.
_REFUSALS = (rules.Refused, rules.NeedsConsent, rules.StaleAmendment, jobs.ReconcilerError)
_OF_SYSTEM = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.EROFS: "read_only"}
#: Maximum number of possible next commands in an error message.
_FEW = 3


def exit_code(error: Exception) -> int:
    """Return the exit code for an error. Errors of extensions define their own exit code."""
    found = getattr(type(error), "exit_code", None)
    if found is not None:
        return int(found)
    return next((_CODE_OF[kind] for kind in type(error).__mro__ if kind in _CODE_OF), FAILED)


def report_error(error: Exception, arguments: list[str]) -> int:
    """Print an error in the output format of the caller, and return its exit code.

    ``arguments`` is the command line, starting with the global options. With JSON, stdout gets one
    document. Otherwise the error goes to stderr, so that JSON lines on stdout contain only records.
    """
    if isinstance(error, Exit):
        return error.exit_code
    if isinstance(error, TyperException):
        return _print_error(arguments, "usage", _format_usage_error(error), {}, USAGE)
    if isinstance(error, Abort):
        return _print_error(arguments, "aborted", "aborted", {}, FAILED)
    if os.environ.get("WFCTL_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, CodedError):
        code, actions = exit_code(error), []
        if isinstance(error, _REFUSALS):
            actions = _suggest_next_actions(arguments)
        return _print_error(arguments, error.code, error.message, error.data, code, actions)
    if isinstance(error, OSError):
        said = _format_system_error(error)
        return _print_error(
            arguments, _OF_SYSTEM.get(error.errno or 0, "os_error"), said, {}, FAILED
        )
    message = (
        f"{type(error).__name__}: {error}. This is an error in wfctl. Set WFCTL_DEBUG=1 "
        "to print the details."
    )
    return _print_error(arguments, "internal", message, {}, FAILED)


def _format_system_error(error: OSError) -> str:
    """Return a message for an error of the operating system, such as a full disk."""
    if is_disk_full_error(error) and error.filename:
        return f"{describe_os_error(error)}. All confirmed changes are recorded."
    where = f" ({error.filename})" if error.filename else ""
    said = f"{error.strerror or error}{where}. All confirmed changes are recorded."
    return said + (
        _explain_folder_sharing(error.filename) if isinstance(error, PermissionError) else ""
    )


def _explain_folder_sharing(path: object) -> str:
    """Return a sentence with the owner of a workflow folder and the commands to share it.

    ``path`` is a file that this user cannot access. Return an empty string if the user owns the
    folder or no workflow folder is found.
    """
    if not isinstance(path, str | os.PathLike):
        return ""
    for folder in Path(path).absolute().parents:
        # This folder contains no workflow, or its files cannot be read. Continue with its parent
        # folder.
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


def _suggest_next_actions(arguments: list[str]) -> list[NextAction]:
    """Return the most important next actions after wfctl refused a command.

    Return an empty list if the workflow cannot be read.
    """
    from cli.frame.workspace import open_workflow_for_reading

    root = find_option_value(arguments, "--root")
    folder = Path(root) if root is not None else None
    settings = Settings(folder, find_option_value(arguments, "--database-url"))
    try:
        with open_workflow_for_reading(settings) as workflow:
            from reconciler.files.freshness import find_log_differences

            state = workflow.state()
            seen = find_log_differences(workflow.root, workflow.log, state)
            refused = f"wfctl {' '.join(arguments)}"
            found = workflow.output.next_actions(state, seen)
            # Do not suggest the command that was just refused.
            return [one for one in found if one.needs or not _calls_command(one.command, refused)][
                :_FEW
            ]
    except Exception:  # noqa: BLE001 - the refusal must be reported in any case
        return []


def _calls_command(command: str, line: str) -> bool:
    """Return whether the command line ``line`` calls this command, with any options."""
    words = iter(line.split())
    return all(word in words for word in command.split())


def _print_error(
    arguments: list[str],
    code: str,
    message: str,
    data: dict[str, object],
    exit_: int,
    actions: Sequence[NextAction] = (),
) -> int:
    if find_option_value(arguments, "-o", "--output") == Format.JSON:
        document = format_json_for_output(
            build_failure(code, message, data, [one.to_dict() for one in actions])
        )
        print(escape_json(document))
    else:
        print_message(f"wfctl: {message}")
        for action in actions[:1]:
            print_message(f"next: {action}")
    sys.stdout.flush()
    return exit_


def _format_usage_error(error: TyperException) -> str:
    said = error.format_message() or "expected a command."
    for found, ours in _THEIRS:
        said = said.replace(found, ours)
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "wfctl"
    end = "" if said.endswith("?") else "."
    said = f"{said.rstrip('.')}{end} `{command} --help` explains the arguments and options."
    example = getattr(error, "example", "")
    return f"{said} {example}" if example else said
