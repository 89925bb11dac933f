"""The record of an attempt's tasks: one line each, written once the attempt is over.

Outputs are digested and named numbers are read then, so that the log's digest of the record vouches
for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from eventstore.private import make_folder
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import Sweep, sweep_of
from lifecycle.words.spelling import value_at
from reconciler.attempt.markers import digests
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import small_files as plain
from reconciler.records.traces import read_json
from reconciler.sweep import causes, journal
from reconciler.sweep.place import done_folder, place_of
from reconciler.sweep.tasks import Task, judged_in
from service.root.disk import write_whole
from service.root.root import MARKER


def write(attempt: AttemptPaths, stage: Stage, marked: Sequence[Task]) -> p.FileDigest:
    """Write the record of an attempt that is over; return its path, size and digest.

    ``marked`` are the tasks that are done by the mark in their folder alone.

    Whoever writes it again comes to the same.
    """
    rows = _rows(attempt, sweep_of(stage.parameters), marked)
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    record = place_of(attempt).record
    for folder in (attempt.folder.parent, attempt.folder, record.parent):
        make_folder(folder, attempt.root / MARKER)
    write_whole(record, content)
    return p.FileDigest(
        path=str(record.relative_to(attempt.root)),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _rows(attempt: AttemptPaths, what: Sweep, marked: Sequence[Task]) -> Iterator[dict[str, Any]]:
    rows = {row["key"]: row for row in (*_told(attempt), *map(_marked, marked))}
    done = done_folder(attempt.root, attempt.stage)
    yield from (row | _results(attempt.root, done, row, what) for row in rows.values())


def _marked(task: Task) -> dict[str, Any]:
    known = {"key": task.point.key, "folder": task.point.folder, "state": "done", "exit_code": 0}
    return {**known, "started": task.started, "ended": task.ended, "why": ""}


def _told(attempt: AttemptPaths) -> Iterator[dict[str, Any]]:
    """Yield what the journals say of each task that the attempt was given."""
    place = place_of(attempt)
    runs = journal.of(attempt)
    keys = (read_json(place.head) or {}).get("keys", {})
    tasks = list(journal.listed(attempt))
    judged = judged_in(tasks)
    for number, folder, _ in tasks:
        ran = runs.get(int(number))
        row: dict[str, Any] = {"key": keys.get(folder, folder), "folder": folder}
        row |= {"judged": True} if number in judged else {}
        if ran is None:
            yield {**row, "state": "waiting"}
            continue
        # Nothing of the attempt is left: whatever has not told of its end never will.
        state = "lost" if ran.state == "running" else ran.state
        row |= {"state": state, "exit_code": ran.exit_code, "started": ran.started}
        why = causes.why(place.folder / state / folder, ran.why)
        yield row | {"ended": ran.ended, "why": why or ("" if state == "done" else "cut off")}


def _results(root: Path, done: Path, row: Mapping[str, Any], what: Sweep) -> dict[str, Any]:
    """Return the outputs of a task that is done, and its numbers; or why it is not done."""
    if row["state"] != "done":
        return {}
    folder = done / str(row["folder"])
    missing = [path for path in what.outputs if not (folder / path).exists()]
    if missing:
        return {"state": "lost", "why": f"{missing[0]} is gone"}
    found = digests(root, [str((folder / path).relative_to(root)) for path in what.outputs])
    outputs = [
        {"path": path, "size": one.size, "sha256": one.sha256}
        for path, one in zip(what.outputs, found, strict=True)
    ]
    try:
        numbers = {n: _number(folder / path, to) for n, (path, to) in what.metrics.items()}
    except ValueError as error:
        return {"state": "failed", "why": str(error)}
    return {"outputs": outputs, "metrics": numbers}


def _number(file: Path, pointer: str) -> float:
    """Return the number that a JSON pointer leads to; raises ValueError."""
    try:
        value = value_at(json.loads(plain.text(file)), pointer)
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"metrics: {file.name} has no {pointer}") from error
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"metrics: {file.name}#{pointer} is no finite number")
    return value
