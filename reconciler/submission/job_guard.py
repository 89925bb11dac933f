"""Shell code that guards a running job: its lock, its markers and its time limit."""

from __future__ import annotations

import shlex
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM
from typing import Any

from projections.words.remaining_processes import MAX_RECORDED
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import (
    ERROR_LOG,
    KILLED,
    OUTPUT_LOG,
    RUN,
    SIGNALLED,
    TIMED_OUT,
    AttemptPaths,
)

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
    'cat "$wfctl_job".used.* 2> /dev/null || :; '
    f'cat "$wfctl_job".remaining.* 2> /dev/null | head -n {MAX_RECORDED} || :; }} '
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


def _redirect_to_new_file(command: str, path: str) -> str:
    """Return shell code that writes the output of a command to a new file.

    The code fails if the path exists, so that it never follows a link.
    """
    return f'(set -C; {command} > "{path}") 2> /dev/null'


def _add_task_recording(task: Any) -> Any:
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
        'wfctl_record_remaining "$wfctl_own" "$wfctl_job.remaining.$BASHPID"; '
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
        _STARTS.format(
            starts="''" if place.is_far else shlex.quote(str(attempt.start_claims_folder))
        ),
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


def build_time_limit_line(limit: int | None) -> str:
    """Return the shell line that sets the time limit of a command in seconds, None for no limit.

    The line must follow the functions of limit.sh.
    """
    return f"wfctl_limit={limit or ''}"
