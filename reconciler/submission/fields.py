"""The parts of a submission: its fields, environment, directives."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lifecycle.sweeps.definition import own_parameters
from reconciler.errors import UnusableSubmission

_COMMON = ("forward_common_files", "backward_common_files")
_LINES = ("custom_flags", "prepend_script", "append_script", "source_list", "module_list")
_FILES = ("forward_files", "backward_files")


def check(submission: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission, which names the field, where a submission has another shape."""
    texts(submission, _COMMON)
    for name, inner in (("machine", "remote_profile"), ("resources", "envs")):
        given = submission.get(name)
        if isinstance(given, dict):
            objects(given, [inner], f"{name}.")
    if isinstance(submission.get("resources"), dict):
        texts(submission["resources"], _LINES, "resources.")
    _check_tasks(submission.get("task_list", [{}]))


def _check_tasks(tasks: object) -> None:
    expected = "a list of at least one task"
    if not isinstance(tasks, list):
        raise _wrong("task_list", expected, tasks)
    if not tasks:
        raise UnusableSubmission("task_list", expected, "an empty list", "Correct it there.")
    for number, task in enumerate(tasks):
        if not isinstance(task, dict):
            raise _wrong(f"task_list[{number}]", "an object", task)
        text(task, ["command", "task_work_path"], f"task_list[{number}].")
        texts(task, _FILES, f"task_list[{number}].")


def text(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no text."""
    for name in names:
        if not isinstance(given.get(name, ""), str):
            raise _wrong(f"{of}{name}", "text", given[name])


def texts(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no list of text."""
    for name in names:
        found = given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise _wrong(f"{of}{name}", "a list of text", found)


def objects(given: Mapping[str, Any], names: Iterable[str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is no object."""
    for name in names:
        if not isinstance(given.get(name, {}), dict):
            raise _wrong(f"{of}{name}", "an object", given[name])


def _wrong(field: str, expected: str, found: object) -> UnusableSubmission:
    return UnusableSubmission(field, expected, type(found).__name__, "Correct it there.")


PREFIX = "WFCTL_PARAM_"
ROOT, INPUT = "WFCTL_ROOT", "WFCTL_INPUT_"
_NAME = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
#: What tells wfctl how to run a stage is no parameter of the computation.
_OURS = frozenset({"command", "verify"})


def environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the parameters that are text, a number, or true or false.

    A number is spelled as in JSON, true and false as ``true`` and ``false``. Lists, objects, null,
    and names that no variable can have are left out.
    """
    return {
        f"{PREFIX}{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in own_parameters(parameters).items()
        if isinstance(value, str | int | float) and _NAME.fullmatch(name) and name not in _OURS
    }


def places(root: Path, inputs: Iterable[str]) -> dict[str, str]:
    """Return the variables of the root and of the inputs for what runs in the root itself."""
    found = {f"{INPUT}{n}": str(root / path) for n, path in enumerate(inputs, 1)}
    return {ROOT: str(root), **found}


def placed(given: Mapping[str, Any], inputs: Iterable[str]) -> dict[str, Any]:
    """Return a submission whose job says the same of the copy that it has of the root.

    A job finds its inputs below a folder of its own, on every machine and in a container, at the
    paths that they have below the root. An input that did not come has no variable.
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


#: Batch type → how a line begins that its scheduler reads.
PREFIXES: Mapping[str, str] = {
    "slurm": "#SBATCH",
    "pbs": "#PBS",
    "torque": "#PBS",
    "lsf": "#BSUB",
    "sge": "#$",
}

#: Batch type → the options that DPDispatcher writes itself → the resource that sets each.
_GENERATED: Mapping[str, Mapping[str, str]] = {
    "slurm": {
        "-N": "number_node",
        "--nodes": "number_node",
        "--ntasks-per-node": "cpu_per_node",
        "-p": "queue_name",
        "--partition": "queue_name",
        "--gres": "gpu_per_node",
        "-D": "nothing, a job is found by the folder it works in",
        "--chdir": "nothing, a job is found by the folder it works in",
        "-a": "nothing, each task is a job of its own",
        "--array": "nothing, each task is a job of its own",
    },
    "pbs": {"-q": "queue_name", "-l select": "number_node and cpu_per_node"},
    "torque": {"-q": "queue_name", "-l nodes": "number_node and cpu_per_node"},
    "lsf": {"-n": "number_node and cpu_per_node", "-q": "queue_name"},
    "sge": {"-pe": "cpu_per_node", "-q": "queue_name", "-cwd": "nothing, it is always there"},
}
#: Resources without which DPDispatcher writes no such line.
_OPTIONAL = {"queue_name": "", "gpu_per_node": 0}


def check_directives(batch_type: str, resources: Mapping[str, Any]) -> None:
    """Refuse custom_flags that the scheduler would not read, or would read twice.

    Raises UnusableSubmission, which names the line.
    """
    flags = resources.get("custom_flags", [])
    prefix = PREFIXES.get(batch_type.lower())
    for line in flags:
        if prefix is None:
            _refuse("absent for a machine without a scheduler", line, "Remove the line.")
        elif not _is_directive(str(line), prefix):
            _refuse(f"lines that begin with {prefix!r}", line, f"Begin it with {prefix!r}.")
        else:
            _check_double(batch_type.lower(), str(line).removeprefix(prefix), line, resources)


def _is_directive(line: str, prefix: str) -> bool:
    return line.startswith(f"{prefix} ") and "\n" not in line


def _check_double(
    batch_type: str, options: str, line: object, resources: Mapping[str, Any]
) -> None:
    try:
        found = _options(options)
    except ValueError:
        _refuse("free of an open quotation", line, "Close it, or remove the quotation mark.")
    for option in found:
        resource = _GENERATED[batch_type].get(option)
        if resource is None:
            continue
        if resource in _OPTIONAL and not resources.get(resource, _OPTIONAL[resource]):
            continue
        _refuse(
            f"free of {option}, which is generated from the resources",
            line,
            f"Set {resource} in the resources instead, and remove the line.",
        )


def _options(text: str) -> list[str]:
    """Return the options of a directive, as ``--nodes``, ``-N`` and ``-l select``."""
    words = shlex.split(text, comments=True)
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            found.append(word.partition("=")[0])
        elif re.match(r"-[A-Za-z]", word):
            # A short option may carry its value: -N2, -p short; PBS names what is asked for.
            detail = re.match(r"\w+", word[2:] or after)
            found += [word, word[:2], f"{word[:2]} {detail[0] if detail else ''}"]
    return found


def _refuse(expected: str, line: object, remedy: str) -> NoReturn:
    raise UnusableSubmission("resources.custom_flags", expected, line, remedy)
