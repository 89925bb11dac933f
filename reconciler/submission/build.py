"""Build the submission of a stage for DPDispatcher, and the submission of each attempt."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.words.scheduler_queries import DEFAULT_QUERY_INTERVAL, QUERY_INTERVAL
from reconciler.attempt import execution_host as machine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import ATTEMPT, ERROR_LOG, OUTPUT_LOG, AttemptPaths
from reconciler.errors import (
    InlineSecret,
    InvalidSubmission,
    UnusablePath,
    UnusableProfile,
    UnusableSubmission,
)
from reconciler.submission import fields, job_script, scheduler_directives
from reconciler.submission.job_guard import (
    _add_task_recording,
    build_guard_lines,
    build_time_limit_line,
)
from reconciler.submission.requested_resources import request_from_scheduler
from reconciler.submission.transferred_files import add_far_files
from service.root.atomic_files import write_whole
from service.root.paths_within_root import is_inside

#: Fields of the connection settings that must not be written into a file of the workflow.
_SECRETS = ("password", "passphrase", "totp_secret")


@dataclass(frozen=True, slots=True)
class StageJob:
    """The part of a stage that defines its job, with paths as in the plan.

    ``inputs`` and ``outputs`` are relative to the root, ``forward_files`` and ``backward_files`` to
    the stage's folder.
    """

    stage: str
    command: str
    forward_files: tuple[str, ...] = ()
    backward_files: tuple[str, ...] | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    resource_overrides: Mapping[str, Any] = field(default_factory=dict)
    #: Software environment in which the command runs, in the format that `lifecycle.words.values`
    #: describes.
    environment: Mapping[str, Any] = field(default_factory=dict)


def read_submission(path: Path) -> dict[str, Any]:
    """Read a prepared submission file, and check the form of its fields.

    Raises InvalidSubmission, with line and column, if the file is not a JSON object, and
    UnusableSubmission if a field does not have the form that DPDispatcher expects.
    """
    try:
        found = json.loads(read_regular(path).decode())
    except json.JSONDecodeError as error:
        raise InvalidSubmission(path, error.msg, error.lineno, error.colno) from error
    except RecursionError as error:
        raise InvalidSubmission(path, "values that are nested too deeply") from error
    except UnicodeDecodeError as error:
        raise InvalidSubmission(path, f"a byte that is not UTF-8 at {error.start}") from error
    if not isinstance(found, dict):
        raise InvalidSubmission(path, type(found).__name__)
    fields.check_submission(found)
    return found


def build_submission(job: StageJob, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Build the submission of a stage for the machine that a backend profile describes.

    Special characters in the names of inputs and outputs are escaped, because DPDispatcher treats
    every path as a pattern. Raises UnusablePath for a path that is absolute or leads out of the
    root or stage, and UnusableProfile if the profile describes no machine.
    """
    inputs = _drop_duplicates(_require_relative(job, "inputs", path) for path in job.inputs)
    own = [path for path in inputs if _is_inside_stage(path, job.stage)]
    given = [_require_relative(job, "forward_files", path) for path in job.forward_files]
    resources = _merge_resources(profile, job.resource_overrides, job.environment)
    built = {
        "work_base": ".",
        "machine": _build_machine(profile),
        "resources": resources,
        "forward_common_files": [escape(path) for path in inputs if path not in own],
        "task_list": [
            {
                "command": job_script.wrap_command(
                    fields.add_loaded_modules(job.environment, resources), job.command
                ),
                "task_work_path": job.stage,
                "forward_files": _drop_duplicates(
                    [*given, *(escape(_strip_stage(path, job.stage)) for path in own)]
                ),
                "backward_files": _backward_files(job),
                "outlog": OUTPUT_LOG,
                "errlog": ERROR_LOG,
            }
        ],
    }
    fields.check_submission(built)
    return built


def build_attempt_copy(
    submission: Mapping[str, Any],
    attempt: AttemptPaths,
    described: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], ExecutionHost]:
    """Build the submission of one attempt from the submission of its stage.

    The copy has absolute paths, and its jobs cannot start twice. ``described`` contains the fields
    of a machine that the submission only refers to. Returns the copy and the machine of its jobs.
    Raises UnusableSubmission.
    """
    result = copy.deepcopy(dict(submission))
    interval = result.pop(QUERY_INTERVAL, DEFAULT_QUERY_INTERVAL)
    given = _require_object(result, "machine")
    resources = _require_object(result, "resources")
    known = {**(described or {}), **given}
    place = replace(_choose_execution_host(known, attempt), query_interval=interval)
    scheduler_directives.check_directives(place.batch_type, resources)
    resources = request_from_scheduler(result, place.batch_type)
    fields.check_variable_lengths(resources.get("envs", {}))
    result["machine"] = _attempt_machine(given, known, attempt, place)
    result["resources"] = {
        "group_size": 1,
        **resources,
        **(_forbid_requeue(resources) if place.has_slurm else {}),
        "envs": {**resources.get("envs", {}), ATTEMPT: attempt.tag},
        "prepend_script": [
            *build_guard_lines(attempt, place),
            *resources.get("prepend_script", []),
        ],
    }
    result["task_list"] = [_add_task_recording(task) for task in result.get("task_list", [])]
    return (add_far_files(result, attempt) if place.is_far else result), place


def _forbid_requeue(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources that prevent Slurm from starting a job again after it was started.

    A job that starts a second time refuses to run, so a requeue is useless. Returns an empty dict
    if the user has set the flag themselves.
    """
    flags = [*resources.get("custom_flags", [])]
    if any(re.search(r"\s--(no-)?requeue\b", str(flag)) for flag in flags):
        return {}
    return {"custom_flags": [*flags, "#SBATCH --no-requeue"]}


def uses_ref(submission: Mapping[str, Any]) -> bool:
    """Return whether a submission contains a reference to a file (``$ref``).

    DPDispatcher follows references only if a flag allows this.
    """
    return '"$ref":' in json.dumps(submission)


def _build_machine(profile: Mapping[str, Any]) -> dict[str, Any]:
    if "config_path" in profile:
        path = profile["config_path"]
        if not isinstance(path, str) or not path:
            raise UnusableProfile("config_path", "a path", path)
        # DPDispatcher resolves the path relative to the submission file, which is one folder below
        # the root.
        return {"$ref": path if path.startswith("/") else f"../{path}"}
    config = profile.get("config")
    if not isinstance(config, Mapping) or "batch_type" not in config:
        raise UnusableProfile("config", "an object with batch_type and context_type fields", config)
    return copy.deepcopy(dict(config))


def _merge_resources(
    profile: Mapping[str, Any], overrides: Mapping[str, Any], environment: Mapping[str, Any]
) -> dict[str, Any]:
    defaults = profile.get("resource_defaults", {})
    if not isinstance(defaults, Mapping):
        raise UnusableProfile("resource_defaults", "an object", defaults)
    found = copy.deepcopy({"group_size": 1, **defaults, **overrides})
    for name, lines in job_script.build_software_resources(environment).items():
        found[name] = [*found.get(name, []), *lines]
    return found


def _backward_files(job: StageJob) -> list[str]:
    if job.backward_files is not None:
        return _drop_duplicates(
            _require_relative(job, "backward_files", path) for path in job.backward_files
        )
    outputs = [_require_relative(job, "outputs", path) for path in job.outputs]
    elsewhere = next((path for path in outputs if not _is_inside_stage(path, job.stage)), None)
    if elsewhere is not None:
        raise UnusablePath(job.stage, "outputs", elsewhere, f"a path below {job.stage}/")
    names = (escape(_strip_stage(path, job.stage)) for path in outputs)
    return _drop_duplicates([*names, OUTPUT_LOG, ERROR_LOG])


def _require_relative(job: StageJob, name: str, path: str) -> str:
    parts = PurePosixPath(path)
    if not path or "\0" in path or parts.is_absolute() or ".." in parts.parts:
        raise UnusablePath(
            job.stage, name, path, "a relative path that stays below the root folder"
        )
    return str(parts)


def _is_inside_stage(path: str, stage: str) -> bool:
    return PurePosixPath(path).is_relative_to(stage) and path != stage


def _strip_stage(path: str, stage: str) -> str:
    return str(PurePosixPath(path).relative_to(stage))


def _drop_duplicates(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))


def _require_object(submission: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = submission.get(name)
    if not isinstance(found, dict):
        raise UnusableSubmission(name, "an object", found, "Add it as DPDispatcher expects it.")
    return found


def _choose_execution_host(known: Mapping[str, Any], attempt: AttemptPaths) -> ExecutionHost:
    batch_type, context_type = machine.extract_machine_types(known)
    root = known.get("remote_root")
    # Each attempt has its own folder, so that all processes that work below the folder belong to
    # the attempt.
    if context_type != "SSHContext":
        given = attempt.root / str(root or ".")
        own = attempt.work if is_inside(given, attempt.root) else given / attempt.tag
        return ExecutionHost(batch_type, context_type, str(own))
    if not isinstance(root, str) or not root.startswith("/"):
        remedy = "Name a folder on that machine in which the jobs can write."
        raise UnusableSubmission("machine.remote_root", "an absolute path", root, remedy)
    return ExecutionHost(batch_type, context_type, str(PurePosixPath(root) / attempt.tag))


def _attempt_machine(
    given: dict[str, Any], known: Mapping[str, Any], attempt: AttemptPaths, place: ExecutionHost
) -> dict[str, Any]:
    check_secrets(given)
    result = {
        **given,
        "retry_count": 0,
        "local_root": str(attempt.root / str(known.get("local_root") or ".")),
        "remote_root": place.scratch,
    }
    source = machine.find_machine_file(given, attempt.stage_folder)
    if source is not None:
        result["$ref"] = str(source)
    if not place.is_far:
        # For a machine in a file, DPDispatcher replaces top-level fields instead of merging them.
        # For a remote machine, this field would remove the connection settings of the file, so it
        # is set only for local jobs.
        result["remote_profile"] = {**given.get("remote_profile", {}), "symlink": False}
    return result


def check_secrets(given: object) -> None:
    """Raise `InlineSecret` if the connection settings in a submission contain a password."""
    profile = given.get("remote_profile") if isinstance(given, Mapping) else None
    for name in _SECRETS if isinstance(profile, dict) else ():
        if profile and profile.get(name):
            raise InlineSecret(f"machine.remote_profile.{name}")


def add_time_limit(submission: Mapping[str, Any], limit: int | None) -> dict[str, Any]:
    """Return a copy of the submission that ends its command after ``limit`` seconds."""
    resources = _require_object(submission, "resources")
    lines = [*resources.get("prepend_script", []), build_time_limit_line(limit)]
    return {**submission, "resources": {**resources, "prepend_script": lines}}


def add_variables(submission: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    """Return a copy of the submission with additional environment variables for its jobs."""
    result = copy.deepcopy(dict(submission))
    resources = _require_object(result, "resources")
    result["resources"] = {**resources, "envs": {**resources.get("envs", {}), **more}}
    return result


FILE_NAME = "submission.diagnostic.json"
#: Start of the line with the exit code of a command in a diagnostic run. The job of such a run
#: always exits with 0.
_TOLD = "diagnostic run: exit code "
CODE_LINE = re.compile(rf"^{_TOLD}(\d+)$", re.MULTILINE)


def write_diagnostic(attempt: AttemptPaths, given: Mapping[str, Any]) -> dict[str, Any]:
    """Write the submission of a diagnostic run next to the original, and return it."""
    found = build_diagnostic(given)
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    write_whole(attempt.stage_folder / FILE_NAME, text.encode())
    return found


def build_diagnostic(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the submission of a diagnostic run, which downloads only log and err.

    DPDispatcher downloads no files of a failed task. The task therefore exits with 0, and writes
    the exit code of its command to stderr.
    """
    result = copy.deepcopy(dict(given))
    result["backward_common_files"] = []
    for task in result.get("task_list", []):
        task["backward_files"] = [OUTPUT_LOG, ERROR_LOG]
        task["outlog"], task["errlog"] = OUTPUT_LOG, ERROR_LOG
        task["command"] = f'( {task["command"]}\n); echo "{_TOLD}$?" >&2'
    return result
