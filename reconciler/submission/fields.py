"""The parts of a submission: fields, environment and scheduler directives."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lifecycle.sweeps.variables import find_oversized_variable
from lifecycle.words import software
from reconciler.attempt.paths import JOB, AttemptPaths, OfJob
from reconciler.errors import UnusableSubmission
from reconciler.host import small_files as plain

#: Prefix of the line with which a job reports a missing module, environment or program.
LACKS = "wfctl: "
#: Maximum number of characters of a version line in the log.
_MAX_LINE_WIDTH = 500
#: Maximum number of version lines in the log.
_MAX_LINES = 40


def build_resource_lines(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the resource lines of DPDispatcher that set up the environment."""
    found: dict[str, list[str]] = {}
    if given.get("modules"):
        found["module_list"] = list(given["modules"])
    if "venv" in given:
        # DPDispatcher expands no variables in a source_list, and a path may start with $HOME.
        found["prepend_script"] = [f"source {_quote_path(given['venv'])}/bin/activate"]
    if "conda" in given:
        hook = 'eval "$(conda shell.bash hook)"'
        found["prepend_script"] = [f"{hook} && conda activate {_quote_path(given['conda'])}"]
    return found


def loaded_software(given: Mapping[str, Any], resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment with each module that the resources of a job load, once."""
    listed = resources.get("module_list")
    lines = [*given.get("modules", []), *(listed if isinstance(listed, list) else [])]
    names = dict.fromkeys(name for line in lines for name in str(line).split())
    return {**given, "modules": [*names]} if names else dict(given)


def wrap_command(given: Mapping[str, Any], command: str) -> str:
    """Return the command wrapped so that it runs only in the environment."""
    if not given:
        return command
    run = command
    if "container" in given:
        options = " ".join(map(shlex.quote, given.get("container_options", [])))
        # Files next to the stage's folder have the same path inside the container.
        run = (
            f'"$wfctl_apptainer" exec {options} --bind "${{PWD%/*}}" --pwd "$PWD" '
            f"{_quote_path(given['container'])} bash -c {shlex.quote(command)}"
        )
    lacks = f'wfctl_lacks() {{ echo "{LACKS}$1" >&2; exit 127; }}'
    return "\n".join([lacks, *_build_checks(given), *_build_version_lines(given), run])


def build_missing_checks(given: Mapping[str, Any], programs: Iterable[str]) -> Iterator[str]:
    """Yield shell lines that print each missing module, environment, image and program."""
    yield f'wfctl_lacks() {{ echo "{LACKS}$1" >&2; }}'
    yield from _build_checks(given)
    image = given.get("container", "://")
    if "://" not in image:
        missing = shlex.quote(f"there is no image {image}")
        yield f"[ -e {_quote_path(image)} ] || wfctl_lacks {missing}"
    for name in programs:
        missing = shlex.quote(f"the program {name} was not found")
        yield f"type -t {shlex.quote(name)} > /dev/null || wfctl_lacks {missing}"


def _build_checks(given: Mapping[str, Any]) -> Iterator[str]:
    for name in given.get("modules", []):
        word, missing = shlex.quote(name), shlex.quote(software.MODULE.format(name))
        there = f'case ":$LOADEDMODULES:" in *:{word}:*|*:{word}/*) ;; *)'
        yield f"{there} wfctl_lacks {missing} ;; esac"
    if "venv" in given:
        place = _quote_path(given["venv"])
        yield (
            f'[ -n "${{VIRTUAL_ENV:-}}" ] && [ "$VIRTUAL_ENV" -ef {place} ] || '
            f"wfctl_lacks {shlex.quote(software.VENV.format(given['venv']))}"
        )
    if "conda" in given:
        place = _quote_path(given["conda"])
        yield (
            f'[ "${{CONDA_DEFAULT_ENV:-}}" = {place} ] || [ "${{CONDA_PREFIX:-}}" -ef {place} ] || '
            f"wfctl_lacks {shlex.quote(software.CONDA.format(given['conda']))}"
        )
    if "container" in given:
        yield (
            "wfctl_apptainer=$(command -v apptainer || command -v singularity) || "
            f"wfctl_lacks {shlex.quote(software.CONTAINER)}"
        )


def _build_version_lines(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield shell lines that record versions as ``name: value``, and that never fail a job."""
    told = ['echo "python: $(command -v python3) $(python3 --version 2>&1)"']
    if given.get("modules"):
        told.append('echo "modules: $LOADEDMODULES"')
    if "venv" in given:
        packages = 'for one in "$VIRTUAL_ENV"/lib/python*/site-packages/*.dist-info; do'
        told.append('echo "venv: $VIRTUAL_ENV"')
        told.append(
            f'{packages} basename "$one" .dist-info; done | sort | sha256sum | '
            'sed "s/ .*//; s/^/packages: sha256 /"'
        )
    if "conda" in given:
        told.append('echo "conda: $CONDA_PREFIX ($(conda --version))"')
        told.append('conda list --explicit | sha256sum | sed "s/ .*//; s/^/packages: sha256 /"')
    if "container" in given:
        told.append('echo "apptainer: $("$wfctl_apptainer" --version)"')
        image = given["container"]
        summed = f'sha256sum {_quote_path(image)} | sed "s/^/image: sha256 /"'
        told.append(f"echo {shlex.quote('image: ' + image)}" if "://" in image else summed)
    yield f'(set -C; {{ {"; ".join(told)}; }} > "$wfctl_job.environment") 2> /dev/null || :'


def _quote_path(text: str) -> str:
    """Return a path or name quoted for a shell, which replaces the user's home folder."""
    rest = text.removeprefix("$HOME/")
    return shlex.quote(text) if rest == text else f'"$HOME"/{shlex.quote(rest)}'


def read_versions(attempt: AttemptPaths) -> dict[str, str]:
    """Return the recorded software environment of an attempt's jobs, from files on this machine."""
    found: dict[str, str] = {}
    for path in sorted(attempt.folder.glob(f"{JOB}*{OfJob.ENVIRONMENT}")):
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
    """Raise UnusableSubmission, with the name of the field, if a submission has a wrong form."""
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


#: Name of a type → function that checks whether a value has this type.
_TYPE_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda given: isinstance(given, str),
    "an object": lambda given: isinstance(given, dict),
    "a list of strings": lambda given: (
        isinstance(given, list) and all(isinstance(one, str) for one in given)
    ),
}


def check_fields(given: Mapping[str, Any], expected: Mapping[str, str], of: str = "") -> None:
    """Raise UnusableSubmission if an existing field does not have the expected type.

    ``expected`` maps each name to string, list of strings or object.
    """
    for name, looks in expected.items():
        if name in given and not _TYPE_CHECKS[looks](given[name]):
            found = type(given[name]).__name__
            raise UnusableSubmission(f"{of}{name}", looks, found, "Correct it there.")


ROOT, INPUT = "WFCTL_ROOT", "WFCTL_INPUT_"


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission for variables with which no program can be started."""
    found = find_oversized_variable({name: str(value) for name, value in variables.items()})
    if found is not None:
        name, size, most = found
        field = "resources.envs" if name is None else f"resources.envs.{name}"
        remedy = "Write the value into a file, and add the file to the inputs."
        raise UnusableSubmission(field, f"at most {most:,} bytes", f"{size:,} bytes", remedy)


def build_place_variables(root: Path, inputs: Iterable[str]) -> dict[str, str]:
    """Return the variables with the paths of root and inputs, for commands that run in the root."""
    return {ROOT: str(root)} | {f"{INPUT}{n}": str(root / path) for n, path in enumerate(inputs, 1)}


def add_place_variables(given: Mapping[str, Any], inputs: Iterable[str]) -> dict[str, Any]:
    """Return a submission whose job has the same variables, with paths in its copy of the root.

    A job finds its inputs below a folder of its own, on every machine and in a container, at their
    paths relative to the root. An input that was not sent has no variable.
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


#: Batch type → the prefix of the lines that its scheduler reads.
PREFIXES: Mapping[str, str] = {
    "slurm": "#SBATCH",
    "pbs": "#PBS",
    "torque": "#PBS",
    "lsf": "#BSUB",
    "sge": "#$",
}

#: Batch type → the options that DPDispatcher writes itself → the resource that sets each.
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
#: Resources for which DPDispatcher writes a line only if they have a value.
_OPTIONAL_RESOURCES = {"queue_name": "", "gpu_per_node": 0}


def check_directives(batch_type: str, resources: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission for custom_flags that the scheduler would ignore or read twice.

    The error names the line.
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
    """Return the options of a directive, such as ``--nodes``, ``-N`` and ``-l select``."""
    words = shlex.split(text, comments=True)
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            found.append(word.partition("=")[0])
        elif re.match(r"-[A-Za-z]", word):
            # A short option may include its value, as in -N2. PBS names the resource in the value.
            detail = re.match(r"\w+", word[2:] or after)
            found += [word, word[:2], f"{word[:2]} {detail[0] if detail else ''}"]
    return found


def _refuse_flag(expected: str, line: object, remedy: str) -> NoReturn:
    raise UnusableSubmission("resources.custom_flags", expected, line, remedy)
