"""Find the data model of an event type, in the core program or in an extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lifecycle.payload.build_payload import model_of
from lifecycle.payload.event_types import STAGED
from wfctl_eventstore.extension import require_extension

if TYPE_CHECKING:
    from lifecycle.payload.base import Payload


def find_event_model(type_: str) -> type[Payload]:
    """Return the data model of an event type.

    Raises `MissingExtensionError` if the extension that defines the type is not installed.
    """
    if type_ in STAGED:
        return model_of(type_)
    return require_extension("machines", f"the event type {type_}").find_event_model(type_)
