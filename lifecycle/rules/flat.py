"""From names and dictionaries to payloads: by the shape of the event, or by its model.

To load pydantic is most of what a flat command costs. It is loaded all the same where the shape
does not fit, so that what is refused, and with which words, is for the models to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from lifecycle.errors import InvalidPayload, UnknownEventType
from lifecycle.payload.event_types import OF_MACHINES, STAGED
from lifecycle.payload.shape import misfit

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


#: Event type → the fields of its model, in their order. Each holds a text, true or false, a whole
#: number or null, the model changes none, and no rule needs more of them.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "note.logged": ("text", "stage", "kind", "after", "raw"),
    "stage.prepared": ("stage", "detail"),
}
_FLAT = frozenset({str, int, bool, type(None)})


class Flat:
    """What the model of its type would say of the same data; anything else it asks the model."""

    __slots__ = ("_data", "schema_version", "type")

    def __init__(self, type_: str, data: dict[str, Any]) -> None:
        self.type = type_
        self.schema_version = STAGED[type_].version
        self._data = data

    def as_json(self) -> dict[str, Any]:
        """Its data as JSON values, in the order of the model's fields."""
        return self._data.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._data:
            return self._data[name]

        return getattr(model_of(self.type).of(self.as_json()), name)


def flat(type_: str, data: dict[str, Any]) -> Flat | None:
    """Return a command by its shape; None where only the model can say what it is."""
    names = FIELDS.get(type_)
    if names is None or not _FLAT.issuperset(map(type, data.values())):
        return None
    given = data.copy()
    if misfit(type_, given) is not None or not all(map(_is_unicode, given.values())):
        return None
    return Flat(type_, {name: given[name] for name in names})


def _is_unicode(value: Any) -> bool:
    """Whether a value can be written as UTF-8: half of a pair of surrogates cannot."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def model_of(type_: str) -> type[Payload]:
    """Return the model of an event type's data, be it of a workflow or of a machine."""
    if type_ in STAGED:
        from lifecycle.payload import models as payload

        found: type[Payload] = getattr(payload, STAGED[type_].model)
    else:
        from lifecycle.machines import payload as of_machines

        found = getattr(of_machines, OF_MACHINES[type_].model)
    return found


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
        from lifecycle.words.values import problem

        raise InvalidPayload(type_, [problem(e) for e in error.errors()]) from error
