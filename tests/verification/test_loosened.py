"""If a check is loosened between a failure and a pass, a person must approve it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.sweeps.support import begun

#: Texts of the check script: one rejects every result, and one accepts every result.
STRICT, LOOSE = "exit 1\n", "exit 0\n"


def _stage(kind: str) -> dict[str, Any]:
    common = {"command": "echo 0.963 > r2.txt"}
    if kind == "stage":
        parameters: dict[str, Any] = {**common, "verify": "bash stage-1/check.sh"}
        return {"id": "stage-1", "name": "Fit", "outputs": ["stage-1/r2.txt"],
                "parameters": parameters}  # fmt: skip
    own = {"map": {"points": [{"T": 1}]}, "task_outputs": ["r2.txt"], "forward_files": ["check.sh"]}
    parameters = {**common, **own, "task_verify": "bash ../../check.sh"}
    return {"id": "stage-1", "name": "Fit", "outputs": ["stage-1/tasks.csv"],
            "parameters": parameters}  # fmt: skip


def _failed(folder: Path, kind: str) -> Place:
    """Create a stage that its check rejected, and then loosen the check script."""
    place = begun(folder, _stage(kind))
    script = place.path / "stage-1/check.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(STRICT)
    assert place.json("run").code == 6
    script.write_text(LOOSE)
    place.done("stage", "retry", "stage-1", "--fix", "The fit was given more points.")
    return place


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", ["stage", "sweep"])
def test_pass_by_a_changed_script_waits_for_a_person(tmp_path: Path, kind: str) -> None:
    """wfctl completes the stage only after a person approves the new script."""
    place = _failed(tmp_path, kind)
    ended = place.json("run")
    assert "which the check uses, has changed since" in ended.data["message"], ended
    assert place.done("status")["stages"][0]["status"] == "post_processing"
    rehearsed = place.json("run", "--dry-run")
    for told in (ended, rehearsed, place.json("status"), place.json("rehydrate")):
        lines = [one["command"] for one in told.envelope["next_actions"]]
        assert any("session_config.pin=scripts" in line for line in lines), lines
        assert not any("stage complete" in line for line in lines), lines
    assert "verdict stage-1" in place.call("inbox").out
    assert "verdict stage-1" in place.call("reconcile").out
    for words in (["complete", "stage-1", "--evidence", "good"], ["verify", "stage-1"]):
        refused = place.json("stage", *words)
        assert refused.error["code"] == "verdict_changed", refused
        assert "stage-1/check.sh" in refused.error["message"]
        assert "session_config.pin" in refused.envelope["next_actions"][0]["command"]
    place.done(
        "amend", "propose", "--set", "session_config.pin=scripts", "--reason", "It was too strict."
    )
    place.done("amend", "approve", "amend-1")
    place.done("run")
    assert place.done("status")["stages"][0]["status"] == "completed"


@pytest.mark.long
@pytest.mark.slow
def test_compare_shows_attempts_with_different_scripts(tmp_path: Path) -> None:
    """`compare` shows different digests, although both attempts ran the same command."""
    place = _failed(tmp_path, "stage")
    place.json("run")
    said = place.done("compare", "stage-1/att-0001", "stage-1/att-0002")
    print(said)
    found = {row["name"]: row for row in said["rows"] if row["kind"] == "script"}
    assert not found["stage-1/check.sh"]["same"]
