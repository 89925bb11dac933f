"""Databases and notice programs that this user trusts."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eventstore.database_url import is_postgres_url
from eventstore.private_files import create_owner_only_folder
from eventstore.regular_files import read_regular
from service.errors import ServiceError
from service.root.atomic_files import config_folder, write_whole
from wording import TemplatedError

_SQLITE = "sqlite:///"


class UntrustedDatabase(TemplatedError, ServiceError):
    """The configuration names a database that this user account has not approved."""

    code = "untrusted_database"
    text = (
        "{config} names the database {url}, which this user account has not approved; the "
        "file may come from a copied folder. If the database is yours, approve it once with "
        "`wfctl db trust`. To use another database for one command, add --database-url."
    )
    url: str
    config: Path


def trusted_file() -> Path:
    """Return the path of the file with the approvals of this user account."""
    return config_folder() / "databases.json"


def require_trusted(url: str | None, root: Path) -> None:
    """Raise `UntrustedDatabase` if this account has not approved a folder's database.

    A database file inside the folder needs no approval.
    """
    name = _find_database_to_approve(url, root)
    if name is not None and name not in _list_trusted("databases"):
        raise UntrustedDatabase(name, root / ".wfctl" / "config.toml")


def trust_database(url: str | None, root: Path) -> None:
    """Store the approval of a folder's database. ``url`` must not contain a password."""
    name = _find_database_to_approve(url, root)
    if name is not None:
        _add_trusted("databases", name)


def is_notice_trusted(receiver: str, root: Path) -> bool:
    """Return whether this account has approved the receiver of notices in this folder.

    Each folder needs its own approval, because the same command can mean another program there.
    """
    return _notice_name(receiver, root) in _list_trusted("notices")


def trust_notice(receiver: str, root: Path) -> None:
    """Store the approval of the receiver of notices that a folder's configuration names."""
    _add_trusted("notices", _notice_name(receiver, root))


def _notice_name(receiver: str, root: Path) -> str:
    return f"{os.path.realpath(root)}: {receiver}"


def _add_trusted(kind: str, name: str) -> None:
    names = _list_trusted(kind)
    if name in names:
        return
    path = trusted_file()
    create_owner_only_folder(path.parent)
    content = {"format": 1, **_read_trusted(), kind: [*names, name]}
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")


def _find_database_to_approve(url: str | None, root: Path) -> str | None:
    """Return the server URL or the real path of the database file to approve.

    Return None if the database needs no approval.
    """
    if url is None or is_postgres_url(url):
        return url
    if not url.startswith(_SQLITE):
        return None  # other kinds are refused elsewhere
    real = os.path.realpath(root / url.removeprefix(_SQLITE))
    return None if Path(real).is_relative_to(os.path.realpath(root)) else f"{_SQLITE}{real}"


def _list_trusted(kind: str) -> list[str]:
    return _read_trusted().get(kind, [])


def _read_trusted() -> dict[str, list[str]]:
    """Return the stored approvals by kind.

    They are empty if the file is missing or damaged.
    """
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
