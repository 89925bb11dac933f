"""The schemas in docs/schema, and the shapes that readers of events need.

`python -m tests.golden.schemas_on_file` writes them again.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extensions.machines.rules import payload as machine
from lifecycle.payload import stage, workflow
from lifecycle.payload.base import Payload
from lifecycle.payload.check_data import VALUES as SHAPES_OF_VALUES
from projections.files.schemas import load_schemas

_HERE = Path(__file__).resolve().parents[2]
FOLDER = _HERE / "docs" / "schema"
SHAPES = _HERE / "lifecycle/payload/data_shapes.py"
_HEAD = '''"""The shapes of events' data, written by `python -m tests.golden.schemas_on_file`."""

SHAPES = r"""
'''
_NEEDED = object()
#: Schema keys that only contain text for people.
_WORDS = ("title", "description")


def texts() -> dict[str, str]:
    """Return the expected content of each schema file, by name."""
    return {
        f"{name}.v{schema['$id'].rpartition(':')[2]}.json": json.dumps(
            schema, indent=2, ensure_ascii=False
        )
        + "\n"
        for name, schema in load_schemas().items()
    }


def models() -> Iterator[type[Payload]]:
    """Yield every event model, in the order of the modules; the names of the types follow it."""
    for module in (stage, workflow, machine):
        for found in vars(module).values():
            is_own = inspect.isclass(found) and found.__module__ == module.__name__
            if is_own and issubclass(found, Payload):
                yield found


def shapes() -> str:
    """Return the expected content of `data_shapes.py`, generated from the schemas."""
    rows: dict[str, str] = {}
    for model in models():
        type_ = model.type
        schema = model.model_json_schema()
        for name, part in {**schema.get("$defs", {}), type_: schema}.items():
            if "properties" in part:
                row = " ".join([name, *_fields(part)])
                assert rows.setdefault(name, row) == row, f"{name} has two shapes"
    wrapped = [
        textwrap.fill(rows[name], 100, subsequent_indent="  ", break_on_hyphens=False)
        for name in sorted(rows)
    ]
    return _HEAD + "\n".join(wrapped) + '\n"""\n'


def _fields(schema: Any) -> Iterator[str]:
    """Yield each field with its shape, and with its default if it is optional."""
    assert schema["additionalProperties"] is False
    for name, one in sorted(schema["properties"].items()):
        default = one.get("default", {"array": [], "object": {}}.get(one.get("type"), _NEEDED))
        is_needed = name in schema.get("required", ()) or default is _NEEDED
        text = "" if is_needed else "=" + json.dumps(default).replace(" ", "\\u0020")
        yield f"{name}:{_shape(one)}{text}"


def _shape(schema: Any) -> str:  # noqa: C901 - one case for each form of a schema
    """Return a schema in the notation that `lifecycle.payload.event_types` reads."""
    asked = {key: one for key, one in schema.items() if key not in (*_WORDS, "default")}
    known = [name for name, one in SHAPES_OF_VALUES.items() if one == asked]
    if known:
        return known[0]
    match asked:
        case {"$ref": where, **rest} if not rest:
            name = str(where).rpartition("/")[2]
            return "any" if name == "JsonValue" else name
        case {"anyOf": [one, {"type": "null"}], **rest} if not rest:
            return f"{_shape(one)}?"
        case {"anyOf": others, **rest} if not rest:
            return "|".join(map(_shape, others))
        case {"enum": values, "type": "string", **rest} if not rest:
            return f"({','.join(values)})"
        case {"items": item, "type": "array", **rest} if not rest:
            return f"[{_shape(item)}]"
        case {"additionalProperties": value, "type": "object", **rest} if not rest:
            return "{" + _shape(value) + "}"
        case {"patternProperties": keyed, "type": "object", **rest} if not rest and len(keyed) == 1:
            pattern, value = next(iter(keyed.items()))
            return "{" + _shape({"pattern": pattern, "type": "string"}) + ">" + _shape(value) + "}"
    raise AssertionError(f"no letters are known for {asked}; see lifecycle.payload.event_types")


if __name__ == "__main__":
    if SHAPES.read_text("utf-8") != shapes():
        SHAPES.write_text(shapes(), "utf-8")
        # The program starts again, because the schemas that it writes next depend on the new
        # shapes.
        os.execv(sys.executable, [sys.executable, "-m", "tests.golden.schemas_on_file"])
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, "utf-8")
