"""The root of a workflow: the folder that contains ``.wfctl/``.

It is found like the repository of git, by searching the parent folders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from eventstore.database_url import (
    SERVERS,
    is_postgres_url,
    remove_default_url_user,
    url_without_password,
)
from eventstore.event import RecordedEvent
from eventstore.private_files import set_umask_for_shared_folder
from eventstore.regular_files import read_regular
from service.errors import InvalidOption, NoRoot, RootElsewhere
from service.root.atomic_files import content_of, write_whole
from service.root.paths_within_root import resolve_below
from service.root.trusted_databases import require_trusted

MARKER = ".wfctl"
#: Prefix of the name of a workflow's event stream. The id of the workflow follows.
WORKFLOW = "workflow-"
#: Prefix of the name of a phase machine's event stream. The id of the machine follows.
MACHINE = "machine-"
#: Allowed journal modes of an SQLite log. By default, the file system determines the mode.
JOURNALS = ("wal", "truncate")
_SQLITE = "sqlite:///"


class RootIs(StrEnum):
    """The reason why a workflow folder is at a new place: it was moved or copied."""

    MOVED = "moved"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Root:
    """The paths in a workflow folder.

    ``url`` is the address of the log if it is not in the folder. ``journal`` is the journal mode of
    an SQLite log, or None if the file system determines it.
    """

    path: Path
    #: Omit the URL from the representation, because it may contain a password.
    url: str | None = field(default=None, repr=False)
    journal: str | None = None

    @property
    def folder(self) -> Path:
        """The subfolder ``.wfctl/`` of the workflow folder."""
        return self.path / MARKER

    def below(self, path: str) -> Path:
        """Return the absolute path for a path relative to the folder.

        Raises `OutsideRoot` if the path leads out of the folder.
        """
        return resolve_below(self.path, path)

    @property
    def address(self) -> Path | str:
        """Return the path of the log's database file, or the URL of its database server.

        A relative path in a URL is relative to the workflow folder. Raises `InvalidOption` for an
        unsupported URL, and `OutsideRoot` if a symbolic link leads to the log of another folder.
        """
        if self.url is None:
            return self.below(f"{MARKER}/events.db")
        return address_of(self.url, self.path)

    @property
    def config_file(self) -> Path:
        """The file ``config.toml``: workflow id, database URL and policies."""
        return self.folder / "config.toml"

    @property
    def runner_record(self) -> Path:
        """The file in which the background runner records its process."""
        return self.folder / "runner.json"

    @property
    def sync_file(self) -> Path:
        """The file ``sync.json``: the last version and digest of each generated file."""
        return self.folder / "sync.json"

    @property
    def lock(self) -> Path:
        """The lock file for writing the generated files."""
        return self.folder / "lock"

    @property
    def drift(self) -> Path:
        """The folder with copies of manually edited files."""
        return self.folder / "drift"


def address_of(url: str, start: Path) -> Path | str:
    """Return the file path or the server URL that a database URL describes.

    A relative path is relative to ``start``. Raises `InvalidOption` for an unsupported URL.
    """
    if is_postgres_url(url):
        return url
    if not url.startswith(_SQLITE) or url == _SQLITE:
        kind = url.partition(":")[0]
        raise InvalidOption(
            f"the database URL must have the form {_SQLITE}PATH or "
            f"{SERVERS[0]}USER@HOST/DATABASE, but the given URL starts with {kind!r}",
            kind=kind,
        )
    return start / url.removeprefix(_SQLITE)


@dataclass(frozen=True, slots=True)
class Config:
    """The content of ``config.toml``.

    ``workflow`` is the id of the workflow, or None if the folder contains only machines.
    """

    workflow: str | None
    database_url: str | None = field(default=None, repr=False)
    journal: str | None = None
    #: Receiver of notices about decisions, failures and completion: a command line or a web
    #: address.
    notify: str | None = None
    #: Name of the archive from which the workflow folder was restored, if any.
    archive: str | None = None

    @property
    def stream(self) -> str:
        """The name of the event stream of the workflow."""
        return f"{WORKFLOW}{self.workflow or ''}"


def find_root(start: Path) -> Root:
    """Return the nearest workflow folder: ``start`` or one of its parents.

    Raises `NoRoot` if no root exists.
    """
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER / "config.toml").is_file():
            resolve_below(folder, MARKER)  # a link may lead to the folder of another root
            return Root(folder)
    raise NoRoot(here)


def read_config(root: Root) -> Config:
    """Return the content of ``config.toml``.

    Raises `InvalidOption` if a setting is invalid.
    """
    import tomllib

    try:
        values: dict[str, Any] = tomllib.loads(read_regular(root.config_file).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{root.config_file}: not valid TOML: {error}") from error
    workflow, url, journal, notify, archive = (
        values.get(name) for name in ("workflow", "database_url", "journal", "notify", "archive")
    )
    named = isinstance(workflow, str) or (workflow is None and values.get("machines") is True)
    if not named:
        raise InvalidOption(
            f"the setting workflow in {root.config_file} must be text, but it is {workflow!r}"
        )
    if not isinstance(url, str | None):
        raise InvalidOption(
            f"the setting database_url in {root.config_file} must be text, but it has the type "
            f"{type(url).__name__}"
        )
    if journal not in (None, *JOURNALS):
        raise InvalidOption(
            f"the setting journal in {root.config_file} must be one of {', '.join(JOURNALS)}, "
            f"but it is {journal!r}"
        )
    if not isinstance(notify, str | None):
        raise InvalidOption(
            f"the setting notify in {root.config_file} must be a text with a command or a URL, "
            f"but it has the type {type(notify).__name__}"
        )
    if not isinstance(archive, str | None):
        raise InvalidOption(
            f"the setting archive in {root.config_file} must be the path of a file, but it has "
            f"the type {type(archive).__name__}"
        )
    return Config(workflow, url, journal, notify, archive)


def require_utf8_path(path: Path) -> None:
    """Raise `InvalidOption` if the folder's path is not UTF-8, because the log stores it."""
    name = os.fsencode(path)
    try:
        name.decode()
    except UnicodeDecodeError:
        shown = name.decode(errors="backslashreplace")
        raise InvalidOption(
            f"the path of the folder must be valid UTF-8, but it is {shown}. Rename the folder, "
            "or choose another folder with --root"
        ) from None


def open_root(start: Path, url: str | None, journal: str | None = None) -> tuple[Root, Config]:
    """Return the nearest workflow folder and its configuration.

    The arguments override the configuration. If the folder is shared with a group, set the umask of
    this process so that the group can write. Raises `UntrustedDatabase` if this user account has
    not approved the database.
    """
    root = find_root(start)
    require_utf8_path(root.path)
    set_umask_for_shared_folder(root.path)
    config = read_config(root)
    if not url:
        require_trusted(config.database_url, root.path)
    found = replace(root, url=url or config.database_url, journal=journal or config.journal)
    return found, config


def without_secrets(url: str | None) -> str | None:
    """Return the URL without its password and without the name of this user account.

    The configuration with the URL is committed to Git, and other users connect under their own
    names.
    """
    if url is None or not is_postgres_url(url):
        return url
    import os
    import pwd

    try:
        return remove_default_url_user(
            url_without_password(url), pwd.getpwuid(os.geteuid()).pw_name
        )
    except KeyError:  # a user account without an entry, as in a container
        return url_without_password(url)


def config_text(config: Config) -> str:
    """Return the content for ``config.toml``. It contains no password."""
    values = {
        "workflow": config.workflow,
        "database_url": without_secrets(config.database_url),
        "journal": config.journal,
        "notify": config.notify,
        "archive": config.archive,
    }
    lines = ["# written by wfctl init", *([] if config.workflow else ["machines = true"])]
    lines += [f"{name} = {_quote_toml(value)}" for name, value in values.items() if value]
    return "\n".join(lines) + "\n"


def _quote_toml(text: str) -> str:
    """Return text as a quoted TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    # Surrogates are written as escape codes like other unprintable characters, although TOML does
    # not allow them.
    letters = (one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped)
    return f'"{"".join(letters)}"'


Identity = dict[str, Any]
"""``path``, ``device``, ``inode`` and ``host`` of a root, or empty if not recorded."""


def read_identity(root: Path) -> Identity:
    """Return the values that identify a workflow folder: path, device, inode and host.

    A copy of the folder has other values.
    """
    status = root.stat()
    return {
        "path": str(root.resolve()),
        "device": status.st_dev,
        "inode": status.st_ino,
        "host": os.uname().nodename,
    }


def read_recorded_identity(root: Root, begun: Callable[[], RecordedEvent | None]) -> Identity:
    """Return the recorded identity of the workflow folder: path, device, inode and host.

    It comes from the folder's own record, or else from the first event of the log.
    """
    said = _read_root_record(root).get("identity")
    first = begun() if not said else None
    return dict(said or (first.data.get("root") if first is not None else None) or {})


def require_same_place(root: Root, known: Identity) -> None:
    """Raise `RootElsewhere` if the folder is not at its recorded place."""
    here = read_identity(root.path)
    if known and not is_same(known, here):
        raise RootElsewhere(known, here)


def is_same(known: Identity, here: Identity) -> bool:
    """Return whether two identities describe the same workflow folder."""
    if known.get("path") != here["path"]:
        return False
    return any(known.get(key) == here[key] for key in ("host", "inode"))


def record_root_relocation(root: Root, known: Identity, how: RootIs | None) -> Identity | None:
    """Record whether the folder was moved or copied, and return its new identity.

    Return None if the place has not changed. The record determines whether earlier attempts belong
    to this folder. Raises `RootElsewhere` if the place has changed and ``how`` is None.
    """
    here = read_identity(root.path)
    if not known or is_same(known, here):
        return None
    if how is None:
        raise RootElsewhere(known, here)
    said, place = _read_root_record(root), {"path": known.get("path"), "host": known.get("host")}
    former = [*said.get("formerly", []), place] if how is RootIs.MOVED else []
    original = place if how is RootIs.COPIED else said.get("copy_of")
    copied = {"copy_of": original} if original else {}
    _write_root_record(root, {"is": how.value, "identity": here, "formerly": former, **copied})
    return here


def _write_root_record(root: Root, said: dict[str, Any]) -> None:
    record = {"format": 1, **said}
    write_whole(
        _root_record_file(root), json.dumps(record, indent=1, sort_keys=True).encode() + b"\n"
    )


def record_former_places(root: Root, here: Identity, places: Iterable[tuple[str, str]]) -> None:
    """Record further places at which the folder was before. Each is a path and a host."""
    said = _read_root_record(root)
    former = [*said.get("formerly", []), *({"path": path, "host": host} for path, host in places)]
    _write_root_record(
        root, {"is": RootIs.MOVED.value, **said, "identity": here, "formerly": former}
    )


def has_former_place(root: Root, path: str | None, host: str | None) -> bool:
    """Return whether the folder was at this path of this host before it was moved."""
    return {"path": path, "host": host} in _read_root_record(root).get("formerly", [])


def describe_copy_source(root: Root) -> str | None:
    """Return the path and host of the folder from which this one was copied.

    Return None if the folder is not a copy.
    """
    original = _read_root_record(root).get("copy_of")
    return f"{original['path']} on {original['host']}" if original else None


def _root_record_file(root: Root) -> Path:
    return root.folder / "root.json"


def _read_root_record(root: Root) -> dict[str, Any]:
    """Return the content of ``root.json``, the record of the folder's places.

    Raises `InvalidOption` if the file is damaged.
    """
    content = content_of(_root_record_file(root))
    if content is None:
        return {}
    try:
        found: Any = orjson.loads(content)
    except ValueError:
        found = None
    if not _is_valid_root_record(found):
        raise InvalidOption(
            f"the file {_root_record_file(root)}, which records the path of this folder, is "
            "damaged. Remove the file, and add `--root-is moved` or `--root-is copied` to the "
            "command"
        )
    return dict(found)


def _is_valid_root_record(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("identity"), dict):
        return False
    original, former = found.get("copy_of", {}), found.get("formerly", [])
    places = [original, *former] if isinstance(former, list) else [None]
    return all(isinstance(one, dict) for one in places) and set(original) in (
        set(),
        {"path", "host"},
    )
