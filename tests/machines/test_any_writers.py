"""Random edits of a machine's files: wfctl adopts each edit or reports it as drift."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.machines.place import MachinePlace

FILES = {
    "conductor": ["conductor/tracks/one/metadata.json"],
    "dotagent": ["memory/state/phase.json", "memory/state/execution.json"],
}
WORDS = [
    *("PLAN", "EXECUTE", "FIX", "COMPLETE", "BLOCKED", "NOT_STARTED", "IN_PROGRESS", "PASSED"),
    *("FAILED", "in_progress", "complete", "pending", "running", "verified", "IMPLEMENTATION"),
    *("2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "task-001", "a.b", ""),
]
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 9), st.sampled_from(WORDS), st.just(1e300)
)
KEYS = st.sampled_from(
    [
        *("loop_state", "checkpoints", "PLAN", "BRAINSTORM", "EXECUTE", "status", "current_step"),
        *("step_status", "notes", "last_task", "blockers", "current_phase", "phase_status"),
        *("tasks", "completed_phases", "id", "output", "attempts", "odd key", "a.b", "_own"),
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


def changed(document: Any, draw: Any) -> Any:
    """Return a copy of the document in which one value was replaced, removed or added."""
    if not isinstance(document, dict) or not document or draw(st.integers(0, 3)) == 0:
        return draw(VALUES)
    result = dict(document)
    key = draw(st.sampled_from(list(document)) | KEYS)
    if draw(st.integers(0, 5)) == 0:
        result.pop(key, None)
    else:
        result[key] = changed(document.get(key), draw)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("type_", list(FILES))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_edit_is_adopted_or_reported_as_drift(type_: str, data: st.DataObject) -> None:
    """After any edit, all commands still work, and the log and the files agree."""
    with tempfile.TemporaryDirectory() as folder:
        place = MachinePlace(Path(folder))
        place.init("one", type_)
        for _ in range(data.draw(st.integers(1, 3))):
            file = data.draw(st.sampled_from(FILES[type_]))
            document = place.json(file)
            for _ in range(data.draw(st.integers(1, 3))):
                document = changed(document, data.draw)
            (place.path / file).write_text(json.dumps(document), "utf-8")
            before = place.head("one")
            assert place.call("drift", "one").code in (0, 7)
            assert place.call("rehydrate", "one", "--dry-run").code == 0
            assert place.call("checkpoint", "one", "--summary", "on").code in (0, 5)
            assert place.head("one") - before < 40
            assert place.wfctl("replay", "--check").data["findings"] == []
        assert place.wfctl("fsck").data["findings"] == []
