"""The checks of one output: there, not empty, new, whole, and made of finite numbers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from lifecycle.payload import models as p
from reconciler.attempt.markers import check_inputs
from reconciler.errors import EmptyInput, MissingInput
from reconciler.verification.file_types import Cut, FileReading, lines, read_output

Found: TypeAlias = "tuple[list[p.Check], p.FileDigest | None]"
#: Files of a folder that a check names.
_NAMED = 5


def check(root: Path, path: str, launched_at: int | None, *, new: bool = False) -> Found:
    """Check an output, a file or a folder of files; ``path`` is relative to ``root``.

    ``launched_at`` is when its attempt was launched, in ns by the clock of the file system; None
    where no record tells it; ``new`` says that the output is known to have come after it, by
    whatever clock. The digest is None if there is nothing whole to take it of.
    """
    place = root / path
    if not place.exists():
        return [_check(path, "exists", "it is missing")], None
    before = _marks(place)
    checks = [_check(path, "exists", None, "folder" if place.is_dir() else "file")]
    try:
        (found,) = check_inputs(root, [path])
    except EmptyInput:
        return [*checks, _check(path, "is not empty", "it is empty")], None
    except MissingInput:
        return [_check(path, "exists", "it is neither a file nor a folder")], None
    checks.append(_check(path, "is not empty", None, f"{found.size} bytes"))
    checks.append(_newer(path, place, launched_at, new=new))
    checks += _readings(path, place)
    if _marks(place) != before:
        checks.append(_check(path, "is left alone", "it changed while it was looked at"))
        return checks, None
    return checks, p.FileDigest(path=path, size=found.size, sha256=found.sha256)


def _check(
    path: str, what: str, problem: str | None, detail: str = "", remarks: Sequence[str] = ()
) -> p.Check:
    return p.Check(
        name=f"{path} {what}",
        passed=problem is None,
        detail=_shown(problem if problem is not None else detail),
        findings=[_shown(remark) for remark in remarks],
    )


def _shown(text: str) -> str:
    """Return text as the log can hold it: bytes that are no UTF-8 are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    yield from (file for file in sorted(place.rglob("*")) if file.is_file())


def _marks(place: Path) -> list[tuple[str, int, int, int]]:
    """Return what changes where somebody writes to a file."""
    found = ((file, file.stat()) for file in _files(place))
    return [(str(file), s.st_ino, s.st_size, s.st_mtime_ns) for file, s in found]


def _newer(path: str, place: Path, launched_at: int | None, *, new: bool) -> p.Check:
    """Compare when each file came into place with the launch.

    A file may carry an old modification time (cp -p, tar, wget); that is remarked.
    """
    what = "is newer than the launch"
    if launched_at is None:
        return _check(path, what, None, "not compared: no record tells when it was launched")
    times = {file: file.stat() for file in _files(place)}
    old = [file for file, found in times.items() if found.st_ctime_ns < launched_at]
    if old and not new:
        return _check(path, what, f"it is from before the launch{_names(place, old)}")
    modified = [file for file, found in times.items() if found.st_mtime_ns < launched_at]
    if not modified:
        return _check(path, what, None)
    when = datetime.fromtimestamp(
        (min(times[file].st_mtime_ns for file in modified)) // 10**9, UTC
    ).strftime("%Y-%m-%dT%H:%M:%SZ")
    remark = f"put in place after it, but last modified {when}{_names(place, modified)}"
    return _check(path, what, None, remarks=[remark])


def _names(place: Path, files: Sequence[Path]) -> str:
    if not place.is_dir():
        return ""
    names = ", ".join(os.path.relpath(file, place) for file in files[:_NAMED])
    return f": {names}{' …' if len(files) > _NAMED else ''}"


def _readings(path: str, place: Path) -> list[p.Check]:
    """Read every file whose type is known: a check for its form, and one for its numbers."""
    found = [(os.path.relpath(file, place), read_output(file)) for file in _files(place)]
    read = [(name, reading) for name, reading in found if reading is not None]
    if not read:
        return []
    have_numbers = any(reading.has_numbers for _, reading in read)
    if place.is_dir():
        checks = [_of_folder(path, "can be read", read, lambda r: r.problem)]
        numbers = _of_folder(path, "is finite", read, lambda r: r.not_finite)
    else:
        ((_, one),) = read
        form = f"reads as {one.kind}"
        checks = [_check(path, form, one.problem, one.content, one.remarks)]
        numbers = _check(path, "is finite", one.not_finite)
        have_numbers = have_numbers or one.not_finite is not None
    return [*checks, numbers] if have_numbers else checks


def _of_folder(
    path: str,
    what: str,
    readings: Sequence[tuple[str, FileReading]],
    problem_of: Callable[[FileReading], str | None],
) -> p.Check:
    problems = [(name, problem_of(reading)) for name, reading in readings]
    told = [f"{name}: {problem}" for name, problem in problems if problem is not None]
    remarks = [f"{name}: {remark}" for name, reading in readings for remark in reading.remarks]
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    problem = "; ".join(told[:_NAMED]) + more if told else None
    return _check(path, what, problem, f"{len(readings)} files", remarks[:_NAMED])


_ERROR = re.compile(
    r"\b(errors?|fatal|traceback|exception|segmentation fault|aborted|out of memory)\b"
    r"|\boom[- ]kill"
    r"|\w(Error|Exception)\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"\bwarn(ing)?s?\b", re.IGNORECASE)
#: What looks like an error and is not: a count of zero, and the words of statistics.
_HARMLESS = re.compile(
    r"\b(no|0|zero|without) (errors?|warnings?)\b|\b(errors?|warnings?)\s*[:=]\s*(0|none)\b"
    r"|\b(standard|std|relative|rms|mean|max|absolute|squared?|statistical) errors?\b"
    r"|\berror (bars?|estimates?|tolerance)\b",
    re.IGNORECASE,
)
#: Lines that are quoted, and characters of each.
_SHOWN, _WIDTH = 5, 160


def scan(path: Path) -> tuple[str, list[str]]:
    """Look through a log, a line at a time.

    Returns how many lines speak of errors and warnings, in words, and the first of them.
    """
    found: Counter[str] = Counter()
    first: list[str] = []
    with path.open("rb") as stream:
        try:
            for line in lines(stream):
                rest = _HARMLESS.sub("", line.text)
                is_error = _ERROR.search(rest)
                if not is_error and not _WARNING.search(rest):
                    continue
                found["error" if is_error else "warning"] += 1
                if len(first) < _SHOWN:
                    shown = line.text.strip()[:_WIDTH].encode("utf-8", "replace").decode()
                    clean = "".join(c if c.isprintable() else " " for c in shown)
                    first.append(f"line {line.number}: {clean}")
        except Cut as cut:
            first.append(str(cut))
    counts = ((word, found[word]) for word in ("error", "warning"))
    told = (f"{n or 'no'} {word} {'line' if n == 1 else 'lines'}" for word, n in counts)
    return ", ".join(told), first
