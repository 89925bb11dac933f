"""Collect the leftover files of an attempt after its end. No file is removed.

A leftover file is a file that a job wrote but that is neither an output nor an unchanged input. The
wrapper script links each file into the attempt's folder before DPDispatcher cleans up. From there,
a file is moved into the stage's folder if its path is free and the size limit allows it. A list of
all files and locations is written first, so that a crash loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.regular_files import read_regular
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.scripts import is_importable
from reconciler.attempt import execution_host as machine
from reconciler.attempt.file_digests import compute_file_sha256, file_digest
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import MachineUnreachable, UnusableProfile
from reconciler.far import query_machine
from reconciler.far.incoming import read_protected_files
from reconciler.far.query_machine import JobFile, has_utf8_paths
from reconciler.files.carried_files import carry_patterns
from reconciler.files.job_copies import find_replaced_job_files
from reconciler.records import traces
from service.root.atomic_files import write_whole
from service.root.folder_entries import is_file
from service.root.paths_within_root import is_inside

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


_KEEP_SCRIPT = Path(__file__).parents[1] / "far" / "keep.sh"
#: Default maximum number of bytes of leftover files that are downloaded from another machine.
_DEFAULT_FAR_LIMIT = 10**8
#: Name of the parameter that sets this limit. A stage or its backend profile may contain it.
LIMIT = "bring_back_limit"
#: Maximum number of file names in one event. The list in the attempt's folder contains all names.
_MAX_NAMED_FILES = 500
#: Maximum number of file names in one note in the log.
_MAX_FILES_IN_NOTE = 20


def collect_leftovers(
    state: Workflow, stage: Stage, attempt: AttemptPaths, *, bring: bool
) -> list[Payload]:
    """Collect the leftover files of an attempt, and return the commands that record them.

    With ``bring``, files are moved to the stage's folder until the size limit is reached. Files
    that the next attempt needs are always downloaded. If the files cannot be reached, the result is
    a note with their location. Safe to run again after an interruption, with the same result.
    """
    scripts = recorded_script_digests(stage, attempt)
    listed = traces.read_json(attempt.left_list)
    unreadable = list[OSError]()
    if listed is not None:
        files = [JobFile(**one) for one in listed["files"]]
    else:
        limit = read_leftover_size_limit(state, stage, attempt)
        try:
            files, unreadable = _find_leftovers(
                attempt, bring, limit, carry_patterns(stage), scripts
            )
        except (MachineUnreachable, OSError) as error:
            return [_build_failure_note(attempt, stage, error)]
    known = [one for one in files if has_utf8_paths(one)]
    unnamed = [one.at or one.path for one in files if not has_utf8_paths(one)]
    notes = _build_notes(attempt, stage, [str(one.filename) for one in unreadable], unnamed)
    if listed is None or unnamed:
        has_files = attempt.kept.is_dir() or attempt.copies_record.exists()
        if not (known or notes or has_files):
            return []
        _write_list(attempt, known)
    placed = _put_in_place(attempt, known)
    if placed != known:
        known = placed
        _write_list(attempt, known)
    exchanged = [] if _is_far(attempt) else find_replaced_job_files(attempt, scripts)
    # If the only leftover files are empty logs, no event is recorded for them.
    if not exchanged and all(left.path in attempt.logs and not left.size for left in known):
        return notes
    named = sorted(known, key=lambda left: left.path not in scripts)[:_MAX_NAMED_FILES]
    stayed = any(left.at is not None and left.at.startswith("/") for left in known)
    return [
        *notes,
        p.AttemptLeft(
            stage=attempt.stage,
            attempt=attempt.id,
            files=[p.LeftFile.model_validate(asdict(one)) for one in named],
            more=max(0, len(known) - _MAX_NAMED_FILES),
            host=traces.read_submission_facts(attempt).job_host if stayed else None,
            record=file_digest(attempt.root, attempt.left_list, read_regular(attempt.left_list)),
            exchanged=exchanged,
        ),
    ]


def _build_notes(
    attempt: AttemptPaths, stage: Stage, unreadable: list[str], unnamed: list[str]
) -> list[Payload]:
    """Build notes that name leftover files which cannot be read or recorded."""
    why = {
        "leftover files that cannot be read": unreadable,
        "leftover files whose name or link target is not UTF-8": unnamed,
    }
    notes: list[Payload] = []
    for kind, paths in why.items():
        if paths:
            more = len(paths) - _MAX_FILES_IN_NOTE
            names = ", ".join(map(_escape_path, paths[:_MAX_FILES_IN_NOTE]))
            names += f" and {more} more" if more > 0 else ""
            text = f"{attempt.id}: {kind} were left in place: {names}"
            notes.append(p.NoteLogged(stage=stage.id, text=text))
    return notes


def _escape_path(path: str) -> str:
    """Return a path as text for the log. Bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _build_failure_note(
    attempt: AttemptPaths, stage: Stage, error: MachineUnreachable | OSError
) -> Payload:
    """Build a note with the location of leftover files and the reason why they stay there."""
    if machine.load_execution_host(attempt).is_far:
        where = f"{query_machine.kept_files_path(attempt)} on its machine"
    else:
        where = str(attempt.kept.relative_to(attempt.root))
    why = error.message if isinstance(error, MachineUnreachable) else error
    return p.NoteLogged(
        stage=stage.id,
        text=f"{attempt.id}: the leftover files of the attempt stay in {where}: {why}",
    )


def _is_far(attempt: AttemptPaths) -> bool:
    return machine.load_execution_host(attempt).is_far


def _write_list(attempt: AttemptPaths, known: Iterable[JobFile]) -> None:
    text = json.dumps({"files": [asdict(one) for one in known]}, indent=1)
    write_whole(attempt.left_list, text.encode("utf-8", "surrogateescape") + b"\n")


def _find_leftovers(
    attempt: AttemptPaths,
    bring: bool,
    limit: int | None,
    wanted: Sequence[str],
    scripts: Mapping[str, str],
) -> tuple[list[JobFile], list[OSError]]:
    """Return the leftover files with their locations, and the errors of unreadable files."""
    where, errors = machine.load_execution_host(attempt), list[OSError]()
    if where.is_far:
        there = query_machine.download_leftovers(attempt, limit if bring else 0, wanted)
        here = _choose_places(
            attempt, list(_find_kept_files(attempt, errors, scripts)), bring, None
        )
        return [*here, *there], errors
    if traces.list_copies_in_folder(Path(where.scratch)):
        # If the monitor ended early, it has not kept the files of the scratch copies. Keep them
        # now.
        script = '. "$0" && keep_left "$1" "$2"'
        command = ["bash", "-c", script, str(_KEEP_SCRIPT), where.scratch, str(attempt.kept)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = done.stderr.strip()[-500:]
            raise OSError(f"the files that the attempt {attempt.tag} wrote cannot be kept: {why}")
    _grant_owner_access(attempt.kept)
    stays = find_replaced_job_files(attempt, scripts)
    news = list(_find_kept_files(attempt, errors, scripts))
    return _choose_places(attempt, news, bring, limit, stays), errors


def recorded_script_digests(stage: Stage, attempt: AttemptPaths) -> dict[str, str]:
    """Return the recorded SHA-256 digests, by path, of an attempt's scripts and modules."""
    recorded = next((one for one in stage.attempts if one.id == attempt.id), None)
    return {} if recorded is None else {**(recorded.beside or {}), **recorded.scripts}


def _find_kept_files(
    attempt: AttemptPaths, errors: list[OSError], scripts: Mapping[str, str]
) -> Iterator[JobFile]:
    """Yield the files that a job wrote and that differ from the files in the root.

    Copies without a difference are removed. A script that differs from its recorded digest is
    always included. The output files of the jobs that are already in place follow. Errors of
    unreadable files are added to ``errors``.
    """
    _grant_owner_access(attempt.kept)
    below = [(Path(at), folders, names) for at, folders, names in os.walk(attempt.kept)]
    for folder, folders, names in sorted(below):
        links = [name for name in folders if (folder / name).is_symlink()]
        for file in (folder / name for name in sorted([*names, *links])):
            path = str(file.relative_to(attempt.kept))
            try:
                is_other = path in scripts and _describe_file(file, path).sha256 != scripts[path]
                if not is_other and _is_same(file, attempt.root / path):
                    file.unlink()
                    continue
                found = _describe_file(file, path)
            except OSError as error:
                error.filename = file.relative_to(attempt.root)
                errors.append(error)
                continue
            yield found
    for path in attempt.logs if attempt.launch_record.exists() else ():
        place = attempt.root / path
        if not os.path.lexists(attempt.kept / path) and is_file(place) and place.stat().st_size:
            yield _describe_file(place, path)


def _grant_owner_access(kept: Path) -> None:
    """Give the owner full access to all folders below ``kept``.

    A job may have removed this access.
    """
    for folder, names, _ in os.walk(kept):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
                with suppress(OSError):
                    path.chmod(path.stat().st_mode | 0o700)


def _is_same(file: Path, place: Path) -> bool:
    if file.is_symlink():
        return place.is_symlink() and file.readlink() == place.readlink()
    # Sending a link to a job turns it into a regular file, so the contents are compared.
    if not is_file(place) or file.stat().st_size != place.stat().st_size:
        return False
    return file.samefile(place) or compute_file_sha256(file) == compute_file_sha256(place)


def _describe_file(file: Path, path: str) -> JobFile:
    if file.is_symlink():
        target = str(file.readlink())
        return JobFile(path, 0, hashlib.sha256(os.fsencode(target)).hexdigest(), link=target)
    return JobFile(path, file.stat().st_size, compute_file_sha256(file))


def _choose_places(
    attempt: AttemptPaths,
    found: Sequence[JobFile],
    bring: bool,
    limit: int | None,
    stays: Sequence[str] = (),
) -> list[JobFile]:
    """Choose a location for each leftover file, smallest files first.

    A file moves to the path to which the job wrote it, until the size limit is reached. The other
    files, and the files in ``stays``, remain in the folder of the attempt.
    """
    total, places = 0, dict[str, str | None]()
    for left in sorted(found, key=lambda one: (one.path not in attempt.logs, one.size, one.path)):
        total += left.size
        fits = limit is None or total <= limit or left.path in attempt.logs
        goes = (
            bring and fits and left.path not in stays and left.path.startswith(f"{attempt.stage}/")
        )
        kept = str((attempt.kept / left.path).relative_to(attempt.root))
        places[left.path] = None if goes and _can_be_placed(attempt, left) else kept
    return [replace(left, at=places[left.path]) for left in found]


def _can_be_placed(attempt: AttemptPaths, left: JobFile) -> bool:
    """Return whether a file can be moved to the path to which the job wrote it.

    The path must be free and inside the allowed folder. A file of another machine must not be a
    protected or importable file.
    """
    place = attempt.root / left.path
    if not os.path.lexists(attempt.kept / left.path):
        return True  # already downloaded
    above = next(one for one in place.parents if os.path.lexists(one))
    # A job on this machine could write to any path itself. A file from another machine is
    # restricted to the stage's folder.
    is_far = machine.load_execution_host(attempt).is_far
    if is_far and (is_importable(left.path) or read_protected_files(attempt.folder).has(place)):
        return False
    bounds = attempt.stage_folder if is_far else attempt.root
    return is_inside(above, bounds) and above.is_dir() and not os.path.lexists(place)


def _put_in_place(attempt: AttemptPaths, known: Iterable[JobFile]) -> list[JobFile]:
    """Move leftover files to their chosen locations, and return their final locations."""
    placed = list[JobFile]()
    for left in known:
        kept, place, at = attempt.kept / left.path, attempt.root / left.path, left.at
        try:
            if at is None and os.path.lexists(kept) and not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                kept.rename(place)
        except OSError:  # the folder is not writable, so the log names the file's location
            at = str(kept.relative_to(attempt.root))
        placed.append(replace(left, at=at))
    for folder, _, _ in os.walk(attempt.kept, topdown=False):
        with suppress(OSError):  # the folder is not empty or cannot be changed
            Path(folder).rmdir()
    return placed


def read_leftover_size_limit(state: Workflow, stage: Stage, attempt: AttemptPaths) -> int | None:
    """Return the maximum number of bytes of leftover files to move, or None for no limit.

    Raises UnusableProfile if the setting is neither a number of bytes nor a size such as ``2 GB``.
    """
    for given in (stage.parameters, state.profile(stage)):
        if given.get(LIMIT) is not None:
            found = parse_size(given[LIMIT])
            if found is None:
                raise UnusableProfile(
                    LIMIT, "a number of bytes, or a size such as 2 GB", given[LIMIT]
                )
            return found
    return _DEFAULT_FAR_LIMIT if machine.load_execution_host(attempt).is_far else None


def parse_size(value: Any) -> int | None:
    """Return a size in bytes, given as a number or as text such as ``2 GB``.

    Returns None for any other value.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, str):
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?B)?\s*", value, re.ASCII | re.IGNORECASE)
    if found is None:
        return None
    return int(float(found[1]) * 1000 ** " KMGT".index((found[2] or "B").upper()[:-1] or " "))
