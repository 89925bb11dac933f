"""What guards ask of the disk: which files of the root have content, and are JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from glob import escape
from pathlib import Path
from typing import Any

from eventstore.private import TooLarge, read_regular
from lifecycle.machines.definition import Definition
from lifecycle.machines.guard import FileFact, is_inside
from lifecycle.machines.machine import Machine, texts
from lifecycle.machines.path import COMMITS, marks_of_tips, place_of_commit, tips_in
from lifecycle.machines.payload import MachineUpdated
from service.machines.git import commit_of, is_made_since, tips_of
from service.root.safe_open import is_inside as lies_inside
from service.root.sync import digest

#: Longer texts are no paths.
_LONGEST = 400


def evidence(root: Path, state: Machine) -> dict[str, FileFact]:
    """Return what is found of the files that the rules look at in the phase and in the next.

    Those are the patterns of guards, what the fields name that an approval is of, and commits.
    """
    if state.is_final:
        return {}
    named = [text for text in state.named_files() if len(text) <= _LONGEST and text.isprintable()]
    found = {escape(text): output_at(root, text) for text in named}
    commits = {place_of_commit(id_): _commit(root, state, id_) for id_ in state.named_commits()}
    return found | commits | look(root, state.definition.files_from_here(state.phase))


def _commit(root: Path, state: Machine, id_: str) -> FileFact:
    """Return whether a commit is there, and valid where it was made in the present stay."""
    whole = commit_of(root, id_)
    if whole is None:
        return FileFact()
    since, tips = state.visit.entered_at, tips_in(state.visit.earlier)
    return FileFact((id_,), (id_,) if is_made_since(root, whole, since, tips) else ())


def look(root: Path, patterns: Iterable[str]) -> dict[str, FileFact]:
    """Return what was found for each pattern; nothing outside of the root is looked at."""
    return {pattern: _fact(root, pattern) for pattern in patterns}


def output_at(root: Path, named: Any) -> FileFact:
    """Return what is there of a file that a field names; agents name it by its whole path too."""
    own = escape(os.path.normpath(str(named or "").removeprefix(f"{root}/")))
    return look(root, [own])[own]


def outputs_of(
    root: Path, definition: Definition, task: Mapping[str, Any], earlier: Mapping[str, str]
) -> FileFact:
    """Return what is new of a task's output since the marks of ``earlier``, and all marks now."""
    facts = [output_at(root, place) for place in definition.outputs_of(task)]
    new = next((one for fact in facts if (one := fact.since(earlier)).found), FileFact())
    return new._replace(marks={file: mark for fact in facts for file, mark in fact.marks.items()})


def _fact(root: Path, pattern: str) -> FileFact:
    if pattern == COMMITS:
        return FileFact(marks=marks_of_tips(tips_of(root)))
    if not is_inside(pattern):
        return FileFact()
    filled = [path for path in sorted(root.glob(pattern)) if _has_content(path)]
    return FileFact(
        tuple(_name(root, path) for path in filled),
        tuple(_name(root, path) for path in filled if is_json(path)),
        {_name(root, path): mark_of(path) for path in filled},
    )


def mark_of(path: Path) -> str:
    """Return the mark of a file: its SHA-256, and when it was written last, in nanoseconds.

    Of a file that would fill the memory its size stands in place of the SHA-256.
    """
    found = path.stat()
    try:
        return f"{digest(read_regular(path))}@{found.st_mtime_ns}"
    except TooLarge:
        return f"{found.st_size} bytes@{found.st_mtime_ns}"


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root))


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and bool(read_regular(path).strip())
    except TooLarge:
        return True


def is_json(path: Path) -> bool:
    """Whether a file holds a JSON object or list with something in it."""
    try:
        return bool(json.loads(read_regular(path)))
    except (ValueError, RecursionError, TooLarge):
        return False


def status_of_output(root: Path, fact: FileFact, statuses: list[str]) -> str | None:
    """Return the status that a task's output says, ``pre_complete`` where it says none.

    None where there is no output, or the beginning of a JSON object or list alone.
    """
    if not fact.found:
        return None
    if not fact.valid and _begins_json(root / fact.found[0]):
        return None
    said = json.loads(read_regular(root / fact.valid[0])) if fact.valid else None
    status = said.get("status") if isinstance(said, dict) else None
    return status if status in statuses and status != "running" else "pre_complete"


def _begins_json(path: Path) -> bool:
    """Whether a file begins as a JSON object or list does."""
    try:
        return read_regular(path).lstrip()[:1] in (b"{", b"[")
    except TooLarge:
        return False


FIELD = "artifacts"


def digests(root: Path, command: MachineUpdated) -> dict[str, str]:
    """Return the SHA-256 of each file of the root that new artifacts name."""
    named = [
        text
        for change in command.changes
        if change.path.split(".")[0] == FIELD
        for text in texts(change.value)
    ]
    found = {name: _file(root, name) for name in named}
    return {name: digest(read_regular(path)) for name, path in found.items() if path is not None}


def drift_of(root: Path, machine: Machine) -> list[dict[str, Any]]:
    """Return the artifacts whose file is missing, or is not what it was when recorded."""
    found: list[dict[str, Any]] = []
    artifacts = machine.document.get(FIELD)
    named = artifacts if isinstance(artifacts, dict) else {FIELD: artifacts}
    for name, value in named.items():
        for text in texts(value):
            path = _file(root, text)
            if path is None and (text in machine.digests or _is_path(text)):
                found.append({"kind": "artifact_missing", "artifact": name, "file": text})
            elif path is not None and _differs(path, machine.digests.get(text)):
                found.append({"kind": "artifact_changed", "artifact": name, "file": text})
    return found


def _is_path(text: str) -> bool:
    """Whether a text is most likely the path of a file: it has an ending, and no spaces."""
    return (
        0 < len(text) <= _LONGEST
        and "://" not in text
        and not any(letter.isspace() for letter in text)
        and bool(Path(text).suffix)
    )


def _file(root: Path, text: str) -> Path | None:
    if not 0 < len(text) <= _LONGEST or "\0" in text or "\n" in text:
        return None
    path = root / text
    return path if path.is_file() and lies_inside(path, root) else None


def _differs(path: Path, known: str | None) -> bool:
    try:
        return known is not None and digest(read_regular(path)) != known
    except TooLarge:  # nothing so large was ever recorded
        return True
