"""Parameters become environment variables of a stage's command."""

from __future__ import annotations

import pytest

from lifecycle.sweeps.variables import command_variables
from lifecycle.sweeps.work import build_work


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.002, "0.002"), (1e-6, "1e-06"), (2000, "2000"), (True, "true"), ("two words", "two words")],
)
def test_scalar_parameter_becomes_a_variable(value: object, text: str) -> None:
    """Numbers and booleans are written as in JSON, and strings without quotes."""
    assert command_variables(build_work("stage-1", {"timestep": value})) == {
        "WFCTL_PARAM_timestep": text
    }


@pytest.mark.parametrize(
    "parameters",
    [{"command": "true"}, {"verify": "true"}, {"a": [1]}, {"a": {"b": 1}}, {"a": None}, {"a-b": 1}],
)
def test_other_parameters_have_no_variable(parameters: dict[str, object]) -> None:
    """Lists, objects, null, names with a dash and wfctl's own parameters are left out."""
    assert command_variables(build_work("stage-1", parameters)) == {}
