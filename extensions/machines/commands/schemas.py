"""JSON Schemas for machine definitions and state files, for `wfctl schema`."""

from __future__ import annotations

from typing import Any

from extensions.machines.rules.definition import Definition
from extensions.machines.service.complete_command import SHIPPED, load_shipped_definition
from extensions.machines.views.description import build_schemas
from projections.files.schemas import add_schema_uri_and_title


def list_schemas(only: str | None) -> dict[str, Any]:
    """Return JSON Schemas by name, for definitions and the files of built-in types.

    If ``only`` is given, only schemas whose name starts with this word are returned.
    """
    types = [type_ for type_ in SHIPPED if only in (None, type_)]
    found = {
        key: one
        for type_ in types
        for key, one in build_schemas(load_shipped_definition(type_)).items()
    }
    if only in (None, "definition"):
        body = Definition.model_json_schema(by_alias=True)
        found = {
            "definition": add_schema_uri_and_title("definition", body.pop("title"), body),
            **found,
        }
    return found
