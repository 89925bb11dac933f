"""What is made of the tasks of an attempt: a verdict once it is over, an event for the log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, VERDICTS, Sweep, sweep_of, text_of
from lifecycle.words.values import MAX_VARIABLE, cause_of, shortened
from reconciler.attempt import execution_host
from reconciler.attempt import paths as genuine
from reconciler.attempt.markers import digests, file_digest, make_folders
from reconciler.attempt.paths import UNTOLD, AttemptPaths, of_recorded
from reconciler.host import small_files as plain
from reconciler.records import traces
from reconciler.records.numbers import measured
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from reconciler.sweep import table
from reconciler.sweep.bringing import bring_tasks
from reconciler.sweep.map_points import digest_of, rounds_of
from reconciler.sweep.tasks import (
    Task,
    journals,
    listed,
    read_mark,
    rows_told,
    runs_told,
    tasks_of,
)
from reconciler.verdict.diagnosis import Diagnosis, of_texts, with_full_disk
from reconciler.verdict.table import Action, TaskCounts, Verdict, verdict_of_tasks
from service.root.disk import write_whole

_SUM = re.compile(r"\b([0-9a-f]{64})  ([\w.]+)")


Through = tuple[tuple[str, str, str], Path]
"""A task that is through: as its attempt lists it, and where it ran."""


def _through(attempt: AttemptPaths, outputs: Sequence[str]) -> Iterator[Through]:
    """Yield the tasks of an attempt that is over which ran on alone and left all they were to."""
    silent = {job.name for job in traces.jobs(attempt) if job.exit_code in UNTOLD}
    jobs = silent.intersection(traces.alone(attempt))
    if not jobs:
        return
    runs, copies = runs_told(attempt), traces.scratch_copies(attempt)
    for one in listed(attempt):
        run = runs.get(int(one[0]))
        # No program could be started with a longer string; the task is computed again instead.
        if len(one[2].encode()) > MAX_VARIABLE:
            continue
        if run is None or run["state"] != "running" or run["job"] not in jobs:
            continue
        for place in (copy / attempt.stage / DONE / one[1] for copy in copies):
            left = [place / path for path in outputs]
            came = place.is_dir() and all(path.exists() for path in left)
            if came and all(path.stat().st_ctime_ns >= run["started"] * 1000 for path in left):
                yield one, place


def tasks_without_verdict(
    root: Path, state: Workflow, stage: Stage
) -> dict[str, tuple[AttemptPaths, Path]]:
    """Return, by folder, the attempt and the place of each task that a person has to judge.

    Only the newest attempt and the lost attempts that it replaces are read. The dictionary is
    empty if the stage has a verification, which judges these tasks.
    """
    what = sweep_of(stage.parameters)
    found, newer = dict[str, tuple[AttemptPaths, Path]](), set[str]()
    for recorded in reversed(stage.attempts if what.verify is None else ()):
        attempt = of_recorded(root, state.id, stage.id, recorded)
        through = {folder: place for (_, folder, _), place in _through(attempt, what.outputs)}
        found |= {name: (attempt, at) for name, at in through.items() if name not in newer}
        if recorded.recovers is None:
            break
        newer |= {folder for _, folder, _ in listed(attempt)}
    return found


def _settle(attempt: AttemptPaths, outputs: Sequence[str]) -> None:
    """End these tasks as their worker would have: verified, put in place and written down."""
    own = genuine.submission_of(attempt) or {}
    tasks = attempt.tasks
    found = list(_through(attempt, outputs))
    # What a worker reads is as the submission, whose digest the log has, names it.
    sums = dict.fromkeys(_SUM.findall(json.dumps(own)))
    texts = ((digest, plain.content(tasks / name) or b"") for digest, name in sums)
    vouched = all(sha256(text).hexdigest() == digest for digest, text in texts)
    if not (found and sums and vouched):
        return
    environ = {**os.environ, **own["resources"]["envs"]}
    for task, place in found:
        subprocess.run(
            ["bash", str(tasks / "worker.sh"), "alone", "", *task],
            cwd=place.parents[1],
            env={name: str(value) for name, value in environ.items()},
            stdin=subprocess.DEVNULL,
            check=False,
        )


#: Failures that an event names; the record of the attempt names all.
_NAMED = 100
#: The share of all tasks that must have come to an end before it is recorded once more.
_STEP = 0.02
#: What became of a task that ran no more and told of no end.
_CUT_OFF = "cut off"
#: Seconds after the end of a task in which its files may still get their times.
_MARGIN = 2.0


def judged(state: Workflow, stage: Stage, attempt: AttemptPaths, found: Verdict) -> Verdict:
    """Return the verdict on an attempt of a sweep, given that on its jobs.

    What its jobs came to says nothing: each task tells of itself, once nothing of the attempt
    computes any more. Nor can it be launched if the list of its tasks is gone.
    """
    gone = found.action is Action.LAUNCH and not attempt.task_list.is_file()
    if not (found.is_over or gone or found.is_untold) or not found.has_begun:
        return found
    return verdict_of_tasks(found, _counts(state, stage, attempt))


def _counts(state: Workflow, stage: Stage, attempt: AttemptPaths) -> TaskCounts:
    """Count the tasks of an attempt that is over."""
    what, untold = sweep_of(stage.parameters), tasks_without_verdict(attempt.root, state, stage)
    known = set[str]()
    if what.verify is not None:
        known = {folder for (_, folder, _), _ in _through(attempt, what.outputs)}
    tasks = [_closed(task, known) for task in tasks_of(attempt.root, state, stage)]
    judged_ = [task for task in tasks if task.point.folder not in untold]
    spent = [task for task in judged_ if task.is_spent(what.retries)]
    return TaskCounts(
        total=len(tasks),
        done=sum(task.state == "done" for task in tasks),
        left=sum(task.state != "done" for task in judged_) - len(spent),
        failed=len(spent),
        untold=len(untold),
        tolerated=what.tolerate * len(tasks),
        why_failed=_words(spent) if spent else "",
        why_untold=_untold(len(untold), next(iter(untold.values()))[1]) if untold else "",
    )


def _untold(count: int, place: Path) -> str:
    return (
        f"the shells of {count:,} tasks were killed, and the commands computed on without "
        "them: their task_outputs are there, and nothing tells whether they ended well, such as "
        f"{place}. Look at them and say `wfctl stage compute`; or `wfctl stage fail` and "
        "`wfctl stage retry`"
    )


def _closed(task: Task, through: Collection[str] = ()) -> Task:
    """Return a task of an attempt that is over: what runs no more and told of no end is lost.

    What ran on without its shells is ``through``: it is verified before anything is recorded.
    """
    if task.state != "running":
        return task
    if task.point.folder in through:
        return replace(task, state="done")
    return replace(task, state="lost", lost=task.lost + 1, why=_CUT_OFF)


#: Maximum number of letters of a value, or of a key, in a sentence about failed tasks.
_VALUE = 200


def _words(failed: Sequence[Task]) -> str:
    """Say of what most of the tasks failed, how many they are, and which is the first."""
    why, most = Counter(task.why for task in failed).most_common(1)[0]
    first, *others = (task.point for task in failed if task.why == why)
    alike = [n for n in first.values if all(o.values[n] == first.values[n] for o in others)]
    shared = ",".join(shortened(f"{n}={first.values[n]}", _VALUE) for n in alike if others)
    of = f"{most:,} of {len(failed):,}" if most < len(failed) else f"{most:,}"
    example = shortened(first.key, _VALUE)
    return f"{why}: {of} failed tasks{f' at {shared}' if shared else ''}, such as {example}"


def _observation(
    state: Workflow, stage: Stage, attempt: AttemptPaths, kept: p.FileDigest | None = None
) -> p.TasksObserved:
    """Return the command that records where the tasks stand; ``kept`` is the attempt's record."""
    root = attempt.root
    tasks = tasks_of(root, state, stage)
    tasks = [_closed(task) for task in tasks] if kept is not None else tasks
    named = [t for t in tasks if t.state == "failed" and t.attempt == attempt.id]
    seen = next((one.tasks or {} for one in stage.attempts if one.id == attempt.id), {})
    places: dict[str, Any] = {
        where: text_of(number for number, task in enumerate(tasks) if task.state == where)
        for where in ("done", "failed", "lost", "running")
    }
    return p.TasksObserved(
        stage=stage.id,
        attempt=attempt.id,
        total=len(tasks),
        points=digest_of(tuple(task.point for task in tasks)),
        **places,
        ended=sum(run["ended"] is not None for run in runs_told(attempt).values()),
        failures=[
            p.FailedTask(
                key=task.point.key,
                exit_code=task.exit_code,
                because=_why(root / task.folder, task.why)[:200],
            )
            for task in named[:_NAMED]
        ],
        record=kept,
        journals=[
            file_digest(root, path, plain.content(path) or b"") for path in journals(attempt)
        ],
        edited=_edited(root, seen),
        late=list(islice(_late(attempt, tasks), _NAMED)) if kept is not None else [],
    )


def _edited(root: Path, seen: Mapping[str, Any]) -> list[str]:
    """Return the journals that do not begin as an earlier look at the tasks saw them.

    A worker writes behind the end alone.
    """
    known = set(seen.get("edited", []))
    for one in seen.get("journals", []):
        text = plain.content(root / one["path"]) or b""
        if sha256(text[: one["size"]]).hexdigest() != one["sha256"]:
            known.add(one["path"])
    return sorted(known)


def _late(attempt: AttemptPaths, tasks: Iterable[Task]) -> Iterator[p.LateFile]:
    """Yield the outputs that were written after their task had ended; of other clocks nothing."""
    if execution_host.of(attempt).is_far:
        return
    for task in (one for one in tasks if one.attempt == attempt.id):
        for path in (f"{task.folder}/{one['path']}" for one in task.outputs):
            with suppress(OSError):
                after = (attempt.root / path).stat().st_mtime - (task.ended or 0) / 1e6
                if task.ended and after > _MARGIN:
                    yield p.LateFile(path=path, seconds=int(after))


def progress(state: Workflow, stage: Stage, attempt: AttemptPaths) -> list[p.TasksObserved]:
    """Return the command that records how far the tasks have come, if it is worth an event."""
    if not attempt.task_head.is_file():
        return []
    seen = _observation(state, stage, attempt)
    before = (stage.attempts[-1].tasks or {}).get("ended", 0)
    return [seen] if seen.ended - before >= max(1, _STEP * seen.total) else []


def close(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    *,
    stopped: bool = False,
    believed: bool = False,
) -> p.TasksObserved:
    """Write the record and the table of an attempt that is over; return what is to be recorded.

    Tasks that outlived their shells are verified and put in place, unless the attempt was
    ``stopped``. If nothing verifies them, they are put in place only if ``believed`` is true: a
    person said that their results are right.
    """
    bring_tasks(attempt)
    what = sweep_of(stage.parameters)
    if believed or (not stopped and what.verify is not None):
        _settle(attempt, what.outputs)
    state = state.draft()
    stage = state.stage(stage.id)
    recorded = next(one for one in stage.attempts if one.id == attempt.id)
    # Of an attempt that is closed again, a record would hide which tasks their marks alone tell of.
    recorded.tasks = {k: v for k, v in (recorded.tasks or {}).items() if k != "record"}
    marked = [task for task in tasks_of(attempt.root, state, stage) if task.marked]
    kept = _record(attempt, stage, marked)
    recorded.tasks |= {"record": kept.model_dump()}
    told = _observation(state, stage, attempt, kept)
    tasks, rounds = tasks_of(attempt.root, state, stage), rounds_of(state, stage)
    table.write(attempt.root, stage, tasks, rounds)
    return told


def unclosed(root: Path, state: Workflow, stage: Stage) -> list[AttemptPaths]:
    """Return the attempts of a sweep that somebody ended, and whose tasks no record tells of."""
    over = [one for one in stage.attempts if not (one.is_open or (one.tasks or {}).get("record"))]
    found = [of_recorded(root, state.id, stage.id, one) for one in over]
    return [attempt for attempt in found if attempt.task_head.is_file()]


#: Tasks whose words a diagnosis holds whole.
_SHOWN = 3
#: … and that it names.
_TOLD = 20


def _written(folder: Path) -> list[tuple[str, str]]:
    """Return the end of what a task wrote, each with the name of its file."""
    found = ((name, traces.end_of(folder / name)) for name in (ERROR_LOG, OUTPUT_LOG))
    return [(name, text) for name, text in found if text.strip()]


def _why(folder: Path, ended: str) -> str:
    """Return the cause of a task's end before what its worker wrote down of it, ``exit 1``."""
    if not ended.startswith(("exit ", *VERDICTS)):
        return ended
    verdict = next((words for words in VERDICTS if ended.startswith(words)), "")
    texts = _written(folder)
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
        for name, text in _written(root / task.folder)
    )
    return replace(
        found,
        category=kind.category,
        because=kind.because,
        # The verdict on the tasks tells the cause, and of how many; their job ended well.
        cause=None,
        jobs=(),
        tasks=tuple(f"{one.point.key}: {one.why} ({one.folder})" for one in ordered[:_TOLD]),
        output=output or None,
        has_output=bool(output),
    )


def _record(attempt: AttemptPaths, stage: Stage, marked: Sequence[Task]) -> p.FileDigest:
    """Write the record of an attempt that is over; return its path, size and digest.

    ``marked`` are the tasks that are done by the mark in their folder alone. Anyone who writes it
    again comes to the same.
    """
    what, done = sweep_of(stage.parameters), attempt.stage_folder / DONE
    told = (_closed_row(attempt, row) for row in rows_told(attempt))
    by_key: dict[str, dict[str, Any]] = {row["key"]: row for row in told}
    for task in marked:
        own = {"key": task.point.key, "folder": task.point.folder, "state": "done", "exit_code": 0}
        times = {"started": task.started, "ended": task.ended}
        by_key[task.point.key] = {**own, **times, "why": ""}
    rows = (row | _results(attempt.root, done, row, what) for row in by_key.values())
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    make_folders(attempt, attempt.tasks)
    write_whole(attempt.task_record, content)
    return file_digest(attempt.root, attempt.task_record, content)


def _closed_row(attempt: AttemptPaths, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the journals if nothing of the attempt is left.

    Whatever has not told of its end never will.
    """
    if row["state"] == "waiting":
        return dict(row)
    state = "lost" if row["state"] == "running" else row["state"]
    said = _why(attempt.tasks / state / row["folder"], row["why"])
    if state == "failed":
        # Its files left the disk of its job when it ended, so free bytes there tell nothing.
        said = with_full_disk(said, attempt, is_vague=False)
    return {**row, "state": state, "why": said or ("" if state == "done" else _CUT_OFF)}


def _results(root: Path, done: Path, row: Mapping[str, Any], what: Sweep) -> dict[str, Any]:
    """Return the outputs of a task that is done, and its numbers; or why it is not done."""
    if row["state"] != "done":
        return {}
    folder = done / str(row["folder"])
    mark = read_mark(folder)
    if mark is not None and mark.key not in ("", row["key"]):
        return {"state": "lost", "why": f"its folder holds the results of {mark.key:.200}"}
    missing = [path for path in what.outputs if not (folder / path).exists()]
    if missing:
        return {"state": "lost", "why": f"{missing[0]} is gone"}
    found = digests(root, [str((folder / path).relative_to(root)) for path in what.outputs])
    outputs = [
        {"path": path, "size": one.size, "sha256": one.sha256}
        for path, one in zip(what.outputs, found, strict=True)
    ]
    try:
        read = {name: measured(folder / one.path, one) for name, one in what.metrics.items()}
    except ValueError as error:
        return {"state": "failed", "why": str(error)}
    errors = {name: error for name, (_, error) in read.items() if error is not None}
    numbers = {"metrics": {name: value for name, (value, _) in read.items()}}
    return {"outputs": outputs, **numbers, **({"errors": errors} if errors else {})}
