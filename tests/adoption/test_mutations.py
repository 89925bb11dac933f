"""A manually edited state is imported without loss or refused with a reason."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adoption import support as s
from tests.cli.support import Place

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["completed", "running", "stage-1", "stage-9", "2026-03-31 10:00", "~/"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
LINES = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [
            b"[2026-04-01 99:00] no time",
            b"[0001-01-01T00:00:00+14:00] long ago",
            b"[9999-12-31T23:59:59-14:00] far off",
            b"[2026-04-01 00:00] stage-1: status -> failed",
            b"[2026-04-01 00:00] stage-1: retry #9999 after fix: x",
            b"[2026-04-01 00:00] Session 7 started",
        ]
    ),
)
SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a nested JSON value, as a tuple of keys."""
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    return [p for key, child in children for p in [(*path, key), *places(child, (*path, key))]]


def mutated(document: Any, draw: Any) -> Any:
    """Return the document with some values replaced, removed or added."""
    document = deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        found = places(document)
        if not found:
            return document
        *path, key = draw(st.sampled_from(found))
        around = document
        for step in path:
            around = around[step]
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "remove":
            del around[key]
        elif action == "add" and isinstance(around, dict):
            around[draw(st.text(max_size=6))] = draw(VALUES)
        else:
            around[key] = draw(VALUES)
    return document


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["", "soon", "2026-13-01", "99999-01-01"])
def test_unreadable_time_stops_no_command(tmp_path: Path, typed: str) -> None:
    """The imported state keeps the invalid time as a string, and every command works."""
    source = s.history(s.STATES[6])
    document = json.loads((source / s.STATE).read_bytes())
    document["created"] = typed
    for stage in document["stages"]:
        stage |= {"started_at": typed, "completed_at": typed}
    s.write_files(tmp_path / "w", json.dumps(document), (source / s.LOG).read_bytes())
    root = s.imported(tmp_path / "w")
    assert json.loads((root.path / s.STATE).read_bytes()) == document
    for words in (
        "status",
        "show stage-1",
        "why",
        "report",
        "run --dry-run",
        "fsck",
        "audit times",
    ):
        assert root.call(*words.split()).code != 1, words


@pytest.mark.slow
@SETTINGS
@given(data=st.data())
def test_mutated_state_is_imported_without_loss_or_refused(data: Any, tmp_path: Path) -> None:
    """A refusal writes nothing, and there is never an internal error."""
    source = s.history(data.draw(st.sampled_from([s.STATES[4], s.STATES[6]])))
    document = mutated(json.loads((source / s.STATE).read_bytes()), data.draw)
    log = b"\n".join([(source / s.LOG).read_bytes(), *data.draw(st.lists(LINES, max_size=4))])
    folder = tmp_path / "w"
    shutil.rmtree(folder, ignore_errors=True)
    s.write_files(folder, json.dumps(document), log)
    answer = s.import_(folder)
    if answer.code != 0:
        assert answer.error["code"] in ("unimportable_state", "unreadable_plan"), answer.error
        assert not (folder / ".wfctl").exists()
        return
    root = Place(folder)
    assert json.dumps(json.loads((folder / s.STATE).read_bytes())) == json.dumps(document)
    assert (folder / s.LOG).read_bytes().startswith(log)
    assert root.json("replay", "--check").code == 0
    assert root.json("status").code == 0
    assert root.json("log", "--at", "2026-04-01T12:00:00Z").code in (0, 3)
