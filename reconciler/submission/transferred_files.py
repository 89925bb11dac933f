"""Extend a submission with files that wfctl sends to jobs on another machine."""

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

#: Environment variable with the folder of an attempt's tasks, set for a sweep (one task per point).
#: Variables with longer names contain the folder of finished tasks and the root.
TASKS = "WFCTL_TASKS"
_TASKS_TO, TASKS_ROOT = f"{TASKS}_TO", f"{TASKS}_ROOT"
#: Environment variable with the folder in which a worker on another machine collects results for
#: the download.
_TASKS_BACK = f"{TASKS}_BACK"
#: Environment variable with the folder that contains the stage's outputs of the previous round.
BEFORE_VARIABLE = f"{VARIABLE}_BEFORE"
#: Files that a worker reads in the task folder. Their digests are part of the submission. The name
#: of the folder with the files that a worker returns follows.
VOUCHED = ("list", "outputs", "command.sh", "verify.sh", "worker.sh")
BACK = "back"
#: Name of a file that lists the result folders which tasks read, one path per line, relative to the
#: root.
READ = "read"


def add_far_files(submission: Mapping[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    """Return a submission whose variables also work for jobs on another machine.

    wfctl's environment variables name folders of the root. The submission sends these folders to
    the other machine, sets the variables to the copies, and returns the results of the tasks.
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
    """Return the folders that jobs read only because wfctl's variables name them.

    They contain results of other tasks, and the stage's outputs of the previous round. The paths
    are relative to the root.
    """
    before = str((submission["resources"].get("envs") or {}).get(BEFORE_VARIABLE, ""))
    rounds = [os.path.relpath(before, attempt.root)] if before and Path(before).is_dir() else []
    return [*rounds, *plain.read_text(attempt.tasks / READ).splitlines()]


def _build_folder_lines(own: Path) -> list[str]:
    """Return shell lines that create the folders of tasks on another machine.

    The lines also set the variables that name these folders.
    """
    return [
        f'export {TASKS_ROOT}="$REMOTE_ROOT" {TASKS}="$REMOTE_ROOT"/{shlex.quote(str(own))}',
        f'export {_TASKS_BACK}="${TASKS}"/{BACK} {_TASKS_TO}="${TASKS}"/{BACK}/done',
        f'mkdir -p "${TASKS}"/{{claims,aside}} "${_TASKS_BACK}"/{{done,failed,lost}}',
    ]
