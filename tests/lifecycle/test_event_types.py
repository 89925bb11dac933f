"""The table of event types agrees with the models of the events."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from extensions.machines.rules import payload as of_machines
from extensions.protocol_check.behaviour import _RULES as RULES
from lifecycle.fold import stages
from lifecycle.fold.evolve import _APPLY as FOLDED
from lifecycle.payload import models as payload
from lifecycle.payload.base import AttemptPayload, Payload, StagePayload
from lifecycle.payload.event_types import MACHINE_TYPES, STAGED, VERSIONS
from projections.files.event_models import find_event_model

FAMILIES = ("stage", "workflow")
BASES = (Payload, StagePayload, AttemptPayload)


def defined_in(name: str) -> dict[str, type[Payload]]:
    """Return the payload classes that a module defines, by name."""
    module = import_module(name)
    return {
        name: found
        for name, found in vars(module).items()
        if inspect.isclass(found)
        and issubclass(found, Payload)
        and found.__module__ == module.__name__
    }


@pytest.mark.parametrize("type_", sorted(VERSIONS))
def test_table_agrees_with_the_model_of_each_type(type_: str) -> None:
    """The table has the same type name and schema version as the model of the event."""
    model = find_event_model(type_)
    assert (model.type, model.schema_version) == (type_, VERSIONS[type_])


def test_every_model_is_in_the_table() -> None:
    """If a model were missing in the table, its events could be written but never read."""
    staged = [model for name in FAMILIES for model in defined_in(f"lifecycle.payload.{name}")]
    assert sorted(staged) == sorted(known.model for known in STAGED.values())
    machines = list(defined_in(of_machines.__name__))
    assert sorted(machines) == sorted(known.model for known in MACHINE_TYPES.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_payload_module_exports_the_models_of_each_family(family: str) -> None:
    """`lifecycle.payload` provides each model under the name of its class."""
    for name, found in defined_in(f"lifecycle.payload.{family}").items():
        assert getattr(payload, name) is found


def test_unknown_name_in_the_payload_module_raises() -> None:
    """`lifecycle.payload`, which loads models on demand, raises AttributeError like any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = payload.Nothing  # type: ignore[attr-defined]


#: These events inform people and checks, and do not change the state of a workflow.
NOT_FOLDED = {"claim.overruled", "note.logged"}
#: These events describe an imported workflow's past, so the protocol has no rule for them.
BEFORE_THE_PROTOCOL = {"line.imported", "state.imported"}


def test_every_event_type_is_folded_or_listed_as_not_folded() -> None:
    """A new event type must either change the state or be listed as an event that does not."""
    begins = {"workflow.created", "workflow.imported", "amendment.approved"}
    assert set(STAGED) - set(FOLDED) - set(stages.APPLY) - begins == NOT_FOLDED


def test_every_event_type_has_a_protocol_rule() -> None:
    """`wfctl fsck --protocol` would reject every log with an event type that has no rule."""
    assert set(STAGED) - set(RULES) == BEFORE_THE_PROTOCOL
