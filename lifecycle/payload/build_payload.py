"""Build the data of an event from the values of a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from lifecycle.errors import (
    InvalidPayload,
    UnknownEventType,
)
from lifecycle.payload.check_data import fill_defaults_and_find_misfit
from lifecycle.payload.event_types import STAGED

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


#: Event types whose data can be used without a pydantic model, with their fields in order. Their
#: fields contain only strings, booleans, integers or null, and the rules need no method of the
#: model.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "note.logged": ("text", "stage", "kind", "after", "raw"),
    "stage.prepared": ("stage", "detail"),
}
_FLAT = frozenset({str, int, bool, type(None)})


class LazyCommand:
    """A command whose pydantic model is loaded only if a rule uses an attribute of the model."""

    __slots__ = ("_data", "schema_version", "type")

    def __init__(self, type_: str, data: dict[str, Any]) -> None:
        self.type = type_
        self.schema_version = STAGED[type_].version
        self._data = data

    def as_json(self) -> dict[str, Any]:
        """Return the data of the command as JSON values, in the order of the model's fields."""
        return self._data.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._data:
            return self._data[name]

        return getattr(model_of(self.type).of(self.as_json()), name)


def build_lazy_command(type_: str, data: dict[str, Any]) -> LazyCommand | None:
    """Return the command without loading its pydantic model, if its data is valid and simple.

    Otherwise return None; the model must then check the data.
    """
    names = FIELDS.get(type_)
    if names is None or not _FLAT.issuperset(map(type, data.values())):
        return None
    given = data.copy()
    if fill_defaults_and_find_misfit(type_, given) is not None or not all(
        map(_is_unicode, given.values())
    ):
        return None
    return LazyCommand(type_, {name: given[name] for name in names})


def _is_unicode(value: Any) -> bool:
    """Return whether a value can be written as UTF-8.

    Strings with unpaired surrogates cannot.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def model_of(type_: str) -> type[Payload]:
    """Return the pydantic model of an event type. Phase machines have their own models."""
    from lifecycle.payload import models as payload

    found: type[Payload] = getattr(payload, STAGED[type_].model)
    return found


def payload_of(type_: str, data: dict[str, Any]) -> Payload:
    """Return the event payload of the given type with the given data.

    Raises `UnknownEventType` or `InvalidPayload`.
    """
    if type_ not in STAGED:
        raise UnknownEventType(type_, sorted(STAGED))
    plain = build_lazy_command(type_, data)
    if plain is not None:
        return cast("Payload", plain)

    model = model_of(type_)
    from pydantic import ValidationError  # already imported by the model

    try:
        return model.of(data)
    except ValidationError as error:
        from lifecycle.words.validation_errors import explain_validation_error_at_path

        raise InvalidPayload(
            type_, [explain_validation_error_at_path(e) for e in error.errors()]
        ) from error
