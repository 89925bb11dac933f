"""Build the lines of a job script that check its environment and run its command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle.words import software
from reconciler.submission.fields import LACKS


def build_software_resources(given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the fields of DPDispatcher's resources that load a software environment."""
    found: dict[str, list[str]] = {}
    if given.get("modules"):
        found["module_list"] = list(given["modules"])
    if "venv" in given:
        # DPDispatcher does not expand variables in `source_list`, but the path may start with
        # $HOME. A line in `prepend_script` is expanded by the shell.
        found["prepend_script"] = [f"source {_quote_path(given['venv'])}/bin/activate"]
    if "conda" in given:
        hook = 'eval "$(conda shell.bash hook)"'
        found["prepend_script"] = [f"{hook} && conda activate {_quote_path(given['conda'])}"]
    return found


def wrap_command(given: Mapping[str, Any], command: str) -> str:
    """Return shell code that runs a command in a software environment.

    The code fails if a part of the environment is missing, and records the versions of the
    software. Returns the command unchanged if no environment is given.
    """
    if not given:
        return command
    run = command
    if "container" in given:
        options = " ".join(map(shlex.quote, given.get("container_options", [])))
        # The folder above the stage's folder is also visible inside the container, at the same
        # path, so that inputs next to the stage's folder can be read.
        run = (
            f'"$wfctl_apptainer" exec {options} --bind "${{PWD%/*}}" --pwd "$PWD" '
            f"{_quote_path(given['container'])} bash -c {shlex.quote(command)}"
        )
    lacks = f'wfctl_lacks() {{ echo "{LACKS}$1" >&2; exit 127; }}'
    return "\n".join([lacks, *_build_checks(given), *_build_version_lines(given), run])


def build_missing_checks(given: Mapping[str, Any], programs: Iterable[str]) -> Iterator[str]:
    """Yield shell lines that print each missing module, environment, image or program."""
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
    """Yield a shell line that records software versions as ``name: value``.

    If it fails, the job continues.
    """
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
    """Return a path or name quoted for a shell. A leading ``$HOME`` is still expanded."""
    rest = text.removeprefix("$HOME/")
    return shlex.quote(text) if rest == text else f'"$HOME"/{shlex.quote(rest)}'
