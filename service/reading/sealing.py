"""The seal of a kept state: it shows that this login folded it from a log that it had checked.

A state that is kept in the log's database is a row like others: whoever writes rows can write one.
So it counts only under a seal made with a key that lies outside the database, in the login's own
state folder. Another login, or a program that has SQL on the log and no more, cannot make one. A
program of the same login can: against that nothing on one login holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any

import orjson

from eventstore.event import RecordedEvent
from lifecycle.fold.foldable import SET_ASIDE, State, newest_aside
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Attempt, Drift, Session, Stage, Workflow

_KEY_BYTES = 32
_SEAL_BYTES = 32


class Seal:
    """Seals what is kept, and knows its own seals again."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def name(self) -> str:
        """What tells this login's seals from another's; the key cannot be found from it."""
        return blake2b(b"name", key=self._key, digest_size=8).hexdigest()

    def sealed(self, content: bytes, purpose: str) -> bytes:
        """Return the content behind its seal; ``purpose`` says of what it is the content."""
        return self._of(content, purpose) + content

    def opened(self, kept: bytes, purpose: str) -> bytes | None:
        """Return the content behind a seal, None where the seal is not of it."""
        seal, content = kept[:_SEAL_BYTES], kept[_SEAL_BYTES:]
        return content if compare_digest(seal, self._of(content, purpose)) else None

    def _of(self, content: bytes, purpose: str) -> bytes:
        made = blake2b(key=self._key, digest_size=_SEAL_BYTES)
        made.update(len(purpose).to_bytes(8, "big"))
        made.update(purpose.encode("utf-8", "surrogateescape"))
        made.update(content)
        return made.digest()


def key_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the key of this login is kept: outside every root and every database."""
    values = os.environ if environ is None else environ
    base = values.get("XDG_STATE_HOME") or str(Path(values.get("HOME", "~")) / ".local/state")
    return Path(base).expanduser() / "wfctl" / "seal.key"


def known_seal() -> Seal | None:
    """Return the login's seal, None where it never made one; nothing is written."""
    key = known_secret(key_file())
    return Seal(key) if key is not None else None


def own_seal() -> Seal | None:
    """Return the login's seal, made now where there is none; None where none can be kept."""
    key = own_secret(key_file())
    return Seal(key) if key is not None else None


def known_secret(path: Path) -> bytes | None:
    """Return the 32 bytes that a file of this login keeps, None where it has none."""
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def own_secret(path: Path) -> bytes | None:
    """Return the 32 bytes of a file, made now where it has none; None where none can be kept."""
    known = known_secret(path)
    if known is not None:
        return known
    import secrets  # a key is made once; its import opens six files

    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            # Whole or not at all, and never in place of the key of somebody who was quicker.
            path.hardlink_to(new)
        finally:
            new.unlink()
    except OSError:
        return known_secret(path)
    return known_secret(path)


NAME = "workflow"


def to_bytes(state: Workflow) -> bytes:
    """Return the state as JSON; key order is kept."""
    return orjson.dumps(state)


def from_bytes(content: bytes) -> Workflow:
    """Return the state that `to_bytes` wrote."""
    return from_values(orjson.loads(content))


def from_values(data: dict[str, Any]) -> Workflow:
    """Return the state of the values that its JSON holds; they are the state's own from then on."""
    data["session"] = Session(**data["session"])
    data["amendments"] = {key: Amendment(**value) for key, value in data["amendments"].items()}
    data["drifts"] = [Drift(**drift) for drift in data["drifts"]]
    data["stages"] = {key: _stage(value) for key, value in data["stages"].items()}
    return Workflow(**data)


def _stage(data: dict[str, Any]) -> Stage:
    data["status"] = Status(data["status"])
    data["attempts"] = [Attempt(**attempt) for attempt in data["attempts"]]
    return Stage(**data)


#: So many are told one by one; `wfctl fsck` lists all.
_TOLD = 5


def as_folded(event: RecordedEvent, state: State) -> RecordedEvent:
    """Return the event, or what is shown in its place where the fold set it aside.

    So nobody who follows a fold comes upon data that means nothing in its state.
    """
    found = newest_aside(state, event.version)
    if found is None or event.type == SET_ASIDE:
        return event
    return event.aside(found["why"])


def told(state: State) -> list[str]:
    """Say of each event that was set aside which it is, and why; of the first few."""
    found = [
        f"version {one['version']} ({one['type']!r:.80}) counts for nothing: {one['why']}"
        for one in state.set_aside[:_TOLD]
    ]
    more = len(state.set_aside) - _TOLD
    return (
        [*found, f"{more} more events count for nothing; see `wfctl fsck`"] if more > 0 else found
    )
