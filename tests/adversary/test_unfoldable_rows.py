"""A row with a valid chain and invalid data stops no command and is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import Place

ROWS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "weight that overflows": (
        "cost.charged",
        {"stage": "stage-1", "weight": 1.7e308, "work_class": "sync"},
        {},
    ),
    "weight below nothing": (
        "cost.charged",
        {"stage": "stage-1", "weight": -1e9, "work_class": "sync"},
        {},
    ),
    "unknown stage": ("stage.prepared", {"stage": "stage-77", "detail": None}, {}),
    "no attempt": (
        "stage.computed",
        {"stage": "stage-1", "attempt": "att-0001", "exit_code": 0, "detail": None, "facts": {}},
        {},
    ),
    "a list as stage": ("stage.prepared", {"stage": ["stage-1"]}, {}),
    "no data": ("note.logged", None, {}),
    "data of another type": ("stage.failed", [1, 2], {}),
    "an invalid time": ("note.logged", {"text": "x"}, {"occurred_at": None}),
    "an invalid month": (
        "note.logged",
        {"text": "x"},
        {"occurred_at": "2026-13-31T00:00:00.000000Z"},
    ),
    "a list as actor": ("note.logged", {"text": "x"}, {"actor": ["pi"]}),
    "a huge number": ("session.started", {"number": 2**63 - 1}, {}),
    "a long id": (
        "outputs.archived",
        {"stage": "stage-1", "kept_as": "stage-1.v" + "9" * 9000, "amendment": None},
        {},
    ),
    "a session that is text": ("note.logged", {"text": "x"}, {"session": "one"}),
    "a schema version that is text": ("note.logged", {"text": "x"}, {"schema_version": "one"}),
    "old data of another type": ("stage.failed", {"stage": "stage-1", "checks": 1}, {}),
    "a drift of nonsense": (
        "drift.detected",
        {"file": "x", "differences": [{"stage": 1, "path": 3}], "kept_as": "y"},
        {},
    ),
    "deep": ("checkpoint.recorded", {"stage": "stage-1", "checkpoint": [[[]]]}, {}),
}
READS = (
    ("status",),
    ("show", "stage-1"),
    ("log",),
    ("events",),
    ("replay",),
    ("blame", "stage-1.parameters.n"),
    ("why",),
    ("session", "show"),
    ("audit", "times"),
    ("audit", "sql", "SELECT count(*) FROM v_events"),
)
FORMS = ("report", "events", "ro-crate", "archive", "timeline")


def _deep() -> Any:
    value: Any = []
    for _ in range(300):
        value = [value]
    return value


@pytest.mark.forged
@pytest.mark.few(5)
@pytest.mark.parametrize("name", ROWS)
def test_row_that_cannot_be_folded_is_ignored_and_named(
    trusted: Place, tmp_path: Path, name: str
) -> None:
    """Every command works, and status, fsck, log and audit name the ignored version."""
    type_, data, envelope = ROWS[name]
    if name == "deep":
        data = {**data, "checkpoint": _deep()}
    before = trusted.document()["stages"]
    raw.append(trusted.path, type_, data, **envelope)
    exports = [("export", form, str(tmp_path / form)) for form in FORMS]
    for words in (*READS, *exports):
        answer = trusted.call(*words)
        assert answer.code == 0, (words, answer)
    version = trusted.version()
    trusted.done("note", "on we go")
    assert trusted.call("replay", "--rebuild").code == 0
    trusted.done("db", "project", "--rebuild")
    assert trusted.document()["stages"] == before
    assert [one["version"] for one in trusted.done("status")["set_aside"]] == [version]
    assert f"version {version} (" in trusted.call("status").out
    fsck = trusted.json("fsck")
    assert fsck.code == 7
    assert [(f["version"], f["kind"]) for f in fsck.data["findings"]] == [(version, "set_aside")]
    assert [b["version"] for b in trusted.bypasses() if b["kind"] == "ineffective"] == [version]
    assert "is ignored" in trusted.log()
