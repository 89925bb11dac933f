"""One stored example of every event type and schema version, with its schema.

``python -m tests.golden.events_on_file`` writes the schemas of the current versions. Never change a
released version: raise ``schema_version``, add an upcaster, and add an example of the new version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle.payload.event_types import VERSIONS
from lifecycle.payload.models import Payload
from projections.files.event_models import find_event_model

#: Event type → model, for workflows and machines.
EVERY = {type_: find_event_model(type_) for type_ in VERSIONS}
FOLDER = Path(__file__).parent / "events"


class OnFile(NamedTuple):
    """A stored example: the data of an event, and the JSON Schema of its version."""

    path: Path
    type: str
    version: int
    data: dict[str, Any]
    schema: dict[str, Any]


def path_of(type_: str, version: int) -> Path:
    """Return the path of the example of a type and version."""
    return FOLDER / f"{type_}.v{version}.json"


def examples() -> Iterator[OnFile]:
    """Yield every stored example."""
    for path in sorted(FOLDER.glob("*.json")):
        type_, _, version = path.stem.rpartition(".v")
        kept = json.loads(path.read_text("utf-8"))
        yield OnFile(path, type_, int(version), kept["data"], kept["schema"])


def schema_of(model: type[Payload]) -> dict[str, Any]:
    """Return the JSON Schema of a payload without titles and descriptions."""
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
    """Write the example of a type's current version, with its current schema."""
    kept = {"data": data, "schema": schema_of(EVERY[type_])}
    text = json.dumps(kept, indent=2, ensure_ascii=False)
    path_of(type_, version).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    for example in examples():
        payload = EVERY.get(example.type)
        if payload is not None and payload.schema_version == example.version:
            write(example.type, example.version, example.data)
