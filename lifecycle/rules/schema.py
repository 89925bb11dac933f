"""From names and dictionaries to payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lifecycle.errors import InvalidPayload, UnknownEventType
from lifecycle.payload import models as payload
from lifecycle.payload.event_types import OF_MACHINES, STAGED
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
    model = model_of(type_)
    from pydantic import ValidationError  # its model has loaded it

    try:
        return model.of(data)
    except ValidationError as error:
        from lifecycle.words.misfit import problem

        raise InvalidPayload(type_, [problem(e) for e in error.errors()]) from error


def model_of(type_: str) -> type[Payload]:
    """Return the model of an event type's data, be it of a workflow or of a machine."""
    if type_ in STAGED:
        found: type[Payload] = getattr(payload, STAGED[type_].model)
    else:
        from lifecycle.machines import payload as of_machines

        found = getattr(of_machines, OF_MACHINES[type_].model)
    return found


def models() -> dict[str, type[Payload]]:
    """Return the closed union of every stream: event type → its model."""
    return {type_: model_of(type_) for type_ in (*STAGED, *OF_MACHINES)}
