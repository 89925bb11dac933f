"""The submission: what DPDispatcher is given, as a stage describes it and as an attempt runs it."""

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

from eventstore.private import read_regular
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
from reconciler.submission import fields
from reconciler.submission.away import taken_along
from service.root.disk import is_inside, write_whole

#: What DPDispatcher calls the standard output and error of a task.
OUTPUT_LOG, ERROR_LOG = "log", "err"

#: Values of a remote_profile that must not stand in a file of the workflow.
_SECRETS = ("password", "passphrase", "totp_secret")

#: The script's own name is `.<job hash>.sub` for a job that the shell starts.
_SHELL_JOB = "${0##*/}; wfctl_job=${wfctl_job#.}; wfctl_job=${wfctl_job%.sub}"
#: A scheduler runs a copy under another name, and people name jobs as they like; what the
#: script writes is named by the hash.
_QUEUED_JOB = (
    "$(grep -o -m 1 -E '[0-9a-f]{40}_flag_if_job_task_fail' \"$0\"); wfctl_job=${wfctl_job%%_*}"
)
_LOCK = 'exec 9>>"$wfctl_job.lock" && flock -w 10 9 || exit 75'
#: The file systems of clusters may know no locks; there the claim alone keeps a copy out.
_SHARED_LOCK = (
    'exec 9>>"$wfctl_job.lock"; flock -w 10 -E 76 9; '
    'case $? in 0) ;; 76) exit 75 ;; *) (set -C; : > "$wfctl_job.unlocked") ;; esac'
)
#: A signal ends a waiting shell with the exit code of whatever it ran last. By those of faults a
#: command ends its own shell.
_SIGNALS = (
    'for signal in 1 2 4 6 7 8 10 11 12 15 24; do trap "exit $((128 + signal))" "$signal"; done'
)

#: Exit codes of a shell that SIGHUP, SIGINT or SIGTERM ended, which may come from its own group. A
#: fault of the shell, such as SIGSEGV, is never such a signal.
_ENDED_BY_GROUP = "|".join(str(SIGNALLED + signal) for signal in (SIGHUP, SIGINT, SIGTERM))
#: Records the job's own exit code, even where no monitor is left to see it. DPDispatcher's script
#: makes any failure of a command an exit code of 1, and of a task that was killed before it could
#: tell of its command 1 or 0, by which of its shells was hit. The record is made in a new file
#: whose name nobody can know before, so that no link which lies there is written through.
_ENDED = (
    # A second signal to the group must not end the programs that make the record.
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
#: A command may end its helpers by a signal to its process group, as `trap 'kill 0' EXIT` does. The
#: signal ends the shells above the command too. If the command had come to its end before, the
#: script of the job records its exit code, and tags its task as these shells would have done. A
#: job of several tasks does not tell which of them came to their end.
_REACHED = (
    'wfctl_reached() { (set -C; echo "$1" > "$wfctl_job.reached") 2> /dev/null; return "$1"; }\n'
    "wfctl_reaches() { local copy=$REMOTE_ROOT job=${wfctl_job##*/job-} told tags; "
    "tags=$(grep -oE '[0-9a-f]{40}_task_tag_finished' \"$copy/.$job.sub.run\" | sort -u); "
    '[ "${#tags}" = 58 ] && read -r told < "$wfctl_job.reached" && '
    '{ [ "$told" != 0 ] || { : > "$tags" && : > "$copy/${job}_job_tag_finished"; }; } && '
    'rm -f "$wfctl_job".task.* && code=$told; } 2> /dev/null'
)
#: Claimed if nobody cleans as well, so that a start counts although its folder was removed.
#: An attempt that an earlier version prepared has no place there.
_STARTS = 'wfctl_start={starts}/"${{wfctl_job##*/}}".started'
_START = (
    '[ ! -e "${wfctl_job%/*}/stopped" ] && '
    '{ [ ! -d "${wfctl_start%/*}" ] || mkdir "$wfctl_start"; } && '
    'mkdir "$wfctl_job.started" || exit 75'
)
#: What a command starts is told by a file that it has open, or by its name in the environment.
_MARKED = f'export {RUN}="$wfctl_own"; {{ exec 6< "$wfctl_own"; }} 2> /dev/null'
#: A shell that is ended by a limit counts what the program used that it waits for.
_COUNTS = f'[ -z "$wfctl_watched" ] || trap "exit {SIGNALLED + SIGTERM}" TERM'
#: Waits for what a command has left at work.
AWAITING = Path(__file__).parent / "await.sh"
#: Tells what a command used; ends one whose time is over.
USED = Path(__file__).parent / "used.sh"
LIMIT = Path(__file__).parent / "limit.sh"
#: Says where the job runs and which process it is.
_CLAIM = (
    'printf "%s\\n" "$REMOTE_ROOT" "$$" "$(cut -d" " -f22 /proc/$$/stat)" '
    '"$(cat /proc/sys/kernel/random/boot_id)" "$(uname -n)" > "$wfctl_job.started/record"; '
    '[ ! -d "$wfctl_start" ] || '
    'printf "%s\\n" "$(< "$wfctl_job.started/record")" > "$wfctl_start/record"'
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
    #: The software that the command runs with, as `lifecycle.words.values` has it.
    environment: Mapping[str, Any] = field(default_factory=dict)


def read(path: Path) -> dict[str, Any]:
    """Read a prepared submission; raises InvalidSubmission with line and column.

    Raises UnusableSubmission where a field of it has another shape than DPDispatcher expects.
    """
    try:
        found = json.loads(read_regular(path).decode())
    except json.JSONDecodeError as error:
        raise InvalidSubmission(path, error.msg, error.lineno, error.colno) from error
    except RecursionError as error:
        raise InvalidSubmission(path, "values too deep in one another") from error
    except UnicodeDecodeError as error:
        raise InvalidSubmission(path, f"a byte that is not UTF-8 at {error.start}") from error
    if not isinstance(found, dict):
        raise InvalidSubmission(path, type(found).__name__)
    fields.check(found)
    return found


def build(job: StageJob, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Build a submission from a stage and one entry of ``backend_profiles``.

    Inputs and outputs are names, and are escaped since DPDispatcher takes every path for a pattern.

    Raises UnusablePath for a path that is absolute or leaves the root or stage, UnusableProfile
    where the profile names no machine.
    """
    inputs = _unique(_relative(job, "inputs", path) for path in job.inputs)
    own = [path for path in inputs if _inside(path, job.stage)]
    given = [_relative(job, "forward_files", path) for path in job.forward_files]
    built = {
        "work_base": ".",
        "machine": _machine(profile),
        "resources": _resources(profile, job.resource_overrides, job.environment),
        "forward_common_files": [escape(path) for path in inputs if path not in own],
        "task_list": [
            {
                "command": fields.command_in(job.environment, job.command),
                "task_work_path": job.stage,
                "forward_files": _unique(
                    [*given, *(escape(_below(path, job.stage)) for path in own)]
                ),
                "backward_files": _backward_files(job),
                "outlog": OUTPUT_LOG,
                "errlog": ERROR_LOG,
            }
        ],
    }
    fields.check(built)
    return built


def for_attempt(
    submission: Mapping[str, Any],
    attempt: AttemptPaths,
    described: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], ExecutionHost]:
    """Make the copy that one attempt submits: one run, guarded, with absolute places.

    ``described`` is what is known of a machine that the submission only refers to. Returns the
    copy and the machine it goes to; the original is left as it is. Raises UnusableSubmission.
    """
    result = copy.deepcopy(dict(submission))
    given = _object(result, "machine")
    resources = _object(result, "resources")
    known = {**(described or {}), **given}
    place = _place(known, attempt)
    fields.check_directives(place.batch_type, resources)
    fields.check_variables(resources.get("envs", {}))
    result["machine"] = _attempt_machine(given, known, attempt, place)
    result["resources"] = {
        "group_size": 1,
        **resources,
        **(_started_once(resources) if place.has_slurm else {}),
        "envs": {**resources.get("envs", {}), ATTEMPT: attempt.tag},
        "prepend_script": [*guard(attempt, place), *resources.get("prepend_script", [])],
    }
    result["task_list"] = [_watched(task) for task in result.get("task_list", [])]
    return (taken_along(result, attempt) if place.is_far else result), place


def _started_once(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of a job that Slurm does not put back into its queue after a start.

    A job that starts a second time refuses itself. The user's own flag wins.
    """
    flags = [*resources.get("custom_flags", [])]
    if any(re.search(r"\s--(no-)?requeue\b", str(flag)) for flag in flags):
        return {}
    return {"custom_flags": [*flags, "#SBATCH --no-requeue"]}


def uses_ref(submission: Mapping[str, Any]) -> bool:
    """Say whether DPDispatcher must be allowed to follow a ``$ref``."""
    return '"$ref":' in json.dumps(submission)


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


def _resources(
    profile: Mapping[str, Any], overrides: Mapping[str, Any], environment: Mapping[str, Any]
) -> dict[str, Any]:
    defaults = profile.get("resource_defaults", {})
    if not isinstance(defaults, Mapping):
        raise UnusableProfile("resource_defaults", "an object", defaults)
    found = copy.deepcopy({"group_size": 1, **defaults, **overrides})
    for name, lines in fields.resources(environment).items():
        found[name] = [*found.get(name, []), *lines]
    return found


def _backward_files(job: StageJob) -> list[str]:
    if job.backward_files is not None:
        return _unique(_relative(job, "backward_files", path) for path in job.backward_files)
    outputs = [_relative(job, "outputs", path) for path in job.outputs]
    elsewhere = next((path for path in outputs if not _inside(path, job.stage)), None)
    if elsewhere is not None:
        raise UnusablePath(job.stage, "outputs", elsewhere, f"a path below {job.stage}/")
    names = (escape(_below(path, job.stage)) for path in outputs)
    return _unique([*names, OUTPUT_LOG, ERROR_LOG])


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


def _place(known: Mapping[str, Any], attempt: AttemptPaths) -> ExecutionHost:
    batch_type, context_type = machine.checked(known)
    root = known.get("remote_root")
    # Each attempt has a place of its own, so anyone who works below it belongs to the attempt.
    if context_type != "SSHContext":
        given = attempt.root / str(root or ".")
        own = attempt.work if is_inside(given, attempt.root) else given / attempt.tag
        return ExecutionHost(batch_type, context_type, str(own))
    if not isinstance(root, str) or not root.startswith("/"):
        remedy = "Name a folder of that machine which the jobs can write."
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
    source = machine.reference(given, attempt.stage_folder)
    if source is not None:
        result["$ref"] = str(source)
    if not place.is_far:
        # A reference is merged shallowly: beside one to a far machine this would replace the
        # connection settings, which do not exist here.
        result["remote_profile"] = {**given.get("remote_profile", {}), "symlink": False}
    return result


def check_secrets(given: object) -> None:
    """Raise `InlineSecret` where the machine of a submission holds what lets one in."""
    profile = given.get("remote_profile") if isinstance(given, Mapping) else None
    for name in _SECRETS if isinstance(profile, dict) else ():
        if profile and profile.get(name):
            raise InlineSecret(f"machine.remote_profile.{name}")


def _new(command: str, path: str) -> str:
    """Return a command whose output goes to a new file; a link in its place is not followed."""
    return f'(set -C; {command} > "{path}") 2> /dev/null'


def _watched(task: Any) -> Any:
    """Return a task that tells while it is at work, and of its being killed; it ends as before."""
    if not isinstance(task, dict) or not isinstance(task.get("command"), str):
        return task
    # All that it starts may write its logs.
    logs = (task.get("outlog", OUTPUT_LOG), task.get("errlog", ERROR_LOG))
    results = [path for path in task.get("backward_files") or [] if path not in logs]
    # On lines of its own, since a command may end with a comment.
    told = (
        'wfctl_own="$wfctl_job.task.$BASHPID"; '
        f'{_new(":", "$wfctl_own")}; wfctl_watch "$wfctl_own"; '
        f"({_MARKED}; {_COUNTS}\n{task['command']}\n\nwfctl_reached $?\n); wfctl_code=$?; "
        'rm -f "$wfctl_job.reached"; '
        '[ "$wfctl_code" != 0 ] || wfctl_await "$wfctl_own" "$wfctl_job.awaited.$BASHPID" '
        f'{shlex.join(results)}; wfctl_in_time "$wfctl_own" || {{ wfctl_code={TIMED_OUT}; '
        'echo "wfctl: ended by its time limit of $wfctl_limit s" >&2; }; '
        f'[ "$wfctl_code" -ne {KILLED} ] || {_new(":", "$wfctl_job.killed")}; '
        '[ "$wfctl_code" = 0 ] || [ -e "$wfctl_job.code" ] || '
        + _new('echo "$wfctl_code"', "$wfctl_job.code")
        + '; rm -f "$wfctl_own"; wfctl_used "$wfctl_job.used.$BASHPID" "$wfctl_code" ""'
    )
    return {**task, "command": told}


def guard(attempt: AttemptPaths, place: ExecutionHost) -> list[str]:
    """Return the lines of the job script that let a computation start once and record its end.

    The lock is taken before the start is claimed and is inherited by the command itself, so a
    held lock means a living computation; the trap is set by the one that starts alone. Waiting
    for the lock outlasts those who only look whether it is held.
    """
    folder = '"${REMOTE_ROOT%/*}"' if place.is_far else shlex.quote(str(attempt.folder))
    # DPDispatcher joins these lines as they are, and one bash runs the whole.
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
    """Return the line that follows the functions of limit.sh: the seconds, if there is a limit."""
    return f"wfctl_limit={time_limit(parameters) or ''}"


def limited(submission: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission whose command is ended after the seconds that its stage says."""
    resources = _object(submission, "resources")
    lines = [*resources.get("prepend_script", []), limit_line(parameters)]
    return {**submission, "resources": {**resources, "prepend_script": lines}}


def with_variables(submission: Mapping[str, Any], more: Mapping[str, str]) -> dict[str, Any]:
    """Return a submission whose jobs see more variables."""
    result = copy.deepcopy(dict(submission))
    resources = _object(result, "resources")
    result["resources"] = {**resources, "envs": {**resources.get("envs", {}), **more}}
    return result


FILE_NAME = "submission.diagnostic.json"
#: What the job writes of the command's end, as its own is always 0.
_TOLD = "diagnostic run: exit code "
CODE_LINE = re.compile(rf"^{_TOLD}(\d+)$", re.MULTILINE)


def kept_diagnostic(attempt: AttemptPaths, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the diagnostic form of a submission, once it is written beside the original."""
    found = diagnostic_of(given)
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    write_whole(attempt.stage_folder / FILE_NAME, text.encode())
    return found


def diagnostic_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submission that brings back log and err alone.

    DPDispatcher brings nothing back of a task that failed, so the task ends with 0 and writes its
    exit code on stderr.
    """
    result = copy.deepcopy(dict(given))
    result["backward_common_files"] = []
    for task in result.get("task_list", []):
        task["backward_files"] = [OUTPUT_LOG, ERROR_LOG]
        task["outlog"], task["errlog"] = OUTPUT_LOG, ERROR_LOG
        task["command"] = f'( {task["command"]}\n); echo "{_TOLD}$?" >&2'
    return result
