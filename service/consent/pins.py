"""Pins: what this login knows of a log from elsewhere than the log.

One file a root in the user's configuration, outside every root: for each log that the root has, the
hash of its first event and the digest of the allowed signers. A history written anew from its
first event has another hash, whatever its chain says; so has another log that was put there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.private import make_own_folder
from lifecycle.errors import NeedsConsent
from service.errors import ServiceError
from service.root.disk import config_folder, write_whole
from wording import Worded

_WORKFLOW = "workflow-"


class Pin(NamedTuple):
    """One log as it was when this login made it or agreed to its policy.

    ``first`` is the hash of its first event, ``signers`` the digest of its signers, ``root`` the
    place that it is pinned at.
    """

    first: str
    policy: str
    signers: str
    root: str
    stream: str

    @property
    def place(self) -> str:
        """What there is one of in a root: the staged workflow, or a machine of an id."""
        return place_of(self.stream)


class UnreadablePins(ServiceError):
    """A pins file that is not what wfctl writes; nothing is trusted on its word."""

    code = "unreadable_pins"


class AnotherLog(Worded, NeedsConsent):
    """Nothing is begun or changed by a log that is not the one that is pinned in its root."""

    code = "another_log"
    text = (
        "{why}. Nothing was begun or changed; what only reads shows the log. Put the pinned "
        "one back, or, where this one is as it should be, a person runs `wfctl pin --replace`."
    )
    untold = ("why",)
    why: str
    stream: str
    pinned: list[str]


def place_of(stream: str) -> str:
    """Return what a stream is in its root: a root has one workflow, whatever its id."""
    return "workflow" if stream.startswith(_WORKFLOW) else stream


def pinned_at(root: Path, stream: str) -> list[Pin]:
    """Return the pins of the workflow, or of the machine, in a root; raises `UnreadablePins`."""
    pins = [*_read(_file_of(root)), *(pin for pin in _older() if pin.root == str(root))]
    return [pin for pin in pins if pin.place == place_of(stream)]


def every_pin() -> Iterator[Pin]:
    """Yield every pin of this login; raises `UnreadablePins`."""
    for path in sorted((_folder() / "roots").glob("*.json")):
        yield from _read(path)
    yield from _older()


def keep_pin(root: Path, pin: Pin) -> None:
    """Keep the pin of a log in its root, in place of what was pinned there."""
    path = _file_of(root)
    others = [known for known in _read(path) if known.place != pin.place]
    make_own_folder(path.parent)
    pins = [one._asdict() for one in (*others, pin)]
    _write(path, {"format": 2, "root": str(root), "pins": pins})
    for older in sorted(_folder().glob("*.json")):
        entries = _entries(older)
        same = place_of(_older_stream(older)) == pin.place
        left = [entry for entry in entries if not (same and entry["root"] == str(root))]
        if left != entries:
            _write(older, {"format": 1, "pins": left})


def _folder() -> Path:
    return config_folder() / "pins"


def _file_of(root: Path) -> Path:
    name = sha256(os.fsencode(root)).hexdigest()[:40]
    return _folder() / "roots" / f"{name}.json"


def _read(path: Path) -> list[Pin]:
    return [Pin(**entry) for entry in _entries(path)]


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text("utf-8"))["pins"]
        names = {"first", "policy", "signers", "root"}
        if all(names <= set(entry) <= names | {"stream"} for entry in entries):
            return list(entries)
        raise ValueError(f"a pin has {', '.join(sorted(names))}")
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadablePins(
            f"{path}: expected the pins that wfctl wrote, found something else ({error}); move it "
            "away to go on without pins.",
            path=str(path),
        ) from error


def _older() -> Iterator[Pin]:
    """Yield the pins of the earlier form: one file a workflow id, one pin a log."""
    for path in sorted(_folder().glob("*.json")):
        for entry in _entries(path):
            yield Pin(**entry, stream=_older_stream(path))


def _older_stream(path: Path) -> str:
    return path.stem if path.stem.startswith("machine-") else f"{_WORKFLOW}{path.stem}"


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")
