"""Build the submission of a stage for DPDispatcher, and the submission of each attempt."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path, PurePosixPath
from signal import SIGHUP, SIGINT, SIGTERM
from typing import Any

from eventstore.private_files import read_regular
from lifecycle.words.mandates import time_limit
from reconciler.attempt import execution_host as machine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import ATTEMPT, KILLED, RUN, SIGNALLED, TIMED_OUT, AttemptPaths
from reconciler.errors import (
    InlineSecret,
    InvalidSubmission,
    UnusablePath,
    UnusableProfile,
    UnusableSubmission,
)
from reconciler.submission import fields, job_script, scheduler_directives
from reconciler.submission.transferred_files import add_far_files
from service.root.atomic_files import is_inside, write_whole

#: Names of the files for the standard output and the standard error of a task.
OUTPUT_LOG, ERROR_LOG = "log", "err"

#: Fields of the connection settings that must not be written into a file of the workflow.
_SECRETS = ("password", "passphrase", "totp_secret")

#: Shell code that determines the job hash. If a shell starts the job, the script is named `.<job
#: hash>.sub`.
_SHELL_JOB = "${0##*/}; wfctl_job=${wfctl_job#.}; wfctl_job=${wfctl_job%.sub}"
#: Shell code that determines the job hash. A scheduler runs a copy of the script under another
#: name, so the hash is taken from the name of a file that the script writes.
_QUEUED_JOB = (
    "$(grep -o -m 1 -E '[0-9a-f]{40}_flag_if_job_task_fail' \"$0\"); wfctl_job=${wfctl_job%%_*}"
)
_LOCK = 'exec 9>>"$wfctl_job.lock" && flock -w 10 9 || exit 75'
#: Cluster file systems may not support locks. In this case, only the claim to start prevents a
#: second run of the job.
_SHARED_LOCK = (
    'exec 9>>"$wfctl_job.lock"; flock -w 10 -E 76 9; '
    'case $? in 0) ;; 76) exit 75 ;; *) (set -C; : > "$wfctl_job.unlocked") ;; esac'
)
#: Makes the shell of a job exit with 128 plus the number of the signal. Without this, a waiting
#: shell would exit with the code of its last command. A command may also send the signal of a crash
#: to its own shell.
_SIGNALS = (
    'for signal in 1 2 4 6 7 8 10 11 12 15 24; do trap "exit $((128 + signal))" "$signal"; done'
)

#: Exit codes of a shell that SIGHUP, SIGINT or SIGTERM ended. A command may send these signals to
#: its own process group. Signals of a crash, such as SIGSEGV, are not included.
_ENDED_BY_GROUP = "|".join(str(SIGNALLED + signal) for signal in (SIGHUP, SIGINT, SIGTERM))
#: Shell function that records the exit code of the job, even if no monitor is running. The code is
#: needed because the script of DPDispatcher turns every failure of a command into exit code 1. If a
#: task was killed before its command was recorded, the shell itself exits with 1 or 0, so the code
#: of SIGKILL is recorded instead. The record is written to a new file with an unpredictable name,
#: so that no existing link is followed.
_ENDED = (
    # A second signal to the process group must not end the programs that write the record.
    'wfctl_ended() { code=$?; trap "" HUP INT TERM; '
    f"case $code in {_ENDED_BY_GROUP}) wfctl_reaches || :; esac; "
    f'[ ! -e "$wfctl_job.killed" ] || code={KILLED}; '
    'for wfctl_task in "$wfctl_job".task.*; do '
    f'[ "$code" -gt 1 ] || [ ! -e "$wfctl_task" ] || code={KILLED}; done; '
    'wfctl_new=$(mktemp "$wfctl_job.exit.XXXXXXXXXXXX") && '
    '{ echo "$code"; echo "$WFCTL_ATTEMPT $(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)"; '
    'cat "$wfctl_job".used.* 2> /dev/null || :; } '
    '> "$wfctl_new" && chmod =rw "$wfctl_new" && sync "$wfctl_new" && '
    'mv -T "$wfctl_new" "$wfctl_job.exit"; }'
)
#: Shell functions for a command that ended its helpers by a signal to its process group, such as
#: `trap 'kill 0' EXIT`. The signal also ends the shells above the command. If the command had
#: already ended, the script of the job records its exit code and tags its task as finished. In a
#: job with several tasks, it is not known which task ended, so nothing is tagged.
_REACHED = (
    'wfctl_reached() { (set -C; echo "$1" > "$wfctl_job.reached") 2> /dev/null; return "$1"; }\n'
    "wfctl_reaches() { local copy=$REMOTE_ROOT job=${wfctl_job##*/job-} told tags; "
    "tags=$(grep -oE '[0-9a-f]{40}_task_tag_finished' \"$copy/.$job.sub.run\" | sort -u); "
    '[ "${#tags}" = 58 ] && read -r told < "$wfctl_job.reached" && '
    '{ [ "$told" != 0 ] || { : > "$tags" && : > "$copy/${job}_job_tag_finished"; }; } && '
    'rm -f "$wfctl_job".task.* && code=$told; } 2> /dev/null'
)
#: Shell line with the path of a claim to start that is outside the attempt's folder. It shows that
#: the job was started even if that folder was removed. Attempts that an earlier version prepared
#: have no such claim.
_STARTS = 'wfctl_start={starts}/"${{wfctl_job##*/}}".started'
_START = (
    '[ ! -e "${wfctl_job%/*}/stopped" ] && '
    '{ [ ! -d "${wfctl_start%/*}" ] || mkdir "$wfctl_start"; } && '
    'mkdir "$wfctl_job.started" || exit 75'
)
#: Shell code that marks the processes of a command. They are found later by this open file or by
#: the variable in their environment.
_MARKED = f'export {RUN}="$wfctl_own"; {{ exec 6< "$wfctl_own"; }} 2> /dev/null'
#: Shell code for a resource limit. If the limit ends the shell, the shell exits normally and counts
#: the resources of its program.
_COUNTS = f'[ -z "$wfctl_watched" ] || trap "exit {SIGNALLED + SIGTERM}" TERM'
#: Script that waits for processes which a command left running.
AWAITING = Path(__file__).parent / "await.sh"
#: Script that reports the resources which a command used. The next path is the script that ends a
#: command at its time limit.
USED = Path(__file__).parent / "used.sh"
LIMIT = Path(__file__).parent / "limit.sh"
#: Shell code that records the folder, the process, the boot and the host of the job.
_CLAIM = (
    'printf "%s\\n" "$REMOTE_ROOT" "$$" "$(cut -d" " -f22 /proc/$$/stat)" '
    '"$(cat /proc/sys/kernel/random/boot_id)" "$(uname -n)" > "$wfctl_job.started/record"; '
    '[ ! -d "$wfctl_start" ] || '
    'printf "%s\\n" "$(< "$wfctl_job.started/record")" > "$wfctl_start/record"'
)


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
                    fields.loaded_software(job.environment, resources), job.command
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
    given = _require_object(result, "machine")
    resources = _require_object(result, "resources")
    known = {**(described or {}), **given}
    place = _choose_execution_host(known, attempt)
    scheduler_directives.check_directives(place.batch_type, resources)
    fields.check_variables(resources.get("envs", {}))
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
    result["task_list"] = [_watch_task(task) for task in result.get("task_list", [])]
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
    for name, lines in job_script.build_resource_lines(environment).items():
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
    batch_type, context_type = machine.check_machine(known)
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


def _redirect_to_new_file(command: str, path: str) -> str:
    """Return shell code that writes the output of a command to a new file.

    The code fails if the path exists, so that it never follows a link.
    """
    return f'(set -C; {command} > "{path}") 2> /dev/null'


def _watch_task(task: Any) -> Any:
    """Return a task that also records when its command runs, ends and is killed.

    The exit code of the command is unchanged.
    """
    if not isinstance(task, dict) or not isinstance(task.get("command"), str):
        return task
    # Leftover child processes may still write to the logs, so the logs do not show whether all
    # results are complete.
    logs = (task.get("outlog", OUTPUT_LOG), task.get("errlog", ERROR_LOG))
    results = [path for path in task.get("backward_files") or [] if path not in logs]
    # The command is on its own lines, because it may end with a comment.
    told = (
        'wfctl_own="$wfctl_job.task.$BASHPID"; '
        f'{_redirect_to_new_file(":", "$wfctl_own")}; wfctl_watch "$wfctl_own"; '
        f"({_MARKED}; {_COUNTS}\n{task['command']}\n\nwfctl_reached $?\n); wfctl_code=$?; "
        'rm -f "$wfctl_job.reached"; '
        '[ "$wfctl_code" != 0 ] || wfctl_await "$wfctl_own" "$wfctl_job.awaited.$BASHPID" '
        f'{shlex.join(results)}; wfctl_in_time "$wfctl_own" || {{ wfctl_code={TIMED_OUT}; '
        'echo "wfctl: ended by its time limit of $wfctl_limit s" >&2; }; '
        f'[ "$wfctl_code" -ne {KILLED} ] || {_redirect_to_new_file(":", "$wfctl_job.killed")}; '
        '[ "$wfctl_code" = 0 ] || [ -e "$wfctl_job.code" ] || '
        + _redirect_to_new_file('echo "$wfctl_code"', "$wfctl_job.code")
        + '; rm -f "$wfctl_own"; wfctl_used "$wfctl_job.used.$BASHPID" "$wfctl_code" ""'
    )
    return {**task, "command": told}


def build_guard_lines(attempt: AttemptPaths, place: ExecutionHost) -> list[str]:
    """Return lines of a job script that start the job only once and record its end.

    The lock is taken before the start is claimed, and the command inherits the lock. A held lock
    therefore means that the command is running. The script waits several seconds for the lock,
    because other processes hold it briefly to check it.
    """
    folder = '"${REMOTE_ROOT%/*}"' if place.is_far else shlex.quote(str(attempt.folder))
    # DPDispatcher writes these lines unchanged into one script, so a line can use variables of the
    # lines before it.
    return [
        f"wfctl_job={_QUEUED_JOB if place.has_scheduler else _SHELL_JOB}",
        f'wfctl_job={folder}/"job-${{wfctl_job:?}}"',
        _SHARED_LOCK if place.has_scheduler else _LOCK,
        _STARTS.format(starts="''" if place.is_far else shlex.quote(str(attempt.starts))),
        _START,
        _REACHED,
        _ENDED,
        "trap wfctl_ended EXIT",
        _SIGNALS,
        _CLAIM,
        AWAITING.read_text(encoding="utf-8"),
        USED.read_text(encoding="utf-8"),
        LIMIT.read_text(encoding="utf-8"),
    ]


def limit_line(parameters: Mapping[str, Any]) -> str:
    """Return the shell line that sets the time limit of a stage, empty if it has none.

    The line must follow the functions of limit.sh.
    """
    return f"wfctl_limit={time_limit(parameters) or ''}"


def add_time_limit(submission: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the submission that ends its command at the stage's time limit."""
    resources = _require_object(submission, "resources")
    lines = [*resources.get("prepend_script", []), limit_line(parameters)]
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
