"""The report of a completed workflow: made from the log, written where the log says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from eventstore.errors import EventStoreError
from lifecycle.state.workflow import numbered
from lifecycle.words.values import is_report
from projections.files.report import Told, render
from projections.files.results import results, sessions
from projections.words.account import Seen
from service.errors import FilesBehind, InvalidOption, RootElsewhere
from service.questions.audit import records
from service.reading.log import WorkflowLog
from service.root.disk import content_of, write_whole
from service.root.root import Root, RootIs
from service.root.safe_open import OutsideRoot, place_within


def report(log: WorkflowLog, seen: Seen | None = None) -> bytes:
    """Return the report as the log has it now; raises `NoWorkflow` where nothing was created.

    All of it is of one version, whatever others record while it is made. ``seen`` is what a look
    at the files found.
    """
    state = log.replayed()
    [last] = log.store.read(log.stream, after=state.head - 1, upto=state.head)
    return render(
        Told(
            state=state,
            results=results(log.steps(upto=state.head)),
            sessions=sessions(log.steps(upto=state.head)),
            amendments=[record.to_dict() for record in records(log, state.head)],
            head=last.hash,
            seen=seen,
        )
    )


def write_due(root: Root, log: WorkflowLog, path: str | None, seen: Seen | None = None) -> None:
    """Write the report that a completion names, unless it is there; nobody's file is overwritten.

    ``path`` is relative to the root, None where none is due. Raises `FilesBehind` where the disk
    does not let it; the next command that writes tries again.
    """
    # A path that no command of ours records was put into the log: no report is due there.
    if path is None or not is_report(path) or os.path.lexists(root.path / path):
        return
    try:
        with place_within(root.path, path, make=True) as place:
            write_whole(place, report(log, seen))
    except (OSError, EventStoreError, OutsideRoot) as error:
        head = log.store.head(log.stream)
        raise FilesBehind(head.version if head else 0, error) from error


def free_place(root: Root, path: str) -> str:
    """Return ``path``, or the first after it at which nothing lies: report.md, report-2.md."""
    places = (numbered(path, number) for number in count(1))
    return next(place for place in places if not os.path.lexists(root.path / place))


def write_to(path: Path, content: bytes) -> None:
    """Write a report whole; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


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


def known_identity(root: Root, log: WorkflowLog) -> Identity:
    """Return where the root was said to be last: by somebody, else by the log's first event."""
    said = said_identity(root)
    if said:
        return said
    first = next(iter(log.store.read(log.stream, upto=1)), None)
    return dict(first.data.get("root") or {}) if first is not None else {}


def said_identity(root: Root) -> Identity:
    """Return where somebody said that the root is; empty where nobody did."""
    said = _said(root)
    return dict(said["identity"]) if said else {}


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


def adopt(root: Root, known: Identity, how: RootIs) -> None:
    """Write down that the root is here now, and whether what was begun there is its own."""
    said = _said(root)
    former = [*said.get("formerly", []), _place(known)] if how is RootIs.MOVED else []
    record = {"format": 1, "is": how.value, "identity": identity(root.path), "formerly": former}
    original = _place(known) if how is RootIs.COPIED else said.get("copy_of")
    record |= {"copy_of": original} if original else {}
    write_whole(_file(root), json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")


def add_former(root: Root, here: Identity, places: Iterable[tuple[str, str]]) -> None:
    """Write down further places at which the root was, each a path and a host."""
    said = _said(root)
    former = [*said.get("formerly", []), *({"path": path, "host": host} for path, host in places)]
    record = {"format": 1, "is": RootIs.MOVED.value, **said, "identity": here, "formerly": former}
    write_whole(_file(root), json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")


def was_here(root: Root, path: str | None, host: str | None) -> bool:
    """Whether the root was at this path of this host before it was moved here."""
    return {"path": path, "host": host} in _said(root).get("formerly", [])


def original_of(root: Root) -> str | None:
    """Return path and host of the root that this one is a copy of; None where it is none."""
    original = _said(root).get("copy_of")
    return f"{original['path']} on {original['host']}" if original else None


def _place(known: Identity) -> dict[str, Any]:
    return {"path": known.get("path"), "host": known.get("host")}


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
