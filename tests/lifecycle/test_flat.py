"""Commands that are read by the shapes of events alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lifecycle.errors import InvalidPayload
from lifecycle.rules.decide import FIELDS, flat, model_of, payload_of

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["stage-1", "stage-01", "stage-1\n", "note", "external", "\ud800", "", "a" * 20_001]
    ),
    st.lists(st.integers(), max_size=1),
)


def _data(type_: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = dict.fromkeys([*FIELDS[type_], "unknown"], _VALUES)
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("type_", FIELDS)
def test_the_fields_are_those_of_the_model_in_its_order(type_: str) -> None:
    """What is written by a shape has every field that the model has."""
    assert tuple(model_of(type_).model_fields) == FIELDS[type_]


@pytest.mark.parametrize("type_", FIELDS)
@given(data=st.data())
def test_what_a_shape_takes_is_the_same_to_the_model(type_: str, data: st.DataObject) -> None:
    """Nothing is recorded without a model that the model would refuse or change."""
    given_ = data.draw(_data(type_))
    before = dict(given_)
    found = flat(type_, given_)
    assert given_ == before or any(value != value for value in before.values())
    if found is None:
        return
    model = model_of(type_).of(given_)
    assert list(found.as_json().items()) == list(model.as_json().items())
    assert found.schema_version == model.schema_version
    assert all(getattr(found, name) == getattr(model, name) for name in FIELDS[type_])


@pytest.mark.parametrize(
    "data",
    [
        {"text": "hi"},
        {"text": "hi", "stage": "stage-1"},
        {"text": "e\N{COMBINING ACUTE ACCENT}", "kind": "note", "after": None},
    ],
)
def test_a_plain_note_needs_no_model(data: dict[str, Any]) -> None:
    """The property above would hold as well if no shape took anything."""
    assert flat("note.logged", data) is not None


def test_what_a_shape_does_not_take_is_refused_in_the_words_of_the_model() -> None:
    """There is one wording of each mistake."""
    with pytest.raises(ValidationError):
        model_of("note.logged").of({"text": ""})
    with pytest.raises(InvalidPayload, match="text"):
        payload_of("note.logged", {"text": ""})


def test_a_flat_command_answers_what_else_a_model_is_asked() -> None:
    """A dry run shows fields that were given; a rule may change a copy."""
    command = payload_of("stage.prepared", {"stage": "stage-1"})
    assert command.model_dump(exclude_defaults=True) == {"stage": "stage-1"}
    assert command.model_copy(update={"detail": "so"}).as_json() == {
        "stage": "stage-1",
        "detail": "so",
    }
