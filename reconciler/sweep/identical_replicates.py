"""Warn about replicates with identical results: their command probably ignores its seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import task_table_paths
from lifecycle.sweeps.replicates import SEED_VARIABLE, find_identical_replicates
from lifecycle.words.mandates import format_count


def describe_identical_replicates(stage: str, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a warning that names a point whose replicates have identical files, or None.

    ``rows`` are rows of the stage's task table. The mean of identical results has the error 0,
    although nothing is known about its real error.
    """
    found = find_identical_replicates(row for row in rows if row["state"] == "done")
    if not found:
        return None
    others = f" and {format_count(len(found) - 1, 'other point')}" if len(found) > 1 else ""
    return (
        f"{stage}: all replicates of {found[0]}{others} have identical results, so their error is "
        f"0. The command probably ignores its seed (the variable {SEED_VARIABLE})"
    )


def build_replicate_warnings(root: Path, stage: Stage) -> list[p.NoteLogged]:
    """Return a note about identical replicates in the stage's task table, or an empty list.

    Reads the table that wfctl has just written.
    """
    if stage.work.replicates == 1:
        return []
    _, as_json = task_table_paths(stage.id)
    rows = json.loads((root / as_json).read_text("utf-8"))["tasks"]
    text = describe_identical_replicates(stage.id, rows)
    return [] if text is None else [p.NoteLogged(text=text)]
