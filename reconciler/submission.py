"""The submission: what DPDispatcher is given, as a stage describes it and as an attempt runs it."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from reconciler.attempt import Attempt
from reconciler.errors import (
    InvalidSubmission,
    UnusablePath,
    UnusableProfile,
    UnusableSubmission,
)

#: What DPDispatcher calls the standard output and error of a task.
OUTPUT_LOG, ERROR_LOG = "log", "err"

#: The script's own name, which is `.<job hash>.sub` for a job that the shell starts.
_SHELL_JOB = "${0##*/}"
#: A scheduler runs a copy under another name; DPDispatcher names the job by the script.
_SLURM_JOB = "${SLURM_JOB_NAME:-${0##*/}}"

#: Records the job's own exit code, even where no monitor is left to see it.
_ENDED = (
    "wfctl_ended() { code=$?; "
    '{ echo "$code"; echo "$WFCTL_ATTEMPT $(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)"; } '
    '> "$wfctl_job.exit.tmp" && sync "$wfctl_job.exit.tmp" && '
    'mv "$wfctl_job.exit.tmp" "$wfctl_job.exit"; }'
)
#: Says where the job runs and which process it is.
_CLAIM = (
    'printf "%s\\n" "$REMOTE_ROOT" "$$" "$(cut -d" " -f22 /proc/$$/stat)" '
    '"$(cat /proc/sys/kernel/random/boot_id)" "$(uname -n)" > "$wfctl_job.started/record"'
)


@dataclass(frozen=True, slots=True)
class StageJob:
    """The fields of a stage that make its job; paths as in the plan.

    ``inputs`` and ``outputs`` are relative to the root, ``forward_files`` and
    ``backward_files`` to the stage's folder.
    """

    stage: str
    command: str
    forward_files: tuple[str, ...] = ()
    backward_files: tuple[str, ...] | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    resource_overrides: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path) -> dict[str, Any]:
    """Read a prepared submission; raises InvalidSubmission with line and column."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InvalidSubmission(path, error.msg, error.lineno, error.colno) from error
    except UnicodeDecodeError as error:
        raise InvalidSubmission(path, f"a byte that is not UTF-8 at {error.start}") from error
    if not isinstance(found, dict):
        raise InvalidSubmission(path, type(found).__name__)
    return found


def build(job: StageJob, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Build a submission from a stage and one entry of ``backend_profiles``.

    Raises UnusablePath for a path that is absolute or leaves the root or stage, UnusableProfile
    where the profile names no machine.
    """
    return {
        "work_base": ".",
        "machine": _machine(profile),
        "resources": _resources(profile, job.resource_overrides),
        "forward_common_files": _common_files(job),
        "task_list": [
            {
                "command": job.command,
                "task_work_path": job.stage,
                "forward_files": _forward_files(job),
                "backward_files": _backward_files(job),
                "outlog": OUTPUT_LOG,
                "errlog": ERROR_LOG,
            }
        ],
    }


def for_attempt(submission: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
    """Make the copy that one attempt submits: one run, guarded, with absolute places.

    The original is left as it is. Raises UnusableSubmission.
    """
    result = copy.deepcopy(dict(submission))
    result["machine"] = _attempt_machine(_object(result, "machine"), attempt)
    result["resources"] = _attempt_resources(
        _object(result, "resources"), attempt, result["machine"]
    )
    return result


def uses_ref(submission: Mapping[str, Any]) -> bool:
    """Say whether DPDispatcher must be allowed to follow a ``$ref``."""
    return '"$ref":' in json.dumps(submission)


def is_local(machine: Mapping[str, Any]) -> bool:
    """Say whether the job's directory lies on this machine, as far as the submission tells."""
    return machine.get("context_type") in ("LocalContext", "localcontext", "local")


def scratch(submission: Mapping[str, Any], attempt: Attempt) -> Path:
    """Return where the scratch copies of an attempt's own submission are made on this machine."""
    machine = submission["machine"]
    return Path(machine["remote_root"]) if is_local(machine) else attempt.work


def _machine(profile: Mapping[str, Any]) -> dict[str, Any]:
    if "config_path" in profile:
        path = profile["config_path"]
        if not isinstance(path, str) or not path:
            raise UnusableProfile("config_path", "a path", path)
        # DPDispatcher reads a reference from the folder of the submission that holds it.
        return {"$ref": path if path.startswith("/") else f"../{path}"}
    config = profile.get("config")
    if not isinstance(config, Mapping) or "batch_type" not in config:
        raise UnusableProfile("config", "an object with batch_type and context_type", config)
    return copy.deepcopy(dict(config))


def _resources(profile: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    defaults = profile.get("resource_defaults", {})
    if not isinstance(defaults, Mapping):
        raise UnusableProfile("resource_defaults", "an object", defaults)
    return copy.deepcopy({"group_size": 1, **defaults, **overrides})


def _common_files(job: StageJob) -> list[str]:
    return [
        path
        for path in _unique(_relative(job, "inputs", path) for path in job.inputs)
        if not _inside(path, job.stage)
    ]


def _forward_files(job: StageJob) -> list[str]:
    inputs = (_relative(job, "inputs", path) for path in job.inputs)
    own = [_below(path, job.stage) for path in inputs if _inside(path, job.stage)]
    given = [_relative(job, "forward_files", path) for path in job.forward_files]
    return _unique([*given, *own])


def _backward_files(job: StageJob) -> list[str]:
    if job.backward_files is not None:
        return _unique(_relative(job, "backward_files", path) for path in job.backward_files)
    outputs = [_relative(job, "outputs", path) for path in job.outputs]
    for path in outputs:
        if not _inside(path, job.stage):
            raise UnusablePath(job.stage, "outputs", path, f"a path below {job.stage}/")
    return _unique([*(_below(path, job.stage) for path in outputs), OUTPUT_LOG, ERROR_LOG])


def _relative(job: StageJob, name: str, path: str) -> str:
    parts = PurePosixPath(path)
    if not path or "\0" in path or parts.is_absolute() or ".." in parts.parts:
        raise UnusablePath(job.stage, name, path, "a relative path that stays below the root")
    return str(parts)


def _inside(path: str, stage: str) -> bool:
    return PurePosixPath(path).is_relative_to(stage) and path != stage


def _below(path: str, stage: str) -> str:
    return str(PurePosixPath(path).relative_to(stage))


def _unique(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))


def _object(submission: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = submission.get(name)
    if not isinstance(found, dict):
        raise UnusableSubmission(name, "an object", found, "Add it as DPDispatcher expects it.")
    return found


def _attempt_machine(machine: dict[str, Any], attempt: Attempt) -> dict[str, Any]:
    if "$ref" in machine:
        # A reference is merged shallowly, so anything said beside it would replace, not add.
        reference = attempt.stage_folder / str(machine["$ref"])
        return {**machine, "$ref": str(reference), "retry_count": 0}
    context = str(machine.get("context_type"))
    if "lazy" in context.lower():
        raise UnusableSubmission(
            "machine.context_type",
            "LocalContext",
            context,
            "LazyLocalContext skips what an earlier attempt finished; use LocalContext.",
        )
    result = {**machine, "retry_count": 0, "local_root": _absolute(machine, "local_root", attempt)}
    return {**result, **_local_places(machine, attempt)} if is_local(machine) else result


def _local_places(machine: Mapping[str, Any], attempt: Attempt) -> dict[str, Any]:
    profile = {**machine.get("remote_profile", {}), "symlink": False}
    return {"remote_root": str(_own_scratch(machine, attempt)), "remote_profile": profile}


def _own_scratch(machine: Mapping[str, Any], attempt: Attempt) -> Path:
    # Each attempt has a place of its own, so whoever works below it belongs to the attempt.
    given = attempt.root / str(machine.get("remote_root", "."))
    inside = given.resolve().is_relative_to(attempt.root.resolve())
    return attempt.work if inside else given / attempt.tag


def _absolute(machine: Mapping[str, Any], name: str, attempt: Attempt) -> str:
    return str(attempt.root / str(machine.get(name, ".")))


def _attempt_resources(
    resources: dict[str, Any], attempt: Attempt, machine: Mapping[str, Any]
) -> dict[str, Any]:
    own = [*guard(attempt, machine), *resources.get("prepend_script", [])]
    envs = {**resources.get("envs", {}), "WFCTL_ATTEMPT": attempt.tag}
    return {"group_size": 1, **resources, "envs": envs, "prepend_script": own}


def guard(attempt: Attempt, machine: Mapping[str, Any]) -> list[str]:
    """Return the lines of the job script that let a computation start once and record its end.

    The lock is taken before the start is claimed and is inherited by the command itself, so a
    held lock means a living computation; the trap is set by the one that starts alone. Waiting
    for the lock outlasts those who only look whether it is held.
    """
    local = is_local(machine)
    folder = shlex.quote(str(attempt.folder)) if local else '"$REMOTE_ROOT"'
    job = _SLURM_JOB if machine.get("batch_type") == "Slurm" else _SHELL_JOB
    # DPDispatcher joins these lines as they are, and one bash runs the whole.
    return [
        f"wfctl_job={job}; wfctl_job=${{wfctl_job#.}}",
        f'wfctl_job={folder}/"job-${{wfctl_job%.sub}}"',
        'exec 9>>"$wfctl_job.lock" && flock -w 10 9 || exit 75',
        'mkdir "$wfctl_job.started" || exit 75',
        _ENDED,
        "trap wfctl_ended EXIT",
        _CLAIM,
    ]
