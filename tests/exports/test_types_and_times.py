"""Types in exported tables, and times in exported crates, are correct."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.support import HERE, PLAN, Place, call, write_plan

STATE = {
    "workflow_id": "w",
    "purpose": "See.",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "status": "completed",
            "depends_on": [],
            "outputs": ["stage-1/out.txt"],
            "started_at": "2026-03-31T10:00:00Z",
            "completed_at": "2026-03-31T09:00:00Z",
        }
    ],
}
LOG = """[2026-03-31T10:00:00Z] stage-1 (Build): status -> running
[2026-03-31T09:00:00Z] stage-1 (Build): status -> completed
"""


def test_imported_run_never_ends_before_its_start(tmp_path: Path) -> None:
    """If two hosts had different clocks, the impossible end time is omitted."""
    (tmp_path / "workflow-state.json").write_text(json.dumps(STATE))
    (tmp_path / "progress.log").write_text(LOG)
    place = Place(tmp_path)
    place.done("import", str(tmp_path))
    place.done("export", "ro-crate", str(tmp_path / "exported.json"))
    text = (tmp_path / "exported.json").read_text("utf-8")
    for start, end in re.findall(r'"startTime": ?"([^"]+)", "endTime": ?"([^"]+)"', text):
        assert start <= end
    assert "T10:00:00" in text


def test_table_read_with_the_documented_types_keeps_every_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leading zeros and large integers are kept, even in a column with an empty cell."""
    parameters = {"command": "echo hi > out.txt", "sample": "007", "seed": 9007199254740993}
    other = {"command": "echo hi > out.txt"}
    first = {**PLAN["stages"][0], "parameters": parameters}
    second = {**PLAN["stages"][1], "parameters": other, "outputs": ["stage-2/out.txt"]}
    plan = write_plan(tmp_path, {**PLAN, "stages": [first, second]})
    place = Place(tmp_path)
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert place.call("run").code == 0
    monkeypatch.chdir(tmp_path)
    assert call("export", "table", "attempts.csv").code == 0
    page = (HERE / "docs/use/exports.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(attempts = .*?)```", page, re.DOTALL)
    names: dict[str, object] = {"pandas": pd}
    exec(example, names)
    attempts = names["attempts"]
    assert isinstance(attempts, pd.DataFrame)
    row = attempts.loc[attempts["stage"] == "stage-1"].iloc[0]
    assert (row["parameters.sample"], int(row["parameters.seed"])) == ("007", 9007199254740993)
