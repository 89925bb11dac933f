"""What was installed for a client, and pieces of text put into files of somebody else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from service.root.disk import content_of, write_whole
from service.root.trust import folder

_COMMA = re.compile(r"\s*,")
_TEXT = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])")
#: All before the first member of an object.
_BEGIN = re.compile(r"\ufeff?(?:\s|//[^\n]*|/\*.*?\*/)*\{", re.DOTALL)


class SettingsPiece(NamedTuple):
    """A text, and where it was put: its first character's place in the text of then."""

    at: int
    text: str


def put(text: str, piece: SettingsPiece) -> str:
    """Return the text with the piece in its place."""
    return text[: piece.at] + piece.text + text[piece.at :]


def block(text: str, body: str, begin: str, end: str) -> list[SettingsPiece]:
    """Return the piece that puts marked lines at the end of a text; none where they are there."""
    if begin in text:
        return []
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return [SettingsPiece(len(text), f"{gap}{begin}\n{body.strip()}\n{end}\n")]


def read_json(text: str) -> Any:
    """Return a document of JSON that may have comments; raises `ValueError`."""
    plain = _COMMENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    try:
        return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", plain))
    except RecursionError:
        raise ValueError("expected fewer levels") from None


def members(text: str, more: Mapping[str, Any]) -> list[SettingsPiece]:
    """Return the piece that puts the keys of ``more`` that an object lacks before all it has.

    Raises `ValueError` where the text is no object of JSON.
    """
    if not text.strip():
        return [SettingsPiece(len(text), json.dumps(more, indent=2, ensure_ascii=False) + "\n")]
    there = read_json(text)
    begin = _BEGIN.match(text)
    if not isinstance(there, dict) or begin is None:
        raise ValueError("expected an object")
    new = {key: value for key, value in more.items() if key not in there}
    if not new:
        return []
    lines = json.dumps(new, indent=2, ensure_ascii=False).removeprefix("{").removesuffix("\n}")
    return [SettingsPiece(begin.end(), lines + ("," if there else "\n"))]


def lacking(text: str, more: Mapping[str, Any]) -> list[str]:
    """Return the keys of ``more`` whose values in an object do not hold all of ours."""
    there = read_json(text)
    return [key for key, value in more.items() if not _holds(there.get(key), value)]


def _holds(there: Any, ours: Any) -> bool:
    if isinstance(ours, Mapping) and isinstance(there, dict):
        return all(_holds(there.get(key), value) for key, value in ours.items())
    if isinstance(ours, list) and isinstance(there, list):
        return all(one in there for one in ours)
    return bool(there == ours)


def cut(
    text: str, pieces: Sequence[SettingsPiece], is_whole: Callable[[str], bool]
) -> tuple[str, list[SettingsPiece]]:
    """Return the text without the pieces, and those that are not in it as they were put.

    They are cut in the reverse order. ``is_whole`` says whether a text can be read as what its file
    is: what somebody wrote behind a piece may have needed its comma.
    """
    left: list[SettingsPiece] = []
    for piece in reversed(pieces):
        found = _cut(text, piece, is_whole)
        if found is None:
            left.append(piece)
        else:
            text = found
    return text, left[::-1]


def _cut(text: str, piece: SettingsPiece, is_whole: Callable[[str], bool]) -> str | None:
    # Somebody who writes behind it may take its last newline away.
    part = piece.text if piece.text in text else piece.text.rstrip()
    at = piece.at if text.startswith(part, piece.at) else _only(text, part)
    if at is None:
        return None
    before, behind = text[:at], text[at + len(part) :]
    comma = _COMMA.match(behind)
    ways = [before + behind, *([before + behind[comma.end() :]] if comma else [])]
    return next((way for way in ways if is_whole(way)), None)


def _only(text: str, part: str) -> int | None:
    """Return where a part stands that is there once, else None."""
    at = text.find(part)
    return at if at >= 0 and text.find(part, at + 1) < 0 else None


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
    """Return a record; None if there is no file."""
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
