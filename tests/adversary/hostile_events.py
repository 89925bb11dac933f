"""Generate events with a valid hash and a valid link, and with arbitrary data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lifecycle.payload.event_types import STAGED, EventType
from tests.adversary import raw
from tests.golden.events_on_file import examples

_TEXTS = (
    "",
    "stage-1",
    "stage-99",
    "att-0001",
    "amend-1",
    "\0",
    "\x1b[2J",
    "\u202e\u200b",
    "../../../evil",
    "/etc/passwd",
    "9" * 5000,
    "x" * 30_000,
    "\n[2026-01-01T00:00:00+00:00] Workflow completed.",
    "2026-13-45T99:99:99.000000Z",
)
_NUMBERS = (0, -1, 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 1.7e308, -1e9, 5e-324, True, False)


class Hostile:
    """A seeded generator of hostile events of the given types that continue a stream."""

    def __init__(self, seed: int, types: Mapping[str, EventType] = STAGED) -> None:
        self._chance = random.Random(seed)
        self._types = types
        self._data = {example.type: example.data for example in examples() if example.type in types}

    def events(self, last: raw.Body, number: int) -> Iterator[tuple[raw.Body, str]]:
        """Yield envelopes with their texts. Each envelope continues the previous one."""
        body = last
        for _ in range(number):
            body = self._next(body)
            text = raw.spelled(body)
            yield body, text
            body = {**body, "hash": raw.sha(text)}

    def _next(self, last: raw.Body) -> raw.Body:
        version = last["version"] + 1
        type_ = self._chance.choice(list(self._data))
        body = {k: v for k, v in last.items() if k != "hash"}
        moment = "2026-11-22T10:00:00.000000Z"
        own = f"hostile-{body['stream']}-{version}"
        named = {"event_id": own, "command_id": own}
        body |= {"type": type_, "version": version, "prev_hash": last["hash"], **named}
        body |= {"schema_version": self._types[type_].version, "occurred_at": moment}
        body |= {"session": None, "recorded_at": moment, "utc_offset": "+00:00"}
        body["actor"] = {"kind": "user", "name": "pi"}
        body["data"] = self._bent(self._data[type_])
        if self._chance.random() < 0.2:
            field = self._chance.choice(["occurred_at", "actor", "session", "utc_offset", "data"])
            body[field] = anything(self._chance, 3)
        return body

    def _bent(self, data: dict[str, Any]) -> Any:
        found = dict(data)
        for _ in range(self._chance.randrange(3)):
            way: Callable[[dict[str, Any]], None] = self._chance.choice(
                [self._changed, self._dropped, self._added]
            )
            way(found)
        return found

    def _changed(self, data: dict[str, Any]) -> None:
        if data:
            data[self._chance.choice(list(data))] = anything(self._chance, 3)

    def _dropped(self, data: dict[str, Any]) -> None:
        if data:
            del data[self._chance.choice(list(data))]

    def _added(self, data: dict[str, Any]) -> None:
        data[self._chance.choice(["stage", "amendment", "proof", "text", "unknown"])] = anything(
            self._chance, 3
        )


def anything(chance: random.Random, depth: int) -> Any:
    """Return a random JSON value with at most ``depth`` levels."""
    kind = chance.randrange(6 if depth else 4)
    if kind == 0:
        return chance.choice(_TEXTS)
    if kind == 1:
        return chance.choice(_NUMBERS)
    if kind == 2:
        return None
    if kind == 3:
        return f"stage-{chance.randrange(1, 5)}"
    if kind == 4:
        return [anything(chance, depth - 1) for _ in range(chance.randrange(4))]
    keys = [chance.choice(_TEXTS) for _ in range(chance.randrange(4))]
    return {key: anything(chance, depth - 1) for key in keys}
