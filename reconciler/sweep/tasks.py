"""Determine the state of a sweep's tasks from all its attempts.

The results of a completed attempt are in its record, whose digest is in the log. The results of a
running attempt are in the journals that its workers write.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from lifecycle.errors import Refused
from lifecycle.fold.rounds import first_invalid_round, points_added_from_round
from lifecycle.payload import models as p
from lifecycle.state.basis import has_outdated_tasks
from lifecycle.state.conditions import find_point_source_stages
from lifecycle.state.status import RECOVERY_LIMIT
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import (
    DONE,
    NO_NUMBER,
    VERDICTS,
    earlier_task_basis,
    sweep_table_paths,
)
from lifecycle.sweeps.points import Point
from projections.words.stage_progress import StageProgress, compute_stage_progress
from projections.words.stage_progress import count_tasks_by_state as counts_recorded
from reconciler.attempt import paths as genuine
from reconciler.attempt.file_digests import has_recorded_content
from reconciler.attempt.markers import move_file_aside
from reconciler.attempt.paths import AttemptPaths, recorded_attempt_paths
from reconciler.errors import ReconcilerError
from reconciler.files.clear_folder import LABEL
from reconciler.files.kept_folder import KeptFolderTaken
from reconciler.host import small_files as plain
from reconciler.records import traces
from reconciler.records.resource_use import parse_resource_use
from reconciler.sweep.map_points import points_of
from reconciler.verdict.shortage import find_shortage
from service.root.atomic_files import write_whole
from service.root.folder_entries import exists


def archive_removed_tasks(root: Path, state: Workflow, stage: Stage) -> bool:
    """Move folders of tasks that no longer exist, and the old table, to the kept folder.

    The kept folder is named ``stage-N.vK``. Everything else stays in place. Safe to call again
    after a crash. Returns whether the kept folder exists now. Raises `KeptFolderTaken` if other
    files occupy its path, or any error of `points_of`.
    """
    if stage.keep_as is None:
        return False
    kept, done = root / stage.keep_as, root / stage.id / DONE
    points = points_of(root, state, stage)
    since = first_invalid_round(state, stage, stage.attempts[-1].plan) if stage.attempts else None
    named = {point.folder for point in _points_before_round(state, stage, points, since)}
    gone = sorted({f.name for f in done.iterdir()} - named) if done.is_dir() else []
    moves = [(done / name, kept / DONE / name) for name in gone]
    tables = [(root / path, kept / Path(path).name) for path in sweep_table_paths(stage.id)]
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


def move_unfinished_tasks_aside(root: Path, stage: Stage, done: Container[str]) -> None:
    """Move task folders that are not in ``done`` to the folder of the previous attempt.

    Safe to call again after a crash.
    """
    folder = root / stage.id / DONE
    previous = stage.attempt.name if stage.attempt else None
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        if found.name not in done:
            move_file_aside(root, stage.id, f"{stage.id}/{DONE}/{found.name}", previous)


#: Name of a file in the folder of a finished task, which shows that the task is done. `TaskMark`
#: describes its content.
MARK = ".wfctl-done"
#: Environment variable with the folder of a task whose existing results are only verified again.
JUDGE = "WFCTL_JUDGE"
#: Names of the possible states of a task.
STATES = ("done", "failed", "lost", "running", "waiting")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a sweep: its point, its state and its newest run.

    ``begun`` is the number of runs over all attempts. ``failed`` and ``lost`` are numbers of runs
    in the newest attempt and the attempts that it replaces. Times are in microseconds since the
    epoch, and ``folder`` is relative to the root. ``marked`` states that only the mark in its
    folder shows that the task is done. ``to_judge`` states that the task was computed but must be
    verified again.
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
        """Return whether the next attempt uses the existing results of the task."""
        return self.state == "done" or self.to_judge

    @property
    def short_of(self) -> p.Shortage | None:
        """Return the shortage that ended the newest run of the task, or None."""
        return find_shortage(self.why) if self.state in ("failed", "lost") else None

    def is_out_of_retries(self, retries: int) -> bool:
        """Return whether the task is not done and has no retries left."""
        out = self.failed > retries or self.lost > RECOVERY_LIMIT
        return self.state in ("failed", "lost") and out


class TaskMark(NamedTuple):
    """The content of the mark file in a task's folder: one line, separated by tabs.

    ``tag`` names the attempt. ``ended`` is the time in seconds since the epoch, in bash's format.
    Marks that earlier versions wrote have no ``origin`` or no ``key``; these fields are then empty.
    """

    tag: str
    number: str
    ended: str
    origin: str = ""
    key: str = ""


def read_mark(folder: Path) -> TaskMark | None:
    """Return the content of a task's mark file, or None if it is missing or incomplete."""
    text = plain.read_text(folder / MARK)
    fields = text.removesuffix("\n").split("\t", 4)
    return TaskMark(*fields) if text.endswith("\n") and len(fields) >= 3 else None


@dataclass(frozen=True, slots=True)
class Basis:
    """The basis of tasks: digests of the inputs that determine their results.

    ``whole`` is the digest of the command and all input files, and ``files`` of the input files
    alone. If the sweep reuses the points of another sweep (`like`), ``partners`` maps the key of
    each task to the digest of the other sweep's result for the same point.
    """

    whole: str
    files: str
    partners: Mapping[str, str] = field(default_factory=dict)


def tasks_of(root: Path, state: Workflow, stage: Stage, basis: Basis | None = None) -> list[Task]:
    """Return the tasks of the stage with their states, in the order in which they start.

    ``basis`` contains digests of the tasks' inputs. The default is the basis of the newest attempt.
    Returns an empty list for a stage without points. Raises any error of `points_of`.
    """
    points = points_of(root, state, stage)
    if not points:
        return []
    known = {p.key: Task(p) for p in points}
    all_keys = {*known}
    counting, basis = _select_counted_attempts(root, state, stage, basis)
    before: Recorded | None = None
    tags = dict[str, tuple[AttemptPaths, set[str]]]()
    for recorded, attempt, partners in counting:
        other = _find_changed_partners(all_keys, partners, basis)
        known |= {key: Task(known[key].point) for key in other}
        tried = [key for key, task in known.items() if task.failed or task.lost]
        if tried and recorded.recovers is None:
            left = find_tasks_left_failed(state, stage, points, before, recorded.round)
            anew = [key for key in tried if key not in left and is_tried_anew(before, known[key])]
            known |= {key: replace(known[key], failed=0, lost=0) for key in anew}
        since = first_invalid_round(state, stage, recorded.plan)
        earlier = _points_before_round(state, stage, points, since)
        keys = all_keys if earlier is points else {point.key for point in earlier}
        keys = keys - other if other else keys
        if not other or other != all_keys:  # otherwise the marks in the folders decide
            tags[attempt.tag] = attempt, keys
        for run in _read_runs(attempt, recorded):
            task = known.get(str(run.get("key")))
            if task is not None and task.point.key in keys:
                known[task.point.key] = _add_run(task, run, attempt)
        if _has_other_verification(attempt, stage):
            known = {key: _reset_verdict(task, attempt) for key, task in known.items()}
        before = recorded
    return _apply_marks(root, stage, list(known.values()), tags, basis)


def _find_changed_partners(
    keys: Iterable[str], partners: Mapping[str, str], basis: Basis | None
) -> set[str]:
    """Return the keys of tasks whose partner's result changed since an earlier attempt.

    The partner of a task is the task with the same point in the sweep whose points the stage
    reuses.
    """
    now = basis.partners if basis is not None else {}
    return {key for key in keys if partners.get(key) != now.get(key)} if partners or now else set()


def _points_before_round(
    state: Workflow, stage: Stage, points: Sequence[Point], since: int | None
) -> Sequence[Point]:
    """Return the points that belong to rounds before round ``since``.

    Returns all points if ``since`` is None.
    """
    if since is None:
        return points
    leading = [stage, *find_point_source_stages(state, stage)][-1]
    return (
        points[: len(points) - len(points_added_from_round(state, leading.id, since))]
        if since
        else ()
    )


def is_tried_anew(before: Recorded | None, task: Task) -> bool:
    """Return whether a task gets all its retries again in the attempt that follows ``before``.

    If the attempt only requests more of a resource, this applies to the tasks that need more.
    """
    return before is None or before.grown is None or task.short_of is not None


def find_tasks_left_failed(
    state: Workflow, stage: Stage, points: Sequence[Point], before: Recorded | None, number: int
) -> set[str]:
    """Return the keys of failed tasks that a round does not try again.

    If the previous round succeeded, these are the tasks of all earlier rounds, because their
    failures were tolerated. Otherwise they are the tasks of rounds before an amendment that
    redefined the stage.
    """
    if before is None:
        return set()
    passed = 0 < before.round < number and before.action == "succeeded"
    since = None if passed else first_invalid_round(state, stage, before.plan) or 0
    return {point.key for point in _points_before_round(state, stage, points, since)}


def _apply_marks(
    root: Path,
    stage: Stage,
    tasks: list[Task],
    tags: Mapping[str, tuple[AttemptPaths, set[str]]],
    basis: Basis | None,
) -> list[Task]:
    """Set each task without a recorded end to done if its folder has a valid mark.

    ``tags`` maps the tag of each valid attempt to its paths and the keys of its tasks. ``basis`` is
    the basis of the newest attempt. Returns all tasks.
    """
    done, outputs = root / stage.id / DONE, stage.work.task_rules.outputs
    untold = [task.state in ("waiting", "running") and not task.to_judge for task in tasks]
    there = {one.name for one in done.iterdir()} if any(untold) and done.is_dir() else set[str]()
    return [
        _apply_mark(
            task,
            done / task.point.folder,
            stage,
            outputs,
            tags,
            "" if basis is None else compute_result_origin(stage, basis, task.point.key),
        )
        if is_untold and task.point.folder in there
        else task
        for task, is_untold in zip(tasks, untold, strict=True)
    ]


def _parse_epoch_time(text: str) -> int:
    """Return the microseconds in a text from bash's variable EPOCHREALTIME.

    The decimal mark in the text depends on the locale. Returns 0 for a text without digits.
    """
    digits = "".join(letter for letter in text if letter.isdigit())
    return int(digits) if digits else 0


def _apply_mark(
    task: Task,
    folder: Path,
    stage: Stage,
    outputs: Collection[str],
    tags: Mapping[str, tuple[AttemptPaths, set[str]]],
    origin: str,
) -> Task:
    """Return a task as done if the mark in its folder is valid, otherwise unchanged.

    For a running task, the mark must name the attempt that runs the task.
    """
    mark = read_mark(folder)
    if mark is None or mark.key not in ("", task.point.key):
        return task
    own, keys = tags.get(mark.tag, (None, {task.point.key}))
    alike = task.state == "waiting" and bool(origin) and mark.origin == origin
    fits = alike if own is None else task.state == "waiting" or own.id == task.attempt
    fits &= task.point.key in keys
    if not fits or not all(exists(folder / path) for path in outputs):
        return task
    done = replace(
        task,
        state="done",
        attempt=None if own is None else own.id,
        exit_code=0,
        ended=_parse_epoch_time(mark.ended),
        folder=f"{stage.id}/{DONE}/{task.point.folder}",
        marked=True,
    )
    return (
        _reset_verdict(done, own)
        if own is not None and _has_other_verification(own, stage)
        else done
    )


def _has_other_verification(attempt: AttemptPaths, stage: Stage) -> bool:
    # Attempts of earlier versions did not record the settings of the verification. Their results
    # are not verified again.
    by = traces.select_text_values(traces.read_json(attempt.task_head)).get("verdict")
    return by not in (None, verification_digest(stage))


def _reset_verdict(task: Task, attempt: AttemptPaths) -> Task:
    """Return a task that must be verified again, because the verification changed.

    A task of another attempt, or without a verification result, is returned unchanged.
    """
    failed = task.state == "failed" and task.why.startswith(VERDICTS)
    if task.attempt != attempt.id or not (failed or task.state == "done"):
        return task
    return replace(task, state="waiting", to_judge=True, failed=0)


def _select_counted_attempts(
    root: Path, state: Workflow, stage: Stage, basis: Basis | None
) -> tuple[list[tuple[Recorded, AttemptPaths, Mapping[str, str]]], Basis | None]:
    """Return the attempts whose task results are still valid, and the newest basis.

    Each attempt is returned with its paths and the results of its partner tasks. An attempt is
    valid if its definition and inputs equal those of the newest attempt. An amendment may allow
    another definition, and a person may keep finished tasks with other inputs. The basis (digests
    of the inputs) is None if all tasks must be computed again.
    """
    if stage.keep_as is not None and not stage.keeps_tasks:
        return [], None
    # Attempts of earlier versions recorded the digest of the definition in another form, so both
    # forms are accepted.
    definitions = (definition_digest(stage), _digest_values(earlier_task_basis(stage.parameters)))
    kept = {one["attempt"] for one in stage.kept_tasks}
    found, compared = [], basis
    for recorded in reversed(stage.attempts):
        attempt = recorded_attempt_paths(root, state.id, stage.id, recorded)
        definition, rests_on = _read_definition_and_basis(attempt)
        basis = basis or rests_on
        compared = rests_on if compared is None or recorded.id in kept else compared
        if first_invalid_round(state, stage, recorded.plan) is not None:
            counts = compared.whole == rests_on.whole or compared.files == rests_on.files != ""
        else:
            counts = compared.whole == rests_on.whole and definition in definitions
        if not counts:
            break
        found.append((recorded, attempt, rests_on.partners))
    return found[::-1], basis


def compute_result_origin(stage: Stage, basis: Basis, key: str = "") -> str:
    """Return the origin of a task's result: digests of what determines the result.

    These are the definition, the inputs and the verification. If the task has a partner (the same
    point in another sweep), the digest of the partner's result is added.
    """
    origin = f"{definition_digest(stage)}:{basis.whole}:{verification_digest(stage)}"
    return f"{origin}:{basis.partners[key]}" if key in basis.partners else origin


def _read_definition_and_basis(attempt: AttemptPaths) -> tuple[str, Basis]:
    """Return the definition and the basis with which an attempt started.

    They are read from the description in the attempt's task folder, otherwise from its submission.
    Both are empty if neither exists.
    """
    given = traces.read_json(attempt.task_head)
    head = traces.select_text_values(given)
    if "definition" in head and "basis" in head:
        partners = traces.select_text_values((given or {}).get("partners"))
        return head["definition"], Basis(head["basis"], head.get("files", ""), partners)
    match genuine.read_attempt_submission(attempt):
        case {"resources": {"envs": {"WFCTL_TASKS_ORIGIN": str(found)}}}:
            definition, whole = (*found.split(":"), "")[:2]
            return definition, Basis(whole, "")
    return "", Basis("", "")


def find_changed_outputs(root: Path, state: Workflow, stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield each output of a finished task that was changed, with "changed" or "missing".

    All files are read. A mark that names another task is reported as changed. Raises any error of
    `points_of`.
    """
    for task in (one for one in tasks_of(root, state, stage) if one.state == "done"):
        mark = read_mark(root / task.folder)
        if mark is not None and mark.key not in ("", task.point.key):
            yield f"{task.folder}/{MARK}", "changed"
        for one in task.outputs:
            path = f"{task.folder}/{one['path']}"
            if not has_recorded_content(root / path, one):
                yield path, "changed" if exists(root / path) else "missing"


def count_by_state(found: Sequence[Task]) -> dict[str, int]:
    """Return the number of tasks in each state."""
    return {state: sum(task.state == state for task in found) for state in STATES}


def read_live_tasks(root: Path, state: Workflow, stage: Stage) -> list[Task] | None:
    """Return the tasks of a sweep on the disk, or None if only the log can describe them."""
    if stage.open_attempt is not None or stage.keeps_tasks:
        with suppress(Refused, ReconcilerError, OSError):
            return tasks_of(root, state, stage)
    return None


def count_tasks(
    root: Path, state: Workflow, stage: Stage, *, live: bool = True
) -> dict[str, int] | None:
    """Return the number of tasks of a sweep in each state.

    With ``live``, the tasks on the disk are counted, or those in the log if the disk cannot be
    read. Returns None if no task is known, or if all tasks will be computed again.
    """
    found = read_live_tasks(root, state, stage) if live else None
    return _count_tasks_in_log(state, stage) if found is None else count_by_state(found)


def measure_progress(root: Path, state: Workflow, stage: Stage, now: datetime) -> StageProgress:
    """Return the progress of a sweep, from its tasks on the disk, or from the log otherwise."""
    found = read_live_tasks(root, state, stage)
    counts = _count_tasks_in_log(state, stage) if found is None else count_by_state(found)
    return compute_stage_progress(stage, now, counts, found or ())


def _count_tasks_in_log(state: Workflow, stage: Stage) -> dict[str, int] | None:
    seen = stage.work.progress(stage.attempts)
    again = stage.keep_as is not None and not stage.keeps_tasks
    return (
        None if seen is None or again or has_outdated_tasks(state, stage) else counts_recorded(seen)
    )


def definition_digest(stage: Stage) -> str:
    """Return a digest of the definition that all tasks share, without the points."""
    return _digest_values(stage.work.task_basis or {})


def verification_digest(stage: Stage) -> str:
    """Return a digest of the settings and files with which each task is verified."""
    return _digest_values(stage.work.task_check_parameters)


def _digest_values(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _read_runs(attempt: AttemptPaths, recorded: Recorded) -> Iterable[Mapping[str, Any]]:
    """Return the runs of an attempt's tasks, from its record or from its journals.

    The journals, which the workers write, are used while no record exists. Returns an empty list if
    the record differs from its digest in the log.
    """
    named = (recorded.tasks or {}).get("record")
    if named is None:
        return read_journal_rows(attempt)
    content = plain.read_text(attempt.task_record).encode()
    if sha256(content).hexdigest() != named["sha256"]:
        return []
    return [json.loads(line) for line in content.decode().splitlines()]


def read_journal_rows(attempt: AttemptPaths) -> Iterator[dict[str, Any]]:
    """Yield one row for each task of the attempt, with its run from the workers' journals."""
    runs = read_journal_runs(attempt)
    keys = (traces.read_json(attempt.task_head) or {}).get("keys", {})
    for number, folder, assignments in read_task_list(attempt):
        row: dict[str, Any] = {"key": keys.get(folder, folder), "folder": folder}
        row |= {"judged": True} if f" {JUDGE}=" in assignments else {}
        row |= runs.get(int(number), {"state": "waiting"})
        row.pop("job", None)
        yield row


def read_task_list(attempt: AttemptPaths) -> Iterator[tuple[str, str, str]]:
    """Yield number, folder and variable assignments of each task of an attempt."""
    for line in plain.read_text(attempt.task_list).splitlines():
        number, folder, assignments = line.split("\t", 2)
        yield number, folder, assignments


def read_journal_runs(attempt: AttemptPaths) -> dict[int, dict[str, Any]]:
    """Return the run of each task that the workers recorded, by the number of the task.

    ``state`` is done, failed, lost, or running if no end is recorded. ``job`` is the hash of the
    job whose worker started the task. Times are in microseconds since the epoch. Incomplete lines
    are ignored.
    """
    found = dict[int, dict[str, Any]]()
    for journal in list_journals(attempt):
        job = None
        whole, _, _ = plain.read_text(journal).rpartition("\n")
        for line in whole.split("\n"):
            match line.split("\t"):
                case ["j", hash_, *_]:
                    job = hash_
                case ["s", number, at] if number.isdigit():
                    found[int(number)] = _build_started_run(at, job)
                case ["e", number, "done" | "failed" | "lost" as state, code, at, why] if (
                    number.isdigit()
                ):
                    end = {
                        "exit_code": plain.parse_number(code),
                        "ended": _parse_epoch_time(at),
                        "why": why,
                    }
                    begun = found.get(int(number)) or _build_started_run(at, None)
                    found[int(number)] = begun | {"state": state} | end
                case ["u", number, told] if number.isdigit() and int(number) in found:
                    found[int(number)] |= {"used": parse_resource_use(told)}
    return found


def _build_started_run(at: str, job: str | None) -> dict[str, Any]:
    about = {"state": "running", "exit_code": None, "started": _parse_epoch_time(at), "ended": None}
    return {**about, "why": "", "job": job}


def list_journals(attempt: AttemptPaths) -> list[Path]:
    """Return the journals of an attempt: files in which its workers record their tasks."""
    return sorted(one for one in attempt.tasks.glob("journal.*") if one.is_file())


def _add_run(task: Task, run: Mapping[str, Any], attempt: AttemptPaths) -> Task:
    """Return the state of a task after one more run.

    A run that only verified existing results changes neither the times nor the number of runs.
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
        folder=task.folder if running else _task_folder(attempt, lies_as, str(run["folder"])),
        outputs=tuple(run.get("outputs") or ()),
        metrics=run.get("metrics") or {},
        errors=run.get("errors") or {},
        **about,
    )


def _task_folder(attempt: AttemptPaths, state: str, folder: str) -> str:
    """Return the folder of a task, relative to the root.

    Returns an empty string if the folder is on another machine.
    """
    if state == "done":
        return f"{attempt.stage}/{DONE}/{folder}"
    if state in ("failed", "lost"):
        return str((attempt.tasks / state / folder).relative_to(attempt.root))
    copies = traces.scratch_copies(attempt)
    found = [copy / attempt.stage / DONE / folder for copy in copies]
    return next((str(one) for one in found if one.is_dir()), "")
