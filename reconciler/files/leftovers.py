"""What an attempt wrote beside its outputs: sorted out once it is over, and never removed.

The wrapper gives each file a second name below the attempt's folder before DPDispatcher cleans up.
From there a file comes into the stage's folder, if nothing else lies in its place and no limit
holds it back; what it was and where it is then goes into a list that is written first, so that a
crash in between loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from errno import EXDEV
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.private import read_regular
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.markers import digest_of, file_digest
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import MachineUnreachable, UnusableProfile
from reconciler.far import ask
from reconciler.far.ask import BroughtFile
from reconciler.files.clearing import patterns_of
from reconciler.records import traces
from service.root.disk import is_inside, system_clock, utc_text, write_whole

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


_KEEP = Path(__file__).parents[1] / "far" / "keep.sh"
#: Bytes that are brought from another machine if nobody says how many may be.
_FAR_LIMIT = 10**8
#: What says so, in the parameters of a stage or in its backend profile.
LIMIT = "bring_back_limit"
#: Files that an event names; the list beside the attempt names all.
_NAMED = 500
#: Maximum number of files that the note of unreadable files names.
_NAMED_IN_NOTE = 20


def left_by(state: Workflow, stage: Stage, attempt: AttemptPaths, *, bring: bool) -> list[Payload]:
    """Sort out what an attempt of the stage left; return the command that records it, if it is.

    ``bring``: into the stage's folder, as far as it all together has no more bytes than its limit.
    What the next attempt goes on from is brought to this machine in any case. May be done again
    after it was cut off at any point, and then comes to the same. Where its machine cannot be
    reached, a note says where it is.
    """
    notes: list[Payload] = []
    listed = traces.read_json(attempt.left_list)
    if listed is not None:
        known = [BroughtFile(**one) for one in listed["files"]]
    else:
        limit = limit_of(state, stage, attempt)
        try:
            known, unreadable = _found(attempt, bring, limit, patterns_of(stage))
        except (MachineUnreachable, OSError) as error:
            return [_not_sorted_out(attempt, stage, error)]
        if unreadable:
            shown = [str(one.filename) for one in unreadable[:_NAMED_IN_NOTE]]
            more = len(unreadable) - len(shown)
            names = ", ".join(shown) + (f" and {more} more" if more else "")
            text = f"{attempt.id}: leftover files that cannot be read stay where they are: {names}"
            notes = [p.NoteLogged(stage=stage.id, text=text)]
        if not known and not attempt.kept.is_dir():
            return []
        _write_list(attempt, known)
    placed = _put_in_place(attempt, known)
    if placed != known:
        known = placed
        _write_list(attempt, known)
    # That a job printed nothing is no news.
    if all(left.path in attempt.logs and not left.size for left in known):
        return notes
    stayed = any(left.at is not None and left.at.startswith("/") for left in known)
    return [
        *notes,
        p.AttemptLeft(
            stage=attempt.stage,
            attempt=attempt.id,
            files=[p.LeftFile.model_validate(asdict(one)) for one in known[:_NAMED]],
            more=max(0, len(known) - _NAMED),
            host=traces.facts(attempt).job_host if stayed else None,
            record=file_digest(attempt.root, attempt.left_list, read_regular(attempt.left_list)),
        ),
    ]


def _not_sorted_out(
    attempt: AttemptPaths, stage: Stage, error: MachineUnreachable | OSError
) -> Payload:
    """Return the note that says where the leftover files stay, and why."""
    if machine.of(attempt).is_far:
        where = f"{ask.left_at(attempt)} on its machine"
    else:
        where = str(attempt.kept.relative_to(attempt.root))
    why = error.message if isinstance(error, MachineUnreachable) else error
    return p.NoteLogged(stage=stage.id, text=f"{attempt.id}: what it left stays in {where}: {why}")


def _write_list(attempt: AttemptPaths, known: Iterable[BroughtFile]) -> None:
    text = json.dumps({"files": [asdict(one) for one in known]}, indent=1)
    write_whole(attempt.left_list, text.encode("utf-8", "surrogateescape") + b"\n")


def _found(
    attempt: AttemptPaths, bring: bool, limit: int | None, wanted: Sequence[str]
) -> tuple[list[BroughtFile], list[OSError]]:
    """Return the leftover files with their places, and the errors of files that cannot be read."""
    where, errors = machine.of(attempt), list[OSError]()
    if where.is_far:
        there = ask.brought(attempt, limit if bring else 0, wanted)
        here = _sorted_out(attempt, list(_news(attempt, errors)), bring, None)
        return [*here, *there], errors
    if traces.copies_below(Path(where.scratch)):
        # Its monitor may not have come to keep what still lies in scratch copies.
        script = '. "$0" && keep_left "$1" "$2"'
        command = ["bash", "-c", script, str(_KEEP), where.scratch, str(attempt.kept)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = done.stderr.strip()[-500:]
            raise OSError(f"{attempt.tag}: what it wrote cannot be kept: {why}")
    return _sorted_out(attempt, list(_news(attempt, errors)), bring, limit), errors


def _news(attempt: AttemptPaths, errors: list[OSError]) -> Iterator[BroughtFile]:
    """Yield what was kept and is neither collected already nor an input that did not change.

    Behind it comes what the jobs printed and is in place already. The errors of files that cannot
    be read are added to ``errors``.
    """
    _open_folders(attempt.kept)
    below = [(Path(at), folders, names) for at, folders, names in os.walk(attempt.kept)]
    for folder, folders, names in sorted(below):
        links = [name for name in folders if (folder / name).is_symlink()]
        for file in (folder / name for name in sorted([*names, *links])):
            path = str(file.relative_to(attempt.kept))
            try:
                if _is_same(file, attempt.root / path):
                    file.unlink()
                    continue
                found = _of(file, path)
            except OSError as error:
                error.filename = file.relative_to(attempt.root)
                errors.append(error)
                continue
            yield found
    for path in attempt.logs if attempt.launch_record.exists() else ():
        place = attempt.root / path
        if not os.path.lexists(attempt.kept / path) and place.is_file() and place.stat().st_size:
            yield _of(place, path)


def _open_folders(kept: Path) -> None:
    """Make the folders below a folder usable for their owner, as a job may have closed them."""
    for folder, names, _ in os.walk(kept):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
                with suppress(OSError):
                    path.chmod(path.stat().st_mode | 0o700)


def _is_same(file: Path, place: Path) -> bool:
    if file.is_symlink() or place.is_symlink():
        return file.is_symlink() and place.is_symlink() and file.readlink() == place.readlink()
    if not place.is_file() or file.stat().st_size != place.stat().st_size:
        return False
    return file.samefile(place) or digest_of(file) == digest_of(place)


def _of(file: Path, path: str) -> BroughtFile:
    if file.is_symlink():
        target = str(file.readlink())
        return BroughtFile(path, 0, hashlib.sha256(os.fsencode(target)).hexdigest(), link=target)
    return BroughtFile(path, file.stat().st_size, digest_of(file))


def _sorted_out(
    attempt: AttemptPaths, found: Sequence[BroughtFile], bring: bool, limit: int | None
) -> list[BroughtFile]:
    """Say of each file where it goes; the smallest first, as far as the limit reaches."""
    total, places = 0, dict[str, str | None]()
    for left in sorted(found, key=lambda one: (one.path not in attempt.logs, one.size, one.path)):
        total += left.size
        fits = limit is None or total <= limit or left.path in attempt.logs
        goes = bring and fits and left.path.startswith(f"{attempt.stage}/")
        kept = str((attempt.kept / left.path).relative_to(attempt.root))
        places[left.path] = None if goes and _is_free(attempt, left) else kept
    return [replace(left, at=places[left.path]) for left in found]


def _is_free(attempt: AttemptPaths, left: BroughtFile) -> bool:
    """Whether a file can lie where the job wrote it: nobody's file is ever overwritten."""
    place = attempt.root / left.path
    if not os.path.lexists(attempt.kept / left.path):
        return True  # it was brought back already
    above = next(one for one in place.parents if os.path.lexists(one))
    return is_inside(above, attempt.root) and above.is_dir() and not os.path.lexists(place)


def _put_in_place(attempt: AttemptPaths, known: Iterable[BroughtFile]) -> list[BroughtFile]:
    """Move leftover files to their places; return the list, with where a file stays instead."""
    placed = list[BroughtFile]()
    for left in known:
        kept, place, at = attempt.kept / left.path, attempt.root / left.path, left.at
        try:
            if at is None and os.path.lexists(kept) and not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                kept.rename(place)
        except OSError:  # a folder in which nothing can be made: the log names where the file is
            at = str(kept.relative_to(attempt.root))
        placed.append(replace(left, at=at))
    for folder, _, _ in os.walk(attempt.kept, topdown=False):
        with suppress(OSError):  # a folder that is not empty, or cannot be changed
            Path(folder).rmdir()
    return placed


def limit_of(state: Workflow, stage: Stage, attempt: AttemptPaths) -> int | None:
    """Return how many bytes of what it left an attempt brings back, None for all of them.

    Raises UnusableProfile where neither a number of bytes nor words such as ``2 GB`` say so.
    """
    for given in (stage.parameters, state.profile(stage)):
        if given.get(LIMIT) is not None:
            found = size_of(given[LIMIT])
            if found is None:
                raise UnusableProfile(LIMIT, "bytes, or words such as 2 GB", given[LIMIT])
            return found
    return _FAR_LIMIT if machine.of(attempt).is_far else None


def size_of(value: Any) -> int | None:
    """Return bytes for a number of them or for words such as ``2 GB``; None if it is neither."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if not isinstance(value, str):
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?B)?\s*", value, re.ASCII | re.IGNORECASE)
    if found is None:
        return None
    return int(float(found[1]) * 1000 ** " KMGT".index((found[2] or "B").upper()[:-1] or " "))


def bring_back(attempt: AttemptPaths) -> None:
    """Put what the attempt's jobs were to bring back into its place, then mark it as collected.

    For an attempt whose jobs are over and whose monitors end without a result, or whose root was
    moved: its submission names a place that is gone. May be done again after it was cut off at any
    point. Raises OSError, and of jobs on another machine MachineUnreachable.
    """
    own = genuine.submission_of(attempt) or {}
    base = attempt.root / str(own.get("work_base", "."))
    if machine.of(attempt).is_far:
        ask.bring(attempt, base)
    for copy in traces.scratch_copies(attempt):
        for pattern in traces.backward(attempt):
            for found in copy.glob(pattern):
                _move(found, base / found.relative_to(copy))
    bound = f"0\n{attempt.tag} {utc_text(system_clock())}\n".encode()
    write_whole(attempt.exit_code_record, bound)
    write_whole(attempt.exit_code_marker, b"0\n")
    write_whole(attempt.done_marker, bound)


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        return
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        # From another file system: whole beside its place first, since a copy may be cut off.
        partial = target.with_name(f".{target.name}.part")
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial)
        shutil.move(source, partial)
        partial.replace(target)
