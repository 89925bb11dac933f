"""From names and dictionaries to payloads, and what versions of them there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from lifecycle.errors import InvalidPayload, UnknownEventType
from lifecycle.payload import PAYLOADS, Payload

#: Event type → the schema version that is written today.
VERSIONS: Mapping[str, int] = {name: model.schema_version for name, model in PAYLOADS.items()}

#: (event type, schema version) → what lifts its data by one version.
UPCASTERS: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}


def payload_of(type_: str, data: dict[str, Any]) -> Payload:
    """Return the payload of this type; raises `UnknownEventType` or `InvalidPayload`."""
    model = PAYLOADS.get(type_)
    if model is None:
        raise UnknownEventType(type_, sorted(PAYLOADS))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidPayload(type_, [_problem(e) for e in error.errors()]) from error


def _problem(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"]) or "the whole"
    return f"{place}: {error['msg']}"
