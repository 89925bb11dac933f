"""The files that artifacts name: whether they are there, and as they were when recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventstore.regular import TooLarge, read_regular
from lifecycle.machines.machine import Machine, texts
from lifecycle.machines.payload import MachineUpdated
from service.root.below import is_inside
from service.root.sync import digest

FIELD = "artifacts"
#: Longer texts are no paths.
_LONGEST = 400


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
    return path if path.is_file() and is_inside(path, root) else None


def _differs(path: Path, known: str | None) -> bool:
    try:
        return known is not None and digest(read_regular(path)) != known
    except TooLarge:  # nothing so large was ever recorded
        return True
