"""wfctl detects, names, keeps and undoes each foreign edit of ``workflow-state.json``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.support import Place, tree
from tests.drift.support import (
    STATE,
    check_clean,
    detected,
    kept,
    shown,
    stage_running,
    state_of,
    write_state,
)

Path_ = tuple[str | int, ...]
Edit = Callable[[Any, Path_], None]


def paths(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every value in a document, except the document itself."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    if isinstance(value, list):
        children = list(enumerate(value))
    for key, child in children:
        yield (*at, key)
        yield from paths(child, (*at, key))


def at(document: Any, path: Path_) -> Any:
    """Return the value at a path."""
    for step in path:
        document = document[step]
    return document


def change(document: Any, path: Path_) -> None:
    """Replace the value at a path with another value of the same type."""
    value = at(document, path)
    at(document, path[:-1])[path[-1]] = _other(value)


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "x"
        case list():
            return [*value, "x"]
        case dict():
            return {**value, "x": None}
    return "x"


def retype(document: Any, path: Path_) -> None:
    """Replace the value at a path with a value of another type that looks the same."""
    value = at(document, path)
    match value:
        case bool():
            new: Any = int(value)
        case int():
            new = float(value)
        case float() | str() | list() | dict():
            new = None if not value else json.dumps(value)
        case _:
            new = False
    at(document, path[:-1])[path[-1]] = new


def remove(document: Any, path: Path_) -> None:
    """Remove the value at a path from the document."""
    del at(document, path[:-1])[path[-1]]


def add(document: Any, path: Path_) -> None:
    """Add a new value next to the value at a path."""
    beside = at(document, path[:-1])
    if isinstance(beside, dict):
        beside["somebody_else"] = None
    else:
        beside.insert(0, None)


def reorder(document: Any, path: Path_) -> None:
    """Move the value at a path to the end of its object or list."""
    beside = at(document, path[:-1])
    beside_it = beside.pop(path[-1])
    if isinstance(beside, dict):
        beside[path[-1]] = beside_it
    else:
        beside.append(beside_it)


EDITS: dict[str, Edit] = {
    "another value": change,
    "another type": retype,
    "removed": remove,
    "added": add,
    "reordered": reorder,
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", EDITS)
def test_edit_of_any_single_field_is_detected_and_named(place: Place, name: str) -> None:
    """`drift show` names the field after any change, removal, move or addition of a value."""
    stage_running(place)
    original = state_of(place)
    before = (place.path / STATE).read_bytes()
    seen = 0
    for path in paths(original):
        document = copy.deepcopy(original)
        EDITS[name](document, path)
        if json.dumps(document) == json.dumps(original):
            continue
        write_state(place, document)
        check_seen(place, original, path)
        seen += 1
    assert seen > 50
    (place.path / STATE).write_bytes(before)
    check_clean(place)


def check_seen(place: Place, original: Any, path: Path_) -> None:
    """Check that `drift show` names only the edited object or list."""
    [found] = shown(place)
    named = [difference["field"] for difference in found["differences"]]
    edited = edited_field(original, path)
    assert named, path
    assert all(name.startswith(edited) or name in ("stages", "(the whole)") for name in named), path


def edited_field(original: Any, path: Path_) -> str:
    """Return the name of the object or list that contains the path.

    Return an empty string if `drift show` may give any name for an edit there.
    """
    if path[0] == "stages" and (len(path) < 3 or path[2] == "id"):
        return ""
    steps = [*path] if path[0] != "stages" else [original["stages"][path[1]]["id"], *path[2:]]
    upto = next((n for n, step in enumerate(steps) if isinstance(step, int)), len(steps) - 1)
    return ".".join(str(step) for step in steps[:upto])


def test_reading_commands_write_nothing(place: Place) -> None:
    """Neither `status` nor `drift show` nor a dry run changes a file."""
    document = state_of(place)
    document["stages"][0]["parameters"]["dt"] = 0.002
    write_state(place, document)
    before = tree(place.path)
    assert any(STATE in text for text in place.done("status")["files"])
    assert shown(place)
    place.done("drift", "adopt", "--dry-run")
    place.done("drift", "revert", "--dry-run")
    place.done("note", "x", "--dry-run")
    assert tree(place.path) == before


def test_write_keeps_records_and_undoes_an_edit(place: Place) -> None:
    """wfctl records the edit before the command's event, keeps a copy, and undoes it."""
    document = state_of(place)
    document["stages"][0]["parameters"]["dt"] = 0.002
    foreign = write_state(place, document)
    place.done("note", "next")
    assert place.types()[-2:] == ["drift.detected", "note.logged"]
    [drift] = detected(place)
    assert drift["differences"] == [
        {
            "stage": "stage-1",
            "path": ["parameters", "dt"],
            "kind": "changed",
            "old": 0.005,
            "new": 0.002,
        }
    ]
    assert kept(place) == [foreign]
    assert (place.path / drift["kept_as"]).read_bytes() == foreign
    assert state_of(place)["stages"][0]["parameters"]["dt"] == 0.005
    assert place.call("replay", "--check").code == 0


DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes | None]]] = {
    "deleted": ("missing", lambda _: None),
    "emptied": ("truncated", lambda _: b""),
    "cut off": ("truncated", lambda content: content[: len(content) // 2]),
    "not JSON": ("unreadable", lambda content: content.replace(b":", b"=", 1)),
    "not an object": ("unreadable", lambda _: b"[]\n"),
    "not UTF-8": ("unreadable", lambda content: b"\xff\xfe" + content),
    "a key twice": ("unreadable", lambda content: content.replace(b"{", b'{"version": 1,', 1)),
    "nested too deeply": ("unreadable", lambda _: b"[" * 100_000),
    "other spaces": ("changed", lambda content: content.replace(b"  ", b"\t")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_state_file_is_reported_and_rebuilt(place: Place, name: str) -> None:
    """`status` reports the damage, the next write records it, and foreign bytes are kept."""
    kind, damage = DAMAGE[name]
    path = place.path / STATE
    foreign = damage(path.read_bytes())
    path.unlink()
    if foreign is not None:
        path.write_bytes(foreign)
    assert any(STATE in text for text in place.done("status")["files"])
    assert [change["file"] for change in shown(place)] == [STATE]
    place.done("note", "next")
    assert [(d["file"], d["kind"]) for d in detected(place)] == [(STATE, kind)]
    assert kept(place) == ([] if kind in ("missing", "truncated") else [foreign])
    check_clean(place)


STRANGE: dict[str, Any] = {
    "a number of many digits": 10**40,
    "half a surrogate pair": "\ud800",
    "a deep value": json.loads("[" * 200 + "]" * 200),
    "a very deep value": json.loads("[" * 700 + "]" * 700),
    "a long text": "x" * 100_000,
    "text outside of ASCII": "ä€😀\u2028\x00",
}


@pytest.mark.parametrize("name", STRANGE)
def test_value_that_the_log_cannot_hold_is_kept(place: Place, name: str) -> None:
    """The drift event only describes such a value. The kept copy has the exact bytes."""
    document = state_of(place)
    document["stages"][0]["parameters"]["dt"] = STRANGE[name]
    path = place.path / STATE
    foreign = json.dumps(document).encode()
    path.write_bytes(foreign)
    place.done("note", "next")
    assert kept(place) == [foreign]
    assert place.done("drift", "revert")["events"][0]["type"] == "drift.reverted"
    check_clean(place)
    assert place.call("fsck").code == 0


def test_drift_event_lists_at_most_200_differences(place: Place) -> None:
    """The event counts the other differences, and `drift show` lists all of them."""
    document = state_of(place)
    document["stages"][0]["parameters"] |= {f"p{n}": n for n in range(500)}
    write_state(place, document)
    place.done("note", "next")
    [drift] = detected(place)
    assert (len(drift["differences"]), drift["more"]) == (200, 300)
    assert len(shown(place)[0]["differences"]) == 500


def test_touched_file_is_no_edit(place: Place) -> None:
    """If another program writes the same bytes again, wfctl reports no edit."""
    path = place.path / STATE
    path.write_bytes(path.read_bytes())
    assert shown(place) == []
    place.done("note", "next")
    assert detected(place) == []


def test_unspecified_fields_survive_every_write(place: Place) -> None:
    """Extra fields of the workflow and of a stage keep their values and the order of keys."""
    before = state_of(place)
    stage_running(place)
    after = state_of(place)
    assert json.dumps(after["x-reviewed_by"]) == json.dumps(before["x-reviewed_by"])
    kept_field = [json.dumps(d["stages"][0]["verification"]) for d in (before, after)]
    assert kept_field[0] == kept_field[1] == '{"tool": "thermo", "bounds": [0, 1]}'


def test_edited_version_does_not_change_the_expected_version(place: Place) -> None:
    """--expected-version is compared with the log, and not with the edited file."""
    version = place.version()
    document = state_of(place)
    document["version"] = 7
    write_state(place, document)
    place.done("note", "next", "--expected-version", str(version))
    assert place.json("note", "late", "--expected-version", str(version)).code == 4
