"""``init.sh``: the workflow's own check of its environment, run before a session begins."""

from __future__ import annotations

import os
import subprocess
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from reconciler.errors import EnvironmentNotReady
from service.consent.scripts import INIT
from service.files.surroundings import SESSIONS
from service.root.root import Root

#: Characters of its output that an error shows.
_TAIL = 2_000


def check(root: Root, session: int) -> dict[str, Any] | None:
    """Run ``init.sh`` in the root and keep all that it prints; None where there is none.

    Returns its SHA-256, the seconds it took and the file with its output, relative to the root.
    Raises `EnvironmentNotReady` where it does not exit 0.
    """
    script = root.path / INIT
    if not script.is_file():
        return None
    kept = _fresh(root.folder / SESSIONS, session)
    began = time.monotonic()
    with kept.open("wb") as output:
        done = subprocess.run(
            ["bash", INIT],
            cwd=root.path,
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    place = str(kept.relative_to(root.path))
    if done.returncode != 0:
        raise EnvironmentNotReady(INIT, done.returncode, _tail(kept), place)
    return {
        "script": INIT,
        "sha256": sha256(script.read_bytes()).hexdigest(),
        "seconds": round(time.monotonic() - began, 3),
        "output": place,
    }


def _fresh(folder: Path, session: int) -> Path:
    """Return a file that is not there yet: a check that failed is repeated for its session."""
    folder.mkdir(exist_ok=True)
    taken = len(list(folder.glob(f"{session}.init*.log")))
    return folder / (f"{session}.init.{taken + 1}.log" if taken else f"{session}.init.log")


def _tail(path: Path) -> str:
    return path.read_text("utf-8", errors="replace").strip()[-_TAIL:]
