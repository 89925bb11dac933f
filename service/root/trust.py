"""The databases that this user account has approved, like the safe folders of git.

The configuration of a root may come with a clone or an archive, and a database that wfctl connects
to receives a password. A server, or a file outside the root, that only `config.toml` names is
therefore used only after this user account named it, when the root was created or with
`wfctl db trust`. The approvals are stored in the user's configuration, outside every root.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from eventstore.private_files import make_own_folder, read_regular
from service.root.atomic_files import content_of, state_folder, write_whole


def roots_folder() -> Path:
    """Return the folder with links to the known roots."""
    return state_folder() / "roots"


def remember_root(root: Path) -> None:
    """Store a link to a root, so that it is listed. Failures are ignored."""
    link = roots_folder() / sha256(os.fsencode(root)).hexdigest()[:32]
    with suppress(OSError):
        if os.path.lexists(link):
            return
        make_own_folder(link.parent)
        # A link is created completely or not at all, so no other process sees a partial one.
        link.symlink_to(root, target_is_directory=True)


def known_roots() -> list[Path]:
    """Return the folders that are still roots, sorted by path. Writes nothing."""
    try:
        found = [link.readlink() for link in roots_folder().iterdir()]
    except OSError:
        return []
    return sorted(root for root in found if (root / ".wfctl" / "config.toml").is_file())


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A log: hash and time of its first event, its state, and its head at that time."""

    stream: str
    first: str
    began: str
    version: int
    hash: str
    at: str
    stood: str


def list_earlier_logs(root: Path, place: str, first: str) -> list[KnownLog]:
    """Return the earlier logs at a place of a root, without the one that starts with ``first``."""
    return [one for one in _read_known_logs(_log_record_file(root, place)) if one.first != first]


def remember_log_state(
    root: Path, place: str, first: str, stood: str, known: Callable[[], KnownLog]
) -> None:
    """Store the state of a log if it changed, and only then call ``known``."""
    path = _log_record_file(root, place)
    kept = _read_known_logs(path)
    if all((one.first, one.stood) != (first, stood) for one in kept):
        _write_known_logs(path, [*(one for one in kept if one.first != first), known()])


def forget_earlier(root: Path, place: str, first: str) -> None:
    """Forget the earlier logs at a place, because a person accepted the current one."""
    path = _log_record_file(root, place)
    known = _read_known_logs(path)
    left = [one for one in known if one.first == first]
    if left != known:
        _write_known_logs(path, left)


def _log_record_file(root: Path, place: str) -> Path:
    name = sha256(os.fsencode(f"{root}\0{place}")).hexdigest()[:32]
    return roots_folder().parent / "logs" / f"{name}.json"


def _read_known_logs(path: Path) -> list[KnownLog]:
    """Return the stored logs, or an empty result if the file is missing or damaged."""
    try:
        return [KnownLog(**one) for one in orjson.loads(read_regular(path))["logs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write_known_logs(path: Path, known: list[KnownLog]) -> None:
    """Write the whole file without fsync: a power failure may restore older content."""
    content = json.dumps({"format": 1, "logs": [asdict(one) for one in known]}, indent=1)
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    with suppress(OSError):
        make_own_folder(path.parent)
        temporary.write_text(f"{content}\n", "utf-8")
        temporary.replace(path)


def was_asked_before(root: str, question: str) -> bool:
    """Store the question of a root, and return whether it was the last stored one."""
    path = roots_folder().with_name("asked") / sha256(root.encode()).hexdigest()[:32]
    mark = sha256(question.encode()).hexdigest().encode()
    if content_of(path) == mark:
        return True
    with suppress(OSError):
        make_own_folder(path.parent)
        write_whole(path, mark)
        return False
    return True
