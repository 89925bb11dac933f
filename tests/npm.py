"""External programs, installed with npm once for all workers of a run."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.need import NO_CLIENT, need


def installed(factory: pytest.TempPathFactory, name: str, *packages: str) -> Path:
    """Return the folder ``node_modules`` with the packages, installed in the folder ``name``.

    If the registry cannot be reached, the test is skipped with a reason that names the packages.
    """
    said = f"{NO_CLIENT}: {', '.join(packages)}"
    need(shutil.which("npm") is not None, f"{said}, as there is no npm")
    place = factory.getbasetemp().parent / name
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "tried").exists():
            (place / "tried").touch()
            _install(place, packages)
    need((place / "done").exists(), said)
    return place / "node_modules"


def _install(place: Path, packages: tuple[str, ...]) -> None:
    line = ["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0"]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [*line, "--prefix", str(place), *packages],
            capture_output=True,
            timeout=120,
            check=False,
        )
        if done.returncode == 0:
            (place / "done").touch()
