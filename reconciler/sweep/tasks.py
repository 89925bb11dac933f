"""The tasks of a stage: what became of each, over all attempts of its definition.

What an attempt that is over says stands in its record, whose digest the log holds; of one under way
the journals of its workers tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from lifecycle.state.status import RECOVERY_LIMIT
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import (
    DONE,
    NO_NUMBER,
    VERDICTS,
    basis_before,
    basis_of,
    sweep_of,
    verdict_of,
)
from lifecycle.sweeps.points import Point
from reconciler.attempt import paths as genuine
from reconciler.attempt.paths import AttemptPaths, of_recorded
from reconciler.host import processes as plain
from reconciler.records import traces
from reconciler.sweep import folders
from reconciler.sweep.folders import TaskMark
from reconciler.sweep.points import points_of

#: The words for where a task stands.
STATES = ("done", "failed", "lost", "running", "waiting")


@dataclass(frozen=True, slots=True)
class Task:
    """One task: its point, where it stands, and its newest run.

    ``begun`` counts its runs over all attempts, ``failed`` and ``lost`` those of the newest attempt
    and of those in whose place it stands. Times are in microseconds since the epoch, ``folder`` is
    relative to the root. ``marked``: nothing but the mark in its folder tells that it is done.
    ``to_judge``: what it computed there is whole by its definition, and another verdict counts now.
    """

    point: Point
    state: str = "waiting"
    begun: int = 0
    failed: int = 0
    lost: int = 0
    attempt: str | None = None
    exit_code: int | None = None
    started: int | None = None
    ended: int | None = None
    why: str = ""
    folder: str = ""
    outputs: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    marked: bool = False
    to_judge: bool = False

    def is_spent(self, retries: int) -> bool:
        """Whether it is not done, and no attempt in place of a lost one tries it again."""
        out = self.failed > retries or self.lost > RECOVERY_LIMIT
        return self.state in ("failed", "lost") and out


def tasks_of(root: Path, state: Workflow, stage: Stage, basis: str | None = None) -> list[Task]:
    """Return the tasks of the stage in the order in which they are begun.

    ``basis`` is what they are computed from; without it that of the newest attempt.
    Raises as `points_of`.
    """
    known = {p.key: Task(p) for p in points_of(root, state, stage)}
    counting, origin = _counting(root, state, stage, basis)
    for recorded, attempt in counting:
        if recorded.recovers is None:
            known = {key: replace(task, failed=0, lost=0) for key, task in known.items()}
        for run in runs_of(attempt, recorded):
            task = known.get(str(run.get("key")))
            if task is not None:
                known[task.point.key] = _with(task, run, attempt)
        if verdict_by(attempt) not in (None, verdict_digest(stage)):
            known = {key: _unjudged(task, attempt) for key, task in known.items()}
    tags = {attempt.tag: attempt for _, attempt in counting}
    return _by_marks(root, stage, list(known.values()), tags, origin)


def _by_marks(
    root: Path, stage: Stage, tasks: list[Task], tags: Mapping[str, AttemptPaths], origin: str
) -> list[Task]:
    """Return the tasks; one of whose end no attempt tells is done by the mark in its folder.

    ``tags`` are the attempts that count, ``origin`` is that of the newest.
    """
    untold = {
        task.point.folder
        for task in tasks
        if task.state in ("waiting", "running") and not task.to_judge
    }
    found = folders.in_place(root, stage.id, untold)
    outputs, place = sweep_of(stage.parameters).outputs, root / stage.id / DONE
    done = {name for name in found if all((place / name / path).exists() for path in outputs)}
    return [
        _marked(task, found[task.point.folder], stage, tags)
        if task.point.folder in done and _fits(found[task.point.folder], task, tags, origin)
        else task
        for task in tasks
    ]


def _fits(mark: TaskMark, task: Task, tags: Mapping[str, AttemptPaths], origin: str) -> bool:
    """Whether a mark tells of the task; of one that runs, that of its own attempt alone."""
    own = tags.get(mark.tag)
    if task.state == "running":
        return own is not None and own.id == task.attempt
    return own is not None or (bool(origin) and mark.origin == origin)


def _marked(task: Task, mark: TaskMark, stage: Stage, tags: Mapping[str, AttemptPaths]) -> Task:
    own = tags.get(mark.tag)
    done = replace(
        task,
        state="done",
        attempt=None if own is None else own.id,
        exit_code=0,
        ended=mark.ended,
        folder=f"{stage.id}/{DONE}/{task.point.folder}",
        marked=True,
    )
    if own is None or verdict_by(own) in (None, verdict_digest(stage)):
        return done
    return _unjudged(done, own)


def _unjudged(task: Task, attempt: AttemptPaths) -> Task:
    """Return a task as it stands where the verdict on its run in an attempt counts no longer."""
    failed = task.state == "failed" and task.why.startswith(VERDICTS)
    if task.attempt != attempt.id or not (failed or task.state == "done"):
        return task
    return replace(task, state="waiting", to_judge=True, failed=0)


def _counting(
    root: Path, state: Workflow, stage: Stage, basis: str | None
) -> tuple[list[tuple[Recorded, AttemptPaths]], str]:
    """Return the attempts whose tasks count, of the definition and the inputs of the newest one.

    With them what they are of, as `origin_of` spells it. None where all is to be computed again.
    """
    if stage.keep_as is not None and not stage.keeps_tasks:
        return [], ""
    # Heads of attempts that say nothing of a verdict have the definition otherwise.
    definitions = (definition_of(stage), _digest(basis_before(stage.parameters)))
    found = []
    for recorded in reversed(stage.attempts):
        attempt = of_recorded(root, state.id, stage.id, recorded)
        definition, rests_on = (*_origin(attempt).split(":"), "")[:2]
        if definition not in definitions or rests_on != (basis or rests_on):
            break
        basis = rests_on
        found.append((recorded, attempt))
    return found[::-1], "" if basis is None else origin_of(stage, basis)


def origin_of(stage: Stage, basis: str) -> str:
    """Return what tasks are of: the digests of definition, what they rest on, and verdict."""
    return f"{definition_of(stage)}:{basis}:{verdict_digest(stage)}"


def _origin(attempt: AttemptPaths) -> str:
    """Return what the tasks of an attempt are of, by its head, else by what it submitted."""
    head = traces.texts(traces.read_json(attempt.task_head))
    if "definition" in head and "basis" in head:
        return f"{head['definition']}:{head['basis']}"
    match genuine.submission_of(attempt):
        case {"resources": {"envs": {"WFCTL_TASKS_ORIGIN": str(found)}}}:
            return found
    return ""


def counts_of(found: Sequence[Task]) -> dict[str, int]:
    """Return how many tasks stand where, by state."""
    return {state: sum(task.state == state for task in found) for state in STATES}


def definition_of(stage: Stage) -> str:
    """Return the digest of what the definition says of every task, its point aside."""
    return _digest(basis_of(stage.parameters))


def verdict_digest(stage: Stage) -> str:
    """Return the digest of what each task is judged by."""
    return _digest(verdict_of(stage.parameters))


def verdict_by(attempt: AttemptPaths) -> str | None:
    """Return the digest of what the tasks of an attempt were judged by; None of an older one."""
    return traces.texts(traces.read_json(attempt.task_head)).get("verdict")


def _digest(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def runs_of(attempt: AttemptPaths, recorded: Recorded) -> Iterable[Mapping[str, Any]]:
    """Return what an attempt says of its tasks: by its record, else by its journals.

    A record that is not the one that the log names says nothing.
    """
    named = (recorded.tasks or {}).get("record")
    if named is None:
        return folders.rows_told(attempt)
    content = plain.text(attempt.task_record).encode()
    if sha256(content).hexdigest() != named["sha256"]:
        return []
    return [json.loads(line) for line in content.decode().splitlines()]


def _with(task: Task, run: Mapping[str, Any], attempt: AttemptPaths) -> Task:
    """Return the task after one more run.

    One that was judged anew was computed when, and as often as, it was before.
    """
    state, started = str(run["state"]), run.get("started")
    if state == "waiting" or (started is None and (task.state != "waiting" or task.to_judge)):
        return task
    judged = task.to_judge and bool(run.get("judged"))
    if judged and state == "lost":
        return task
    why = run.get("why") or ""
    lies_as = "done" if why.startswith(NO_NUMBER) else state
    running = judged and state == "running"
    found = replace(
        task,
        to_judge=running,
        state=state,
        failed=task.failed + (state == "failed"),
        lost=task.lost + (state == "lost"),
        attempt=None if started is None else attempt.id,
        exit_code=run.get("exit_code"),
        why=why,
        folder=task.folder if running else folder_of(attempt, lies_as, str(run["folder"])),
        outputs=tuple(run.get("outputs") or ()),
        metrics=run.get("metrics") or {},
    )
    if judged:
        return found
    begun = task.begun + (started is not None)
    return replace(found, begun=begun, started=started, ended=run.get("ended"))


def folder_of(attempt: AttemptPaths, state: str, folder: str) -> str:
    """Return where the folder of a task is, relative to the root; where it runs, it is not here."""
    if state == "done":
        return f"{attempt.stage}/{DONE}/{folder}"
    if state in ("failed", "lost"):
        return str((attempt.tasks / state / folder).relative_to(attempt.root))
    copies = traces.scratch_copies(attempt)
    found = [copy / attempt.stage / DONE / folder for copy in copies]
    return next((str(one) for one in found if one.is_dir()), "")


def to_compute(found: Sequence[Task], stage: Stage, recovers: str | None) -> list[Task]:
    """Return the tasks that the next attempt computes: all that are not done.

    One in the place of a lost attempt leaves out those that have used up their tries.
    """
    retries = sweep_of(stage.parameters).retries
    return [
        task
        for task in found
        if task.state != "done" and not (recovers is not None and task.is_spent(retries))
    ]
