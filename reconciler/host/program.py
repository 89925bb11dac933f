"""The programs of DPDispatcher: which they are, and the Python that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reconciler.errors import ProgramMissing

#: Lets no Python import from the current folder, which is most often a root.
SAFE = {"PYTHONSAFEPATH": "1"}


def find(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the dpdisp to run: the one given, WFCTL_DPDISP, beside this Python, on the PATH.

    Raises ProgramMissing.
    """
    named = given or environ.get("WFCTL_DPDISP")
    beside = Path(sys.executable).parent / "dpdisp"
    on_path = shutil.which("dpdisp", path=environ.get("PATH"))
    looked = [named] if named else [beside, on_path]
    for place in looked:
        if place and os.access(place, os.X_OK):
            return Path(place).absolute()
    raise ProgramMissing(
        "dpdisp",
        (str(named),) if named else (str(beside), "PATH"),
        "Install wfctl with its dependencies, or set WFCTL_DPDISP to the program.",
    )


def beside(program: Path, name: str) -> Path:
    """Return the program of that name in the environment of another; raises ProgramMissing."""
    found = program.with_name(name)
    if not os.access(found, os.X_OK):
        hint = f"Install it where {program.name} is, or set WFCTL_DPDISP to another {program.name}."
        raise ProgramMissing(name, (str(found),), hint)
    return found


def interpreter(program: Path) -> list[str]:
    """Return the Python that runs a program, as its first line names it; empty where none."""
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def starting(program: Path, ends: Path | None = None) -> list[str]:
    """Return the words that start a program of DPDispatcher with what it needs and no more.

    ``ends`` is the folder that tells when the jobs which it submits are over. Where another program
    stands before it than Python, it is started as it is.
    """
    python = interpreter(program)
    if not any("python" in Path(word).name for word in python):
        return [str(program)]
    script = Path(__file__).parents[1] / "far" / "start.py"
    flags = [] if ends is None else ["--ends", str(ends)]
    return [*python, str(script), *flags, str(program)]


def version(program: Path) -> str | None:
    """Say which DPDispatcher a program runs; importing it would write files."""
    python = interpreter(program)
    if not python:
        return None
    if python == [sys.executable]:
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version("dpdispatcher")
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    # Its modules are its own: with -c Python would look into the current folder first.
    done = subprocess.run(
        [*python, "-c", ask],
        cwd="/",
        env={**os.environ, **SAFE},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None
