"""Parameters as a stage's command sees them."""

from __future__ import annotations

import pytest

from lifecycle.sweeps.variables import environment


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.002, "0.002"), (1e-6, "1e-06"), (2000, "2000"), (True, "true"), ("two words", "two words")],
)
def test_a_scalar_is_spelled_as_in_json(value: object, text: str) -> None:
    """Given a number, a truth or a text, its variable holds it."""
    assert environment({"timestep": value}) == {"WFCTL_PARAM_timestep": text}


@pytest.mark.parametrize(
    "parameters",
    [{"command": "true"}, {"verify": "true"}, {"a": [1]}, {"a": {"b": 1}}, {"a": None}, {"a-b": 1}],
)
def test_what_is_no_scalar_parameter_has_no_variable(parameters: dict[str, object]) -> None:
    """Given lists, objects, null, a name with a dash or wfctl's own, there is no variable."""
    assert environment(parameters) == {}
