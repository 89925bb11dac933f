"""Where a root is and was: what tells it from its copy, and the file that says how it came."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from service.errors import InvalidOption, RootElsewhere
from service.root.disk import content_of, write_whole
from service.root.root import Root, RootIs

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent

Identity = dict[str, Any]
"""``path``, ``device``, ``inode`` and ``host`` of a root; empty where nobody wrote it down."""


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
    """Take down ``how`` the root came here; return where it is, None where it is where it was.

    Written down is whether what was begun there is its own. Raises `RootElsewhere` where nobody
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
