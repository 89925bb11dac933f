"""Which databases this login agreed to, as git keeps the folders that it holds safe.

A root's configuration may have come with a clone or an archive, and whoever is connected to is
sent a password. So a server, or a file outside the root,
that only `config.toml` names is used after somebody of this login
named it: when the root was made, or by `wfctl db trust`. Kept in the user's configuration, outside
every root.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from eventstore.private import is_server, make_own_folder, read_regular
from service.errors import ServiceError
from service.root.disk import config_folder, write_whole
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
    if name is not None and name not in _trusted():
        raise UntrustedDatabase(name, root / ".wfctl" / "config.toml")


def trust(url: str | None, root: Path) -> None:
    """Agree to the database that a root names; ``url`` has no password."""
    name = _name(url, root)
    if name is not None and name not in _trusted():
        _keep({"databases": [*_trusted(), name]})


def is_notice_trusted(receiver: str, root: Path) -> bool:
    """Whether somebody of this login agreed that this root's configuration names who is told.

    The agreement is of this root alone: the same words may name another program elsewhere.
    """
    return _notice(receiver, root) in _kept().get("notices", [])


def trust_notice(receiver: str, root: Path) -> None:
    """Agree to whom a root's configuration names to be told."""
    if not is_notice_trusted(receiver, root):
        _keep({"notices": [*_kept().get("notices", []), _notice(receiver, root)]})


def _notice(receiver: str, root: Path) -> str:
    return f"{os.path.realpath(root)}: {receiver}"


def _keep(more: dict[str, list[str]]) -> None:
    path = trusted_file()
    make_own_folder(path.parent)
    content = {"format": 1, **_kept(), **more}
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")


def _name(url: str | None, root: Path) -> str | None:
    """Return what is agreed to: a server's URL, or a file's by its own path; None for neither."""
    if url is None or is_server(url):
        return url
    if not url.startswith(_SQLITE):
        return None  # refused elsewhere, by its kind
    real = os.path.realpath(root / url.removeprefix(_SQLITE))
    return None if Path(real).is_relative_to(os.path.realpath(root)) else f"{_SQLITE}{real}"


def _trusted() -> list[str]:
    return _kept().get("databases", [])


def _kept() -> dict[str, list[str]]:
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
