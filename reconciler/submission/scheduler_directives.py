"""Check the scheduler options that a plan passes to a job."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NoReturn

from reconciler.errors import UnusableSubmission
from reconciler.submission.fields import PREFIXES

#: For each batch type, the options that DPDispatcher itself writes, each with the resource that
#: sets it.
_GENERATED_OPTIONS: Mapping[str, Mapping[str, str]] = {
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
#: Resources for which DPDispatcher writes a line only if their value differs from this one.
_OPTIONAL_RESOURCES = {"queue_name": "", "gpu_per_node": 0}


def check_directives(batch_type: str, resources: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission if the scheduler would ignore a line of the custom_flags.

    The error is also raised if a line sets an option that DPDispatcher sets too. It names the line.
    """
    flags = resources.get("custom_flags", [])
    prefix = PREFIXES.get(batch_type.lower())
    for line in flags:
        if prefix is None:
            _refuse_flag("absent, because the machine has no scheduler", line, "Remove the line.")
        elif not str(line).startswith(f"{prefix} ") or "\n" in str(line):
            _refuse_flag(
                f"lines that start with {prefix!r}", line, f"Start the line with {prefix!r}."
            )
        else:
            _check_generated_option(
                batch_type.lower(), str(line).removeprefix(prefix), line, resources
            )


def _check_generated_option(
    kind: str, options: str, line: object, resources: Mapping[str, Any]
) -> None:
    try:
        found = _parse_options(options)
    except ValueError:
        _refuse_flag(
            "a line without an open quotation mark", line, "Close the quotation mark, or remove it."
        )
    for option in found:
        resource = _GENERATED_OPTIONS[kind].get(option, "")
        usual = _OPTIONAL_RESOURCES.get(resource, True)
        if resource and (usual is True or resources.get(resource, usual)):
            _refuse_flag(
                f"a line without {option}, because wfctl generates {option} from the resources",
                line,
                f"Set {resource} in the resources instead, and remove the line.",
            )


def _parse_options(text: str) -> list[str]:
    """Return the names of the options in a scheduler directive.

    Examples are ``--nodes``, ``-N`` and ``-l select``.
    """
    words = shlex.split(text, comments=True)
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            found.append(word.partition("=")[0])
        elif re.match(r"-[A-Za-z]", word):
            # The value may follow a short option directly, as in -N2. For PBS, the value starts
            # with the name of a resource, which belongs to the option.
            detail = re.match(r"\w+", word[2:] or after)
            found += [word, word[:2], f"{word[:2]} {detail[0] if detail else ''}"]
    return found


def _refuse_flag(expected: str, line: object, remedy: str) -> NoReturn:
    raise UnusableSubmission("resources.custom_flags", expected, line, remedy)
