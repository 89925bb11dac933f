"""Check whether the scripts and modules in the folder of a job were changed while it ran."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from lifecycle.words.scripts import IMPORTED
from projections.words.result_origin import module_of
from reconciler.attempt import paths as genuine
from reconciler.attempt.file_digests import compute_file_sha256
from reconciler.attempt.paths import AttemptPaths
from reconciler.records import traces
from service.consent.packages import find_unimported_stdlib_names
from service.root.atomic_files import write_whole


def find_replaced_job_files(attempt: AttemptPaths, recorded: Mapping[str, str]) -> list[str]:
    """Return the files that a local job may have run instead of the files sent to it.

    ``recorded`` maps the paths of the attempt's scripts and modules to SHA-256 digests in hex. The
    result contains each sent file that is no longer a regular file with this digest, and each new
    file that Python would import instead of a sent module or a standard module. The files must have
    been kept in the folder of the attempt. The result is stored at the first call, because
    unchanged kept files are removed later.
    """
    known = traces.read_json(attempt.copies_record)
    if known is None:
        sent = {path: recorded[path] for path in _find_sent_files(attempt, recorded)}
        found = [
            path for path, digest in sent.items() if _has_other_content(attempt.kept / path, digest)
        ]
        known = {"exchanged": [*found, *_find_shadowing_modules(attempt, sent)]}
        if attempt.kept.is_dir():
            write_whole(attempt.copies_record, json.dumps(known).encode() + b"\n")
        else:
            return []  # no job has started
    return list(known["exchanged"])


def _find_sent_files(attempt: AttemptPaths, recorded: Iterable[str]) -> Iterator[str]:
    """Yield the recorded files that the submission sends, alone or as part of a folder."""
    own = genuine.read_attempt_submission(attempt) or {}
    base = os.path.normpath(str(own.get("work_base", ".")))
    patterns = [os.path.normpath(one) for one in traces.forward_patterns(own)]
    for path in recorded if base == "." else ():
        above = [path, *map(str, PurePosixPath(path).parents)]
        if any(fnmatchcase(one, pattern) for one in above for pattern in patterns):
            yield path


def _has_other_content(copy: Path, digest: str) -> bool:
    try:
        return copy.is_symlink() or not copy.is_file() or compute_file_sha256(copy) != digest
    except OSError:
        return False  # a job closed it, and it is listed among the leftover files


def _find_shadowing_modules(attempt: AttemptPaths, sent: Mapping[str, str]) -> Iterator[str]:
    """Yield new files that Python would import instead of a sent or a standard module."""
    sources = [path for path in sent if path.endswith(".py")]
    unused = find_unimported_stdlib_names(attempt.root, sources, ())
    for folder in sorted({str(PurePosixPath(path).parent) for path in sources}):
        near = [path for path in sources if str(PurePosixPath(path).parent) == folder]
        taken = {*map(module_of, near)} | (sys.stdlib_module_names - unused)
        for path in _list_modules(attempt.kept, folder):
            if path not in sent and module_of(path) in taken:
                yield path


def _list_modules(kept: Path, folder: str) -> Iterator[str]:
    try:
        names = sorted(one.name for one in (kept / folder).iterdir())
    except OSError:
        return
    for name in names:
        path = os.path.normpath(f"{folder}/{name}")
        package = [f"{path}/__init__{ending}" for ending in IMPORTED]
        yield from (one for one in package if os.path.lexists(kept / one))
        if name.endswith(IMPORTED) and not name.startswith("__init__."):
            yield path
