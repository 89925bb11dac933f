"""Add the files that wfctl itself sends to and downloads from jobs on another machine."""

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

#: Variable with the folder of an attempt's tasks, if its stage has a map.
#: Variants of this name point to the finished tasks and to the results that a task reads.
TASKS = "WFCTL_TASKS"
_TASKS_TO, TASKS_ROOT = f"{TASKS}_TO", f"{TASKS}_ROOT"
#: Variable with the folder for the result of a task until all of it is here.
_TASKS_BACK = f"{TASKS}_BACK"
#: Variable with the folder of the stage's outputs in the previous round.
BEFORE_VARIABLE = f"{VARIABLE}_BEFORE"
#: Files in the task folder that a worker reads there, and files that the worker returns.
VOUCHED = ("list", "outputs", "command.sh", "verify.sh", "worker.sh")
BACK = "back"
#: File that names each folder of results that a task reads, one path per line, below the root.
READ = "read"


def add_far_files(submission: Mapping[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    """Return a submission whose jobs find files that variables point to on another machine too.

    These files are copied once for the attempt, like the results of its tasks.
    """
    resources = submission["resources"]
    envs = dict(resources.get("envs", {}))
    files, back, lines = (
        [*map(escape, list_read_results(submission, attempt))],
        list[str](),
        list[str](),
    )
    if BEFORE_VARIABLE in envs:
        before = os.path.relpath(envs.pop(BEFORE_VARIABLE), attempt.root)
        lines.append(f'export {BEFORE_VARIABLE}="$REMOTE_ROOT"/{shlex.quote(before)}')
    if TASKS in envs:
        envs = {k: v for k, v in envs.items() if k not in (TASKS, _TASKS_TO, TASKS_ROOT)}
        tasks = (attempt.tasks / name for name in VOUCHED)
        files += [str(one.relative_to(attempt.root)) for one in tasks if one.exists()]
        own = attempt.tasks.relative_to(attempt.root)
        back.append(f"{own}/{BACK}/**")
        lines += _build_folder_lines(own)
    common = [*submission.get("forward_common_files", []), *files]
    returned = [*submission.get("backward_common_files", []), *back]
    scripted = [*lines, *resources.get("prepend_script", [])]
    return {
        **submission,
        "forward_common_files": common,
        **({"backward_common_files": returned} if returned else {}),
        "resources": {**resources, "envs": envs, "prepend_script": scripted},
    }


def list_read_results(submission: Mapping[str, Any], attempt: AttemptPaths) -> list[str]:
    """Return the folders, relative to the root, that only wfctl's variables name to a job.

    They contain results of other tasks, and the stage's outputs of the previous round.
    """
    before = str((submission["resources"].get("envs") or {}).get(BEFORE_VARIABLE, ""))
    rounds = [os.path.relpath(before, attempt.root)] if before and Path(before).is_dir() else []
    return [*rounds, *plain.read_text(attempt.tasks / READ).splitlines()]


def _build_folder_lines(own: Path) -> list[str]:
    """Return the shell lines that create and export the folders of tasks on another machine."""
    return [
        f'export {TASKS_ROOT}="$REMOTE_ROOT" {TASKS}="$REMOTE_ROOT"/{shlex.quote(str(own))}',
        f'export {_TASKS_BACK}="${TASKS}"/{BACK} {_TASKS_TO}="${TASKS}"/{BACK}/done',
        f'mkdir -p "${TASKS}"/{{claims,aside}} "${_TASKS_BACK}"/{{done,failed,lost}}',
    ]
