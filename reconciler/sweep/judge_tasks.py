"""Judge the tasks of an ended attempt of a sweep, and build the commands that record them."""

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
from lifecycle.state.requested_resources import (
    can_answer_shortage,
    is_memory_shortage_certain,
)
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, VERDICTS, TaskRules, format_ranges
from lifecycle.words.failure_cause import find_cause
from lifecycle.words.limits import MAX_VARIABLE, shorten
from reconciler.attempt import execution_host
from reconciler.attempt import paths as genuine
from reconciler.attempt.file_digests import digests, file_digest
from reconciler.attempt.markers import make_folders
from reconciler.attempt.paths import (
    ERROR_LOG,
    OUTPUT_LOG,
    UNTOLD,
    AttemptPaths,
    recorded_attempt_paths,
)
from reconciler.host import small_files as plain
from reconciler.records import traces
from reconciler.records.numbers import read_metric
from reconciler.sweep import table
from reconciler.sweep.download_task_results import download_task_results
from reconciler.sweep.first_tasks import read_first_tasks
from reconciler.sweep.map_points import count_tasks_before_rounds, digest_points
from reconciler.sweep.tasks import (
    Task,
    list_journals,
    read_journal_rows,
    read_journal_runs,
    read_mark,
    read_task_list,
    tasks_of,
)
from reconciler.verdict.diagnosis import (
    Diagnosis,
    FailureKind,
    add_full_disk_name,
    classify_output_texts,
)
from reconciler.verdict.table import Action, TaskCounts, Verdict, verdict_of_tasks
from service.root.atomic_files import write_whole
from service.root.folder_entries import describe_unreadable_entries, exists, is_folder, stat_of

_SUM = re.compile(r"\b([0-9a-f]{64})  ([\w.]+)")


_FinishedTask = tuple[tuple[str, str, str], Path]
"""A finished task: its number, folder and assignments, and the folder in which it ran."""


def _find_finished_orphan_tasks(
    attempt: AttemptPaths, outputs: Sequence[str]
) -> Iterator[_FinishedTask]:
    """Yield the tasks whose shells were killed but whose outputs are complete.

    Their commands kept running and wrote all outputs after the start of the task.
    """
    silent = {job.name for job in traces.read_started_jobs(attempt) if job.exit_code in UNTOLD}
    jobs = silent.intersection(traces.list_orphaned_jobs(attempt))
    if not jobs:
        return
    runs, copies = read_journal_runs(attempt), traces.scratch_copies(attempt)
    for one in read_task_list(attempt):
        run = runs.get(int(one[0]))
        # A program cannot start with a variable of this length, so the task cannot be verified. It
        # is computed again instead.
        if len(one[2].encode()) > MAX_VARIABLE:
            continue
        if run is None or run["state"] != "running" or run["job"] not in jobs:
            continue
        for place in (copy / attempt.stage / DONE / one[1] for copy in copies):
            left = [stat_of(place / path) for path in outputs]
            since = run["started"] * 1000
            if is_folder(place) and all(one and one.st_ctime_ns >= since for one in left):
                yield one, place


def find_tasks_to_judge(
    root: Path, state: Workflow, stage: Stage
) -> dict[str, tuple[AttemptPaths, Path]]:
    """Return the tasks that a person must judge, by the name of their folder.

    Their commands finished without a shell that recorded the end. Each value is the attempt and the
    current path of the folder. Only the newest attempt and the lost attempts that it replaces are
    read. The dict is empty if the stage has a verification, which judges these tasks automatically.
    """
    what = stage.work.task_rules
    found, newer = dict[str, tuple[AttemptPaths, Path]](), set[str]()
    for recorded in reversed(stage.attempts if what.verify is None else ()):
        attempt = recorded_attempt_paths(root, state.id, stage.id, recorded)
        through = {
            folder: place
            for (_, folder, _), place in _find_finished_orphan_tasks(attempt, what.outputs)
        }
        found |= {name: (attempt, at) for name, at in through.items() if name not in newer}
        if recorded.recovers is None:
            break
        newer |= {folder for _, folder, _ in read_task_list(attempt)}
    return found


def _finish_orphan_tasks(attempt: AttemptPaths, outputs: Sequence[str]) -> None:
    """Finish tasks whose shells were killed: verify, move and record their results.

    The worker script does this, in the same way as for other tasks.
    """
    own = genuine.read_attempt_submission(attempt) or {}
    tasks = attempt.tasks
    found = list(_find_finished_orphan_tasks(attempt, outputs))
    # Run the worker script only if its files are unchanged. The log contains the digest of the
    # submission, and the submission contains the digests of these files.
    sums = dict.fromkeys(_SUM.findall(json.dumps(own)))
    texts = ((digest, plain.read_content(tasks / name) or b"") for digest, name in sums)
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


#: Maximum number of failed tasks that one event names. The record in the attempt's folder names all
#: of them.
_MAX_NAMED_FAILURES = 100
#: Share of all tasks that must have ended since the last progress event before another is recorded.
_PROGRESS_STEP = 0.02
#: Cause that is recorded for a task that no longer runs and did not record its end.
_CUT_OFF = "cut off"
#: Seconds after the end of a task during which a write to its files is not reported as late.
_LATE_MARGIN = 2.0


def judge_tasks(state: Workflow, stage: Stage, attempt: AttemptPaths, found: Verdict) -> Verdict:
    """Return the verdict on an attempt of a sweep, given the verdict on its jobs.

    When no process of the attempt runs any more, the results of the tasks decide, not the exit
    codes of the jobs. They also decide if the attempt could not be launched because its list of
    tasks is missing.
    """
    gone = found.action is Action.LAUNCH and not attempt.task_list.is_file()
    if not (found.is_over or gone or found.has_doubtful_outputs) or not found.has_possibly_started:
        return found
    return verdict_of_tasks(found, _count_tasks(state, stage, attempt))


def _count_tasks(state: Workflow, stage: Stage, attempt: AttemptPaths) -> TaskCounts:
    """Return the number of tasks of an ended attempt for each kind of result."""
    what, untold = stage.work.task_rules, find_tasks_to_judge(attempt.root, state, stage)
    known = set[str]()
    if what.verify is not None:
        known = {folder for (_, folder, _), _ in _find_finished_orphan_tasks(attempt, what.outputs)}
    tasks = [_close_task(task, known) for task in tasks_of(attempt.root, state, stage)]
    judged_ = [task for task in tasks if task.point.folder not in untold]
    own = [task for task in judged_ if task.attempt == attempt.id and task.short_of is not None]
    short = [task for task in own if can_answer_shortage(state, stage, task.short_of)]
    # At the ceiling, another run of a task that SIGKILL ended would run out of memory again.
    killed = {t.point.key for t in own if t.state == "lost" and t.short_of == "memory"}
    in_vain = killed if not short and is_memory_shortage_certain(state, stage) else set[str]()
    spent = [t for t in judged_ if t.is_out_of_retries(what.retries) or t.point.key in in_vain]
    failed = {task.point.key for task in spent}
    undone = [t for t in judged_ if t.state != "done" and t.point.key not in failed]
    first = {*read_first_tasks(attempt)} & {task.point.key for task in tasks}
    others = [t for t in undone if first and t.point.key not in first and not t.to_judge]
    return TaskCounts(
        total=len(tasks),
        done=sum(task.state == "done" for task in tasks),
        left=len(undone) - len(others),
        failed=len(spent),
        untold=len(untold),
        tolerated=what.tolerate * len(tasks),
        first=len(first),
        first_failed=_name_failed_first_tasks(
            len(first), len(first & failed - {task.point.key for task in short})
        ),
        others=len(others),
        short=len(short),
        why_short=_describe_failures(short) if short else "",
        why_failed=_describe_failures(spent) if spent else "",
        why_untold=_describe_unjudged_tasks(len(untold), next(iter(untold.values()))[1])
        if untold
        else "",
    )


def _name_failed_first_tasks(first: int, failed: int) -> str:
    if failed == 0:
        return ""
    return "the first task" if first == 1 else f"{failed:,} of the {first:,} first tasks"


def _describe_unjudged_tasks(count: int, place: Path) -> str:
    return (
        f"the shells of {count:,} tasks were killed, but the commands of the tasks continued: "
        "their task_outputs exist, and nothing shows whether the commands succeeded, for "
        f"example in {place}. Check the outputs. If they are right, run `wfctl stage "
        "compute`; if not, `wfctl stage fail` and `wfctl stage retry`"
    )


def _close_task(task: Task, through: Collection[str] = ()) -> Task:
    """Return the final state of a task whose attempt has ended.

    A task that was running becomes lost. If its folder is in ``through``, its command finished
    without a shell, and it becomes done; its results are verified before they are recorded.
    """
    if task.state != "running":
        return task
    if task.point.folder in through:
        return replace(task, state="done")
    return replace(task, state="lost", lost=task.lost + 1, why=_CUT_OFF)


#: Maximum number of characters of a value or of a task's key in a message about failed tasks.
_MAX_VALUE_LENGTH = 200


#: Start of the failure message of a task whose command succeeded but whose results are invalid.
_FAILED_CHECK = "task_verify"
#: Maximum number of failed tasks that a message names.
_MAX_NAMED_TASKS = 3


def _describe_failures(failed: Sequence[Task]) -> str:
    """Return a message about failed tasks.

    It contains the most frequent cause, an example, the parameter values that these tasks share,
    and the tasks with other causes.
    """
    why, most = Counter(task.why for task in failed).most_common(1)[0]
    first, *others = (task.point for task in failed if task.why == why)
    alike = [n for n in first.values if all(o.values[n] == first.values[n] for o in others)]
    shared = ",".join(shorten(f"{n}={first.values[n]}", _MAX_VALUE_LENGTH) for n in alike if others)
    example = f"such as {shorten(first.key, _MAX_VALUE_LENGTH)}"
    if most == len(failed) == 1:
        return f"{why} in task {shorten(first.key, _MAX_VALUE_LENGTH)}"
    cause = f"{why} in {most:,} tasks{f' with {shared}' if shared else ''}, {example}"
    if most == len(failed):
        return cause
    if most == 1:
        cause = f"{why} in task {shorten(first.key, _MAX_VALUE_LENGTH)}"
    rest = [shorten(task.point.key, _MAX_VALUE_LENGTH) for task in failed if task.why != why]
    more = f" and {len(rest) - _MAX_NAMED_TASKS:,} more" if len(rest) > _MAX_NAMED_TASKS else ""
    return f"{cause}; other messages in {', '.join(rest[:_MAX_NAMED_TASKS])}{more}"


def _build_tasks_observation(
    state: Workflow, stage: Stage, attempt: AttemptPaths, kept: p.FileDigest | None = None
) -> p.TasksObserved:
    """Build the command that records the state of every task of the stage.

    ``kept`` describes the record of the attempt, and is None while the attempt runs.
    """
    root = attempt.root
    tasks = tasks_of(root, state, stage)
    tasks = [_close_task(task) for task in tasks] if kept is not None else tasks
    named = [t for t in tasks if t.state == "failed" and t.attempt == attempt.id]
    seen = next((one.tasks or {} for one in stage.attempts if one.id == attempt.id), {})
    places: dict[str, Any] = {
        where: format_ranges(number for number, task in enumerate(tasks) if task.state == where)
        for where in ("done", "failed", "lost", "running")
    }
    return p.TasksObserved(
        stage=stage.id,
        attempt=attempt.id,
        total=len(tasks),
        points=digest_points(tuple(task.point for task in tasks)),
        **places,
        ended=sum(run["ended"] is not None for run in read_journal_runs(attempt).values()),
        failures=[
            p.FailedTask(
                key=task.point.key,
                exit_code=task.exit_code,
                because=_add_cause(root / task.folder, task.why)[:200],
            )
            for task in named[:_MAX_NAMED_FAILURES]
        ],
        record=kept,
        journals=[
            file_digest(root, path, plain.read_content(path) or b"")
            for path in list_journals(attempt)
        ],
        edited=_find_edited_journals(root, seen),
        late=list(islice(_find_late_files(attempt, tasks), _MAX_NAMED_FAILURES))
        if kept is not None
        else [],
    )


def _find_edited_journals(root: Path, seen: Mapping[str, Any]) -> list[str]:
    """Return the journals (records of the workers) that somebody edited.

    A worker only appends to its journal. A change in the part that was already recorded is an edit.
    """
    known = set(seen.get("edited", []))
    for one in seen.get("journals", []):
        text = plain.read_content(root / one["path"]) or b""
        if sha256(text[: one["size"]]).hexdigest() != one["sha256"]:
            known.add(one["path"])
    return sorted(known)


def _find_late_files(attempt: AttemptPaths, tasks: Iterable[Task]) -> Iterator[p.LateFile]:
    """Yield the outputs that were written after the end of their task.

    Yields nothing for jobs on another machine.
    """
    if execution_host.load_execution_host(attempt).is_far:
        return
    for task in (one for one in tasks if one.attempt == attempt.id):
        for path in (f"{task.folder}/{one['path']}" for one in task.outputs):
            with suppress(OSError):
                after = (attempt.root / path).stat().st_mtime - (task.ended or 0) / 1e6
                if task.ended and after > _LATE_MARGIN:
                    yield p.LateFile(path=path, seconds=int(after))


def build_progress_commands(
    state: Workflow, stage: Stage, attempt: AttemptPaths
) -> list[p.TasksObserved]:
    """Return the command that records the progress of the tasks.

    Returns an empty list if not enough tasks have ended since the last record.
    """
    if not attempt.task_head.is_file():
        return []
    seen = _build_tasks_observation(state, stage, attempt)
    before = (stage.attempts[-1].tasks or {}).get("ended", 0)
    return [seen] if seen.ended - before >= max(1, _PROGRESS_STEP * seen.total) else []


def close_tasks(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    *,
    stopped: bool = False,
    believed: bool = False,
) -> p.TasksObserved:
    """Write the record and the table of an ended attempt of a sweep.

    Returns the command that records both in the log. A task whose shell was killed but whose
    outputs are complete is verified and moved into place, unless the attempt was ``stopped``. If
    the stage has no verification, this is done only with ``believed``, which means that a person
    confirmed the results.
    """
    download_task_results(attempt)
    what = stage.work.task_rules
    if believed or (not stopped and what.verify is not None):
        _finish_orphan_tasks(attempt, what.outputs)
    state = state.draft()
    stage = state.stage(stage.id)
    recorded = next(one for one in stage.attempts if one.id == attempt.id)
    # Remove the old record, in case the attempt is closed again. It would hide tasks for which only
    # a mark in their folder shows that they are done.
    recorded.tasks = {k: v for k, v in (recorded.tasks or {}).items() if k != "record"}
    marked = [task for task in tasks_of(attempt.root, state, stage) if task.marked]
    kept = _write_record(attempt, stage, marked)
    recorded.tasks |= {"record": kept.model_dump()}
    told = _build_tasks_observation(state, stage, attempt, kept)
    tasks, rounds = tasks_of(attempt.root, state, stage), count_tasks_before_rounds(state, stage)
    table.write_table(attempt.root, stage, tasks, rounds)
    return told


def find_unclosed_attempts(root: Path, state: Workflow, stage: Stage) -> list[AttemptPaths]:
    """Return the attempts of a sweep for which no record of the tasks is in the log."""
    unclosed = [one for one in stage.attempts if not (one.tasks or {}).get("record")]
    found = [recorded_attempt_paths(root, state.id, stage.id, one) for one in unclosed]
    return [attempt for attempt in found if attempt.task_head.is_file()]


#: Maximum number of failed tasks whose output a diagnosis quotes.
_MAX_QUOTED_TASKS = 3
#: Maximum number of failed tasks that a diagnosis names.
_MAX_LISTED_TASKS = 20


def _read_task_logs(folder: Path) -> list[tuple[str, str]]:
    """Return the last lines of each log of a task that is not empty, after the log's name."""
    found = ((name, traces.read_file_end(folder / name)) for name in (ERROR_LOG, OUTPUT_LOG))
    return [(name, text) for name, text in found if text.strip()]


def _add_cause(folder: Path, ended: str) -> str:
    """Return the reason why a task ended, extended by the cause that its output shows.

    ``ended`` is the reason that the worker recorded, such as ``exit 1``. It is returned unchanged
    if the output shows no cause.
    """
    if not ended.startswith(("exit ", *VERDICTS)):
        return ended
    verdict = next((words for words in VERDICTS if ended.startswith(words)), "")
    texts = _read_task_logs(folder)
    if verdict:  # the verification wrote to one of the two logs after the command
        texts.sort(key=lambda one: -(folder / one[0]).stat().st_mtime_ns)
    cause = find_cause(*(text for _, text in texts))
    if cause is None:
        return ended
    return f"{verdict}{cause} ({ended.removeprefix(verdict)})"


def diagnose_failed_tasks(found: Diagnosis, root: Path, state: Workflow, stage: Stage) -> Diagnosis:
    """Return the diagnosis of an attempt of a sweep, derived from its failed tasks.

    ``found`` is the diagnosis of its jobs, and is returned unchanged if no task failed.
    """
    failed = [task for task in tasks_of(root, state, stage) if task.state in ("failed", "lost")]
    if not failed:
        return found
    counted = Counter(task.why for task in failed)
    ordered = sorted(failed, key=lambda task: -counted[task.why])
    # A task that needs more resources decides, because the next attempt can help this task.
    decisive = next((task for task in ordered if _is_short_in(stage, task)), None)
    ordered = [decisive, *(one for one in ordered if one is not decisive)] if decisive else ordered
    kind = classify_output_texts([(task.point.key, task.why) for task in ordered])
    if decisive is not None:
        kind = FailureKind("resource", decisive.why, decisive.point.key)
    category, because, cause = kind.category, kind.because, None
    if all(task.why.startswith(_FAILED_CHECK) for task in failed):
        category = "unknown"  # the program succeeded, as in a failed check of a stage
    if all(task.why == _CUT_OFF for task in failed):
        # The job was ended together with all its tasks, so only the job shows the cause.
        category, because, cause = found.category, found.because, found.cause
    output = "\n".join(
        f"{task.point.key}/{name}:\n{text}"
        for task in ordered[:_MAX_QUOTED_TASKS]
        for name, text in _read_task_logs(root / task.folder)
    )
    return replace(
        found,
        category=category,
        because=because,
        # If the tasks show the cause, the verdict already states it with the number of tasks.
        cause=cause,
        jobs=(),
        tasks=tuple(
            f"{one.point.key}: {one.why} ({one.folder})" for one in ordered[:_MAX_LISTED_TASKS]
        ),
        output=output or None,
        has_output=bool(output),
    )


def _is_short_in(stage: Stage, task: Task) -> bool:
    """Return whether a task had too little memory or time in the newest attempt of its stage."""
    return task.short_of is not None and task.attempt == stage.attempts[-1].id


def _write_record(attempt: AttemptPaths, stage: Stage, marked: Sequence[Task]) -> p.FileDigest:
    """Write the record of an ended attempt, and return its path, size and digest.

    The record contains one line per task. ``marked`` are the tasks for which only the mark in their
    folder shows that they are done. Writing the record again gives the same content.
    """
    what, done = stage.work.task_rules, attempt.stage_folder / DONE
    told = (_close_row(attempt, row) for row in read_journal_rows(attempt))
    by_key: dict[str, dict[str, Any]] = {row["key"]: row for row in told}
    for task in marked:
        own = {"key": task.point.key, "folder": task.point.folder, "state": "done", "exit_code": 0}
        times = {"started": task.started, "ended": task.ended}
        by_key[task.point.key] = {**own, **times, "why": ""}
    rows = (row | _examine_done_task(attempt.root, done, row, what) for row in by_key.values())
    content = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()
    make_folders(attempt, attempt.tasks)
    write_whole(attempt.task_record, content)
    return file_digest(attempt.root, attempt.task_record, content)


#: End of the text with which a worker names a full file system. The cause of the task's end
#: follows.
_FULL_DISK_PREFIX_END = "bytes free): "


def _close_row(attempt: AttemptPaths, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the journals as it is recorded after the end of the attempt.

    A running task becomes lost, and the cause of a failure is added.
    """
    if row["state"] == "waiting":
        return dict(row)
    state = "lost" if row["state"] == "running" else row["state"]
    full, colon, ended = row["why"].rpartition(_FULL_DISK_PREFIX_END)
    said = f"{full}{colon}{_add_cause(attempt.tasks / state / row['folder'], ended)}"
    if state == "failed" and not full:
        # The task's files were moved to another file system, so the free space at their current
        # place must not decide whether the disk was full.
        said = add_full_disk_name(said, attempt, is_vague=False)
    return {**row, "state": state, "why": said or ("" if state == "done" else _CUT_OFF)}


def _examine_done_task(
    root: Path, done: Path, row: Mapping[str, Any], what: TaskRules
) -> dict[str, Any]:
    """Return the outputs and metrics of a task that is done.

    If they are incomplete, returns another state for the task and the reason. Returns an empty dict
    for a task in another state.
    """
    if row["state"] != "done":
        return {}
    folder = done / str(row["folder"])
    mark = read_mark(folder)
    if mark is not None and mark.key not in ("", row["key"]):
        return {
            "state": "lost",
            "why": f"the folder of the task contains the results of {mark.key:.200}",
        }
    missing = [path for path in what.outputs if not exists(folder / path)]
    if missing:
        return {"state": "lost", "why": f"{missing[0]} no longer exists"}
    reasons = ((path, describe_unreadable_entries(folder / path)) for path in what.outputs)
    if unreadable := next((f"{path} {why}" for path, why in reasons if why), None):
        return {"state": "failed", "why": unreadable}
    found = digests(root, [str((folder / path).relative_to(root)) for path in what.outputs])
    outputs = [
        {"path": path, "size": one.size, "sha256": one.sha256}
        for path, one in zip(what.outputs, found, strict=True)
    ]
    try:
        read = {name: read_metric(folder / one.path, one) for name, one in what.metrics.items()}
    except ValueError as error:
        return {"state": "failed", "why": str(error)}
    errors = {name: error for name, (_, error) in read.items() if error is not None}
    numbers = {"metrics": {name: value for name, (value, _) in read.items()}}
    return {"outputs": outputs, **numbers, **({"errors": errors} if errors else {})}
