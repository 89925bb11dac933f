"""The record of an attempt's tasks, and why they failed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, VERDICTS, Sweep, sweep_of
from lifecycle.words.document import value_at
from lifecycle.words.values import cause_of
from reconciler.attempt.markers import digests, file_digest, make_folders
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import processes as plain
from reconciler.records import traces
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.sweep import folders
from reconciler.sweep.tasks import Task, tasks_of
from reconciler.verdict.diagnosis import Diagnosis, of_texts
from service.root.disk import write_whole

#: Tasks whose words a diagnosis holds whole.
_SHOWN = 3
#: … and that it names.
_NAMED = 20


def written(folder: Path) -> list[tuple[str, str]]:
    """Return the end of what a task wrote, each with the name of its file."""
    found = ((name, traces.end_of(folder / name)) for name in (ERROR_LOG, OUTPUT_LOG))
    return [(name, text) for name, text in found if text.strip()]


def why(folder: Path, ended: str) -> str:
    """Return the cause of a task's end before what its worker wrote down of it, ``exit 1``."""
    if not ended.startswith(("exit ", *VERDICTS)):
        return ended
    verdict = next((words for words in VERDICTS if ended.startswith(words)), "")
    texts = written(folder)
    if verdict:  # it came behind what the command wrote, in one of the two
        texts.sort(key=lambda one: -(folder / one[0]).stat().st_mtime_ns)
    cause = cause_of(*(text for _, text in texts))
    if cause is None:
        return ended
    return f"{verdict}{cause} ({ended.removeprefix(verdict)})"


def diagnosis_of(found: Diagnosis, root: Path, state: Workflow, stage: Stage) -> Diagnosis:
    """Return the diagnosis of a sweep's attempt, given that of its jobs: its tasks tell why."""
    failed = [task for task in tasks_of(root, state, stage) if task.state in ("failed", "lost")]
    if not failed:
        return found
    counted = Counter(task.why for task in failed)
    ordered = sorted(failed, key=lambda task: -counted[task.why])
    kind = of_texts([(task.point.key, task.why) for task in ordered])
    output = "\n".join(
        f"{task.point.key}/{name}:\n{text}"
        for task in ordered[:_SHOWN]
        for name, text in written(root / task.folder)
    )
    return replace(
        found,
        category=kind.category,
        because=kind.because,
        # The verdict on the tasks tells the cause, and of how many; their job ended well.
        cause=None,
        jobs=(),
        tasks=tuple(f"{one.point.key}: {one.why} ({one.folder})" for one in ordered[:_NAMED]),
        output=output or None,
        has_output=bool(output),
    )


def write(attempt: AttemptPaths, stage: Stage, marked: Sequence[Task]) -> p.FileDigest:
    """Write the record of an attempt that is over; return its path, size and digest.

    ``marked`` are the tasks that are done by the mark in their folder alone. Whoever writes it
    again comes to the same.
    """
    what, done = sweep_of(stage.parameters), attempt.stage_folder / DONE
    told = (_closed(attempt, row) for row in folders.rows_told(attempt))
    by_key: dict[str, dict[str, Any]] = {row["key"]: row for row in told}
    for task in marked:
        own = {"key": task.point.key, "folder": task.point.folder, "state": "done", "exit_code": 0}
        times = {"started": task.started, "ended": task.ended}
        by_key[task.point.key] = {**own, **times, "why": ""}
    rows = (row | _results(attempt.root, done, row, what) for row in by_key.values())
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    record = attempt.task_record
    make_folders(attempt, attempt.tasks)
    write_whole(record, content)
    return file_digest(attempt.root, record, content)


def _closed(attempt: AttemptPaths, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the journals where nothing of the attempt is left.

    Whatever has not told of its end never will.
    """
    if row["state"] == "waiting":
        return dict(row)
    state = "lost" if row["state"] == "running" else row["state"]
    said = why(attempt.tasks / state / row["folder"], row["why"])
    return {**row, "state": state, "why": said or ("" if state == "done" else "cut off")}


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
