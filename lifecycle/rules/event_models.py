"""The model of each event type's data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.payload import models as payload
from lifecycle.payload.event_types import OF_MACHINES, STAGED

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def model_of(type_: str) -> type[Payload]:
    """Return the model of an event type's data, be it of a workflow or of a machine."""
    if type_ in STAGED:
        found: type[Payload] = getattr(payload, STAGED[type_].model)
    else:
        from lifecycle.machines import payload as of_machines

        found = getattr(of_machines, OF_MACHINES[type_].model)
    return found
