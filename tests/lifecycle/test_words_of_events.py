"""wfctl shortens long text that it writes into events, and refuses long text of callers."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from extensions.machines.rules import payload as of_machines
from lifecycle.payload import models, stage, workflow
from lifecycle.payload.base import Payload, PayloadPart
from lifecycle.words.limits import MAX_WORDS


def _check_of(field: FieldInfo) -> TypeAdapter[Any]:
    """Return a pydantic validator for values of the field."""
    annotated: Any = Annotated[field.annotation, "a field", *field.metadata]
    return TypeAdapter(annotated)


def _has_limit(field: TypeAdapter[Any]) -> bool:
    """Return whether a field is a string, or string or null, with the common maximum length."""
    schema = field.json_schema()
    return MAX_WORDS in (one.get("maxLength") for one in (schema, *schema.get("anyOf", ())))


#: A validator for each field that has the common maximum length. The keys have the form
#: "Class.field".
_BOUNDED = {
    f"{model.__name__}.{name}": adapter
    for model in sorted(
        {
            one
            for module in (models, stage, workflow, of_machines)
            for one in vars(module).values()
            if isinstance(one, type) and issubclass(one, Payload | PayloadPart)
        },
        key=lambda one: one.__name__,
    )
    for name, field in model.model_fields.items()
    if _has_limit(adapter := _check_of(field))
}


def test_errors_and_notes_are_limited_fields() -> None:
    """The list of fields with the common maximum length is not empty."""
    assert {"StageFailed.error", "NoteLogged.text", "AttemptStopped.reason"} <= _BOUNDED.keys()


@pytest.mark.parametrize("name", _BOUNDED)
@given(part=st.text(min_size=1, max_size=3), letters=st.integers(MAX_WORDS - 30, 2 * MAX_WORDS))
def test_long_text_is_cut_in_own_events_and_refused_from_callers(
    name: str, part: str, letters: int
) -> None:
    """The shortened text has the start of the original text and states its full length."""
    field, text = _BOUNDED[name], (part * letters)[:letters]
    built = field.validate_python(text)
    assert len(built) <= MAX_WORDS
    if letters <= MAX_WORDS:
        assert built == text
        return
    assert built.startswith(text[: MAX_WORDS - 100])
    assert built.endswith(f"(cut, {letters:,} letters)")
    with pytest.raises(ValidationError):
        field.validate_python(text, context="from outside")
