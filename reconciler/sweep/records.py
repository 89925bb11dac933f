"""The record of an attempt's tasks, and why they failed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from eventstore.private import make_folder
from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS, Sweep, sweep_of
from lifecycle.words.cause import cause_of
from lifecycle.words.document import value_at
from reconciler.attempt.markers import digests
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import processes as plain
from reconciler.records import traces
from reconciler.records.traces import read_json
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.sweep import tasks as task_runs
from reconciler.sweep.folders import done_folder, place_of
from reconciler.sweep.tasks import Task, judged_in, tasks_of
from reconciler.verdict.diagnosis import Diagnosis, of_texts
from service.root.disk import write_whole
from service.root.root import MARKER

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


def most(failed: Sequence[Task]) -> list[Task]:
    """Return the failed tasks, those first that failed of what most of them did."""
    counted = Counter(task.why for task in failed)
    return sorted(failed, key=lambda task: -counted[task.why])


def failed_of(root: Path, state: Workflow, stage: Stage) -> list[Task]:
    """Return the tasks of the stage that failed or were lost."""
    return [task for task in tasks_of(root, state, stage) if task.state in ("failed", "lost")]


def diagnosis_of(found: Diagnosis, root: Path, failed: Sequence[Task]) -> Diagnosis:
    """Return the diagnosis of a sweep's attempt, given that of its jobs: its tasks tell why."""
    if not failed:
        return found
    ordered = most(failed)
    kind = of_texts([(task.point.key, task.why) for task in ordered])
    output = "\n".join(_whole(root, ordered[:_SHOWN])) or None
    return replace(
        found,
        category=kind.category,
        because=kind.because,
        # The verdict on the tasks tells the cause, and of how many; their job ended well.
        cause=None,
        jobs=(),
        tasks=tuple(f"{one.point.key}: {one.why} ({one.folder})" for one in ordered[:_NAMED]),
        output=output,
        has_output=output is not None,
    )


def _whole(root: Path, tasks: Sequence[Task]) -> Iterator[str]:
    for task in tasks:
        for name, text in written(root / task.folder):
            yield f"{task.point.key}/{name}:\n{text}"


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
    runs = task_runs.of(attempt)
    keys = (read_json(place.head) or {}).get("keys", {})
    tasks = list(task_runs.listed(attempt))
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
        said = why(place.folder / state / folder, ran.why)
        yield row | {"ended": ran.ended, "why": said or ("" if state == "done" else "cut off")}


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
