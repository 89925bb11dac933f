"""What this login remembers of roots, outside of them: their logs, and what an agent was asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from eventstore.private import make_own_folder, read_regular
from service.root.disk import content_of, write_whole


def folder() -> Path:
    """Return where they are kept."""
    home = Path(os.environ.get("HOME", "~"))
    base = os.environ.get("XDG_STATE_HOME") or str(home / ".local/state")
    return Path(base).expanduser() / "wfctl" / "roots"


def remember(root: Path) -> None:
    """Keep that there is a root; where nothing can be kept it is not listed, and works as well."""
    link = folder() / sha256(os.fsencode(root)).hexdigest()[:32]
    with suppress(OSError):
        if os.path.lexists(link):
            return
        make_own_folder(link.parent)
        # A link is made whole or not at all, and needs no second process to be told apart.
        link.symlink_to(root, target_is_directory=True)


def known_roots() -> list[Path]:
    """Return the folders that are roots still, in the order of their paths; nothing is written."""
    try:
        found = [link.readlink() for link in folder().iterdir()]
    except OSError:
        return []
    return sorted(root for root in found if (root / ".wfctl" / "config.toml").is_file())


@dataclass(frozen=True, slots=True)
class Known:
    """A log: hash and time of its first event, how it stands, and its head when it came to."""

    stream: str
    first: str
    began: str
    version: int
    hash: str
    at: str
    stood: str


def earlier(root: Path, place: str, first: str) -> list[Known]:
    """Return the logs that were at a place of a root, beside the one that begins with ``first``."""
    return [one for one in _read(_file_of(root, place)) if one.first != first]


def keep(root: Path, place: str, first: str, stood: str, known: Callable[[], Known]) -> None:
    """Keep how a log stands if that has changed, as ``known`` returns it; else it is not called."""
    path = _file_of(root, place)
    kept = _read(path)
    if all((one.first, one.stood) != (first, stood) for one in kept):
        _write(path, [*(one for one in kept if one.first != first), known()])


def forget_earlier(root: Path, place: str, first: str) -> None:
    """Forget the logs that were there before, as a person said that this one is as it should be."""
    path = _file_of(root, place)
    known = _read(path)
    left = [one for one in known if one.first == first]
    if left != known:
        _write(path, left)


def _file_of(root: Path, place: str) -> Path:
    name = sha256(os.fsencode(f"{root}\0{place}")).hexdigest()[:32]
    return folder().parent / "logs" / f"{name}.json"


def _read(path: Path) -> list[Known]:
    """Return what is kept; nothing where it is not of ours."""
    try:
        return [Known(**one) for one in orjson.loads(read_regular(path))["logs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write(path: Path, known: list[Known]) -> None:
    """Write it whole, and wait for no disk: what a loss of power takes is told a little older."""
    content = json.dumps({"format": 1, "logs": [asdict(one) for one in known]}, indent=1)
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    with suppress(OSError):
        make_own_folder(path.parent)
        temporary.write_text(f"{content}\n", "utf-8")
        temporary.replace(path)


def asked_before(root: str, question: str) -> bool:
    """Keep the question of a root; return whether it was the last one there already."""
    path = folder().with_name("asked") / sha256(root.encode()).hexdigest()[:32]
    mark = sha256(question.encode()).hexdigest().encode()
    if content_of(path) == mark:
        return True
    with suppress(OSError):
        make_own_folder(path.parent)
        write_whole(path, mark)
        return False
    return True
