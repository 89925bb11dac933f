"""One stored example of every event type and schema version, and the schema it was written by.

``python -m tests.golden.events_on_file`` writes the schemas of today's versions anew. A version
that was released is never written anew: raise ``schema_version``, add an upcaster, and put an
example of the new version beside the old one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle.payload.event_types import VERSIONS
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import model_of

#: Event type → its model, of workflows and machines.
EVERY = {type_: model_of(type_) for type_ in VERSIONS}
FOLDER = Path(__file__).parent / "events"


class OnFile(NamedTuple):
    """An example as it is kept: the event's data, and the JSON Schema of that version."""

    path: Path
    type: str
    version: int
    data: dict[str, Any]
    schema: dict[str, Any]


def path_of(type_: str, version: int) -> Path:
    """Return where the example of a type and version is kept."""
    return FOLDER / f"{type_}.v{version}.json"


def examples() -> Iterator[OnFile]:
    """Yield every example on file."""
    for path in sorted(FOLDER.glob("*.json")):
        type_, _, version = path.stem.rpartition(".v")
        kept = json.loads(path.read_text("utf-8"))
        yield OnFile(path, type_, int(version), kept["data"], kept["schema"])


def schema_of(model: type[Payload]) -> dict[str, Any]:
    """Return the JSON Schema of a payload without what is said about it in words."""
    found = _without_words(model.model_json_schema())
    assert isinstance(found, dict)
    return found


def _without_words(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_words(child) for child in value]
    if not isinstance(value, dict):
        return value
    words = [key for key in ("title", "description") if isinstance(value.get(key), str)]
    return {key: _without_words(child) for key, child in value.items() if key not in words}


def write(type_: str, version: int, data: dict[str, Any]) -> None:
    """Write the example of a type's present version, with the schema it has now."""
    kept = {"data": data, "schema": schema_of(EVERY[type_])}
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    path_of(type_, version).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    for example in examples():
        payload = EVERY.get(example.type)
        if payload is not None and payload.schema_version == example.version:
            write(example.type, example.version, example.data)
