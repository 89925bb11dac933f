"""What an attempt left on the disk: the jobs' own records, DPDispatcher's files, its log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler import submission
from reconciler.attempt import Attempt
from reconciler.processes import Process
from reconciler.runner import Facts

_SUBMITTED = re.compile(r"job ([0-9a-f]{40}) was submitted; job_id is (\S+)")
_HASH = re.compile(r"[0-9a-f]{40}")
_ERROR_BYTES = 1000
_ERROR_LINES = 10


@dataclass(frozen=True, slots=True)
class Job:
    """A job's own record: ``exit_code`` where it wrote one, times in ns, ``shell`` its bash."""

    name: str
    started_at: int
    shell: Process | None
    scratch: str | None
    exit_code: int | None
    ended_at: int | None


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is none, or a half of one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def jobs(attempt: Attempt) -> tuple[Job, ...]:
    """Return the jobs of the attempt that claimed their start, by name."""
    places = sorted(attempt.folder.glob("job-*.started"))
    return tuple(_job(place) for place in places)


def lock_of(attempt: Attempt, job: str) -> Path:
    """Return the lock that a job's computation holds."""
    return attempt.folder / f"job-{job}.lock"


def scratch_root(attempt: Attempt) -> Path:
    """Return where the attempt's scratch copies are made."""
    own = read_json(attempt.submission)
    return attempt.work if own is None else submission.scratch(own, attempt)


def scratch_copies(attempt: Attempt) -> tuple[Path, ...]:
    """Return the scratch copies that exist, one a submission hash."""
    root = scratch_root(attempt)
    if not root.is_dir():
        return ()
    return tuple(sorted(p for p in root.iterdir() if _HASH.fullmatch(p.name) and p.is_dir()))


def backward_missing(attempt: Attempt) -> tuple[str, ...]:
    """Return the files to bring back that lie neither in the scratch copy nor in place."""
    own = read_json(attempt.submission) or {}
    base = attempt.root / str(own.get("work_base", "."))
    places = [base, *scratch_copies(attempt)]
    return tuple(
        pattern for pattern in _backward(own) if not any(_matches(p, pattern) for p in places)
    )


def job_ids(attempt: Attempt) -> dict[str, str]:
    """Return the scheduler's id of each submitted job by job hash; the last submission counts."""
    found = dict(_SUBMITTED.findall(_text(attempt.log)))
    for copy in scratch_copies(attempt):
        for path in copy.glob("*_job_id"):
            found[path.name.removesuffix("_job_id")] = _text(path).strip()
    return found


def facts(attempt: Attempt) -> Facts:
    """Return what the attempt's files tell about its submission."""
    launch = read_json(attempt.launch_record) or {}
    ids = job_ids(attempt)
    work = next(_works(attempt), None)
    return Facts(
        submission_hash=None if work is None else Path(work).name,
        job_hashes=tuple(ids),
        job_ids=tuple(ids.values()),
        work_dir=work,
        dpdispatcher_version=launch.get("dpdispatcher_version"),
        host=launch.get("host"),
        boot_id=launch.get("boot_id"),
    )


def failure_reason(attempt: Attempt) -> str:
    """Say in a few lines why the attempt failed."""
    lines = [*_ends(attempt), *_errors(attempt)]
    return "\n".join(lines or _log_end(attempt) or ["no trace of a failure was left"])


def _backward(own: Mapping[str, Any]) -> Iterator[str]:
    yield from own.get("backward_common_files", [])
    for task in own.get("task_list", []):
        yield from (f"{task['task_work_path']}/{path}" for path in task.get("backward_files", []))


def _matches(place: Path, pattern: str) -> bool:
    return (place / pattern).exists() or any(place.glob(pattern))


def _works(attempt: Attempt) -> Iterator[str]:
    yield from (job.scratch for job in jobs(attempt) if job.scratch)
    yield from (str(copy) for copy in scratch_copies(attempt))
    yield from re.findall(r"^.* - INFO : at (.+)$", _text(attempt.log), re.MULTILINE)


def _job(place: Path) -> Job:
    ending = place.with_suffix(".exit")
    code = _first_number(_text(ending))
    scratch, shell = _claim(_text(place / "record"))
    return Job(
        name=place.stem.removeprefix("job-"),
        started_at=place.stat().st_mtime_ns,
        shell=shell,
        scratch=scratch,
        exit_code=code,
        ended_at=None if code is None else ending.stat().st_mtime_ns,
    )


def _claim(text: str) -> tuple[str | None, Process | None]:
    lines = text.split("\n")
    if len(lines) < 6 or not (lines[-5].isdigit() and lines[-4].isdigit()):
        return None, None
    return "\n".join(lines[:-5]), Process(int(lines[-5]), int(lines[-4]), lines[-3])


def _first_number(text: str) -> int | None:
    word = text.partition("\n")[0].strip()
    return int(word) if word.isascii() and word.isdigit() else None


def _ends(attempt: Attempt) -> Iterator[str]:
    ids = job_ids(attempt)
    for job in jobs(attempt):
        end = "has left no exit code" if job.exit_code is None else f"exited {job.exit_code}"
        yield f"job {job.name} (id {ids.get(job.name, 'unknown')}) {end}"


def _errors(attempt: Attempt) -> Iterator[str]:
    for copy in scratch_copies(attempt):
        for path in sorted(copy.glob(f"**/{submission.ERROR_LOG}")):
            yield from _tail(path)


def _tail(path: Path) -> list[str]:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _ERROR_BYTES))
        text = stream.read().decode(errors="replace")
    return text.strip().splitlines()[-_ERROR_LINES:]


def _log_end(attempt: Attempt) -> list[str]:
    text = _text(attempt.log) or _text(attempt.monitor_log)
    return text.strip().splitlines()[-_ERROR_LINES:]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
