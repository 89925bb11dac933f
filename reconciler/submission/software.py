"""The software environment of a stage, in what DPDispatcher does with a job.

Modules go into ``module_list``, a virtual environment into ``source_list``, conda into
``prepend_script``; DPDispatcher goes on where one of them fails. So the command looks first whether
all is there, ends with 127 where it is not, and writes down which versions it found.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.attempt.contract import JOB, OfJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import processes as plain

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
        found["source_list"] = [f"{_place(given['venv'])}/bin/activate"]
    if "conda" in given:
        hook = 'eval "$(conda shell.bash hook)"'
        found["prepend_script"] = [f"{hook} && conda activate {_place(given['conda'])}"]
    return found


def command_in(given: Mapping[str, Any], command: str) -> str:
    """Return the command so that it runs in the environment, and in nothing else."""
    if not given:
        return command
    run = _in_container(given, command) if "container" in given else command
    lacks = 'wfctl_lacks() { echo "wfctl: $1" >&2; exit 127; }'
    return "\n".join([lacks, *_checks(given), *_versions(given), run])


def _in_container(given: Mapping[str, Any], command: str) -> str:
    options = " ".join(map(shlex.quote, given.get("container_options", [])))
    # What lies beside the stage's folder is seen at the same place from within.
    return (
        f'"$wfctl_apptainer" exec {options} --bind "${{PWD%/*}}" --pwd "$PWD" '
        f"{_place(given['container'])} bash -c {shlex.quote(command)}"
    )


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
