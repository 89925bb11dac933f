"""The programs of DPDispatcher: which they are, and the Python that runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import ProgramMissing


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


def interpreter(program: Path) -> list[str]:
    """Return the Python that runs a program, as its first line names it; empty where none."""
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def version(program: Path) -> str | None:
    """Ask the Python that runs the program, since importing DPDispatcher writes files."""
    python = interpreter(program)
    if not python:
        return None
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    done = subprocess.run([*python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
