"""Digests of the states that the fold computes from every stored example event.

They belong to one `REDUCER` (version of the fold). A stored state is only reused by the same
version. After a change of the fold or of the state, raise `REDUCER` and run ``python -m
tests.golden.fold_on_file`` to write the digests.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import TypedDict

from lifecycle.event import UnrecordedEvent
from lifecycle.fold.evolve import REDUCER, evolve
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.state.workflow import Workflow
from service.reading.stream_log import to_bytes
from tests.golden.events_on_file import OnFile, examples

PATH = Path(__file__).parent / "fold.json"
CREATED = "workflow.created"


class OnDisk(TypedDict):
    """The version of the fold, and the SHA-256 of the state after each example."""

    reducer: int
    states: dict[str, str]


#: Event types in an order in which each event refers to earlier ones. Examples of other types
#: follow by name.
ORDER = (
    CREATED,
    "attempt.started",
    "stage.launched",
    "attempt.observed",
    "session.started",
    "stage.computed",
    "amendment.proposed",
)


def fact(example: OnFile, version: int) -> UnrecordedEvent:
    """Return an example as the fold sees it, converted to the current version."""
    data = json.loads(json.dumps(example.data))
    for old in range(example.version, VERSIONS[example.type]):
        data = UPCASTERS[example.type, old](data)
    return UnrecordedEvent(
        example.type, data, "2026-03-31T10:00:00.000000Z", version, f"{version:064x}"
    )


def in_order() -> list[OnFile]:
    """Return every example; events that others refer to come first."""
    first = {name: place for place, name in enumerate(ORDER)}
    return sorted(examples(), key=lambda one: (first.get(one.type, len(first)), one.path.name))


def _folded(examples_: list[OnFile]) -> Workflow:
    facts = [fact(example, place) for place, example in enumerate(examples_, 1)]
    state = evolve(None, facts[:1])
    for one in facts[1:]:
        if one.type != CREATED:
            state = evolve(state, [one], {one.hash})
    assert state is not None
    return state


@cache
def rich() -> Workflow:
    """Return the state after folding every example event."""
    return _folded(in_order())


@cache
def usual() -> Workflow:
    """Return the state after a few typical events, which new examples do not change."""
    life = [one for one in in_order() if one.type in ORDER and one.version == 1]
    return _folded(life)


def after(example: OnFile) -> str:
    """Return the SHA-256 of the state after folding an example into `usual`."""
    one = fact(example, usual().head + 1)
    state = evolve(None if one.type == CREATED else usual(), [one], {one.hash})
    assert state is not None
    return hashlib.sha256(to_bytes(state)).hexdigest()


def digests() -> dict[str, str]:
    """Return the digest of the state for each example, by the file name of the example."""
    return {example.path.stem: after(example) for example in in_order()}


def kept() -> OnDisk:
    """Return the stored digests."""
    found: OnDisk = json.loads(PATH.read_text("utf-8"))
    return found


def is_told(before: OnDisk, now: OnDisk) -> bool:
    """Return whether the fold has a new version if it changed. New examples are no change."""
    same = all(now["states"].get(name) == state for name, state in before["states"].items())
    return same or before["reducer"] != now["reducer"]


def main() -> None:
    """Write the digests of the current fold, if its version was raised after a change."""
    now = OnDisk(reducer=REDUCER, states=digests())
    if PATH.exists() and not is_told(kept(), now):
        sys.exit("the fold has changed: raise REDUCER in lifecycle/fold/evolve.py first")
    PATH.write_text(json.dumps(now, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
