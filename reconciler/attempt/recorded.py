"""What an attempt submits and where, as its digest in the log says, whatever became of its files.

A copy of each submission is kept beside the log under its digest. Whoever reads gets what the
digest names; before a monitor is started, what was changed is kept aside and put back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from eventstore.private import read_regular
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import DamagedAttempt, MissingInput
from service.root.disk import write_whole


def submission_of(attempt: AttemptPaths) -> dict[str, Any] | None:
    """Return what the attempt submits; None where nothing that its digest names is left."""
    return next((found for _, _, found in _genuine(attempt)), None)


def digest_of(submission: str) -> str:
    """Return the digest by which the log names a submission."""
    return hashlib.sha256(submission.encode()).hexdigest()


def keep(attempt: AttemptPaths, submission: str, machine: str) -> str:
    """Keep a copy of both beside the log; return the digest of the submission."""
    digest = digest_of(submission)
    for place, text in zip(_kept(attempt, digest), (submission, machine), strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        # Not synced to the disk: it is needed only where the attempt's own file is not.
        place.write_text(text, encoding="utf-8")
    return digest


def kept_submission(attempt: AttemptPaths) -> Path:
    """Return where the copy of its submission lies."""
    return _kept(attempt, attempt.sha256)[0]


def machine_text(attempt: AttemptPaths) -> Iterator[str]:
    """Yield what is kept of the attempt's machine, the attempt's own record first."""
    places = [attempt.machine_record]
    places += [_kept(attempt, attempt.sha256)[1]] if attempt.sha256 else []
    for place in places:
        content = _read(place)
        if content is not None:
            yield content.decode(errors="replace")


def put_back(attempt: AttemptPaths) -> None:
    """Have the attempt's submission be what its digest names.

    What lies there instead is kept aside. Raises `DamagedAttempt` where no copy is left.
    """
    place, content, _ = next(_genuine(attempt), (None, b"", None))
    if place == attempt.submission:
        return
    if place is None:
        raise DamagedAttempt(
            attempt.stage,
            attempt.submission,
            f"it is not what was submitted (SHA-256 {attempt.sha256[:12]}…), and no copy is left",
        )
    if os.path.lexists(attempt.submission):
        keep_aside(attempt, attempt.submission)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    write_whole(attempt.submission, content)


def keep_aside(attempt: AttemptPaths, path: Path) -> None:
    """Move what is in the way of a file of the attempt below its folder ``stale``."""
    aside = attempt.stale
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(aside / f"{path.name}.{len(list(aside.iterdir()))}")


def _genuine(attempt: AttemptPaths) -> Iterator[tuple[Path, bytes, dict[str, Any]]]:
    """Yield each copy that is what the log names: where it lies, its bytes, what they say.

    The log says nothing of one that is being prepared.
    """
    for place in [attempt.submission, *([kept_submission(attempt)] if attempt.sha256 else [])]:
        content = _read(place)
        if content is None or attempt.sha256 not in ("", hashlib.sha256(content).hexdigest()):
            continue
        found = _parsed(content)
        if found is not None:
            yield place, content, found


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path) if path.is_file() else None
    except OSError:
        return None


def _parsed(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _kept(attempt: AttemptPaths, digest: str) -> tuple[Path, Path]:
    folder = attempt.root / ".wfctl" / "submissions"
    return folder / f"{digest}.json", folder / f"{digest}.machine.json"


def forwarded(own: Mapping[str, Any]) -> Iterator[Path]:
    """Yield each file or folder that an attempt's own submission sends, patterns resolved.

    Raises MissingInput for what is not there: DPDispatcher would find out only when it uploads.
    """
    base = Path(own["machine"]["local_root"]) / str(own.get("work_base", "."))
    for pattern in dict.fromkeys(_patterns(own)):
        found = sorted(base.glob(pattern)) if has_magic(pattern) else [base / pattern]
        if not found or not found[0].exists():
            raise MissingInput(pattern)
        yield from found


def _patterns(own: Mapping[str, Any]) -> Iterator[str]:
    yield from own.get("forward_common_files", [])
    for task in own.get("task_list", []):
        yield from (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))
