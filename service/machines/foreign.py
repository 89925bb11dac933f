"""What others wrote into a machine's file: taken over where the rules allow, else kept.

What the protocols' own writers wrote becomes the events that it amounts to. What is left waits for
a decision, each part with the rule that does not allow it.
"""

from __future__ import annotations

import json
from typing import Any

from lifecycle.machines.machine import Document, Machine
from lifecycle.payload.drift import DriftDetected
from projections.machines.documents import rendered
from service.files.drift import LISTED, keep, kept_before, recordable
from service.machines.log import MachineLog
from service.machines.writers.amounts import Amounts, amounts
from service.root.root import Root
from service.root.sync import Synced, digest

#: Letters of a rule that a drift says.
_SAID = 300


def found_in(
    root: Root,
    log: MachineLog,
    state: Machine,
    path: str,
    left: Synced | None,
    found: bytes | None,
    now: str,
) -> Amounts | None:
    """Return what a file that somebody else changed amounts to, None where it cannot be read."""
    document, base = decoded(found), decoded(_base(root, log, state, path, left))
    if document is None or base is None or rendered(state)[path].startswith(found or b""):
        return None
    return amounts(root.path, state, path, base, document, now)


def _base(root: Root, log: MachineLog, state: Machine, path: str, left: Synced | None) -> bytes:
    """Return the file as it was left here: as the log had it then, or as an import found it."""
    if left is None:
        return rendered(state)[path]
    then = log.state(left.version) if left.version else None
    shown = rendered(then).get(path, b"") if then is not None else b""
    if digest(shown) == left.sha256:
        return shown
    return kept_before(root, kept_name(state, path), left.sha256) or shown or rendered(state)[path]


def kept_name(state: Machine, path: str) -> str:
    """Return the name under which a foreign version of a file is kept."""
    return f"{state.id}.{path.rpartition('/')[2]}"


def decoded(found: bytes | None) -> Document | None:
    """Return a JSON object, None for anything else."""
    try:
        value = json.loads(found or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def drift(
    root: Root,
    state: Machine,
    path: str,
    base: int,
    found: bytes | None,
    known: Amounts | None,
) -> DriftDetected:
    """Keep the foreign bytes and say what is left of them, field by field, with the rules."""
    if found is None:
        return DriftDetected(file=path, kind="missing", base=base)
    sha = digest(found)
    if rendered(state)[path].startswith(found):
        return DriftDetected(file=path, kind="truncated", base=base, found_sha256=sha)
    listed = told(known) if known is not None else []
    return DriftDetected(
        file=path,
        kind="unreadable" if decoded(found) is None else "changed",
        base=base,
        kept_as=keep(root, kept_name(state, path), found),
        found_sha256=sha,
        differences=listed[:LISTED],
        more=max(len(listed) - LISTED, 0),
    )


def told(known: Amounts) -> list[dict[str, Any]]:
    """Return what is not taken over, field by field, each with the rule that does not allow it."""
    return [
        {**recordable(one), "rule": rule[:_SAID]}
        for one, rule in zip(known.left, known.rules, strict=True)
    ]
