"""What was installed for a client, kept outside of its settings, so that it can be taken out."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from agents.install.pieces import SettingsPiece
from service.root.disk import content_of, write_whole
from service.root.known_roots import folder


@dataclass(slots=True)
class Changed:
    """A file of the user's: what was put into it; ``made``: it was not there before."""

    path: str
    pieces: list[SettingsPiece]
    made: bool


@dataclass(slots=True)
class InstallRecord:
    """Files of ours by path with their SHA-256, files of the user's, and folders that were made."""

    files: dict[str, str] = field(default_factory=dict)
    changed: list[Changed] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def place_of(client: str, project: Path | None) -> Path:
    """Return where the record of a client in a project, or of this login, is kept."""
    where = sha256(os.fsencode(project or "")).hexdigest()[:32]
    return folder().with_name("installed") / f"{client}-{where}.json"


def load(path: Path) -> InstallRecord | None:
    """Return a record, None where there is none."""
    content = content_of(path)
    if content is None:
        return None
    found = json.loads(content)
    changed = [
        Changed(one["path"], [SettingsPiece(*piece) for piece in one["pieces"]], one["made"])
        for one in found["changed"]
    ]
    return InstallRecord(found["files"], changed, found["folders"])


def save(path: Path, record: InstallRecord) -> None:
    """Keep a record."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(record)).encode())
