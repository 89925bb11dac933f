"""Write the tasks of an attempt into its folder, and build the submission that runs them.

DPDispatcher starts several jobs, each with one worker script. A worker takes one free task after
another. If a job is killed, at most one task is lost.
"""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.conditions import find_point_source_stages, list_points_files
from lifecycle.state.requested_resources import get_time_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, MAP
from lifecycle.sweeps.points import Point, render_value
from lifecycle.sweeps.replicates import SEED_VARIABLE, derive_seed
from lifecycle.sweeps.variables import PREFIX, verify_variables
from reconciler.attempt.file_digests import digests, has_recorded_content
from reconciler.attempt.markers import make_folders
from reconciler.attempt.paths import AttemptPaths, ScriptEnd, recorded_attempt_paths
from reconciler.errors import UnusableSubmission
from reconciler.submission.job_guard import AWAITING, LIMIT, USED, build_time_limit_line
from reconciler.submission.requested_resources import set_runs_per_job
from reconciler.submission.transferred_files import READ, TASKS, TASKS_ROOT, VOUCHED
from reconciler.sweep.first_tasks import FIRST_KEYS, choose_first_tasks, read_first_tasks
from reconciler.sweep.judge_tasks import find_tasks_to_judge
from reconciler.sweep.map_points import digest_points, points_of, read_points_file
from reconciler.sweep.tasks import (
    JUDGE,
    Basis,
    Task,
    compute_result_origin,
    definition_digest,
    find_tasks_left_failed,
    is_tried_anew,
    move_unfinished_tasks_aside,
    read_mark,
    tasks_of,
    verification_digest,
)
from service.root.atomic_files import write_whole
from service.root.folder_entries import is_folder

#: Environment variable with the result folder of the partner task: the task with the same point in
#: the stage that `map.like` names.
_LIKE_VARIABLE = "WFCTL_LIKE_FOLDER"
#: Environment variable with the origin of a task (digests of its definition and inputs). A worker
#: writes it into the mark of a finished task. If the stage reuses the points of another sweep, each
#: task has its own origin.
_ORIGIN = "WFCTL_TASKS_ORIGIN"
_WORKER = Path(__file__).parent / "worker.sh"
#: Names of folders into which the workers write.
_WORKER_FOLDERS = ("claims", "failed", "lost", "aside")


def write_task_assignment(
    root: Path,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    given: Mapping[str, Any],
    inputs: Sequence[p.FileDigest],
    recovers: str | None,
    first: int | None,
) -> dict[str, Any]:
    """Write the tasks of an attempt into its folder, and return their submission.

    A task that an earlier attempt finished with the same definition and inputs does not run again.
    The folders of all other tasks are moved aside, because later stages read every folder that
    exists. ``first`` is the number of tasks that must succeed before the others start, if it is
    larger than the number in the plan. Raises UnusableSubmission, or any error of `points_of`.
    """
    command = _get_command(given)
    every = points_of(root, state, stage, anew=True)
    file = read_points_file(root, state, stage, anew=True)
    basis = _compute_basis(root, state, stage, given, inputs, every)
    known = [_reset_if_changed(root, task) for task in tasks_of(root, state, stage, basis)]
    what = stage.work.task_rules
    selected = _select_tasks(root, state, stage, known, recovers)
    least = max(first or 0, what.first)
    first_keys = _choose_first_tasks(root, state, stage, known, selected, least, recovers, basis)
    todo = {
        task.point.key: task
        for task in selected
        if not first_keys or task.to_judge or task.point.key in first_keys
    }
    move_unfinished_tasks_aside(root, stage, {one.point.folder for one in known if one.is_kept})
    make_folders(attempt, attempt.tasks, *(attempt.tasks / name for name in _WORKER_FOLDERS))
    if file is not None:
        attempt.task_points.write_bytes(file)
    given_ = [(n, point) for n, point in enumerate(every) if point.key in todo]
    read = {
        point.key: _find_read_folders(root, stage, point, todo[point.key]) for _, point in given_
    }
    own = {key: compute_result_origin(stage, basis, key) for key in basis.partners}
    lines = (
        f"{number}\t{point.folder}\t{_format_assignments(stage.id, point, read[point.key], own)}\n"
        for number, point in given_
    )
    files = {
        **_build_scripts(state, stage, command),
        "list": "".join(lines),
        READ: "".join(f"{path}\n" for one in read.values() for path in one.values()),
    }
    for name, text in files.items():
        (attempt.tasks / name).write_text(text, encoding="utf-8")
    description = _build_tasks_description(stage, basis, every)
    description |= {FIRST_KEYS: first_keys} if first_keys else {}
    write_whole(attempt.task_head, json.dumps(description).encode() + b"\n")
    (root / stage.id / DONE).mkdir(exist_ok=True)
    # Each job runs one worker. A worker computes a group of tasks, one after another.
    group = given.get("resources", {}).get("group_size") or 1
    workers = max(1, min(ceil(len(todo) / group), what.at_once))
    given = set_runs_per_job(given, ceil(len(todo) / workers))
    return _build_submission(given, attempt, workers, compute_result_origin(stage, basis))


def _build_scripts(state: Workflow, stage: Stage, command: str) -> dict[str, str]:
    """Return the scripts of the workers and the list of each task's outputs, by file name."""
    what = stage.work.task_rules
    parts = [
        *map(_read_script, (AWAITING, USED, LIMIT)),
        build_time_limit_line(get_time_limit(state, stage)),
        _read_script(_WORKER),
    ]
    return {
        "command.sh": f"{command}\n",
        "outputs": "".join(f"{path}\n" for path in what.outputs),
        "worker.sh": "\n".join(parts),
        **({} if what.verify is None else {"verify.sh": _build_verification_script(stage)}),
    }


def _build_tasks_description(
    stage: Stage, basis: Basis, every: tuple[Point, ...]
) -> dict[str, Any]:
    """Return the description of an attempt's tasks, which is stored in its folder.

    It contains digests of the definition, the inputs, the verification and the points, and the keys
    of the tasks.
    """
    return {
        "definition": definition_digest(stage),
        "basis": basis.whole,
        "files": basis.files,
        **({"partners": dict(basis.partners)} if basis.partners else {}),
        "verdict": verification_digest(stage),
        "points": digest_points(every),
        "keys": {p.folder: p.key for p in every if p.folder != p.key},
    }


def _select_tasks(
    root: Path, state: Workflow, stage: Stage, known: Sequence[Task], recovers: str | None
) -> list[Task]:
    """Return the tasks to run: all tasks that are not done, with some exceptions.

    A task without remaining retries is excluded if the attempt replaces a lost one, if the attempt
    requests more of a resource that the task does not need, or if the task failed in an earlier
    round that is not repeated. A task that a person must judge is excluded if
    the attempt replaces a lost one.
    """
    waiting = find_tasks_to_judge(root, state, stage) if recovers is not None else {}
    name, last = state.loop_of(stage.id), stage.attempts[-1] if stage.attempts else None
    number, points = state.loops[name].round.number if name else 0, [one.point for one in known]
    left = find_tasks_left_failed(state, stage, points, last, number)
    retries = stage.work.task_rules.retries

    def stays(task: Task) -> bool:
        if task.point.folder in waiting:
            return True
        is_left = recovers is not None or task.point.key in left or not is_tried_anew(last, task)
        return is_left and task.is_out_of_retries(retries)

    return [one for one in known if one.state != "done" and not stays(one)]


def _choose_first_tasks(
    root: Path,
    state: Workflow,
    stage: Stage,
    known: Sequence[Task],
    selected: Sequence[Task],
    number: int,
    recovers: str | None,
    basis: Basis,
) -> list[str]:
    """Return the keys of the first tasks, or [] if all tasks may start.

    An attempt that replaces another one has the same first tasks. Tasks that cannot run are chosen
    last: those that are not in ``selected``, and those whose partner task has no result.
    """
    earlier: list[str] = []
    if recovers is not None:
        recovered = stage.attempts[-1]
        earlier = read_first_tasks(recorded_attempt_paths(root, state.id, stage.id, recovered))
    may_run = {task.point.key for task in selected}
    last = {task.point.key for task in known} - may_run
    last |= {key for key, result in basis.partners.items() if not result}
    return choose_first_tasks(known, number, earlier, last)


def _build_verification_script(stage: Stage) -> str:
    """Return the text of the script that verifies the results of a task."""
    own = verify_variables(stage.work).items()
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in own)
    return "".join([*exports, f"{stage.work.task_rules.verify}\n"])


def _read_script(script: Path) -> str:
    return script.read_text(encoding="utf-8")


def count_tasks_to_compute(attempt: AttemptPaths) -> int:
    """Return the number of tasks that an attempt computes.

    Tasks whose existing results are only verified again are not counted.
    """
    lines = (attempt.tasks / "list").read_text("utf-8").splitlines()
    return sum(f"\t{JUDGE}=" not in line and f" {JUDGE}=" not in line for line in lines)


def _get_command(given: Mapping[str, Any]) -> str:
    tasks = given.get("task_list", [])
    if len(tasks) != 1 or not isinstance(tasks[0].get("command"), str):
        remedy = (
            "A sweep runs one command for each point, so it needs no submission file: remove "
            "submission.json."
        )
        raise UnusableSubmission("task_list", "one task with a command", len(tasks), remedy)
    return str(tasks[0]["command"])


def _compute_basis(
    root: Path,
    state: Workflow,
    stage: Stage,
    given: Mapping[str, Any],
    inputs: Sequence[p.FileDigest],
    every: Sequence[Point],
) -> Basis:
    """Return digests of the command and the inputs of all tasks.

    Files that contain only points are left out, because a task depends on its own point alone.
    """
    (task,) = given["task_list"]
    own = [f"{stage.id}/{path}" for path in task.get("forward_files") or []]
    sent = [str(p.relative_to(root)) for pattern in own for p in sorted(root.glob(pattern))]
    files = {one.path: one.sha256 for one in (*inputs, *digests(root, sent))}
    points = list_points_files(state, stage)
    read = sorted((path, digest) for path, digest in files.items() if path not in points)
    whole, of_files = (
        sha256(json.dumps(one).encode()).hexdigest() for one in ([task["command"], read], read)
    )
    like = find_point_source_stages(state, stage)[:1]
    partners = {p.key: _digest_result(root, partner, p) for partner in like for p in every}
    return Basis(whole, of_files, partners)


def _digest_result(root: Path, stage: Stage, point: Point) -> str:
    """Return a digest of the result of a task: its outputs and the origin of its inputs.

    Returns an empty string if the task has no result. The digest does not depend on the
    verification settings of the stage.
    """
    folder = root / stage.id / DONE / point.folder
    if not is_folder(folder):
        return ""
    mark = read_mark(folder)
    origin = mark.origin.split(":") if mark is not None else []
    del origin[2:3]  # element 2 is the verdict
    paths = [str((folder / path).relative_to(root)) for path in stage.work.task_rules.outputs]
    found = [one.sha256 for one in digests(root, paths)]
    return sha256(json.dumps([origin, found]).encode()).hexdigest()


def _reset_if_changed(root: Path, task: Task) -> Task:
    """Return the task unchanged if its outputs match their records.

    Otherwise returns it as a task that has not started.
    """
    folder = root / task.folder
    as_it_was = (has_recorded_content(folder / str(one["path"]), one) for one in task.outputs)
    return task if not task.is_kept or (is_folder(folder) and all(as_it_was)) else Task(task.point)


def _find_read_folders(root: Path, stage: Stage, point: Point, task: Task) -> dict[str, str]:
    """Return the result folders that a task reads, by the variables that name them.

    The paths are relative to the root.
    """
    # The task reads the result of its partner, the task with the same point in the other stage, if
    # that result exists.
    like = stage.parameters[MAP].get("like")
    partner = f"{like}/{DONE}/{point.folder}"
    found = {_LIKE_VARIABLE: partner} if like is not None and is_folder(root / partner) else {}
    return found | ({JUDGE: task.folder} if task.to_judge else {})


def _format_assignments(
    stage: str, point: Point, read: Mapping[str, str], origins: Mapping[str, str]
) -> str:
    words = {f"{PREFIX}{name}": render_value(value) for name, value in point.values.items()}
    words |= {"WFCTL_TASK": point.key, "WFCTL_TASK_FOLDER": point.folder}
    words |= {_ORIGIN: origins[point.key]} if point.key in origins else {}
    if point.is_replicate:
        words[SEED_VARIABLE] = str(derive_seed(stage, point.key))
    told = [f"{name}={shlex.quote(value)}" for name, value in words.items()]
    told += [f'{name}="${TASKS_ROOT}"/{shlex.quote(path)}' for name, path in read.items()]
    return " ".join(told)


def _build_submission(
    given: Mapping[str, Any], attempt: AttemptPaths, workers: int, origin: str
) -> dict[str, Any]:
    result = copy.deepcopy(dict(given))
    (task,) = result["task_list"]
    own = [f"{attempt.stage}/{path}" for path in task.get("forward_files") or []]
    result["forward_common_files"] = [*result.get("forward_common_files", []), *own]
    files = [name for name in VOUCHED if (attempt.tasks / name).exists()]
    digests_ = (sha256((attempt.tasks / name).read_bytes()).hexdigest() for name in files)
    sums = "\n".join(f"{digest}  {name}" for digest, name in zip(digests_, files, strict=True))
    script = f'cd "$WFCTL_TASKS" && sha256sum --status -c - <<< {shlex.quote(sums)}'
    command = f'({script}) || exit {ScriptEnd.CHANGED:d}\nbash "$WFCTL_TASKS/worker.sh"'
    task |= {"forward_files": [], "backward_files": []}
    result["task_list"] = [
        {**task, "command": f'{command} {n} "$wfctl_job"'} for n in range(workers)
    ]
    resources = result["resources"]
    places = {
        TASKS: str(attempt.tasks),
        TASKS_ROOT: str(attempt.root),
        "WFCTL_TASKS_TO": str(attempt.stage_folder / DONE),
        _ORIGIN: origin,
    }
    envs = {**resources.get("envs", {}), **places}
    result["resources"] = {**resources, "group_size": 1, "envs": envs}
    return result
