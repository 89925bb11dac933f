"""Find the programs of DPDispatcher, and build the commands that start them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from reconciler.errors import ProgramMissing

#: This variable prevents Python from importing modules from the current folder. That folder is
#: usually a workflow root, where anybody may have put a file with the name of a module.
SAFE = {"PYTHONSAFEPATH": "1"}


def command_of_module(module: str) -> list[str]:
    """Return the command that runs a module of wfctl as another process.

    The command works with any value of PYTHONPATH.
    """
    application = Path(__file__).resolve().parents[2]
    package = application.parent if application.name == "app" else application / "wfctl_eventstore"
    return [sys.executable, "-P", str(package / "__main__.py"), "-m", module]


def find_dpdisp(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the path of the dpdisp program.

    ``given`` has priority, then the variable WFCTL_DPDISP, then a program next to this Python, then
    the PATH. Raises ProgramMissing if the program does not exist.
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
        "Install wfctl with its dependencies, or set WFCTL_DPDISP to the path of the program.",
    )


def find_neighbor_program(program: Path, name: str) -> Path:
    """Return the program with the given name in the folder of another program.

    Raises ProgramMissing if it does not exist.
    """
    found = program.with_name(name)
    if not os.access(found, os.X_OK):
        hint = (
            f"Install {name} next to {program.name}, or set WFCTL_DPDISP to another {program.name}."
        )
        raise ProgramMissing(name, (str(found),), hint)
    return found


def read_interpreter(program: Path) -> list[str]:
    """Return the interpreter in the first line of a script, as words of a command.

    Returns an empty list if the file has no such line.
    """
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def build_start_command(program: Path, ends: Path | None = None) -> list[str]:
    """Return the command that starts a program of DPDispatcher through `patched_dpdispatcher.py`.

    That script imports only the modules that are needed, which is faster. ``ends`` is the folder
    in which jobs record their end. If the program is not a Python script, it is started directly.
    """
    python = read_interpreter(program)
    if not any("python" in Path(word).name for word in python):
        return [str(program)]
    script = Path(__file__).parents[1] / "far" / "patched_dpdispatcher.py"
    flags = [] if ends is None else ["--ends", str(ends)]
    return [*python, str(script), *flags, str(program)]


def read_dpdispatcher_version(program: Path) -> str | None:
    """Return the version of DPDispatcher that a program uses, or None if it is unknown.

    DPDispatcher is not imported for this, because an import would write files.
    """
    python = read_interpreter(program)
    if not python:
        return None
    if python == [sys.executable]:
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version("dpdispatcher")
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    # With -c, Python would import from the current folder first, so the command runs in `/`.
    done = subprocess.run(
        [*python, "-c", ask],
        cwd="/",
        env={**os.environ, **SAFE},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None
