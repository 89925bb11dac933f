"""Check the fields of a submission and its environment."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lifecycle.sweeps.variables import find_oversized_variable
from reconciler.attempt.paths import JOB, AttemptPaths, JobRecordSuffix
from reconciler.errors import UnusableSubmission
from reconciler.host import small_files as plain

#: Start of the line with which a job reports a missing module, environment or program.
LACKS = "wfctl: "
#: Maximum number of characters of a recorded software version.
_MAX_LINE_WIDTH = 500
#: Maximum number of recorded software versions.
_MAX_LINES = 40


def add_loaded_modules(given: Mapping[str, Any], resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the software environment, extended by the modules that the resources load.

    Each module is listed once.
    """
    listed = resources.get("module_list")
    lines = [*given.get("modules", []), *(listed if isinstance(listed, list) else [])]
    names = dict.fromkeys(name for line in lines for name in str(line).split())
    return {**given, "modules": [*names]} if names else dict(given)


def read_software_versions(attempt: AttemptPaths) -> dict[str, str]:
    """Return the software versions that an attempt's jobs recorded on this machine."""
    found: dict[str, str] = {}
    for path in sorted(attempt.folder.glob(f"{JOB}*{JobRecordSuffix.ENVIRONMENT}")):
        for line in plain.read_text(path).splitlines()[:_MAX_LINES]:
            name, colon, value = line.partition(": ")
            if colon and value.strip():
                found[name] = value.strip()[:_MAX_LINE_WIDTH]
    return found


_COMMON = dict.fromkeys(("forward_common_files", "backward_common_files"), "a list of strings")
_LINES = ("custom_flags", "prepend_script", "append_script", "source_list", "module_list")
_OF_PARTS = {
    "machine": {"remote_profile": "an object"},
    "resources": {"envs": "an object", **dict.fromkeys(_LINES, "a list of strings")},
}
_OF_TASKS = {
    **dict.fromkeys(("command", "task_work_path"), "text"),
    **dict.fromkeys(("forward_files", "backward_files"), "a list of strings"),
}


def check_submission(submission: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission if a field of a submission has a form that is not allowed.

    The error names the field.
    """
    check_fields(submission, _COMMON)
    for name, of_part in _OF_PARTS.items():
        given = submission.get(name)
        if isinstance(given, dict):
            check_fields(given, of_part, f"{name}.")
    tasks = submission.get("task_list", [{}])
    if not isinstance(tasks, list) or not tasks:
        found = "an empty list" if tasks == [] else type(tasks).__name__
        expected = "a list of at least one task"
        raise UnusableSubmission("task_list", expected, found, "Correct it there.")
    for number, task in enumerate(tasks):
        check_fields({f"task_list[{number}]": task}, {f"task_list[{number}]": "an object"})
        check_fields(task, _OF_TASKS, f"task_list[{number}].")


#: For each name of a type, a function that checks whether a value has this type.
_TYPE_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda given: isinstance(given, str),
    "an object": lambda given: isinstance(given, dict),
    "a list of strings": lambda given: (
        isinstance(given, list) and all(isinstance(one, str) for one in given)
    ),
}


def check_fields(given: Mapping[str, Any], expected: Mapping[str, str], of: str = "") -> None:
    """Raise UnusableSubmission if a field exists but does not have the expected type.

    ``expected`` maps the name of a field to the name of a type, such as "a list of strings".
    """
    for name, looks in expected.items():
        if name in given and not _TYPE_CHECKS[looks](given[name]):
            found = type(given[name]).__name__
            raise UnusableSubmission(f"{of}{name}", looks, found, "Correct it there.")


ROOT, INPUT = "WFCTL_ROOT", "WFCTL_INPUT_"


def check_variable_lengths(variables: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission if environment variables are too long to start a program."""
    found = find_oversized_variable({name: str(value) for name, value in variables.items()})
    if found is not None:
        name, size, most = found
        field = "resources.envs" if name is None else f"resources.envs.{name}"
        remedy = "Write the value into a file, and add the file to the inputs."
        raise UnusableSubmission(field, f"at most {most:,} bytes", f"{size:,} bytes", remedy)


def build_path_variables(root: Path, inputs: Iterable[str]) -> dict[str, str]:
    """Return the environment variables with the paths of the root and the inputs.

    They are for commands that run in the root.
    """
    return {ROOT: str(root)} | {f"{INPUT}{n}": str(root / path) for n, path in enumerate(inputs, 1)}


def add_path_variables(given: Mapping[str, Any], inputs: Iterable[str]) -> dict[str, Any]:
    """Return a submission whose job gets variables with the paths of root and inputs.

    On every machine and in a container, a job has a folder with its own copy of the root. The
    variables name paths in that folder. An input that was not sent has no variable.
    """
    result = copy.deepcopy(dict(given))
    lines = [f'export {ROOT}="$REMOTE_ROOT"']
    for n, path in enumerate(inputs, 1):
        place = f'"$REMOTE_ROOT"/{shlex.quote(path)}'
        lines.append(f"[ ! -e {place} ] || export {INPUT}{n}={place}")
    resources = result.get("resources")
    if isinstance(resources, dict):
        before = resources.get("prepend_script") or []
        result["resources"] = {**resources, "prepend_script": [*lines, *before]}
    return result


#: For each batch type, the prefix of lines in a job script that its scheduler reads.
PREFIXES: Mapping[str, str] = {
    "slurm": "#SBATCH",
    "pbs": "#PBS",
    "torque": "#PBS",
    "lsf": "#BSUB",
    "sge": "#$",
}
