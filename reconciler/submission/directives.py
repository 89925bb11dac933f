"""The directives of a job script: what a person adds must be one, and must not repeat ours."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NoReturn

from reconciler.errors import UnusableSubmission

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


def check(batch_type: str, resources: Mapping[str, Any]) -> None:
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
