"""Stored events stay readable, because an event type only changes with a new schema version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventstore.schema import Schema
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from tests.golden.events_on_file import EVERY, OnFile, examples, path_of, schema_of

EXAMPLES = list(examples())
HOW = "raise schema_version, add an upcaster, and keep an example of the new version"


def lifted(example: OnFile) -> dict[str, Any]:
    """Return the data after conversion to the current version, like the store does."""
    body = {
        "type": example.type,
        "schema_version": example.version,
        "data": example.data,
        "stream": "workflow-w",
        "version": 1,
    }
    return Schema(VERSIONS, UPCASTERS).decode(1, "", json.dumps(body)).data


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_every_event_type_has_an_example_of_each_version(type_: str) -> None:
    """Each version of each event type, from the first to the current one, has an example."""
    for version in range(1, EVERY[type_].schema_version + 1):
        assert path_of(type_, version).exists(), HOW


def test_every_example_has_an_existing_event_type() -> None:
    """No event type is removed, because logs may have events of this type."""
    assert {example.type for example in EXAMPLES} == set(EVERY)
    assert all(example.version <= VERSIONS[example.type] for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.stem)
def test_old_examples_are_converted_to_the_current_version(example: OnFile) -> None:
    """A converted old example equals the data that the current program would write."""
    payload = EVERY[example.type].model_validate(lifted(example))
    assert payload.model_dump(mode="json") == lifted(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.stem)
def test_json_form_contains_the_whole_payload(example: OnFile) -> None:
    """The fields have a fixed order, and changing the result does not change the payload."""
    payload = EVERY[example.type].model_validate(lifted(example))
    said = payload.as_json()
    assert list(said.items()) == list(payload.model_dump(mode="json").items())
    said.clear()
    assert payload.as_json() == lifted(example)


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_model_matches_the_schema_of_its_version(type_: str) -> None:
    """A field that is added, removed or changed requires a new version."""
    model = EVERY[type_]
    (kept,) = [e for e in EXAMPLES if (e.type, e.version) == (type_, model.schema_version)]
    assert schema_of(model) == kept.schema, HOW


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_example_contains_every_field(type_: str) -> None:
    """Each example has every field of its schema, so no change goes unnoticed."""
    model = EVERY[type_]
    (kept,) = [e for e in EXAMPLES if (e.type, e.version) == (type_, model.schema_version)]
    assert set(kept.data) == set(model.model_fields)
