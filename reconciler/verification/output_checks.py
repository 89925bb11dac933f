"""Check one output: it exists, is not empty, is new, is valid and has finite numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from lifecycle.payload import models as p
from reconciler.attempt.file_digests import digest_stage_inputs
from reconciler.errors import EmptyInput, MissingInput
from reconciler.verification.file_types import FileReading, read_output
from service.root.folder_entries import (
    describe_inspection_error,
    describe_unreadable_entries,
    exists,
    find_files,
    is_folder,
)

Found: TypeAlias = "tuple[list[p.Check], p.FileDigest | None]"
#: Maximum number of files in a folder that the message of a check names.
_MAX_NAMED_FILES = 5


def check_output(root: Path, path: str, launched_at: int | None, *, new: bool = False) -> Found:
    """Check an output, which may be a file or a folder. ``path`` is relative to ``root``.

    ``launched_at`` is the launch time of its attempt in ns by the clock of the file system, or None
    if unknown. ``new`` states that other evidence shows that the output was written after the
    launch. Returns the checks and the digest. The digest is None if the output is missing, empty or
    unreadable, or if it changed during the check.
    """
    place = root / path
    if not exists(place):
        reason = describe_inspection_error(place)
        problem = "it is missing" if reason is None else f"cannot be read: {reason}"
        return [_build_check(path, "exists", problem)], None
    before = _read_file_stamps(place)
    checks = [_build_check(path, "exists", None, "folder" if is_folder(place) else "file")]
    if (unreadable := describe_unreadable_entries(place)) is not None:
        return [*checks, _build_check(path, "can be read", unreadable)], None
    try:
        (found,) = digest_stage_inputs(root, [path])
    except EmptyInput:
        return [*checks, _build_check(path, "is not empty", "it is empty")], None
    except MissingInput:
        return [_build_check(path, "exists", "neither a file nor a folder")], None
    checks.append(_build_check(path, "is not empty", None, f"{found.size} bytes"))
    checks.append(_check_is_newer(path, place, launched_at, new=new))
    checks += _check_content(path, place)
    if _read_file_stamps(place) != before:
        checks.append(_build_check(path, "is left alone", "the file changed during the check"))
        return checks, None
    return checks, p.FileDigest(path=path, size=found.size, sha256=found.sha256)


def _build_check(
    path: str, what: str, problem: str | None, detail: str = "", remarks: Sequence[str] = ()
) -> p.Check:
    return p.Check(
        name=f"{path} {what}",
        passed=problem is None,
        detail=_escape_bytes(problem if problem is not None else detail),
        findings=[_escape_bytes(remark) for remark in remarks],
    )


def _escape_bytes(text: str) -> str:
    """Return text that the log accepts. Bytes that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _list_files(place: Path) -> Iterator[Path]:
    if not is_folder(place):
        yield place
        return
    yield from find_files(place)


def _read_file_stamps(place: Path) -> list[tuple[str, int, int, int]]:
    """Return the id, size and time of each file.

    At least one of them changes when a process writes to the file.
    """
    found = ((file, file.stat()) for file in _list_files(place))
    return [(str(file), s.st_ino, s.st_size, s.st_mtime_ns) for file, s in found]


def _check_is_newer(path: str, place: Path, launched_at: int | None, *, new: bool) -> p.Check:
    """Return a check that each file of an output was created after the launch.

    A file whose modification time is older (cp -p, tar, wget) gets a remark but does not fail the
    check.
    """
    what = "is newer than the launch"
    if launched_at is None:
        return _build_check(
            path, what, None, "not compared: the time of the launch is not recorded"
        )
    times = {file: file.stat() for file in _list_files(place)}
    old = [file for file, found in times.items() if found.st_ctime_ns < launched_at]
    if old and not new:
        return _build_check(
            path, what, f"the file is older than the launch{_format_names(place, old)}"
        )
    modified = [file for file, found in times.items() if found.st_mtime_ns < launched_at]
    if not modified:
        return _build_check(path, what, None)
    when = datetime.fromtimestamp(
        (min(times[file].st_mtime_ns for file in modified)) // 10**9, UTC
    ).strftime("%Y-%m-%dT%H:%M:%SZ")
    remark = f"created after the launch, but last modified {when}{_format_names(place, modified)}"
    return _build_check(path, what, None, remarks=[remark])


def _format_names(place: Path, files: Sequence[Path]) -> str:
    if not is_folder(place):
        return ""
    names = ", ".join(os.path.relpath(file, place) for file in files[:_MAX_NAMED_FILES])
    return f": {names}{' …' if len(files) > _MAX_NAMED_FILES else ''}"


def _check_content(path: str, place: Path) -> list[p.Check]:
    """Read each file of a known type, and return checks of its format and its numbers."""
    found = [(os.path.relpath(file, place), read_output(file)) for file in _list_files(place)]
    read = [(name, reading) for name, reading in found if reading is not None]
    if not read:
        return []
    have_numbers = any(reading.has_numbers for _, reading in read)
    if is_folder(place):
        checks = [_check_folder(path, "can be read", read, lambda r: r.problem)]
        numbers = _check_folder(path, "is finite", read, lambda r: r.not_finite)
    else:
        ((_, one),) = read
        form = f"reads as {one.kind}"
        checks = [_build_check(path, form, one.problem, one.content, one.remarks)]
        numbers = _build_check(path, "is finite", one.not_finite)
        have_numbers = have_numbers or one.not_finite is not None
    return [*checks, numbers] if have_numbers else checks


def _check_folder(
    path: str,
    what: str,
    readings: Sequence[tuple[str, FileReading]],
    problem_of: Callable[[FileReading], str | None],
) -> p.Check:
    problems = [(name, problem_of(reading)) for name, reading in readings]
    told = [f"{name}: {problem}" for name, problem in problems if problem is not None]
    remarks = [f"{name}: {remark}" for name, reading in readings for remark in reading.remarks]
    more = f" and {len(told) - _MAX_NAMED_FILES} more" if len(told) > _MAX_NAMED_FILES else ""
    problem = "; ".join(told[:_MAX_NAMED_FILES]) + more if told else None
    return _build_check(path, what, problem, f"{len(readings)} files", remarks[:_MAX_NAMED_FILES])


#: Maximum number of log lines that are quoted, and of characters per line.
_MAX_QUOTED_LINES, _MAX_LINE_WIDTH = 5, 160
