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
    for content in _contents(attempt):
        found = _parsed(content)
        if found is not None:
            return found
    return None


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
    now = _read(attempt.submission)
    if now is not None and _is_named(attempt, now) and _parsed(now) is not None:
        return
    content = next((one for one in _contents(attempt) if _parsed(one) is not None), None)
    if content is None:
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
    aside = attempt.folder / "stale"
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(aside / f"{path.name}.{len(list(aside.iterdir()))}")


def _contents(attempt: AttemptPaths) -> Iterator[bytes]:
    places = [attempt.submission]
    places += [kept_submission(attempt)] if attempt.sha256 else []
    for place in places:
        content = _read(place)
        if content is not None and _is_named(attempt, content):
            yield content


def _is_named(attempt: AttemptPaths, content: bytes) -> bool:
    """Whether it is what the log names; the log says nothing of one that is being prepared."""
    return attempt.sha256 in ("", hashlib.sha256(content).hexdigest())


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
