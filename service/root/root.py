"""A workflow root: the folder that holds ``.wfctl/``, found as git finds ``.git``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from eventstore.event import RecordedEvent
from eventstore.private import (
    SERVERS,
    is_server,
    let_group_write,
    public,
    read_regular,
    without_login,
)
from service.errors import InvalidOption, NoRoot, RootElsewhere
from service.root.disk import Mark, below, content_of, system_clock, write_whole
from service.root.trust import require_trusted

#: The digest of a file that only grows is taken in two: once its newer part is longer than this
#: (bytes), it is joined to the older one. So an append hashes the newer part alone.
NEWER_PART = 64 * 1024

#: Between two looks at whether a file shows what was appended (s); half a second in all.
_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.15, 0.2)
#: A writer has written the files by then, or never will: it died, or has a root elsewhere.
_LATE = timedelta(seconds=2)

_OF_NOTHING = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Synced:
    """One file as wfctl left it: size in bytes, the log's version it shows.

    ``sha256``, in hex, is that of the bytes from ``base`` on, ``base_sha256`` that of those
    before. ``mark`` tells whether the file can have been touched since.
    """

    stream: str
    version: int
    size: int
    sha256: str
    base: int = 0
    base_sha256: str = _OF_NOTHING
    mark: Mark = field(default_factory=list)
    #: Whether the last byte ended a line.
    fresh: bool = True

    def shows(self, content: bytes) -> bool:
        """Whether ``content`` begins with the bytes that were left, each of them."""
        return (
            len(content) >= self.size
            and digest(content[: self.base]) == self.base_sha256
            and digest(content[self.base : self.size]) == self.sha256
        )


@dataclass(frozen=True, slots=True)
class Sync:
    """What ``sync.json`` holds."""

    head: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Synced] = field(default_factory=dict)

    def version(self, name: str) -> int:
        """Return the version that the file shows, 0 if it was never written."""
        return self.files[name].version if name in self.files else 0

    def having(self, name: str, entry: Synced) -> Sync:
        """Return this with the file ``name`` as it is now."""
        return replace(self, files={**self.files, name: entry})


def digest(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hex."""
    return sha256(content).hexdigest()


def read_sync(path: Path) -> Sync:
    """Return what ``sync.json`` holds; a missing or broken one means that nothing is known."""
    try:
        data = orjson.loads(read_regular(path))
        files = {name: _synced(entry) for name, entry in data["files"].items()}
        return Sync(_head(data["head"]), files)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return Sync()


def _synced(entry: dict[str, Any]) -> Synced:
    """Return what is remembered of a file; raises TypeError where somebody wrote other things."""
    found = Synced(**entry)
    numbers = (found.version, found.size, found.base, *found.mark)
    texts = (found.stream, found.sha256, found.base_sha256)
    if not all(type(n) is int for n in numbers) or not all(isinstance(t, str) for t in texts):
        raise TypeError
    if min(numbers[:3]) < 0:
        raise ValueError
    return found


def _head(head: dict[str, Any]) -> dict[str, Any]:
    if head and not (type(head["version"]) is int and isinstance(head["hash"], str)):
        raise TypeError
    if head and not 0 < head["version"] <= sys.maxsize:
        raise ValueError
    return head


def caught_up(path: Path, names: Iterable[str], newest: RecordedEvent | None) -> Sync:
    """Return what ``sync.json`` holds, if it can be once the files show the newest event."""
    shown = list(names)
    sync = read_sync(path)
    if newest is None or not (system_clock() - datetime.fromisoformat(newest.recorded_at) < _LATE):
        return sync
    for pause in _PAUSES:
        if all(sync.version(name) >= newest.version for name in shown):
            break
        time.sleep(pause)
        sync = read_sync(path)
    return sync


def write_sync(path: Path, sync: Sync) -> None:
    """Write ``sync.json`` whole."""
    content = json.dumps({"format": 1, **asdict(sync)}, indent=1, sort_keys=True)
    write_whole(path, content.encode() + b"\n")


MARKER = ".wfctl"
#: What the stream of a staged workflow begins with; its id follows.
WORKFLOW = "workflow-"
#: The journals a log on SQLite may have; without a choice the file system decides.
JOURNALS = ("wal", "truncate")
_SQLITE = "sqlite:///"


class RootIs(StrEnum):
    """What happened to a root that is not where it was."""

    MOVED = "moved"
    COPIED = "copied"


@dataclass(frozen=True, slots=True)
class Root:
    """The paths of one workflow root.

    ``url`` names the log where it is kept elsewhere; ``journal`` is ``wal`` or ``truncate`` where
    it is not to be chosen by the file system.
    """

    path: Path
    #: Not in the representation, as it may hold a password.
    url: str | None = field(default=None, repr=False)
    journal: str | None = None

    @property
    def folder(self) -> Path:
        """``.wfctl/``."""
        return self.path / MARKER

    def below(self, path: str) -> Path:
        """Return where a path relative to the root is; raises `OutsideRoot` where it is not."""
        return below(self.path, path)

    @property
    def address(self) -> Path | str:
        """The log's file, or the URL of its database on a server.

        A relative path in a URL is taken from the root. Raises `InvalidOption` for a URL of
        another kind, `OutsideRoot` where a link leads to a log that is not this root's.
        """
        if self.url is None:
            return self.below(f"{MARKER}/events.db")
        return address_of(self.url, self.path)

    @property
    def config_file(self) -> Path:
        """``config.toml``: workflow id, database URL, policies."""
        return self.folder / "config.toml"

    @property
    def runner_record(self) -> Path:
        """What the autonomous runner wrote down of itself."""
        return self.folder / "runner.json"

    @property
    def sync_file(self) -> Path:
        """``sync.json``: the last version and digest of each file written."""
        return self.folder / "sync.json"

    @property
    def lock(self) -> Path:
        """The lock under which the root's files are written."""
        return self.folder / "lock"

    @property
    def drift(self) -> Path:
        """Where foreign versions of files are kept."""
        return self.folder / "drift"


def address_of(url: str, start: Path) -> Path | str:
    """Return the path or the server's URL that a database URL names.

    A relative path is taken from ``start``. Raises `InvalidOption` for a URL of another kind.
    """
    if is_server(url):
        return url
    if not url.startswith(_SQLITE) or url == _SQLITE:
        kind = url.partition(":")[0]
        raise InvalidOption(
            f"expected a database URL {_SQLITE}PATH or {SERVERS[0]}USER@HOST/DATABASE, found one "
            f"of the kind {kind!r}",
            kind=kind,
        )
    return start / url.removeprefix(_SQLITE)


@dataclass(frozen=True, slots=True)
class Config:
    """What ``config.toml`` holds; ``workflow`` is None in a root that has only machines."""

    workflow: str | None
    database_url: str | None = field(default=None, repr=False)
    journal: str | None = None
    #: Who is told of decisions, failures and the end: a command line, or an address of the web.
    notify: str | None = None
    #: The name of the archive that the root was made from.
    archive: str | None = None

    @property
    def stream(self) -> str:
        """The stream of the staged workflow."""
        return f"{WORKFLOW}{self.workflow or ''}"


def find_root(start: Path) -> Root:
    """Return the nearest root at or above ``start``; raises `NoRoot`."""
    here = start.resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER / "config.toml").is_file():
            below(folder, MARKER)  # another root's folder may be what a link leads to
            return Root(folder)
    raise NoRoot(here)


def read_config(root: Root) -> Config:
    """Return the root's configuration; raises `InvalidOption` naming what is wrong in it."""
    import tomllib

    try:
        values: dict[str, Any] = tomllib.loads(read_regular(root.config_file).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{root.config_file}: not valid TOML: {error}") from error
    workflow, url, journal, notify, archive = (
        values.get(name) for name in ("workflow", "database_url", "journal", "notify", "archive")
    )
    named = isinstance(workflow, str) or (workflow is None and values.get("machines") is True)
    if not named or not isinstance(url, str | None):
        raise InvalidOption(
            f'{root.config_file}: expected workflow = "…" and perhaps database_url = "…", both '
            f"text, found workflow = {workflow!r} and a {type(url).__name__}"
        )
    if journal not in (None, *JOURNALS):
        raise InvalidOption(
            f"{root.config_file}: expected journal = one of {', '.join(JOURNALS)}, "
            f"found {journal!r}"
        )
    if not isinstance(notify, str | None):
        raise InvalidOption(
            f'{root.config_file}: expected notify = "CMD or URL", found a {type(notify).__name__}'
        )
    if not isinstance(archive, str | None):
        raise InvalidOption(
            f'{root.config_file}: expected archive = "FILE", found a {type(archive).__name__}'
        )
    return Config(workflow, url, journal, notify, archive)


def require_utf8_path(path: Path) -> None:
    """Raise `InvalidOption` if the log, which is UTF-8, cannot name the folder of a workflow."""
    name = os.fsencode(path)
    try:
        name.decode()
    except UnicodeDecodeError:
        shown = name.decode(errors="backslashreplace")
        raise InvalidOption(
            f"expected a root whose path is UTF-8, found {shown}; rename the folder, or choose "
            "another with --root"
        ) from None


def open_root(start: Path, url: str | None, journal: str | None = None) -> tuple[Root, Config]:
    """Return the nearest root and its configuration; what is given goes before what it says.

    In a root that is shared, the umask of this process lets the group write from then on.
    Raises `UntrustedDatabase` where it names a database that nobody of this login agreed to.
    """
    root = find_root(start)
    require_utf8_path(root.path)
    let_group_write(root.path)
    config = read_config(root)
    if not url:
        require_trusted(config.database_url, root.path)
    found = replace(root, url=url or config.database_url, journal=journal or config.journal)
    return found, config


def kept(url: str | None) -> str | None:
    """Return the URL as it may be written down: without a password, and without one's own login.

    git keeps the configuration with the root, and another login uses it as itself.
    """
    if url is None or not is_server(url):
        return url
    import os
    import pwd

    try:
        return without_login(public(url), pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:  # a login without an entry, as in a container
        return public(url)


def config_text(config: Config) -> str:
    """Return the text of ``config.toml``; a password is no part of it."""
    values = {
        "workflow": config.workflow,
        "database_url": kept(config.database_url),
        "journal": config.journal,
        "notify": config.notify,
        "archive": config.archive,
    }
    lines = ["# written by wfctl init", *([] if config.workflow else ["machines = true"])]
    lines += [f"{name} = {_toml(value)}" for name, value in values.items() if value]
    return "\n".join(lines) + "\n"


def _toml(text: str) -> str:
    """Return a text as a basic string of TOML, which no character in it can end."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    # A surrogate can stand in no TOML file, escaped or not.
    letters = (one if one.isprintable() else f"\\U{ord(one):08x}" for one in escaped)
    return f'"{"".join(letters)}"'


Identity = dict[str, Any]
"""``path``, ``device``, ``inode`` and ``host`` of a root; empty if nobody wrote it down."""


def identity(root: Path) -> Identity:
    """Return what tells a root from its copy: path, device and inode, host."""
    status = root.stat()
    return {
        "path": str(root.resolve()),
        "device": status.st_dev,
        "inode": status.st_ino,
        "host": os.uname().nodename,
    }


def known_identity(root: Root, begun: Callable[[], RecordedEvent | None]) -> Identity:
    """Return where the root was said to be last: by somebody, else by the log's first event."""
    said = _said(root).get("identity")
    first = begun() if not said else None
    return dict(said or (first.data.get("root") if first is not None else None) or {})


def check_place(root: Root, known: Identity) -> None:
    """Raise `RootElsewhere` where the root is not the one that is known."""
    here = identity(root.path)
    if known and not is_same(known, here):
        raise RootElsewhere(known, here)


def is_same(known: Identity, here: Identity) -> bool:
    """Whether two identities are of one root."""
    if known.get("path") != here["path"]:
        return False
    return any(known.get(key) == here[key] for key in ("host", "inode"))


def settled(root: Root, known: Identity, how: RootIs | None) -> Identity | None:
    """Take down ``how`` the root came here; return where it is, None if it is where it was.

    Written down is whether what was begun there is its own. Raises `RootElsewhere` if nobody
    says how.
    """
    here = identity(root.path)
    if not known or is_same(known, here):
        return None
    if how is None:
        raise RootElsewhere(known, here)
    said, place = _said(root), {"path": known.get("path"), "host": known.get("host")}
    former = [*said.get("formerly", []), place] if how is RootIs.MOVED else []
    original = place if how is RootIs.COPIED else said.get("copy_of")
    copied = {"copy_of": original} if original else {}
    _say(root, {"is": how.value, "identity": here, "formerly": former, **copied})
    return here


def _say(root: Root, said: dict[str, Any]) -> None:
    record = {"format": 1, **said}
    write_whole(_file(root), json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")


def add_former(root: Root, here: Identity, places: Iterable[tuple[str, str]]) -> None:
    """Write down further places at which the root was, each a path and a host."""
    said = _said(root)
    former = [*said.get("formerly", []), *({"path": path, "host": host} for path, host in places)]
    _say(root, {"is": RootIs.MOVED.value, **said, "identity": here, "formerly": former})


def was_here(root: Root, path: str | None, host: str | None) -> bool:
    """Whether the root was at this path of this host before it was moved here."""
    return {"path": path, "host": host} in _said(root).get("formerly", [])


def original_of(root: Root) -> str | None:
    """Return path and host of the root that this one is a copy of; None if it is not a copy."""
    original = _said(root).get("copy_of")
    return f"{original['path']} on {original['host']}" if original else None


def _file(root: Root) -> Path:
    return root.folder / "root.json"


def _said(root: Root) -> dict[str, Any]:
    """Return what ``root.json`` holds; raises `InvalidOption` where somebody wrote other things."""
    content = content_of(_file(root))
    if content is None:
        return {}
    try:
        found: Any = orjson.loads(content)
    except ValueError:
        found = None
    if not _is_said(found):
        raise InvalidOption(
            f"{_file(root)}: expected where this root was said to be, found other things; take the "
            "file away, and call with `--root-is moved` or `--root-is copied`"
        )
    return dict(found)


def _is_said(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("identity"), dict):
        return False
    original, former = found.get("copy_of", {}), found.get("formerly", [])
    places = [original, *former] if isinstance(former, list) else [None]
    return all(isinstance(one, dict) for one in places) and set(original) in (
        set(),
        {"path", "host"},
    )
