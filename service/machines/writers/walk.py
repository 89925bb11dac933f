"""Taking a machine on by the rules, as far as a file of others leads."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventstore.codec import canonical
from eventstore.errors import InvalidData
from lifecycle.errors import LifecycleError
from lifecycle.machines.decide import after, decide, targets
from lifecycle.machines.errors import InvalidTransition
from lifecycle.machines.machine import Document, Machine
from lifecycle.machines.path import look
from lifecycle.machines.payload import Change, MachineUpdated
from lifecycle.payload.base import Payload
from lifecycle.words.document import layout_of
from service.machines.completing import completed
from service.machines.evidence import evidence

Path_ = tuple[str, ...]
"""A field of a file: its keys from the outside in."""


@dataclass(slots=True)
class Walk:
    """A machine on its way: where it stands, what was recorded for it, which rules refused what.

    ``base`` is the file as wfctl last left it, ``found`` as it is now; ``now`` is UTC in the
    log's form.
    """

    root: Path
    state: Machine
    file: str
    base: Document
    found: Document
    now: str
    #: The file as the log has it now.
    present: Document = field(default_factory=dict)
    #: When the log's last event was: what the file says of times before that does not count.
    since: str = ""
    taken: list[tuple[Payload, str]] = field(default_factory=list)
    refused: dict[Path_, LifecycleError] = field(default_factory=dict)
    #: The commands that the rules took.
    asked: list[Payload] = field(default_factory=list)

    def changed(self, *path: str) -> bool:
        """Whether others changed what stands at a path, and the log does not have it so."""
        value = look(self.found, path)
        return not (same(look(self.base, path), value) or same(look(self.present, path), value))

    def tries(self, command: Payload, path: Path_, at: str | None = None) -> bool:
        """Carry a command out, as if it had been asked for; False where the rules refuse it.

        ``at`` is when the file says that it was so, None where it does not say.
        """
        state = self.state
        moment = at or self.now
        try:
            told = completed(self.root, self.file, command, state)
            decided = decide(state, told, moment, evidence(self.root, state))
        except LifecycleError as refusal:
            self.refused[path] = refusal
            return False
        self.asked.append(command)
        self.facts([self._with_older(one, at or self.since) for one in decided], moment)
        return True

    def _with_older(self, payload: Payload, began: str) -> Payload:
        """What was written since the work began is of that work, though it is recorded later."""
        earlier = getattr(payload, "earlier", None)
        if not earlier:
            return payload
        start = datetime.fromisoformat(began).timestamp()
        older = {
            name: mark
            for name, mark in earlier.items()
            if (int(mark.rpartition("@")[2]) / 1e9) < start
        }
        return payload.model_copy(update={"earlier": older})

    def facts(self, payloads: list[Payload], at: str | None = None) -> None:
        """Record what is so whatever the rules say."""
        if payloads:
            self.state = after(self.state, payloads, at or self.now)
            self.taken += [(payload, at or self.now) for payload in payloads]

    def fields(self, changes: dict[Path_, Any]) -> None:
        """Record fields that are others' own."""
        listed = [
            Change(path=".".join(path), value=value)
            for path, value in changes.items()
            if all(map(is_field, path)) and is_recordable(value)
        ]
        if listed:
            layout = layout_of([change.model_dump(mode="json") for change in listed])
            self.facts([MachineUpdated(changes=listed, layout=layout)])

    def refuses(self, path: Path_, target: Any, why: str) -> None:
        """Say why a change is not taken over: where it would lead, and what there is instead."""
        named = f"{target!s:.60}"
        self.refused[path] = InvalidTransition(self.state.phase, named, why, targets(self.state))

    def route(self, wanted: Any, path: Path_) -> list[str] | None:
        """Return the events that lead the phase to a status, None where the rules have none."""
        found = _route(self.state, wanted)
        if found is None:
            self.refuses(path, wanted, f"no event leads there from {self.state.status}")
        return found

    def time(self, said: Any) -> str | None:
        """Return a time that the file gives, if it can be: not before the log's last, nor to come.

        Files give whole seconds.
        """
        moment = log_time(said)
        if moment is None or moment > self.now or moment[:19] < self.since[:19]:
            return None
        return max(moment, self.since)


def _route(state: Machine, wanted: Any) -> list[str] | None:
    kinds = {n: k for n, k in state.definition.events.items() if k.of_phase and k.status}
    seen: set[Any] = {state.status}
    open_: deque[tuple[Any, list[str]]] = deque([(state.status, [])])
    while open_:
        status, way = open_.popleft()
        if status == wanted:
            return way
        for name, kind in kinds.items():
            if status in kind.after and kind.status not in seen:
                seen.add(kind.status)
                open_.append((kind.status, [*way, name]))
    return None


def same(one: Any, other: Any) -> bool:
    """Whether two values are written the same: 1, 1.0 and true differ."""
    return one is other or json.dumps(one) == json.dumps(other)


def is_field(key: str) -> bool:
    """Whether a key can be a part of a dot path."""
    return bool(key) and not any(letter in key for letter in ".[] \t\n")


def is_recordable(value: Any) -> bool:
    """Whether the log can hold a value: no number too large, no half letter, not too deep."""
    try:
        change = Change(path="theirs", value=value).model_dump(mode="json")
        canonical({"data": {"changes": [change]}})
    except (ValueError, InvalidData):
        return False
    return True


def log_time(said: Any) -> str | None:
    """Return a time with an offset in the log's form, None for what is none."""
    try:
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
        if moment is None or moment.tzinfo is None:
            return None
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        return None
