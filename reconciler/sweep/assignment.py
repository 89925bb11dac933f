"""The tasks that an attempt is given: written into its folder, and the submission that runs them.

DPDispatcher gets a job for each worker, and the workers share the tasks out among themselves: a
job that is killed takes one task with it, and waits for none.
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
from lifecycle.state.conditions import files_of_points, partners_of
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, MAP, sweep_of
from lifecycle.sweeps.points import Point, spelled
from lifecycle.sweeps.variables import PREFIX
from reconciler.attempt.markers import digests, is_as, make_folders
from reconciler.attempt.paths import AttemptPaths, ScriptEnd
from reconciler.errors import UnusableSubmission
from reconciler.submission.away import READ, TASKS, TASKS_ROOT, VOUCHED
from reconciler.submission.build import AWAITING, LIMIT, USED, limit_line
from reconciler.sweep.judging import tasks_without_verdict
from reconciler.sweep.map_points import content_of, digest_of, points_of
from reconciler.sweep.tasks import (
    JUDGE,
    Basis,
    Task,
    definition_of,
    left_failed,
    origin_of,
    put_aside,
    read_mark,
    tasks_of,
    verdict_digest,
)
from service.root.disk import write_whole

#: The folder of the task of the stage whose points these are.
LIKE = "WFCTL_LIKE_FOLDER"
#: The environment variable with the origin that a worker writes into the mark of a task. Each task
#: of a follower has an origin of its own.
_ORIGIN = "WFCTL_TASKS_ORIGIN"
_WORKER = Path(__file__).parent / "worker.sh"
#: Folders that the workers put something into.
_FOLDERS = ("claims", "failed", "lost", "aside")


def assigned(
    root: Path,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    given: Mapping[str, Any],
    inputs: Sequence[p.FileDigest],
    recovers: str | None,
) -> dict[str, Any]:
    """Write the tasks of an attempt into its folder; return the submission that runs them.

    What an earlier attempt has done of the same definition and the same inputs is not given again;
    the folders of all other tasks are put aside, since the next stage may read each that is there.
    Raises as `points_of`, and UnusableSubmission.
    """
    command = _command(given)
    every = points_of(root, state, stage, anew=True)
    file = content_of(root, state, stage, anew=True)
    basis = _basis(root, state, stage, given, inputs, every)
    known = [_if_whole(root, task) for task in tasks_of(root, state, stage, basis)]
    what = sweep_of(stage.parameters)
    todo = {task.point.key: task for task in _to_compute(root, state, stage, known, recovers)}
    put_aside(root, stage, {one.point.folder for one in known if one.is_kept})
    make_folders(attempt, attempt.tasks, *(attempt.tasks / name for name in _FOLDERS))
    if file is not None:
        attempt.task_points.write_bytes(file)
    given_ = [(n, point) for n, point in enumerate(every) if point.key in todo]
    read = {point.key: _read(root, stage, point, todo[point.key]) for _, point in given_}
    origin = origin_of(stage, basis)
    own = {key: origin_of(stage, basis, key) for key in basis.partners}
    lines = (
        f"{number}\t{point.folder}\t{_assignments(point, read[point.key], own)}\n"
        for number, point in given_
    )
    files = {
        "command.sh": f"{command}\n",
        "outputs": "".join(f"{path}\n" for path in what.outputs),
        "worker.sh": "\n".join(
            [*map(_text, (AWAITING, USED, LIMIT)), limit_line(stage.parameters), _text(_WORKER)]
        ),
        "list": "".join(lines),
        READ: "".join(f"{path}\n" for one in read.values() for path in one.values()),
        **({} if what.verify is None else {"verify.sh": f"{what.verify}\n"}),
    }
    for name, text in files.items():
        (attempt.tasks / name).write_text(text, encoding="utf-8")
    write_whole(attempt.task_head, json.dumps(_head(stage, basis, every)).encode() + b"\n")
    (root / stage.id / DONE).mkdir(exist_ok=True)
    # One job for each group of tasks, as many as may run at once.
    group = given.get("resources", {}).get("group_size") or 1
    workers = max(1, min(ceil(len(todo) / group), what.at_once))
    return _sending(given, attempt, workers, origin)


def _head(stage: Stage, basis: Basis, every: tuple[Point, ...]) -> dict[str, Any]:
    """Return the record of an attempt: digests of its tasks' inputs and verification, and keys."""
    return {
        "definition": definition_of(stage),
        "basis": basis.whole,
        "files": basis.files,
        **({"partners": dict(basis.partners)} if basis.partners else {}),
        "verdict": verdict_digest(stage),
        "points": digest_of(every),
        "keys": {p.folder: p.key for p in every if p.folder != p.key},
    }


def _to_compute(
    root: Path, state: Workflow, stage: Stage, known: Sequence[Task], recovers: str | None
) -> list[Task]:
    """Return the tasks that are not done.

    In the place of a lost attempt, and of rounds that are left as they are, without those that used
    up their tries. Tasks that a person has to judge wait, and a lost attempt is replaced without
    them.
    """
    waiting = tasks_without_verdict(root, state, stage) if recovers is not None else {}
    name, last = state.loop_of(stage.id), stage.attempts[-1] if stage.attempts else None
    number, points = state.loops[name].round.number if name else 0, [one.point for one in known]
    left = left_failed(state, stage, points, last, number)
    retries = sweep_of(stage.parameters).retries

    def stays(task: Task) -> bool:
        if task.point.folder in waiting:
            return True
        return (recovers is not None or task.point.key in left) and task.is_spent(retries)

    return [one for one in known if one.state != "done" and not stays(one)]


def _text(script: Path) -> str:
    return script.read_text(encoding="utf-8")


def tasks_to_compute(attempt: AttemptPaths) -> int:
    """Return how many tasks an attempt was given, but for those that are judged alone."""
    lines = (attempt.tasks / "list").read_text("utf-8").splitlines()
    return sum(f"\t{JUDGE}=" not in line and f" {JUDGE}=" not in line for line in lines)


def _command(given: Mapping[str, Any]) -> str:
    tasks = given.get("task_list", [])
    if len(tasks) != 1 or not isinstance(tasks[0].get("command"), str):
        remedy = "A map runs one command for each point; take submission.json away."
        raise UnusableSubmission("task_list", "one task with a command", len(tasks), remedy)
    return str(tasks[0]["command"])


def _basis(
    root: Path,
    state: Workflow,
    stage: Stage,
    given: Mapping[str, Any],
    inputs: Sequence[p.FileDigest],
    every: Sequence[Point],
) -> Basis:
    """Return the digests of the command and the inputs, without files that only list points."""
    (task,) = given["task_list"]
    own = [f"{stage.id}/{path}" for path in task.get("forward_files") or []]
    sent = [str(p.relative_to(root)) for pattern in own for p in sorted(root.glob(pattern))]
    files = {one.path: one.sha256 for one in (*inputs, *digests(root, sent))}
    points = files_of_points(state, stage)
    read = sorted((path, digest) for path, digest in files.items() if path not in points)
    whole, of_files = (
        sha256(json.dumps(one).encode()).hexdigest() for one in ([task["command"], read], read)
    )
    like = partners_of(state, stage)[:1]
    partners = {p.key: _result_of(root, partner, p) for partner in like for p in every}
    return Basis(whole, of_files, partners)


def _result_of(root: Path, stage: Stage, point: Point) -> str:
    """Return a digest of the outputs and the inputs of the task of a point.

    Another verdict on the task does not change the digest. Without a folder of a passed task the
    digest is empty.
    """
    folder = root / stage.id / DONE / point.folder
    if not folder.is_dir():
        return ""
    mark = read_mark(folder)
    origin = mark.origin.split(":") if mark is not None else []
    del origin[2:3]  # the verdict
    paths = [str((folder / path).relative_to(root)) for path in sweep_of(stage.parameters).outputs]
    found = [one.sha256 for one in digests(root, paths)]
    return sha256(json.dumps([origin, found]).encode()).hexdigest()


def _if_whole(root: Path, task: Task) -> Task:
    """Return a task as it stands, if what it left is as it was recorded; else as new."""
    folder = root / task.folder
    as_it_was = (is_as(folder / str(one["path"]), one) for one in task.outputs)
    return task if not task.is_kept or (folder.is_dir() and all(as_it_was)) else Task(task.point)


def _read(root: Path, stage: Stage, point: Point, task: Task) -> dict[str, str]:
    """Return the folders of results that a task reads, below the root, by their variables."""
    # The same point of another stage, where that task has passed.
    like = stage.parameters[MAP].get("like")
    partner = f"{like}/{DONE}/{point.folder}"
    found = {LIKE: partner} if like is not None and (root / partner).is_dir() else {}
    return found | ({JUDGE: task.folder} if task.to_judge else {})


def _assignments(point: Point, read: Mapping[str, str], origins: Mapping[str, str]) -> str:
    words = {f"{PREFIX}{name}": spelled(value) for name, value in point.values.items()}
    words |= {"WFCTL_TASK": point.key, "WFCTL_TASK_FOLDER": point.folder}
    words |= {_ORIGIN: origins[point.key]} if point.key in origins else {}
    told = [f"{name}={shlex.quote(value)}" for name, value in words.items()]
    told += [f'{name}="${TASKS_ROOT}"/{shlex.quote(path)}' for name, path in read.items()]
    return " ".join(told)


def _sending(
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
