"""The JSON Schemas are valid, and all written data conforms to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from extensions.machines.commands.schemas import list_schemas
from projections.files.schemas import load_schemas
from tests.adoption.support import STATES, copied, history, imported
from tests.cli.support import Place
from tests.exports.support import exported, text_of
from tests.golden.events_on_file import examples

EVERY = load_schemas()
RESOURCES = [(s["$id"], DRAFT202012.create_resource(s)) for s in EVERY.values()]
REGISTRY: Registry[Any] = Registry().with_resources(RESOURCES)


def faults(name: str, value: Any) -> list[str]:
    """Return the errors of a value against a schema."""
    judge = Draft202012Validator(EVERY[name], registry=REGISTRY)
    return [f"{error.json_path}: {error.message}"[:300] for error in judge.iter_errors(value)]


def events(place: Place) -> list[Any]:
    """Return the exported events."""
    return [json.loads(line) for line in text_of(place, "events").splitlines()]


@pytest.mark.parametrize("name", EVERY)
def test_each_schema_is_valid(name: str) -> None:
    """Each schema follows draft 2020-12 and has its own id."""
    Draft202012Validator.check_schema(EVERY[name])
    assert EVERY[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert EVERY[name]["$id"].startswith(f"urn:wfctl:schema:{name}:")


def test_schema_command_prints_each_schema(half_way: Place) -> None:
    """`schema` without a name prints all schemas. An unknown name is a usage error."""
    assert half_way.done("schema").keys() >= EVERY.keys()
    assert half_way.done("schema", "state") == EVERY["state"]
    answer = half_way.json("schema", "states")
    assert answer.code == 2
    assert "state" in answer.error["message"]


def test_every_event_conforms_to_its_schema(told: Place) -> None:
    """The envelope and the data of each exported event conform to its schema."""
    for event in events(told):
        assert faults("event", event) == []


@pytest.mark.parametrize("example", list(examples()), ids=lambda example: example.path.stem)
def test_every_example_conforms_to_its_schema(example: Any) -> None:
    """The stored example of each event type has every field and conforms to its schema."""
    if EVERY[example.type]["$id"].endswith(f":{example.version}"):
        assert faults(example.type, example.data) == []


def test_event_with_wrong_data_does_not_conform(half_way: Place) -> None:
    """The schema rejects the data of another type, an unknown type and an invalid hash."""
    event = next(e for e in events(half_way) if e["type"] == "stage.failed")
    assert faults("event", {**event, "data": {"stage": "stage-1"}})
    assert faults("event", {**event, "type": "stage.exploded"})
    assert faults("event", {**event, "hash": "0"})


def test_state_conforms_to_its_schema(told: Place) -> None:
    """The state of a new, a half-finished and a completed workflow conforms to the schema."""
    assert faults("state", json.loads(exported(told, "state"))) == []


@pytest.mark.parametrize("name", STATES)
def test_real_histories_conform_to_the_schemas(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The original state and the imported events of real workflows conform to the schemas."""
    source = history(name)
    assert faults("state", json.loads((source / "workflow-state.json").read_bytes())) == []
    place = imported(copied(source, tmp_path_factory.mktemp("history") / "root"))
    assert [faults("event", event) for event in events(place)] == [[]] * place.version()


LINES = [
    ["status"], ["show", "stage-2"], ["log"], ["events"], ["replay"], ["fsck"], ["schema"],
    ["amend", "list"], ["audit", "amendments"], ["db", "url"], ["show", "stage-9"],
    ["note"], ["fly"], ["export", "svg"], ["status", "--at", "999"],
]  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_every_answer_conforms_to_its_schema(half_way: Place, line: list[str]) -> None:
    """The JSON answers of successful and failed commands conform to their schemas."""
    assert faults("answer", half_way.json(*line).envelope) == []


@pytest.mark.parametrize("name", ["stage.failed", "plan", "feature.state", "debug.stack.submitted"])
def test_single_schema_equals_its_entry_in_the_full_list(tmp_path: Path, name: str) -> None:
    """Each named schema is also in the full list, and an unknown name is an error."""
    every = Place(tmp_path).done("schema")
    alone = Place(tmp_path).done("schema", name)
    made = {**load_schemas(), **list_schemas(None)}
    assert alone == json.loads(json.dumps(made[name]))
    assert set(every) == set(made)
    missing = Place(tmp_path).call("-o", "json", "schema", f"{name}.none")
    assert missing.code == 2
    assert all(one in missing.out for one in every)
