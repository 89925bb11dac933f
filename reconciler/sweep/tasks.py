"""The points of a stage's map, and its tasks: what became of each, over all attempts.

What an attempt that is over says stands in its record, whose digest the log holds; of one under way
the journals of its workers tell.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle.errors import Refused
from lifecycle.fold.rounds import counts_below, points_since
from lifecycle.state.conditions import partners_of
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
    table_of,
    verdict_of,
)
from lifecycle.sweeps.points import Point
from projections.words.came_about import counts_of as counts_recorded
from reconciler.attempt import paths as genuine
from reconciler.attempt.markers import is_as, set_aside
from reconciler.attempt.paths import AttemptPaths, of_recorded
from reconciler.errors import ReconcilerError
from reconciler.files.clearing import LABEL, KeptFolderTaken
from reconciler.host import small_files as plain
from reconciler.records import traces
from reconciler.records.used import used_in
from reconciler.sweep.map_points import points_of
from service.root.disk import write_whole


def keep(root: Path, state: Workflow, stage: Stage) -> bool:
    """Move folders of tasks that are no more, and the table of before, to ``stage-N.vK``.

    All else stays where it is. May be called again after a crash. Returns whether there is a kept
    folder now. Raises `KeptFolderTaken`, and as `points_of`.
    """
    if stage.keep_as is None:
        return False
    kept, done = root / stage.keep_as, root / stage.id / DONE
    points = points_of(root, state, stage)
    since = counts_below(state, stage, stage.attempts[-1].plan) if stage.attempts else None
    named = {point.folder for point in _before(state, stage, points, since)}
    gone = sorted({f.name for f in done.iterdir()} - named) if done.is_dir() else []
    moves = [(done / name, kept / DONE / name) for name in gone]
    tables = [(root / path, kept / Path(path).name) for path in table_of(stage.id)]
    moves += [(old, new) for old, new in tables if old.exists()]
    if moves:
        label = kept / LABEL
        if kept.exists() and not label.is_file():
            raise KeptFolderTaken(stage.id, kept)
        kept.mkdir(exist_ok=True)
        write_whole(label, f"{stage.keep_as}\n".encode())
        (kept / DONE).mkdir(exist_ok=True)
    for old, new in moves:
        old.rename(new)
    return kept.exists()


def put_aside(root: Path, stage: Stage, done: Container[str]) -> None:
    """Move each folder that is not ``done`` out of the way, as other outputs of earlier attempts.

    It is kept in the earlier attempt's folder. May be called again after a crash.
    """
    folder = root / stage.id / DONE
    previous = stage.attempt.name if stage.attempt else None
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name not in done:
            set_aside(root, stage.id, f"{stage.id}/{DONE}/{found.name}", previous)


#: Name of the file in the folder of a task that is done; see `TaskMark`.
MARK = ".wfctl-done"
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
    errors: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    marked: bool = False
    to_judge: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether the next attempt goes by what it left."""
        return self.state == "done" or self.to_judge

    def is_spent(self, retries: int) -> bool:
        """Whether it is not done, and no attempt in place of a lost one tries it again."""
        out = self.failed > retries or self.lost > RECOVERY_LIMIT
        return self.state in ("failed", "lost") and out


class TaskMark(NamedTuple):
    """What the mark in a task's folder states, separated by tabs on one line.

    ``tag`` names the attempt, ``ended`` is in seconds since the epoch as bash writes it. Marks of
    earlier versions have no ``origin`` or no ``key``, which are empty then.
    """

    tag: str
    number: str
    ended: str
    origin: str = ""
    key: str = ""


def read_mark(folder: Path) -> TaskMark | None:
    """Return the mark in the folder of a task; None without one, or if it was cut off."""
    text = plain.text(folder / MARK)
    fields = text.removesuffix("\n").split("\t", 4)
    return TaskMark(*fields) if text.endswith("\n") and len(fields) >= 3 else None


@dataclass(frozen=True, slots=True)
class Basis:
    """What tasks are computed from: the digest of the command and all files, and of files alone.

    ``partners`` has by key the digest of the partner task's result, if the map is `like` another.
    """

    whole: str
    files: str
    partners: Mapping[str, str] = field(default_factory=dict)


def tasks_of(root: Path, state: Workflow, stage: Stage, basis: Basis | None = None) -> list[Task]:
    """Return the tasks of the stage in the order in which they are begun.

    ``basis`` is what they are computed from; without it that of the newest attempt.
    Raises as `points_of`.
    """
    points = points_of(root, state, stage)
    known = {p.key: Task(p) for p in points}
    all_keys = {*known}
    counting, basis = _counting(root, state, stage, basis)
    before: Recorded | None = None
    tags = dict[str, tuple[AttemptPaths, set[str]]]()
    for recorded, attempt, partners in counting:
        other = _other_partners(all_keys, partners, basis)
        known |= {key: Task(known[key].point) for key in other}
        tried = [key for key, task in known.items() if task.failed or task.lost]
        if tried and recorded.recovers is None:
            left = left_failed(state, stage, points, before, recorded.round)
            known |= {
                key: replace(known[key], failed=0, lost=0) for key in tried if key not in left
            }
        since = counts_below(state, stage, recorded.plan)
        earlier = _before(state, stage, points, since)
        keys = all_keys if earlier is points else {point.key for point in earlier}
        keys = keys - other if other else keys
        if not other or other != all_keys:  # else the marks of the folders decide
            tags[attempt.tag] = attempt, keys
        for run in _runs_of(attempt, recorded):
            task = known.get(str(run.get("key")))
            if task is not None and task.point.key in keys:
                known[task.point.key] = _with(task, run, attempt)
        if _is_judged_anew(attempt, stage):
            known = {key: _unjudged(task, attempt) for key, task in known.items()}
        before = recorded
    return _by_marks(root, stage, list(known.values()), tags, basis)


def _other_partners(
    keys: Iterable[str], partners: Mapping[str, str], basis: Basis | None
) -> set[str]:
    """Return the keys of tasks whose partner task had another result in an earlier attempt."""
    now = basis.partners if basis is not None else {}
    return {key for key in keys if partners.get(key) != now.get(key)} if partners or now else set()


def _before(
    state: Workflow, stage: Stage, points: Sequence[Point], since: int | None
) -> Sequence[Point]:
    """Return the points of the rounds before one; all of them for None."""
    if since is None:
        return points
    leading = [stage, *partners_of(state, stage)][-1]
    return points[: len(points) - len(points_since(state, leading.id, since))] if since else ()


def left_failed(
    state: Workflow, stage: Stage, points: Sequence[Point], before: Recorded | None, number: int
) -> set[str]:
    """Return the keys of the tasks that are left failed in a round, if they failed before.

    Those of the last round passed; those of the rounds before one from which on an amendment
    defines the stage anew stay as they are.
    """
    if before is None:
        return set()
    passed = 0 < before.round < number and before.action == "succeeded"
    since = None if passed else counts_below(state, stage, before.plan) or 0
    return {point.key for point in _before(state, stage, points, since)}


def _by_marks(
    root: Path,
    stage: Stage,
    tasks: list[Task],
    tags: Mapping[str, tuple[AttemptPaths, set[str]]],
    basis: Basis | None,
) -> list[Task]:
    """Return the tasks; one of whose end no attempt tells is done by the mark in its folder.

    ``tags`` are the attempts that count, and for which points; ``basis`` is that of the newest.
    """
    done, outputs = root / stage.id / DONE, sweep_of(stage.parameters).outputs
    untold = [task.state in ("waiting", "running") and not task.to_judge for task in tasks]
    there = {one.name for one in done.iterdir()} if any(untold) and done.is_dir() else set[str]()
    return [
        _marked(
            task,
            done / task.point.folder,
            stage,
            outputs,
            tags,
            "" if basis is None else origin_of(stage, basis, task.point.key),
        )
        if is_untold and task.point.folder in there
        else task
        for task, is_untold in zip(tasks, untold, strict=True)
    ]


def _micros(text: str) -> int:
    """Return the microseconds of bash's EPOCHREALTIME, whose mark is the locale's."""
    digits = "".join(letter for letter in text if letter.isdigit())
    return int(digits) if digits else 0


def _marked(
    task: Task,
    folder: Path,
    stage: Stage,
    outputs: Collection[str],
    tags: Mapping[str, tuple[AttemptPaths, set[str]]],
    origin: str,
) -> Task:
    """Return a task as done if the mark tells of it; of one that runs, that of its attempt."""
    mark = read_mark(folder)
    if mark is None or mark.key not in ("", task.point.key):
        return task
    own, keys = tags.get(mark.tag, (None, {task.point.key}))
    alike = task.state == "waiting" and bool(origin) and mark.origin == origin
    fits = alike if own is None else task.state == "waiting" or own.id == task.attempt
    fits &= task.point.key in keys
    if not fits or not all((folder / path).exists() for path in outputs):
        return task
    done = replace(
        task,
        state="done",
        attempt=None if own is None else own.id,
        exit_code=0,
        ended=_micros(mark.ended),
        folder=f"{stage.id}/{DONE}/{task.point.folder}",
        marked=True,
    )
    return _unjudged(done, own) if own is not None and _is_judged_anew(own, stage) else done


def _is_judged_anew(attempt: AttemptPaths, stage: Stage) -> bool:
    # An attempt of an earlier version does not say what its tasks were judged by.
    by = traces.texts(traces.read_json(attempt.task_head)).get("verdict")
    return by not in (None, verdict_digest(stage))


def _unjudged(task: Task, attempt: AttemptPaths) -> Task:
    """Return a task as it stands if the verdict on its run in an attempt counts no longer."""
    failed = task.state == "failed" and task.why.startswith(VERDICTS)
    if task.attempt != attempt.id or not (failed or task.state == "done"):
        return task
    return replace(task, state="waiting", to_judge=True, failed=0)


def _counting(
    root: Path, state: Workflow, stage: Stage, basis: Basis | None
) -> tuple[list[tuple[Recorded, AttemptPaths, Mapping[str, str]]], Basis | None]:
    """Return the attempts whose tasks count, of the definition and the inputs of the newest one.

    Those that an amendment lets count may be of another definition, the command too; those up to
    which a person kept the finished tasks may be of other inputs.
    Each attempt comes with the results of the partner tasks that it read. The second value is the
    basis of the newest attempt.
    None if all is to be computed again.
    """
    if stage.keep_as is not None and not stage.keeps_tasks:
        return [], None
    # Heads of attempts that say nothing of a verdict have the definition otherwise.
    definitions = (definition_of(stage), _digest(basis_before(stage.parameters)))
    kept = {one["attempt"] for one in stage.kept_tasks}
    found, compared = [], basis
    for recorded in reversed(stage.attempts):
        attempt = of_recorded(root, state.id, stage.id, recorded)
        definition, rests_on = _origin(attempt)
        basis = basis or rests_on
        compared = rests_on if compared is None or recorded.id in kept else compared
        if counts_below(state, stage, recorded.plan) is not None:
            counts = compared.whole == rests_on.whole or compared.files == rests_on.files != ""
        else:
            counts = compared.whole == rests_on.whole and definition in definitions
        if not counts:
            break
        found.append((recorded, attempt, rests_on.partners))
    return found[::-1], basis


def origin_of(stage: Stage, basis: Basis, key: str = "") -> str:
    """Return the origin of tasks: the digests of their definition, basis and verdict.

    With the key of a task, the digest of its partner's result stands behind them, if it has one.
    """
    origin = f"{definition_of(stage)}:{basis.whole}:{verdict_digest(stage)}"
    return f"{origin}:{basis.partners[key]}" if key in basis.partners else origin


def _origin(attempt: AttemptPaths) -> tuple[str, Basis]:
    """Return the definition and basis of an attempt, by its head, else by what it submitted."""
    given = traces.read_json(attempt.task_head)
    head = traces.texts(given)
    if "definition" in head and "basis" in head:
        partners = traces.texts((given or {}).get("partners"))
        return head["definition"], Basis(head["basis"], head.get("files", ""), partners)
    match genuine.submission_of(attempt):
        case {"resources": {"envs": {"WFCTL_TASKS_ORIGIN": str(found)}}}:
            definition, whole = (*found.split(":"), "")[:2]
            return definition, Basis(whole, "")
    return "", Basis("", "")


def changed_outputs(root: Path, state: Workflow, stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield each output of a finished task that is "changed" or "missing"; read it whole.

    The mark of a folder is changed if it names another task. Raises as `points_of`.
    """
    for task in (one for one in tasks_of(root, state, stage) if one.state == "done"):
        mark = read_mark(root / task.folder)
        if mark is not None and mark.key not in ("", task.point.key):
            yield f"{task.folder}/{MARK}", "changed"
        for one in task.outputs:
            path = f"{task.folder}/{one['path']}"
            if not is_as(root / path, one):
                yield path, "changed" if (root / path).exists() else "missing"


def counts_of(found: Sequence[Task]) -> dict[str, int]:
    """Return how many tasks stand where, by state."""
    return {state: sum(task.state == state for task in found) for state in STATES}


def counts_told(
    root: Path, state: Workflow, stage: Stage, *, live: bool = True
) -> dict[str, int] | None:
    """Return how many tasks of a sweep stand where: as the disk shows now, or as the log says.

    None if nothing is known of any. What hinders a look at the disk hinders no answer.
    """
    if live and (stage.open_attempt is not None or stage.keeps_tasks):
        with suppress(Refused, ReconcilerError, OSError):
            return counts_of(tasks_of(root, state, stage))
    seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
    again = stage.keep_as is not None and not stage.keeps_tasks
    return None if seen is None or again else counts_recorded(seen)


def definition_of(stage: Stage) -> str:
    """Return the digest of what the definition says of every task, its point aside."""
    return _digest(basis_of(stage.parameters))


def verdict_digest(stage: Stage) -> str:
    """Return the digest of what each task is judged by."""
    return _digest(verdict_of(stage.parameters))


def _digest(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _runs_of(attempt: AttemptPaths, recorded: Recorded) -> Iterable[Mapping[str, Any]]:
    """Return what an attempt says of its tasks: by its record, else by its journals.

    A record that is not the one that the log names says nothing.
    """
    named = (recorded.tasks or {}).get("record")
    if named is None:
        return rows_told(attempt)
    content = plain.text(attempt.task_record).encode()
    if sha256(content).hexdigest() != named["sha256"]:
        return []
    return [json.loads(line) for line in content.decode().splitlines()]


def rows_told(attempt: AttemptPaths) -> Iterator[dict[str, Any]]:
    """Yield what the journals say of each task that the attempt was given."""
    runs = runs_told(attempt)
    keys = (traces.read_json(attempt.task_head) or {}).get("keys", {})
    for number, folder, assignments in listed(attempt):
        row: dict[str, Any] = {"key": keys.get(folder, folder), "folder": folder}
        row |= {"judged": True} if f" {JUDGE}=" in assignments else {}
        row |= runs.get(int(number), {"state": "waiting"})
        row.pop("job", None)
        yield row


def listed(attempt: AttemptPaths) -> Iterator[tuple[str, str, str]]:
    """Yield number, folder and assignments of each task that the attempt was given."""
    for line in plain.text(attempt.task_list).splitlines():
        number, folder, assignments = line.split("\t", 2)
        yield number, folder, assignments


def runs_told(attempt: AttemptPaths) -> dict[int, dict[str, Any]]:
    """Return the runs by the task's number; a line that was cut off says nothing.

    ``state`` is done, failed, lost, or running if nothing was written of its end; ``job`` is the
    hash of the job whose worker began it. Times are in microseconds since the epoch.
    """
    found = dict[int, dict[str, Any]]()
    for journal in journals(attempt):
        job = None
        whole, _, _ = plain.text(journal).rpartition("\n")
        for line in whole.split("\n"):
            match line.split("\t"):
                case ["j", hash_, *_]:
                    job = hash_
                case ["s", number, at] if number.isdigit():
                    found[int(number)] = _began(at, job)
                case ["e", number, "done" | "failed" | "lost" as state, code, at, why] if (
                    number.isdigit()
                ):
                    end = {"exit_code": plain.number(code), "ended": _micros(at), "why": why}
                    begun = found.get(int(number)) or _began(at, None)
                    found[int(number)] = begun | {"state": state} | end
                case ["u", number, told] if number.isdigit() and int(number) in found:
                    found[int(number)] |= {"used": used_in(told)}
    return found


def _began(at: str, job: str | None) -> dict[str, Any]:
    about = {"state": "running", "exit_code": None, "started": _micros(at), "ended": None}
    return {**about, "why": "", "job": job}


def journals(attempt: AttemptPaths) -> list[Path]:
    """Return the files in which the workers write down what becomes of their tasks."""
    return sorted(one for one in attempt.tasks.glob("journal.*") if one.is_file())


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
    about: dict[str, Any] = {}
    if not judged:
        used = run.get("used") or {}
        about = {"begun": task.begun + (started is not None), "started": started, "used": used}
        about |= {"ended": run.get("ended")}
    return replace(
        task,
        to_judge=running,
        state=state,
        failed=task.failed + (state == "failed"),
        lost=task.lost + (state == "lost"),
        attempt=None if started is None else attempt.id,
        exit_code=run.get("exit_code"),
        why=why,
        folder=task.folder if running else _folder_of(attempt, lies_as, str(run["folder"])),
        outputs=tuple(run.get("outputs") or ()),
        metrics=run.get("metrics") or {},
        errors=run.get("errors") or {},
        **about,
    )


def _folder_of(attempt: AttemptPaths, state: str, folder: str) -> str:
    """Return where the folder of a task is, relative to the root; where it runs, it is not here."""
    if state == "done":
        return f"{attempt.stage}/{DONE}/{folder}"
    if state in ("failed", "lost"):
        return str((attempt.tasks / state / folder).relative_to(attempt.root))
    copies = traces.scratch_copies(attempt)
    found = [copy / attempt.stage / DONE / folder for copy in copies]
    return next((str(one) for one in found if one.is_dir()), "")
