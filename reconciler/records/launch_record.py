"""The launch record: where and with what an attempt was launched, and what lay there before.

Clocks go back, and one file's time says little of another's. So an output is told by what it is: a
launch takes down what lies in the outputs' places, and whatever else lies there later is new.
"""

from __future__ import annotations

from pathlib import Path

from reconciler.attempt.contract import OfJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.records import traces
from reconciler.records.traces import read_json


def places_of(attempt: AttemptPaths) -> dict[str, list[int] | None]:
    """Return what lies where the attempt's outputs are to be, as it is told from anything else.

    Of an attempt that has begun before, nothing: its places were cleared at its first launch.
    """
    begun = attempt.log.exists() or bool(traces.told(attempt, OfJob.STARTED))
    return {path: None if begun else told(attempt.root / path) for path in attempt.outputs}


def told(path: Path) -> list[int] | None:
    """Return by what a file or folder is told: device, inode, time of its last change (ns)."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_dev, found.st_ino, found.st_ctime_ns]


def is_new(attempt: AttemptPaths, path: str) -> bool | None:
    """Say whether an output was put in its place after the launch; None where that is in doubt."""
    places = (read_json(attempt.launch_record) or {}).get("places")
    if isinstance(places, dict) and path in places:
        return bool(places[path] != told(attempt.root / path))
    # A launch that took nothing down: an earlier time proves nothing, the clock may have gone back.
    launched_at, found = known_launch(attempt), told(attempt.root / path)
    return True if launched_at and found and found[2] >= launched_at else None


def known_launch(attempt: AttemptPaths) -> int | None:
    """Return `launched` where the record still tells something; a damaged one is of any age."""
    return launched(attempt) if read_json(attempt.launch_record) else None


def launched(attempt: AttemptPaths) -> int | None:
    """Return when the attempt was launched (ns), by the clock of its file system."""
    # A record may carry an old modification time (cp -p, tar); when it came into place does not.
    found = told(attempt.launch_record)
    return None if found is None else found[2]
