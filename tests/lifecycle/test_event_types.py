"""The table of event types says what their models say of themselves."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from lifecycle.fold import stages
from lifecycle.fold.evolve import _APPLY as FOLDED
from lifecycle.machines import payload as of_machines
from lifecycle.payload import models as payload
from lifecycle.payload.base import AttemptPayload, Payload, StagePayload
from lifecycle.payload.event_types import OF_MACHINES, STAGED, VERSIONS
from lifecycle.protocol.behaviour import _RULES as RULES
from lifecycle.rules.decide import model_of

FAMILIES = ("stage", "workflow")
BASES = (Payload, StagePayload, AttemptPayload)


def defined_in(name: str) -> dict[str, type[Payload]]:
    """Return the payloads that a module defines, by the names of their classes."""
    module = import_module(name)
    return {
        name: found
        for name, found in vars(module).items()
        if inspect.isclass(found)
        and issubclass(found, Payload)
        and found.__module__ == module.__name__
    }


@pytest.mark.parametrize("type_", sorted(VERSIONS))
def test_an_event_type_is_in_the_table_as_its_model_says(type_: str) -> None:
    """Its name and the schema version that is written."""
    model = model_of(type_)
    assert (model.type, model.schema_version) == (type_, VERSIONS[type_])


def test_every_model_is_in_the_table() -> None:
    """One that is not could be written and never read."""
    staged = [model for name in FAMILIES for model in defined_in(f"lifecycle.payload.{name}")]
    assert sorted(staged) == sorted(known.model for known in STAGED.values())
    machines = list(defined_in(of_machines.__name__))
    assert sorted(machines) == sorted(known.model for known in OF_MACHINES.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_family_defines_is_found_among_the_payloads(family: str) -> None:
    """Under the name that it has there."""
    for name, found in defined_in(f"lifecycle.payload.{family}").items():
        assert getattr(payload, name) is found


def test_what_nobody_defines_is_not_found_among_the_payloads() -> None:
    """As in any other module."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = payload.Nothing  # type: ignore[attr-defined]


#: Recorded for people and for the checks alone: nothing of the state follows from them.
NOT_FOLDED = {"claim.overruled", "note.logged"}
#: What an import takes over stands before the protocol begins.
BEFORE_THE_PROTOCOL = {"line.imported", "state.imported"}


def test_every_event_type_is_folded_or_said_to_change_nothing() -> None:
    """A new type fails here until somebody says which."""
    begins = {"workflow.created", "workflow.imported", "amendment.approved"}
    assert set(STAGED) - set(FOLDED) - set(stages.APPLY) - begins == NOT_FOLDED


def test_every_event_type_has_its_rule_in_the_protocol() -> None:
    """`wfctl fsck --protocol` would call a log with a new type no behaviour."""
    assert set(STAGED) - set(RULES) == BEFORE_THE_PROTOCOL
