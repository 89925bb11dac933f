"""An event of an unknown type: reads succeed with a warning, and writes are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import Place, make

WORD = "this wfctl does not know an event of type"
pytestmark = pytest.mark.forged

#: An unknown event type, and a known event type with a newer schema version.
UNKNOWN = [("stage.sung", 1), ("note.logged", 99)]
READS = [
    ("status",),
    ("log",),
    ("events",),
    ("show", "stage-1"),
    ("export", "mermaid", "out.md"),
    ("report",),
    ("replay",),
    ("inbox",),
]
WRITES = [
    ("note", "on"),
    ("dispatch", "stage-1", "--sync"),
    ("session", "start"),
    ("append", "note.logged", "--data", '{"text": "x"}'),
    ("append", "note.logged", "--data", '{"text": "x"}', "--dry-run"),
    ("amend", "propose", "--stage", "stage-1", "--set", "parameters.n=2", "--reason", "r"),
]


def put(place: Place, type_: str, version: int, stream: str = "workflow-") -> int:
    """Append an event to a stream, and return its version."""
    last = [body for body in raw.bodies(place.path) if body["stream"].startswith(stream)][-1]
    own: dict[str, Any] = {"stream": last["stream"], "version": last["version"] + 1}
    own |= {"prev_hash": last["hash"], "schema_version": version, "session": None}
    raw.append(place.path, type_, {"text": "la"}, **own)
    return int(own["version"])


@pytest.mark.few(2)
@pytest.mark.parametrize(("type_", "form"), UNKNOWN)
def test_reads_of_an_unknown_event_type_print_a_warning(
    trusted: Place, type_: str, form: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command warns on stderr; status, report and log also print the warning on stdout."""
    monkeypatch.chdir(trusted.path)
    trusted.done("note", "first")
    version = put(trusted, type_, form)
    for line in READS:
        answer = trusted.call(*line)
        assert (answer.code, WORD in answer.err) == (0, True), (line, answer)
        assert f"version {version}: " in answer.err
    for line in (("status",), ("report",), ("log",)):
        assert f"{WORD} '{type_}'" in trusted.call(*line).out, line
    assert any(WORD in one["why"] for one in trusted.bypasses())
    assert trusted.json("fsck").code == 7
    (found,) = trusted.json("fsck").data["findings"]
    assert (found["version"], found["kind"]) == (version, "undecodable")


@pytest.mark.parametrize("line", WRITES, ids=" ".join)
@pytest.mark.parametrize(("type_", "form"), UNKNOWN)
def test_writes_after_an_unknown_event_type_are_refused(
    trusted: Place, type_: str, form: int, line: tuple[str, ...]
) -> None:
    """wfctl cannot check its rules after an unknown event, so it refuses every write."""
    version = put(trusted, type_, form)
    answer = trusted.json(*line)
    assert answer.code == 7
    assert WORD in answer.error["message"]
    assert raw.bodies(trusted.path)[-1]["version"] == version


@pytest.mark.parametrize(("type_", "form"), UNKNOWN)
def test_salvage_drops_an_unknown_event_type(trusted: Place, type_: str, form: int) -> None:
    """The salvaged log contains the events before the unknown event."""
    trusted.done("note", "first")
    version = put(trusted, type_, form)
    lost = {"workflow-melt-2026-03-31": version}
    assert trusted.done("db", "salvage", "--dry-run")["lost"] == lost
    assert trusted.done("db", "salvage")["lost"] == lost
    assert trusted.json("fsck").code == 0
    trusted.done("note", "on we go")
    assert trusted.notes() == ["first", "on we go"]


def test_unknown_event_type_of_a_machine_is_reported(tmp_path: Path) -> None:
    """Reads warn, writes fail and a salvage works, while the workflow is not affected."""
    place = make(tmp_path / "root", "--consent", "trust")
    place.done("machine", "init", "ship", "--type", "feature")
    version = put(place, "machine.sung", 1, "machine-")
    answer = place.call("machine", "get", "ship")
    assert (answer.code, WORD in answer.out, WORD in answer.err) == (0, True, True), answer
    assert place.call("machine", "list").code == 0
    assert place.json("machine", "update", "ship", "artifacts.plan=a.md").code == 7
    assert {one["version"] for one in place.json("fsck").data["findings"]} == {version}
    place.done("note", "beside")
    place.done("db", "salvage")
    assert place.json("fsck").code == 0
    place.done("machine", "update", "ship", "artifacts.plan=a.md")
