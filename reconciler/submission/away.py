"""What jobs on another machine take along and bring back beside what their stage names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

from lifecycle.words.rounds import VARIABLE
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import small_files as plain

#: The variables that name the folder of an attempt's tasks, where its stage has a map, the folder
#: for those that are done, and what the results that a task reads lie below.
TASKS = "WFCTL_TASKS"
_TASKS_TO, TASKS_ROOT = f"{TASKS}_TO", f"{TASKS}_ROOT"
#: … and where what became of a task is put until all of it is here.
_TASKS_BACK = f"{TASKS}_BACK"
#: The variable that names the folder of what a stage left in the round before.
BEFORE = f"{VARIABLE}_BEFORE"
#: In the folder of the tasks: what a worker reads there, and what comes back.
VOUCHED = ("list", "outputs", "command.sh", "verify.sh", "worker.sh")
BACK = "back"
#: Names each folder of results that a task reads, a line a path below the root.
READ = "read"


def taken_along(submission: Mapping[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    """Return a submission whose jobs find on another machine what they are told of by variables.

    It is copied once for the attempt, and so are the results of its tasks.
    """
    resources = submission["resources"]
    envs = dict(resources.get("envs", {}))
    files, back, lines = [*map(escape, results_read(submission, attempt))], list[str](), list[str]()
    if BEFORE in envs:
        before = os.path.relpath(envs.pop(BEFORE), attempt.root)
        lines.append(f'export {BEFORE}="$REMOTE_ROOT"/{shlex.quote(before)}')
    if TASKS in envs:
        envs = {k: v for k, v in envs.items() if k not in (TASKS, _TASKS_TO, TASKS_ROOT)}
        tasks = (attempt.tasks / name for name in VOUCHED)
        files += [str(one.relative_to(attempt.root)) for one in tasks if one.exists()]
        own = attempt.tasks.relative_to(attempt.root)
        back.append(f"{own}/{BACK}/**")
        lines += _places(own)
    common = [*submission.get("forward_common_files", []), *files]
    returned = [*submission.get("backward_common_files", []), *back]
    scripted = [*lines, *resources.get("prepend_script", [])]
    return {
        **submission,
        "forward_common_files": common,
        **({"backward_common_files": returned} if returned else {}),
        "resources": {**resources, "envs": envs, "prepend_script": scripted},
    }


def results_read(submission: Mapping[str, Any], attempt: AttemptPaths) -> list[str]:
    """Return the folders, relative to the root, of which a job is told by wfctl alone.

    They hold results of other tasks, and what a stage left in the round before.
    """
    before = str((submission["resources"].get("envs") or {}).get(BEFORE, ""))
    rounds = [os.path.relpath(before, attempt.root)] if before and Path(before).is_dir() else []
    return [*rounds, *plain.text(attempt.tasks / READ).splitlines()]


def _places(own: Path) -> list[str]:
    """Return the lines that say where tasks lie on another machine; each job makes them."""
    return [
        f'export {TASKS_ROOT}="$REMOTE_ROOT" {TASKS}="$REMOTE_ROOT"/{shlex.quote(str(own))}',
        f'export {_TASKS_BACK}="${TASKS}"/{BACK} {_TASKS_TO}="${TASKS}"/{BACK}/done',
        f'mkdir -p "${TASKS}"/{{claims,aside}} "${_TASKS_BACK}"/{{done,failed,lost}}',
    ]
