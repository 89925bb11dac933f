"""The schemas in docs/schema: `python -m tests.golden.schemas_on_file` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

from projections.schemas import file_name, schemas

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schema"


def texts() -> dict[str, str]:
    """Return what each file must hold, by its name."""
    return {
        file_name(name): json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, "utf-8")
