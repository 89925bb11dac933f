"""The JSON Schemas: valid ones, and true of what is really written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from cli.commands.events import _of_machines
from projections.files.schemas import schemas
from tests.adoption.support import STATES, copied, history, imported
from tests.cli.support import Place
from tests.exports.support import exported, text_of
from tests.golden.events_on_file import examples

EVERY = schemas()
RESOURCES = [(s["$id"], DRAFT202012.create_resource(s)) for s in EVERY.values()]
REGISTRY: Registry[Any] = Registry().with_resources(RESOURCES)


def faults(name: str, value: Any) -> list[str]:
    """Return what a schema has against a value."""
    judge = Draft202012Validator(EVERY[name], registry=REGISTRY)
    return [f"{error.json_path}: {error.message}"[:300] for error in judge.iter_errors(value)]


def events(place: Place) -> list[Any]:
    """Return the events as they are exported."""
    return [json.loads(line) for line in text_of(place, "events").splitlines()]


@pytest.mark.parametrize("name", EVERY)
def test_each_is_a_schema_of_its_draft(name: str) -> None:
    """With a name of its own, by which others refer to it."""
    Draft202012Validator.check_schema(EVERY[name])
    assert EVERY[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert EVERY[name]["$id"].startswith(f"urn:wfctl:schema:{name}:")


def test_schema_prints_each_of_them(half_way: Place) -> None:
    """By its name; without one, the names are listed."""
    assert half_way.done("schema").keys() >= EVERY.keys()
    assert half_way.done("schema", "state") == EVERY["state"]
    answer = half_way.json("schema", "states")
    assert answer.code == 2
    assert "state" in answer.error["message"]


def test_every_event_is_what_its_schema_says(told: Place) -> None:
    """The envelope, and the data by its type."""
    for event in events(told):
        assert faults("event", event) == []


@pytest.mark.parametrize("example", list(examples()), ids=lambda example: example.path.stem)
def test_every_example_on_file_fits_the_schema_of_its_version(example: Any) -> None:
    """Of the newest version of each type there is an example with every field."""
    if EVERY[example.type]["$id"].endswith(f":{example.version}"):
        assert faults(example.type, example.data) == []


def test_an_event_with_the_data_of_another_type_does_not_fit(half_way: Place) -> None:
    """The schema of an event looks into its data."""
    event = next(e for e in events(half_way) if e["type"] == "stage.failed")
    assert faults("event", {**event, "data": {"stage": "stage-1"}})
    assert faults("event", {**event, "type": "stage.exploded"})
    assert faults("event", {**event, "hash": "0"})


def test_the_state_is_what_its_schema_says(told: Place) -> None:
    """In every state of a workflow."""
    assert faults("state", json.loads(exported(told, "state"))) == []


@pytest.mark.parametrize("name", STATES)
def test_the_real_histories_are_what_the_schemas_say(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As their authors wrote the state, and as the import recorded it."""
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
def test_every_answer_is_what_its_schema_says(half_way: Place, line: list[str]) -> None:
    """Successes and failures."""
    assert faults("answer", half_way.json(*line).envelope) == []


@pytest.mark.parametrize("name", ["stage.failed", "plan", "feature.state", "debug.stack.submitted"])
def test_one_by_its_name_is_the_same_as_among_all(tmp_path: Path, name: str) -> None:
    """It is made alone; a name that is not there is told all that are."""
    every = Place(tmp_path).done("schema")
    alone = Place(tmp_path).done("schema", name)
    made = {**schemas(), **_of_machines()}
    assert alone == json.loads(json.dumps(made[name]))
    assert set(every) == set(made)
    missing = Place(tmp_path).call("-o", "json", "schema", f"{name}.none")
    assert missing.code == 2
    assert all(one in missing.out for one in every)
