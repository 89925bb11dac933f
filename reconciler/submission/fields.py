"""The parts of a submission: its fields, environment, directives."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lifecycle.sweeps.variables import oversized
from reconciler.attempt.paths import JOB, AttemptPaths, OfJob
from reconciler.errors import UnusableSubmission
from reconciler.host import small_files as plain

#: Prefix of the line with which a job reports a missing module, environment or program.
LACKS = "wfctl: "
#: Characters of a line of versions that the log takes.
_WIDTH = 500
#: Lines of versions that the log takes.
_MOST = 40


def resources(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lines of DPDispatcher's resources that bring the environment about."""
    found: dict[str, list[str]] = {}
    if given.get("modules"):
        found["module_list"] = list(given["modules"])
    if "venv" in given:
        # DPDispatcher expands nothing in a source_list, and a path may begin with $HOME.
        found["prepend_script"] = [f"source {_place(given['venv'])}/bin/activate"]
    if "conda" in given:
        hook = 'eval "$(conda shell.bash hook)"'
        found["prepend_script"] = [f"{hook} && conda activate {_place(given['conda'])}"]
    return found


def command_in(given: Mapping[str, Any], command: str) -> str:
    """Return the command so that it runs in the environment, and in nothing else."""
    if not given:
        return command
    run = command
    if "container" in given:
        options = " ".join(map(shlex.quote, given.get("container_options", [])))
        # What lies beside the stage's folder is seen at the same place from within.
        run = (
            f'"$wfctl_apptainer" exec {options} --bind "${{PWD%/*}}" --pwd "$PWD" '
            f"{_place(given['container'])} bash -c {shlex.quote(command)}"
        )
    lacks = f'wfctl_lacks() {{ echo "{LACKS}$1" >&2; exit 127; }}'
    return "\n".join([lacks, *_checks(given), *_versions(given), run])


def lacking(given: Mapping[str, Any], programs: Iterable[str]) -> Iterator[str]:
    """Yield shell lines that print each missing module, environment, image and program."""
    yield f'wfctl_lacks() {{ echo "{LACKS}$1" >&2; }}'
    yield from _checks(given)
    image = given.get("container", "://")
    if "://" not in image:
        missing = shlex.quote(f"there is no image {image}")
        yield f"[ -e {_place(image)} ] || wfctl_lacks {missing}"
    for name in programs:
        missing = shlex.quote(f"the program {name} was not found")
        yield f"type -t {shlex.quote(name)} > /dev/null || wfctl_lacks {missing}"


def _checks(given: Mapping[str, Any]) -> Iterator[str]:
    for name in given.get("modules", []):
        there = f'case ":$LOADEDMODULES:" in *:{name}:*|*:{name}/*) ;; *)'
        yield f'{there} wfctl_lacks "the module {name} is not loaded" ;; esac'
    if "venv" in given:
        place = _place(given["venv"])
        yield (
            f'[ -n "${{VIRTUAL_ENV:-}}" ] && [ "$VIRTUAL_ENV" -ef {place} ] || '
            f"wfctl_lacks {shlex.quote('there is no virtual environment ' + given['venv'])}"
        )
    if "conda" in given:
        place = _place(given["conda"])
        yield (
            f'[ "${{CONDA_DEFAULT_ENV:-}}" = {place} ] || [ "${{CONDA_PREFIX:-}}" -ef {place} ] || '
            f"wfctl_lacks {shlex.quote('there is no conda environment ' + given['conda'])}"
        )
    if "container" in given:
        yield (
            "wfctl_apptainer=$(command -v apptainer || command -v singularity) || "
            'wfctl_lacks "apptainer is not installed"'
        )


def _versions(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what writes down the versions, one ``name: value`` a line; it never fails a job."""
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
        summed = f'sha256sum {_place(image)} | sed "s/^/image: sha256 /"'
        told.append(f"echo {shlex.quote('image: ' + image)}" if "://" in image else summed)
    yield f'(set -C; {{ {"; ".join(told)}; }} > "$wfctl_job.environment") 2> /dev/null || :'


def _place(text: str) -> str:
    """Return a path or a name quoted for a shell, which puts the home of its user in."""
    rest = text.removeprefix("$HOME/")
    return shlex.quote(text) if rest == text else f'"$HOME"/{shlex.quote(rest)}'


def versions(attempt: AttemptPaths) -> dict[str, str]:
    """Return what the jobs of an attempt wrote down of their environment, here on this machine."""
    found: dict[str, str] = {}
    for path in sorted(attempt.folder.glob(f"{JOB}*{OfJob.ENVIRONMENT}")):
        for line in plain.text(path).splitlines()[:_MOST]:
            name, colon, value = line.partition(": ")
            if colon and value.strip():
                found[name] = value.strip()[:_WIDTH]
    return found


_COMMON = dict.fromkeys(("forward_common_files", "backward_common_files"), "a list of text")
_LINES = ("custom_flags", "prepend_script", "append_script", "source_list", "module_list")
_OF_PARTS = {
    "machine": {"remote_profile": "an object"},
    "resources": {"envs": "an object", **dict.fromkeys(_LINES, "a list of text")},
}
_OF_TASKS = {
    **dict.fromkeys(("command", "task_work_path"), "text"),
    **dict.fromkeys(("forward_files", "backward_files"), "a list of text"),
}


def check(submission: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission, which names the field, where a submission has another shape."""
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


#: How a value looks of which this is expected.
_LOOKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda given: isinstance(given, str),
    "an object": lambda given: isinstance(given, dict),
    "a list of text": lambda given: (
        isinstance(given, list) and all(isinstance(one, str) for one in given)
    ),
}


def check_fields(given: Mapping[str, Any], expected: Mapping[str, str], of: str = "") -> None:
    """Raise UnusableSubmission where one of the fields is there and is not as expected.

    ``expected`` says for each name text, a list of text, or an object.
    """
    for name, looks in expected.items():
        if name in given and not _LOOKS[looks](given[name]):
            found = type(given[name]).__name__
            raise UnusableSubmission(f"{of}{name}", looks, found, "Correct it there.")


ROOT, INPUT = "WFCTL_ROOT", "WFCTL_INPUT_"


def check_variables(variables: Mapping[str, Any]) -> None:
    """Raise UnusableSubmission for variables with which no program could be started."""
    found = oversized({name: str(value) for name, value in variables.items()})
    if found is not None:
        name, size, most = found
        field = "resources.envs" if name is None else f"resources.envs.{name}"
        remedy = "Put the value into a file, and name that among the inputs."
        raise UnusableSubmission(field, f"{most:,} bytes at most", f"{size:,} bytes", remedy)


def places(root: Path, inputs: Iterable[str]) -> dict[str, str]:
    """Return the variables of the root and of the inputs for what runs in the root itself."""
    return {ROOT: str(root)} | {f"{INPUT}{n}": str(root / path) for n, path in enumerate(inputs, 1)}


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
        elif not str(line).startswith(f"{prefix} ") or "\n" in str(line):
            _refuse(f"lines that begin with {prefix!r}", line, f"Begin it with {prefix!r}.")
        else:
            _check_double(batch_type.lower(), str(line).removeprefix(prefix), line, resources)


def _check_double(kind: str, options: str, line: object, resources: Mapping[str, Any]) -> None:
    try:
        found = _options(options)
    except ValueError:
        _refuse("free of an open quotation", line, "Close it, or remove the quotation mark.")
    for option in found:
        resource = _GENERATED[kind].get(option, "")
        usual = _OPTIONAL.get(resource, True)
        if resource and (usual is True or resources.get(resource, usual)):
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
