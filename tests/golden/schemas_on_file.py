"""The schemas in docs/schema, and the shapes that reading asks for.

`python -m tests.golden.schemas_on_file` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projections.files.schemas import schemas
from tests.golden.events_on_file import EVERY

_HERE = Path(__file__).resolve().parents[2]
FOLDER = _HERE / "docs" / "schema"
SHAPES = _HERE / "lifecycle/payload/shapes.py"
_HEAD = '''"""The shapes of events' data, written by `python -m tests.golden.schemas_on_file`."""

SHAPES = r"""'''


def texts() -> dict[str, str]:
    """Return what each file must hold, by its name."""
    return {
        f"{name}.v{schema['$id'].rpartition(':')[2]}.json": json.dumps(
            schema, indent=2, ensure_ascii=False
        )
        + "\n"
        for name, schema in schemas().items()
    }


def shapes() -> str:
    """Return what `lifecycle/payload/shapes.py` must hold: what of the schemas says what may be."""
    found = {type_: _bare(model.model_json_schema()) for type_, model in EVERY.items()}
    text = json.dumps(found, sort_keys=True, separators=(",", ":")).replace('},"', '},\n"')
    return f'{_HEAD}{text}"""\n'


def _bare(schema: Any, *, named: bool = False) -> Any:
    """Return a schema without words for people; ``named``: its keys are names of fields."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    words = () if named else ("title", "description")
    return {
        key: _bare(value, named=key in ("properties", "$defs", "patternProperties"))
        if key != "default"
        else value
        for key, value in schema.items()
        if key not in words
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, "utf-8")
    SHAPES.write_text(shapes(), "utf-8")
