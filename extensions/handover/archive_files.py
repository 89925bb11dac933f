"""Choose the workflow's own files for an archive, and restore them from an archive.

The log contains the path and digest of each such file. A file that differs from the log is not
included. A restored file never overwrites an existing file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from zipfile import ZipFile

from eventstore.regular_files import NotRegular
from extensions.handover.errors import UnusableArchive
from extensions.handover.manifest import FILES, LeftOut, Manifest, iterate_json_lines
from extensions.machines.rules.machine import Machine
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.scripts import IMPORTED, is_digest, is_read_automatically
from lifecycle.words.values import is_inside_base_folder
from projections.files import progress_log, state_document
from projections.files.summary import is_figure
from service.consent.scripts import find_script_digests, find_scripts_to_approve
from service.root.atomic_files import write_streamed
from service.root.folder_entries import is_file, is_folder
from service.root.paths_within_root import OutsideRoot, open_stable_path_within, open_within

INPUTS, OUTPUTS, FIGURES, SCRIPTS = KINDS = ("inputs", "outputs", "figures", "scripts")
#: Maximum total size in bytes, and maximum number of files. Both apply if the user does not choose
#: kinds of files.
MOST_BYTES, MOST_FILES = 100_000_000, 20_000
_CHUNK = 1 << 16
_TOO_MUCH = "the files together would exceed {} MB"
_OWN = frozenset({state_document.FILE_NAME, progress_log.FILE_NAME})
#: Hidden files that are included nevertheless, because they prove that tasks of a sweep are
#: finished: marker files, and records of earlier attempts.
_OF_TASKS = re.compile(
    r"[^/.][^/]*/(tasks/[^/.][^/]*/\.wfctl-done"
    r"|\.attempts/[^/.][^/]*/tasks/(head\.json|points|record\.jsonl))"
)
Digest = Callable[[str], str | None]
"""Returns the digest of a file or folder of the root, as the log would have it; None of none."""


@dataclass(slots=True)
class FileSelection:
    """The files to include in an archive, with their sizes, and the files left out."""

    files: dict[str, int] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)


def choose_files(
    root: Path,
    state: Workflow | None,
    machines: Iterable[Machine],
    kinds: Iterable[str],
    digest: Digest,
    most: int | None = MOST_BYTES,
) -> FileSelection:
    """Choose the workflow's own files to include in an archive.

    ``kinds`` names the kinds of files. The smallest files come first, up to ``most`` bytes in
    total; if ``most`` is None, there is no limit. Files that are missing, unreadable or different
    from the log are left out.
    """
    choice, sizes = FileSelection(), dict[str, int]()
    for path, recorded in sorted(
        _collect_named_files(root, state, machines, frozenset(kinds)).items()
    ):
        whole = _measure_size(root, path)
        if most is not None and whole > most:
            # Do not compute the digest of this file, because the file may be huge.
            choice.left.append(LeftOut(path, whole, _TOO_MUCH.format(most // 10**6)))
            continue
        now = digest(path)
        if now is None or recorded not in (None, now):
            why = "the file does not exist" if now is None else "the file differs from the log"
            choice.left.append(LeftOut(path, 0, why))
            continue
        for own in _iterate_files_below(root, path):
            size, unfitting = _inspect_candidate_file(root, own)
            if unfitting is None:
                sizes[own] = size
            else:
                choice.left.append(LeftOut(own, size, unfitting))
    _apply_limit(choice, sizes, most)
    return choice


def _apply_limit(choice: FileSelection, sizes: dict[str, int], most: int | None) -> None:
    total = 0
    for path, size in sorted(sizes.items(), key=lambda one: (one[1], one[0])):
        total += size
        if len(choice.files) == MOST_FILES:
            choice.left.append(LeftOut(path, size, f"at most {MOST_FILES:,} files are included"))
        elif most is not None and total > most:
            choice.left.append(LeftOut(path, size, _TOO_MUCH.format(most // 10**6)))
        else:
            choice.files[path] = size


def _collect_named_files(
    root: Path, state: Workflow | None, machines: Iterable[Machine], kinds: frozenset[str]
) -> dict[str, str | None]:
    """Return the paths of files that the logs name, with their recorded digests.

    The digest is None if the log does not contain one.
    """
    found: dict[str, str | None] = {}
    for machine in machines if OUTPUTS in kinds else ():
        found |= machine.digests
    stages = list(state.stages.values()) if state is not None else []
    if SCRIPTS in kinds and state is not None:
        # Leave out the configuration files of machines, because they may contain credentials.
        given = (one.get("config_path") for one in state.backend_profiles.values())
        closed = {os.path.normpath(path) for path in given if isinstance(path, str)}
        named = (path for path in find_script_digests(root, state) if path not in closed)
        agreed = {path: one for path, one in state.scripts.items() if is_digest(one)}
        found |= {path: agreed.get(path) for path in named}
    made = {path for stage in stages for path in stage.outputs}
    for stage in stages if INPUTS in kinds else ():
        read: dict[str, str | None] = dict.fromkeys(stage.inputs)
        if stage.status is Status.COMPLETED and stage.source is not None:
            read |= {one["path"]: one["sha256"] for one in stage.source.inputs}
        found |= {path: one for path, one in read.items() if path not in made}
    for stage in stages:
        found |= _collect_results(root, stage, kinds)
    return found


def _collect_task_record_files(root: Path, stage: Stage) -> dict[str, str | None]:
    """Return the files of earlier attempts that prove finished tasks, with their digests.

    Each record of tasks has a digest in the log. The digest of the files next to it is None.
    """
    records = [one.tasks["record"] for one in stage.attempts if one.tasks and one.tasks["record"]]
    found: dict[str, str | None] = {one["path"]: one["sha256"] for one in records}
    folders = [PurePosixPath(one["path"]).parent for one in records]
    beside = (str(folder / name) for folder in folders for name in ("head.json", "points"))
    return found | dict.fromkeys(path for path in beside if is_file(root / path))


def _collect_results(root: Path, stage: Stage, kinds: frozenset[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {one["path"]: one["sha256"] for one in stage.results}
    if found:
        found |= dict.fromkeys(stage.work.task_folders)
        found |= _collect_task_record_files(root, stage)
    if OUTPUTS in kinds:
        return found
    beside = {**found, **dict.fromkeys(stage.left_in_place)}
    return {k: v for k, v in beside.items() if FIGURES in kinds and is_figure(k)}


def _iterate_files_below(root: Path, path: str) -> Iterator[str]:
    place = root / path
    if not is_folder(place):
        yield path
        return
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            yield str(Path(folder, name).relative_to(root))


def _measure_size(root: Path, path: str) -> int:
    """Return the size in bytes of a file or folder, without the parts that cannot be read."""
    total = 0
    for one in _iterate_files_below(root, path):
        with suppress(OSError, ValueError):
            total += (root / one).lstat().st_size
    return total


def _inspect_candidate_file(root: Path, path: str) -> tuple[int, str | None]:
    """Return the size of a file, and the reason why an archive cannot include it.

    The reason is None if the file can be included.
    """
    why = explain_unfit_name(path)
    if why is not None:
        return 0, why
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            return os.fstat(file.fileno()).st_size, None
    except (OSError, OutsideRoot, NotRegular) as error:
        return 0, f"the file cannot be read: {error}"


def explain_unfit_name(path: str) -> str | None:
    """Return the reason why an archive must not contain a file of this name, or None."""
    if not is_inside_base_folder(path):
        return "the name leads out of the root or contains a control character"
    hidden = any(step.startswith(".") for step in path.split("/"))
    if hidden and not _OF_TASKS.fullmatch(path):
        return "the file is hidden, or in a hidden folder"
    return "wfctl writes a file of this name itself" if path in _OWN else None


def read_chunks(root: Path, path: str) -> Iterator[bytes]:
    """Yield the content of a file in the workflow folder in chunks."""
    with os.fdopen(open_within(root, path), "rb") as file:
        yield from iter(partial(file.read, _CHUNK), b"")


def list_workflow_files(manifest: Manifest) -> list[str]:
    """Return the paths of the workflow's own files in an archive, relative to its folder."""
    return [name.removeprefix(FILES) for name in manifest.files if name.startswith(FILES)]


def check_brought(path: Path, file: ZipFile, manifest: Manifest) -> None:
    """Check the workflow's own files in an archive before they are restored.

    Raises `UnusableArchive` for the first file that must not be written to a workflow folder.
    """
    names = list_workflow_files(manifest)
    if len(names) > MOST_FILES:
        many = f"expected at most {MOST_FILES:,} files next to the log, found {len(names):,}"
        raise UnusableArchive(path, None, many)
    recorded = _collect_recorded_digests(path, file, manifest) if names else {}
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        entry, why = f"{FILES}{name}", explain_unfit_name(name)
        if name in folders:
            why = "the path is both a file and a folder"
        elif S_ISLNK(file.getinfo(entry).external_attr >> 16):
            why = "the file is a link"
        elif name in recorded and manifest.files[entry].sha256 not in recorded[name]:
            why = "the file is not the result that the log records"
        if why is not None:
            raise UnusableArchive(path, entry[:200], why)


def _collect_recorded_digests(path: Path, file: ZipFile, manifest: Manifest) -> dict[str, set[str]]:
    """Return all digests that the logs in an archive recorded for each output file."""
    found: dict[str, set[str]] = {}
    for stream in manifest.streams:
        for event in iterate_json_lines(path, file, stream.file):
            outputs = event["data"].get("outputs")
            for one in outputs if isinstance(outputs, list) else ():
                if isinstance(one, dict) and {"path", "sha256"} <= set(one):
                    found.setdefault(str(one["path"]), set()).add(str(one["sha256"]))
    return found


def find_unapproved_executables(
    root: Path, state: Workflow | None, manifest: Manifest
) -> list[str]:
    """Return the files in an archive that could be executed although nobody approved them.

    These are files that a stage runs, that Python imports, or that a program reads automatically. A
    file is approved if the log contains its digest in the plan, in an amendment (plan change), or
    in an attempt that did not list the file as unapproved. Imported and automatically read files
    are also accepted if they belong to the inputs or outputs of a stage.
    """
    if state is None:
        return []
    attempts = [one for stage in state.stages.values() for one in stage.attempts]
    known = {item for one in state.amendments.values() for item in one.scripts.items()}
    known |= {*state.scripts.items()}
    for one in attempts:
        scripts = {**(one.beside or {}), **one.scripts}
        known |= {item for item in scripts.items() if item[0] not in one.unapproved}
    runs = find_scripts_to_approve(root, state).keys()
    stages = state.stages.values()
    own = {path for one in stages for path in (*one.inputs, *one.outputs, *one.work.task_folders)}
    own |= {path for one in stages for path in one.left_in_place}

    def is_unapproved(path: str) -> bool:
        is_loaded = path.endswith(IMPORTED) or is_read_automatically(path)
        is_loaded = is_loaded and not any(_is_in(path, one) for one in own)
        sha256 = manifest.files[f"{FILES}{path}"].sha256
        return (path in runs or is_loaded) and (path, sha256) not in known

    return [path for path in list_workflow_files(manifest) if is_unapproved(path)]


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def restore_workflow_files(
    root: Path, archive: Path, manifest: Manifest, unapproved: Sequence[str] = ()
) -> list[str]:
    """Write the workflow's own files of an archive to its folder.

    Returns the paths at which a different file exists; these files are not overwritten. Files in
    ``unapproved`` are not written.
    """
    kept: list[str] = []
    with ZipFile(archive) as file:
        for path in (one for one in list_workflow_files(manifest) if one not in unapproved):
            if os.path.lexists(root / path):
                if not _is_there(root, path, manifest.files[f"{FILES}{path}"].sha256):
                    kept.append(path)
                continue
            mode = file.getinfo(f"{FILES}{path}").external_attr >> 16
            with open_stable_path_within(root, path, make=True) as place:
                write_streamed(place, _iterate_verified_chunks(archive, file, manifest, path))
                if mode & 0o100:
                    place.chmod(place.stat().st_mode | 0o111)
    return kept


def _is_there(root: Path, path: str, digest: str) -> bool:
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            return file_digest(file, "sha256").hexdigest() == digest
    except (OSError, OutsideRoot, NotRegular):
        return False


def _iterate_verified_chunks(
    archive: Path, file: ZipFile, manifest: Manifest, path: str
) -> Iterator[bytes]:
    """Yield the content of a file in an archive in chunks.

    Raises `UnusableArchive` at the end if the content differs from the manifest, which means that
    the archive changed after it was checked.
    """
    name, found = f"{FILES}{path}", sha256()
    with file.open(name) as source:
        for chunk in iter(partial(source.read, _CHUNK), b""):
            found.update(chunk)
            yield chunk
    if found.hexdigest() != manifest.files[name].sha256:
        raise UnusableArchive(archive, name, "the file changed while it was read")
