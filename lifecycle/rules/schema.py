"""From names and dictionaries to payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lifecycle.errors import InvalidPayload, UnknownEventType
from lifecycle.payload.event_types import STAGED
from lifecycle.rules.flat import flat

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def payload_of(type_: str, data: dict[str, Any]) -> Payload:
    """Return the payload of this type; raises `UnknownEventType` or `InvalidPayload`."""
    if type_ not in STAGED:
        raise UnknownEventType(type_, sorted(STAGED))
    plain = flat(type_, data)
    if plain is not None:
        return cast("Payload", plain)
    from lifecycle.rules.event_models import model_of

    model = model_of(type_)
    from pydantic import ValidationError  # its model has loaded it

    try:
        return model.of(data)
    except ValidationError as error:
        from lifecycle.words.misfit import problem

        raise InvalidPayload(type_, [problem(e) for e in error.errors()]) from error
