"""Messages about invalid values state the expected and the actual value in plain words."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, JsonValue, StringConstraints, TypeAdapter, ValidationError

from extensions.machines.rules.definition import Definition
from lifecycle.plan.document import Plan
from lifecycle.words.validation_errors import (
    explain_validation_error,
    explain_validation_error_at_path,
)
from tests.golden.events_on_file import EVERY

MODELS: list[type[BaseModel]] = [*EVERY.values(), Plan, Definition]
PATTERNS = {
    json.loads(f'"{found}"')
    for model in MODELS
    for found in re.findall(
        r'"pattern": "((?:[^"\\\\]|\\\\.)*)"', json.dumps(model.model_json_schema())
    )
}


class Sample(BaseModel, strict=True, extra="forbid"):
    """A model with one field of each kind."""

    text: Annotated[str, StringConstraints(min_length=2, max_length=3)] = ""
    number: Annotated[int, Field(ge=1, le=3)] = 1
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    flag: bool = True
    nothing: None = None
    names: Annotated[list[str], Field(min_length=1, max_length=2)] = []
    values: dict[str, JsonValue] = {}


class Whole(BaseModel):
    """A model with a required field."""

    part: Sample


def told(kind: Any, value: Any) -> str:
    """Return wfctl's message about an invalid value, which must have exactly one error."""
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value)
    (error,) = refused.value.errors()
    return explain_validation_error_at_path(error)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("text", 3, "expected text, found 3"),
        ("text", "a", "expected text of 2 or more characters, found 'a'"),
        ("text", "abcd", "expected text of 3 or fewer characters, found 'abcd'"),
        ("number", "1", "expected a whole number, found '1'"),
        ("number", 1.5, "expected a whole number, found 1.5"),
        ("number", 0, "expected at least 1, found 0"),
        ("number", 4, "expected at most 3, found 4"),
        ("share", "1", "expected a number, found '1'"),
        ("share", 0, "expected more than 0.0, found 0"),
        ("share", 1, "expected less than 1.0, found 1"),
        ("share", float("nan"), "expected a finite number, found nan"),
        ("flag", 1, "expected true or false, found 1"),
        ("nothing", 1, "expected null, found 1"),
        ("names", "a", "expected a list, found 'a'"),
        ("names", [], "expected a list of 1 or more entries, found []"),
        ("names", ["a"] * 3, "expected a list of 2 or fewer entries, found ['a', 'a', 'a']"),
        ("values", [], "expected an object, found []"),
        ("other", 1, "expected no field of this name, found 1"),
    ],
)
def test_error_states_expected_and_found_value(field: str, value: Any, said: str) -> None:
    """The message has the path of the field and uses plain words instead of pydantic's terms."""
    assert told(Sample, {field: value}) == f"{field}: {said}"


def test_missing_field_is_named() -> None:
    """For a missing field, wfctl prints "part: this field is missing"."""
    assert told(Whole, {}) == "part: this field is missing"


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_every_pattern_has_an_explanation(pattern: str) -> None:
    """For a string that breaks a pattern, wfctl describes valid strings in words."""
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)]).validate_python("\n\n")
    assert "matches" not in explain_validation_error(refused.value.errors()[0])
