"""What is made of the tasks of an attempt: a verdict once it is over, an event for the log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, Sweep, is_sweep, sweep_of, text_of
from reconciler.attempt import execution_host
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import UNTOLD, AttemptPaths, of_recorded
from reconciler.host import processes as plain
from reconciler.records import traces
from reconciler.sweep import folders, records, table
from reconciler.sweep.points import digest_of
from reconciler.sweep.tasks import Task, tasks_of
from reconciler.verdict.table import Action, Name, Verdict

_SUM = re.compile(r"\b([0-9a-f]{64})  ([\w.]+)")


Through = tuple[tuple[str, str, str], Path]
"""A task that is through: as its attempt lists it, and where it ran."""


def through(attempt: AttemptPaths, what: Sweep) -> list[Through]:
    """Return the tasks of an attempt that is over which ran on alone and left all they were to."""
    silent = {job.name for job in traces.jobs(attempt) if job.exit_code in UNTOLD}
    jobs = silent.intersection(traces.alone(attempt))
    runs = folders.of(attempt) if jobs else {}
    ran = ((one, runs.get(int(one[0]))) for one in folders.listed(attempt) if jobs)
    return [
        (one, place)
        for one, run in ran
        if run is not None and run.state == "running" and run.job in jobs
        for place in (
            copy / attempt.stage / DONE / one[1] for copy in traces.scratch_copies(attempt)
        )
        if place.is_dir() and all((place / path).exists() for path in what.outputs)
        if all((place / p).stat().st_mtime_ns >= run.started * 1000 for p in what.outputs)
    ]


def settle(attempt: AttemptPaths, what: Sweep) -> None:
    """End these tasks as their worker would have: verified, put in place and written down."""
    found = through(attempt, what)
    own = genuine.submission_of(attempt) or {}
    tasks = attempt.tasks
    # What a worker reads is as the submission, whose digest the log has, names it.
    sums = dict.fromkeys(_SUM.findall(json.dumps(own)))
    texts = ((digest, plain.content(tasks / name) or b"") for digest, name in sums)
    vouched = bool(sums) and all(sha256(text).hexdigest() == digest for digest, text in texts)
    if not found or not vouched:
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
#: Seconds after the end of a task in which its files may still get their times.
_MARGIN = 2.0
#: Verdicts on an attempt of which no task was begun.
_NEVER_BEGAN = frozenset({Name.REJECTED, Name.ORPHAN_DIR_DELETED})


def is_over(found: Verdict, attempt: AttemptPaths) -> bool:
    """Whether nothing of an attempt computes any more, by a verdict on its jobs.

    Nor can it be launched where the list of its tasks is gone.
    """
    ended = found.action in (Action.SUCCEEDED, Action.FAILED, Action.LOST)
    gone = found.action is Action.LAUNCH and not attempt.task_list.is_file()
    return (ended or gone or found.name == Name.UNTOLD) and found.name not in _NEVER_BEGAN


def judged(state: Workflow, stage: Stage, attempt: AttemptPaths, found: Verdict) -> Verdict:
    """Return the verdict on an attempt of a sweep, given that on its jobs.

    What its jobs came to says nothing: each task tells of itself.
    """
    if not is_over(found, attempt):
        return found
    what = sweep_of(stage.parameters)
    alone = through(attempt, what)
    if alone and what.verify is None:
        return replace(
            found,
            row=7,
            name=Name.UNTOLD,
            action=Action.UNKNOWN,
            reason=_untold(len(alone), alone[0][1]),
        )
    known = {folder for (_, folder, _), _ in alone}
    tasks = [_closed(task, known) for task in tasks_of(attempt.root, state, stage)]
    done = sum(task.state == "done" for task in tasks)
    spent = [task for task in tasks if task.is_spent(what.retries)]
    left = len(tasks) - done - len(spent)
    said = f"{done:,} of {len(tasks):,} tasks are done"
    if left:
        why = f"{said}, {left:,} are to be computed: {found.reason}"
        return replace(found, row=9, name=Name.TASKS_REMAIN, action=Action.LOST, reason=why)
    if len(spent) <= what.tolerate * len(tasks):
        why = f"{said}, {len(spent):,} failed, which is tolerated" if spent else said
        return replace(found, row=7, name=Name.TASKS_DONE, action=Action.SUCCEEDED, reason=why)
    why = f"{words(spent)}; {said}"
    return replace(found, row=8, name=Name.TASKS_FAILED, action=Action.FAILED, reason=why)


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
    return replace(task, state="lost", lost=task.lost + 1, why="cut off")


def words(failed: Sequence[Task]) -> str:
    """Say of what most of the tasks failed, how many they are, and which is the first."""
    if not failed:
        return "none failed"
    why, most = Counter(task.why for task in failed).most_common(1)[0]
    first, *others = (task.point for task in failed if task.why == why)
    alike = [n for n in first.values if all(o.values[n] == first.values[n] for o in others)]
    shared = ",".join(f"{name}={first.values[name]}" for name in alike if others)
    of = f"{most:,} of {len(failed):,}" if most < len(failed) else f"{most:,}"
    return f"{why}: {of} failed tasks{f' at {shared}' if shared else ''}, such as {first.key}"


def observation(
    root: Path,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    kept: p.FileDigest | None = None,
) -> p.TasksObserved:
    """Return the command that records where the tasks stand; ``kept`` is the attempt's record."""
    tasks = tasks_of(root, state, stage)
    tasks = [_closed(task) for task in tasks] if kept is not None else tasks
    named = [t for t in tasks if t.state == "failed" and t.attempt == attempt.id]
    seen = next((one.tasks or {} for one in stage.attempts if one.id == attempt.id), {})
    ended = sum(ran.ended is not None for ran in folders.of(attempt).values())
    return p.TasksObserved(
        stage=stage.id,
        attempt=attempt.id,
        total=len(tasks),
        points=digest_of(tuple(task.point for task in tasks)),
        done=_at(tasks, "done"),
        failed=_at(tasks, "failed"),
        lost=_at(tasks, "lost"),
        running=_at(tasks, "running"),
        ended=ended,
        failures=[
            p.FailedTask(
                key=task.point.key,
                exit_code=task.exit_code,
                because=records.why(root / task.folder, task.why)[:200],
            )
            for task in named[:_NAMED]
        ],
        record=kept,
        journals=folders.told(attempt),
        edited=folders.edited(attempt, seen),
        late=list(islice(_late(root, attempt, tasks), _NAMED)) if kept is not None else [],
    )


def _late(root: Path, attempt: AttemptPaths, tasks: Iterable[Task]) -> Iterator[p.LateFile]:
    """Yield the outputs that were written after their task had ended; of other clocks nothing."""
    if execution_host.of(attempt).is_far:
        return
    for task in (one for one in tasks if one.attempt == attempt.id):
        for path in (f"{task.folder}/{one['path']}" for one in task.outputs):
            with suppress(OSError):
                after = (root / path).stat().st_mtime - (task.ended or 0) / 1e6
                if task.ended and after > _MARGIN:
                    yield p.LateFile(path=path, seconds=int(after))


def _at(tasks: Sequence[Task], state: str) -> str:
    """Return the places of the tasks in a state."""
    return text_of(number for number, task in enumerate(tasks) if task.state == state)


def progress(
    root: Path, state: Workflow, stage: Stage, attempt: AttemptPaths
) -> list[p.TasksObserved]:
    """Return the command that records how far the tasks have come, where it is worth an event."""
    if not attempt.task_head.is_file():
        return []
    seen = observation(root, state, stage, attempt)
    before = (stage.attempts[-1].tasks or {}).get("ended", 0)
    worth = seen.ended - before >= max(1, _STEP * seen.total)
    return [seen] if worth else []


def close(
    root: Path, state: Workflow, stage: Stage, attempt: AttemptPaths, *, stopped: bool = False
) -> p.TasksObserved:
    """Write the record and the table of an attempt that is over; return what is to be recorded.

    What outlived its shells ended by itself, unless the attempt was ``stopped``.
    """
    if not stopped:
        settle(attempt, sweep_of(stage.parameters))
    state = state.draft()
    stage = state.stage(stage.id)
    recorded = next(one for one in stage.attempts if one.id == attempt.id)
    # Of an attempt that is closed again, a record would hide which tasks their marks alone tell of.
    recorded.tasks = {k: v for k, v in (recorded.tasks or {}).items() if k != "record"}
    marked = [task for task in tasks_of(root, state, stage) if task.marked]
    kept = records.write(attempt, stage, marked)
    recorded.tasks |= {"record": kept.model_dump()}
    told = observation(root, state, stage, attempt, kept)
    table.write(root, stage, tasks_of(root, state, stage))
    return told


def unclosed(root: Path, state: Workflow, stage: Stage) -> list[AttemptPaths]:
    """Return the attempts of a sweep that somebody ended, and whose tasks no record tells of."""
    if not is_sweep(stage.parameters):
        return []
    over = [one for one in stage.attempts if not (one.is_open or (one.tasks or {}).get("record"))]
    found = [of_recorded(root, state.id, stage.id, one) for one in over]
    return [attempt for attempt in found if attempt.task_head.is_file()]
