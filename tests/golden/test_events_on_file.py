"""What was stored can always be read: an event type changes only by a new schema version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventstore.chain import Schema
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from tests.golden.events_on_file import EVERY, OnFile, examples, path_of, schema_of

EXAMPLES = list(examples())
HOW = "raise schema_version, add an upcaster, and keep an example of the new version"


def lifted(example: OnFile) -> dict[str, Any]:
    """Return the data as the store hands it over: lifted to today's version."""
    body = {
        "type": example.type,
        "schema_version": example.version,
        "data": example.data,
        "stream": "workflow-w",
        "version": 1,
    }
    return Schema(VERSIONS, UPCASTERS).decode(1, "", json.dumps(body)).data


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_every_type_has_an_example_of_each_of_its_versions(type_: str) -> None:
    """From the first version on, without a gap."""
    for version in range(1, EVERY[type_].schema_version + 1):
        assert path_of(type_, version).exists(), HOW


def test_every_example_is_of_a_type_that_there_is() -> None:
    """A type is never taken away: its events are in somebody's log."""
    assert {example.type for example in EXAMPLES} == set(EVERY)
    assert all(example.version <= VERSIONS[example.type] for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.stem)
def test_every_example_is_lifted_to_what_is_written_today(example: OnFile) -> None:
    """Old data reads as if it had been written now, and is left whole."""
    payload = EVERY[example.type].model_validate(lifted(example))
    assert payload.model_dump(mode="json") == lifted(example)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.stem)
def test_what_is_written_is_the_payload_in_full(example: OnFile) -> None:
    """In the order of the fields, as it is hashed and shown, and nothing that could change it."""
    payload = EVERY[example.type].model_validate(lifted(example))
    said = payload.as_json()
    assert list(said.items()) == list(payload.model_dump(mode="json").items())
    said.clear()
    assert payload.as_json() == lifted(example)


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_a_model_is_what_its_version_says(type_: str) -> None:
    """A field that comes, goes or changes makes a new version."""
    model = EVERY[type_]
    (kept,) = [e for e in EXAMPLES if (e.type, e.version) == (type_, model.schema_version)]
    assert schema_of(model) == kept.schema, HOW


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_an_example_shows_every_field(type_: str) -> None:
    """Else a field could change and no example would tell."""
    model = EVERY[type_]
    (kept,) = [e for e in EXAMPLES if (e.type, e.version) == (type_, model.schema_version)]
    assert set(kept.data) == set(model.model_fields)
