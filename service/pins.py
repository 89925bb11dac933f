"""Pins: what this login knows of a log from elsewhere than the log.

One file a workflow id in the user's configuration, outside every root: the hash of the first
event, and the digest of the allowed signers. A history written anew from its first event has
another hash, whatever its chain says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from service.disk import write_whole
from service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Pin:
    """One log as it was when this login made it or agreed to its policy."""

    first: str
    policy: str
    signers: str
    root: str


class UnreadablePins(ServiceError):
    """A pins file that is not what wfctl writes; nothing is trusted on its word."""

    code = "unreadable_pins"


def pins_file(workflow: str, environ: Mapping[str, str] | None = None) -> Path:
    """Return where the pins of a workflow id are kept."""
    values = os.environ if environ is None else environ
    base = values.get("XDG_CONFIG_HOME") or str(Path(values.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "wfctl" / "pins" / f"{workflow}.json"


def read_pins(path: Path) -> list[Pin]:
    """Return the pins of one workflow id; raises `UnreadablePins`."""
    try:
        entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["pins"]
        return [Pin(**entry) for entry in entries]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadablePins(
            f"{path}: expected the pins that wfctl wrote, found something else ({error}); move it "
            "away to go on without pins.",
            path=str(path),
        ) from error


def add_pin(path: Path, pin: Pin) -> None:
    """Keep a pin, in place of an earlier one of the same log."""
    others = [known for known in read_pins(path) if known.first != pin.first]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"format": 1, "pins": [asdict(p) for p in (*others, pin)]}, indent=1)
    write_whole(path, content.encode() + b"\n")
