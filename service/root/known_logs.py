"""The logs that this login wrote in a root, kept outside of it: how each stood.

One file a root and place in it. What is not the log that is there now was there before: the root's
own folder was removed, and a log begun anew. Whoever can write as this login can remove this too.
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

from eventstore.private import make_own_folder
from eventstore.regular import read_regular
from service.root.known_roots import folder


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
    """Keep how a log stands if that has changed, as ``known`` returns it; else it is not called.

    Where nothing can be kept, wfctl works as well.
    """
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
    """Return what is kept; nothing where it is not of ours."""
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
