"""Which databases this login agreed to, as git keeps the folders that it holds safe.

A root's configuration may have come with a clone or an archive, and anyone who is connected to is
sent a password. So a server, or a file outside the root,
that only `config.toml` names is used after somebody of this login
named it: when the root was made, or by `wfctl db trust`. Kept in the user's configuration, outside
every root.
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

from eventstore.private import is_server, make_own_folder, read_regular
from service.errors import ServiceError
from service.root.disk import config_folder, content_of, state_folder, write_whole
from wording import Worded

_SQLITE = "sqlite:///"


class UntrustedDatabase(Worded, ServiceError):
    """A configuration names a database that nobody of this login agreed to."""

    code = "untrusted_database"
    text = (
        "{config} names the database {url}, and nobody of this login agreed to it: it may have "
        "come with a copy of somebody else's. If it is yours, a person says so once, with "
        "`wfctl db trust`; --database-url names a database for one command."
    )
    url: str
    config: Path


def trusted_file() -> Path:
    """Return where it is kept."""
    return config_folder() / "databases.json"


def require_trusted(url: str | None, root: Path) -> None:
    """Raise `UntrustedDatabase` for a database that a root's configuration names, if none of ours.

    What lies below the root itself needs no agreement.
    """
    name = _name(url, root)
    if name is not None and name not in _kept("databases"):
        raise UntrustedDatabase(name, root / ".wfctl" / "config.toml")


def trust(url: str | None, root: Path) -> None:
    """Agree to the database that a root names; ``url`` has no password."""
    name = _name(url, root)
    if name is not None:
        _keep("databases", name)


def is_notice_trusted(receiver: str, root: Path) -> bool:
    """Whether somebody of this login agreed that this root's configuration names who is told.

    The agreement is of this root alone: the same words may name another program elsewhere.
    """
    return _notice(receiver, root) in _kept("notices")


def trust_notice(receiver: str, root: Path) -> None:
    """Agree to whom a root's configuration names to be told."""
    _keep("notices", _notice(receiver, root))


def _notice(receiver: str, root: Path) -> str:
    return f"{os.path.realpath(root)}: {receiver}"


def _keep(kind: str, name: str) -> None:
    names = _kept(kind)
    if name in names:
        return
    path = trusted_file()
    make_own_folder(path.parent)
    content = {"format": 1, **_all_kept(), kind: [*names, name]}
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")


def _name(url: str | None, root: Path) -> str | None:
    """Return what is agreed to: a server's URL, or a file's by its own path; None for neither."""
    if url is None or is_server(url):
        return url
    if not url.startswith(_SQLITE):
        return None  # refused elsewhere, by its kind
    real = os.path.realpath(root / url.removeprefix(_SQLITE))
    return None if Path(real).is_relative_to(os.path.realpath(root)) else f"{_SQLITE}{real}"


def _kept(kind: str) -> list[str]:
    return _all_kept().get(kind, [])


def _all_kept() -> dict[str, list[str]]:
    """Return what was agreed to, by its kind; nothing by a file that is not of ours."""
    try:
        found = json.loads(read_regular(trusted_file()))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    kinds = {kind: found.get(kind) for kind in ("databases", "notices")}
    return {
        kind: [one for one in names if isinstance(one, str)]
        for kind, names in kinds.items()
        if isinstance(names, list)
    }


def folder() -> Path:
    """Return where they are kept."""
    return state_folder() / "roots"


def remember(root: Path) -> None:
    """Keep that there is a root; if nothing can be kept it is not listed, and works as well."""
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
    """Return what is kept; nothing if it is not of ours."""
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
