"""Flat commands: simple commands that wfctl checks by a list of fields, without pydantic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lifecycle.errors import InvalidPayload
from lifecycle.payload.build_payload import FIELDS, build_lazy_command, model_of, payload_of

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
def test_flat_fields_equal_the_fields_of_the_model(type_: str) -> None:
    """The list of fields has the same names in the same order as the pydantic model."""
    assert tuple(model_of(type_).model_fields) == FIELDS[type_]


@pytest.mark.parametrize("type_", FIELDS)
@given(data=st.data())
def test_flat_command_equals_the_command_of_its_model(type_: str, data: st.DataObject) -> None:
    """A flat command has the same data as the command that the pydantic model returns.

    If the model would refuse or change the data, no flat command is built.
    """
    given_ = data.draw(_data(type_))
    before = dict(given_)
    found = build_lazy_command(type_, given_)
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
def test_plain_note_is_parsed_as_a_flat_command(data: dict[str, Any]) -> None:
    """This test ensures that at least the command of a note is built as a flat command."""
    assert build_lazy_command("note.logged", data) is not None


def test_refused_flat_command_gets_the_error_of_the_model() -> None:
    """Invalid data of a flat command gets the error message of the pydantic model."""
    with pytest.raises(ValidationError):
        model_of("note.logged").of({"text": ""})
    with pytest.raises(InvalidPayload, match="text"):
        payload_of("note.logged", {"text": ""})


def test_flat_command_has_the_methods_of_a_model() -> None:
    """A flat command provides `model_dump` and `model_copy`, which rules and dry runs use."""
    command = payload_of("stage.prepared", {"stage": "stage-1"})
    assert command.model_dump(exclude_defaults=True) == {"stage": "stage-1"}
    assert command.model_copy(update={"detail": "so"}).as_json() == {
        "stage": "stage-1",
        "detail": "so",
    }
