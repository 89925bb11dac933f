"""The tasks of a stage: what became of each, over all attempts of its definition.

What an attempt that is over says stands in its record, whose digest the log holds; of one under way
the journals of its workers tell.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
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
from reconciler.attempt import recorded as genuine
from reconciler.attempt.paths import AttemptPaths, of_recorded
from reconciler.host import processes as plain
from reconciler.records import traces
from reconciler.sweep import folders
from reconciler.sweep.folders import TaskMark, done_folder, micros, place_of
from reconciler.sweep.points import points_of


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a task; times in microseconds since the epoch.

    ``state`` is done, failed, lost, or running where nothing was written of its end. ``job`` is the
    hash of the job whose worker began it.
    """

    started: int
    state: str = "running"
    exit_code: int | None = None
    ended: int | None = None
    why: str = ""
    job: str | None = None


def of(attempt: AttemptPaths) -> dict[int, Ran]:
    """Return the runs by the task's number; a line that was cut off says nothing."""
    found = dict[int, Ran]()
    for journal in _journals(attempt):
        job = None
        for cells in _lines(journal):
            job = cells[1] if cells[0] == "j" else job
            _fold(found, cells, job)
    return found


def told(attempt: AttemptPaths) -> list[p.FileDigest]:
    """Return what the journals are now."""
    return [_told(attempt, path, plain.content(path) or b"") for path in _journals(attempt)]


def _told(attempt: AttemptPaths, path: Path, text: bytes) -> p.FileDigest:
    own = str(path.relative_to(attempt.root))
    return p.FileDigest(path=own, size=len(text), sha256=sha256(text).hexdigest())


def edited(attempt: AttemptPaths, seen: Mapping[str, Any]) -> list[str]:
    """Return the journals that do not begin as an earlier look at the tasks saw them.

    A worker writes behind the end alone.
    """
    known = set(seen.get("edited", []))
    for one in seen.get("journals", []):
        text = plain.content(attempt.root / one["path"]) or b""
        if sha256(text[: one["size"]]).hexdigest() != one["sha256"]:
            known.add(one["path"])
    return sorted(known)


def _journals(attempt: AttemptPaths) -> list[Path]:
    return sorted(place_of(attempt).folder.glob("journal.*"))


def listed(attempt: AttemptPaths) -> Iterator[tuple[str, str, str]]:
    """Yield number, folder and assignments of each task that the attempt was given."""
    for line in plain.text(place_of(attempt).list).splitlines():
        number, folder, assignments = line.split("\t", 2)
        yield number, folder, assignments


def _lines(journal: Path) -> Iterator[list[str]]:
    whole, _, _ = plain.text(journal).rpartition("\n")
    yield from (line.split("\t") for line in whole.split("\n"))


def _fold(found: dict[int, Ran], cells: list[str], job: str | None) -> None:
    match cells:
        case ["s", number, at] if number.isdigit():
            found[int(number)] = Ran(micros(at), job=job)
        case ["e", number, state, code, at, why] if number.isdigit():
            begun = found.get(int(number), Ran(micros(at)))
            found[int(number)] = replace(
                begun, state=state, exit_code=plain.number(code), ended=micros(at), why=why
            )


#: Names to a worker the folder of a task that is judged again, and not computed.
JUDGE = "WFCTL_JUDGE"
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
    outputs, place = sweep_of(stage.parameters).outputs, done_folder(root, stage.id)
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
    definitions = (definition_of(stage), _definition_before(stage))
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
    head = traces.texts(traces.read_json(place_of(attempt).head))
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


def _definition_before(stage: Stage) -> str:
    """Return it as heads of attempts have it that say nothing of a verdict."""
    return _digest(basis_before(stage.parameters))


def verdict_digest(stage: Stage) -> str:
    """Return the digest of what each task is judged by."""
    return _digest(verdict_of(stage.parameters))


def verdict_by(attempt: AttemptPaths) -> str | None:
    """Return the digest of what the tasks of an attempt were judged by; None of an older one."""
    return traces.texts(traces.read_json(place_of(attempt).head)).get("verdict")


def _digest(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def runs_of(attempt: AttemptPaths, recorded: Recorded) -> Iterable[Mapping[str, Any]]:
    """Return what an attempt says of its tasks: by its record, else by its journals.

    A record that is not the one that the log names says nothing.
    """
    place = place_of(attempt)
    named = (recorded.tasks or {}).get("record")
    if named is None:
        return live_runs(attempt)
    content = plain.text(place.record).encode()
    if sha256(content).hexdigest() != named["sha256"]:
        return []
    return [json.loads(line) for line in content.decode().splitlines()]


def live_runs(attempt: AttemptPaths) -> Iterator[dict[str, Any]]:
    """Yield what the journals say of each task that was begun."""
    place = place_of(attempt)
    tasks = list(listed(attempt))
    folders = {number: folder for number, folder, _ in tasks}
    keys = (traces.read_json(place.head) or {}).get("keys", {})
    judged = judged_in(tasks)
    for number, ran in of(attempt).items():
        folder = folders.get(str(number))
        if folder is not None:
            yield {
                "key": keys.get(folder, folder),
                "folder": folder,
                "state": ran.state,
                "exit_code": ran.exit_code,
                "started": ran.started,
                "ended": ran.ended,
                "why": ran.why,
                "judged": str(number) in judged,
            }


def judged_in(tasks: Iterable[tuple[str, str, str]]) -> Container[str]:
    """Return the numbers of the tasks in an attempt's list that are judged and not computed."""
    return {number for number, _, assignments in tasks if f" {JUDGE}=" in assignments}


def _with(task: Task, run: Mapping[str, Any], attempt: AttemptPaths) -> Task:
    """Return the task after one more run."""
    state = str(run["state"])
    begun = run.get("started") is not None
    if not begun and (task.state != "waiting" or task.to_judge):
        return task
    if task.to_judge and run.get("judged"):
        return _judged(task, run, attempt, state)
    return replace(
        task,
        to_judge=False,
        state=state,
        begun=task.begun + begun,
        failed=task.failed + (state == "failed"),
        lost=task.lost + (state == "lost"),
        attempt=attempt.id if begun else None,
        exit_code=run.get("exit_code"),
        started=run.get("started"),
        ended=run.get("ended"),
        why=run.get("why") or "",
        folder=folder_of(attempt, _lies_as(run), str(run["folder"])),
        outputs=tuple(run.get("outputs") or ()),
        metrics=run.get("metrics") or {},
    )


def _judged(task: Task, run: Mapping[str, Any], attempt: AttemptPaths, state: str) -> Task:
    """Return the task after a new verdict; it was computed when, and as often as, it was before."""
    if state == "lost":
        return task
    return replace(
        task,
        state=state,
        to_judge=state == "running",
        failed=task.failed + (state == "failed"),
        attempt=attempt.id,
        exit_code=run.get("exit_code"),
        why=run.get("why") or "",
        folder=task.folder
        if state == "running"
        else folder_of(attempt, _lies_as(run), str(run["folder"])),
        outputs=tuple(run.get("outputs") or ()),
        metrics=run.get("metrics") or {},
    )


def _lies_as(run: Mapping[str, Any]) -> str:
    """Return the state by which the folder of a task lies where it does."""
    by_number = str(run.get("why") or "").startswith(NO_NUMBER)
    return "done" if by_number else str(run["state"])


def folder_of(attempt: AttemptPaths, state: str, folder: str) -> str:
    """Return where the folder of a task is, relative to the root; where it runs, it is not here."""
    if state == "done":
        return f"{attempt.stage}/{DONE}/{folder}"
    if state in ("failed", "lost"):
        own = (place_of(attempt).folder / state / folder).relative_to(attempt.root)
        return str(own)
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
