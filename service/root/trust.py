"""Remember the databases that this user account has approved.

The configuration of a workflow folder may come from another person, with a clone or an archive.
wfctl sends a password to the database that it connects to. Therefore, it uses a database server, or
a file outside the folder, only if this user account has named it: at the creation of the workflow,
by an option, or with `wfctl db trust`. The approvals are stored outside every workflow folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import orjson

from eventstore.private_files import create_owner_only_folder
from eventstore.regular_files import read_regular
from service.root.atomic_files import content_of, state_folder, write_whole


def roots_folder() -> Path:
    """Return the folder that contains a link to each workflow folder of this user account."""
    return state_folder() / "roots"


def remember_root(root: Path) -> None:
    """Store a link to a workflow folder, so that `wfctl list` finds it. Ignore failures.

    Folders inside ``.wfctl``, in which a stage is computed once more, are not listed.
    """
    if ".wfctl" in root.parts:
        return
    link = roots_folder() / sha256(os.fsencode(root)).hexdigest()[:32]
    with suppress(OSError):
        if os.path.lexists(link):
            return
        create_owner_only_folder(link.parent)
        # A link is created in one atomic step, so no other process can see an incomplete one.
        link.symlink_to(root, target_is_directory=True)


def known_roots() -> list[Path]:
    """Return the known folders that still contain a workflow, by path. Write nothing."""
    try:
        found = [link.readlink() for link in roots_folder().iterdir()]
    except OSError:
        return []
    return sorted(root for root in found if (root / ".wfctl" / "config.toml").is_file())


class KnownLog(NamedTuple):
    """What this user account remembers of a log, to notice its replacement.

    ``first`` and ``began`` are the hash and time of the first event. ``stood`` describes the state
    at the time ``at``, with the version and hash of the last event.
    """

    stream: str
    first: str
    began: str
    version: int
    hash: str
    at: str
    stood: str


def list_earlier_logs(root: Path, place: str, first: str) -> list[KnownLog]:
    """Return the logs that this account remembers for a folder, except the current one.

    ``first`` is the hash of the current log's first event. ``place`` is the workflow or a machine.
    """
    return [one for one in _read_known_logs(_log_record_file(root, place)) if one.first != first]


def remember_log_state(
    root: Path, place: str, first: str, stood: str, known: Callable[[], KnownLog]
) -> None:
    """Store a log and its status, unless this status is already stored.

    ``known`` builds the entry. It is called only if the entry is needed.
    """
    path = _log_record_file(root, place)
    kept = _read_known_logs(path)
    if all((one.first, one.stood) != (first, stood) for one in kept):
        _write_known_logs(path, [*(one for one in kept if one.first != first), known()])


def forget_earlier(root: Path, place: str, first: str) -> None:
    """Forget the earlier logs of a folder, because a person has accepted the current log."""
    path = _log_record_file(root, place)
    known = _read_known_logs(path)
    left = [one for one in known if one.first == first]
    if left != known:
        _write_known_logs(path, left)


def _log_record_file(root: Path, place: str) -> Path:
    name = sha256(os.fsencode(f"{root}\0{place}")).hexdigest()[:32]
    return roots_folder().parent / "logs" / f"{name}.json"


def _read_known_logs(path: Path) -> list[KnownLog]:
    """Return the remembered logs. They are empty if the file is missing or damaged."""
    try:
        return [KnownLog(**one) for one in orjson.loads(read_regular(path))["logs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _write_known_logs(path: Path, known: list[KnownLog]) -> None:
    """Replace the file with the remembered logs.

    fsync is not used for speed, so a power failure may restore older content.
    """
    content = json.dumps({"format": 1, "logs": [one._asdict() for one in known]}, indent=1)
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    with suppress(OSError):
        create_owner_only_folder(path.parent)
        temporary.write_text(f"{content}\n", "utf-8")
        temporary.replace(path)


def was_asked_before(root: str, question: str) -> bool:
    """Return whether the same question was the last one stored for a workflow folder.

    If it was not, store the question.
    """
    path = roots_folder().with_name("asked") / sha256(root.encode()).hexdigest()[:32]
    mark = sha256(question.encode()).hexdigest().encode()
    if content_of(path) == mark:
        return True
    with suppress(OSError):
        create_owner_only_folder(path.parent)
        write_whole(path, mark)
        return False
    return True
