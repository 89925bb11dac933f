"""Reading a ``workflow-state.json`` of somebody else's, with the line that everything stands on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.plan.imported import problems
from lifecycle.words.document import with_listed_paths
from service.adoption.places import depth_of, lines_of, place_of_constant
from service.documents.plan_file import decode_json
from service.errors import UnimportableState, UnreadablePlan

#: Documents nested deeper are none of a workflow.
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class StateFile:
    """A version of the state: its document, its bytes, and where things stand in it."""

    name: str
    content: bytes
    document: dict[str, Any]
    lines: dict[str, int]
    #: Pointers of the paths that had names: ``{"film": "stage-1/film.xyz"}``, taken as a list.
    named: tuple[str, ...] = ()

    def line(self, pointer: str) -> int:
        """Return the line of a value, or of the nearest thing around it."""
        while pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return self.lines[pointer]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The entries of the document's ``stages``."""
        found: list[dict[str, Any]] = self.document["stages"]
        return found


def read_state(name: str, content: bytes) -> StateFile:
    """Decode and check a state file; ``name`` is what messages call it.

    Raises `UnreadablePlan` with line and column, or `UnimportableState` with every problem.
    """
    text = _text(name, content)
    document = _decode(name, text)
    lines = lines_of(text)
    document, named = _listed(document)
    state = StateFile(name, content, document, lines, named)
    found = [*problems(document)] or [*_unportable(document, "")]
    if found:
        raise UnimportableState(
            name, [f"line {state.line(p)}, {p or '/'}: {why}" for p, why in found]
        )
    return state


def _listed(document: Any) -> tuple[Any, tuple[str, ...]]:
    """Return the document with the paths of its stages as lists, and where they had names."""
    stages = document.get("stages") if isinstance(document, dict) else None
    if not isinstance(stages, list):
        return document, ()
    found = [with_listed_paths(stage) for stage in stages]
    named = [
        f"/stages/{index}/{field}" for index, (_, fields) in enumerate(found) for field in fields
    ]
    return {**document, "stages": [stage for stage, _ in found]}, tuple(named)


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        why = f"byte {content[error.start]:#04x}"
        raise UnreadablePlan(name, "UTF-8", why, line, column) from error


def _decode(name: str, text: str) -> Any:
    if depth_of(text) > _DEPTH:
        raise UnimportableState(name, [f"nested deeper than {_DEPTH} levels"])
    constant = place_of_constant(text)
    try:
        return decode_json(name, text)
    except UnreadablePlan as error:
        if constant is None or error.data["line"] is not None:
            raise
        why = "NaN and Infinity are no JSON numbers"
        raise UnreadablePlan(name, "JSON", why, *constant) from error


def _unportable(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield what the log cannot carry so that it reads back the same."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _unportable(key, place)
            yield from _unportable(child, f"{place}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _unportable(child, f"{place}/{index}")
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield place, "half a character (a surrogate) is no text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield place, "the number is too large"
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield place, "the number has more than 64 bits; write it as text"
