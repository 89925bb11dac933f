"""Write the wrapper, a shell script that runs one attempt.

The script submits the jobs, waits for them and collects the results.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from string import Template

from eventstore.disk_space import NO_ROOM_REPORTED
from reconciler.attempt import execution_host as machine
from reconciler.attempt import paths as genuine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import ENVIRONMENT_RECORD, AttemptPaths, ScriptEnd, WatchResult
from reconciler.host import program
from reconciler.host.scheduler_jobs import UNHEARD
from reconciler.records import backward_files

#: Pattern of the messages that DPDispatcher prints if a disk is full. Over SFTP, the only message
#: is that a file is too short.
_NO_ROOM = f"{NO_ROOM_REPORTED.pattern}|size mismatch in put!"

_COMMON = r"""#!/bin/bash
# Watches one attempt of a stage. This script may run again at any time: it continues where an
# earlier run stopped, and never starts a computation twice. It is the monitor of the attempt, and
# exits with 75 if another monitor already watches the stage.
set -u
root=$root
stage=$stage
attempt=$folder
# The shell or tmux server that runs this script may have a different environment than the attempt.
# The script therefore starts itself again in the environment that the attempt recorded.
[ "$${1-}" = $as_kept ] ||
    exec $python -I -S -c $take_up "$$attempt"/$environment "$$BASH" "$$0" $as_kept
tag=$tag
submission_digest=$recorded
starts=$starts
log=$$attempt/dpdisp.log
cd "$$root" || exit 74
# If a group shares the root folder, the group must be able to write new files. A tmux server has
# the umask of its first user, so the script sets the umask itself.
case $$(stat -c %a .) in [2367]?[2367]?) umask g=rwx ;; esac

# The dpdisp process inherits this lock, so that no second dpdisp starts for the stage. The jobs do
# not inherit the lock. A symbolic link is refused, because it may lead to a file of another user.
[ ! -L "$$stage/.monitor.lock" ] && exec 8>>"$$stage/.monitor.lock" || exit 74
flock -w 1 8 || exit 75

# Writes stdin to a new file and renames the new file to the given path, so that no reader sees a
# partial file. The new file has a random name, so that no existing link is followed.
replace_file() { # path
    local new
    new=$$(mktemp "$${1%/*}/.$${1##*/}.XXXXXXXX.tmp") && chmod =rw "$$new" && cat > "$$new" &&
        sync "$$new" && mv -fT "$$new" "$$1" && sync "$${1%/*}"
}

write_lines() { # path, lines
    local file=$$1
    shift
    printf '%s\n' "$$@" | replace_file "$$file"
}

print_time() { date -u +%Y-%m-%dT%H:%M:%S.%6NZ; }

finish() { # exit code
    write_lines "$$attempt/exit-code" "$$1" "$$tag $$(print_time)" &&
        write_lines "$$stage/DPDISP_EXIT_CODE" "$$1" &&
        write_lines "$$stage/DPDISP_DONE" "$$1" "$$tag $$(print_time)" || exit 74
    exit "$$1"
}

keep_stale_markers() {
    local marker marker_tag
    for marker in "$$stage/DPDISP_EXIT_CODE" "$$stage/DPDISP_DONE"; do
        [ -e "$$marker" ] || continue
        marker_tag=
        [ ! -f "$$marker" ] || { read -r _; read -r marker_tag _; } < "$$marker"
        [ "$$marker_tag" = "$$tag" ] && continue
        # An exit code without a tag belongs to this attempt if the attempt has also recorded its
        # exit code in its own folder.
        [ "$$marker$$marker_tag" = "$$stage/DPDISP_EXIT_CODE" ] && [ -f "$$marker" ] &&
            [ -f "$$attempt/exit-code" ] && continue
        mkdir -p "$$attempt/stale" && mv --backup=numbered "$$marker" "$$attempt/stale/"
    done
}

# DPDispatcher keeps a copy of each failed submission for `dpdisp submission`. The copy contains
# the connection settings in plain text, so it is removed. It is not needed, because DPDispatcher
# continues a submission from the files in the folder of the job.
remove_failure_copies() {
    local copy
    for copy in ~/.dpdispatcher/submission/*.json; do
        [ -e "$$copy" ] && grep -qsF "\"WFCTL_ATTEMPT\": \"$$tag\"" "$$copy" && rm -f "$$copy"
    done
}

# Succeeds if the submission file has the digest that the log records. Otherwise a copy of the
# recorded submission replaces the file, so that no other content is ever submitted.
ensure_recorded_submission() {
    local digest=
    [ -n "$$submission_digest" ] || return 0
    [ ! -f "$$attempt/submission.json" ] ||
        read -r digest _ < <(sha256sum 2> /dev/null < "$$attempt/submission.json")
    [ "$$digest" = "$$submission_digest" ] && return 0
    printf '%s: not the one that was recorded, SHA-256 %s; found %s. It is not submitted.\n' \
        "$$attempt/submission.json" "$$submission_digest" "$$digest" >> "$$log"
    restore_submission
}

restore_submission() {
    local digest
    read -r digest _ < <(sha256sum 2> /dev/null < $kept)
    [ "$$digest" = "$$submission_digest" ] && mkdir -p "$$attempt/stale" || return 1
    [ ! -e "$$attempt/submission.json" ] ||
        mv --backup=numbered "$$attempt/submission.json" "$$attempt/stale/" || return 1
    replace_file "$$attempt/submission.json" < $kept
}

# A job claims its start by a mark in the attempt's folder and a second mark next to the log. If
# only the second mark exists, the attempt's folder was removed. A submission, even one that should
# only collect results, would then compute the job a second time, so the script exits.
stop_if_removed() {
    local job
    for job in "$$starts"/job-*.started; do
        [ ! -e "$$job" ] || [ -e "$$attempt/$${job##*/}" ] || exit $removed
    done
}

submit() { # further flags; sets the variable new_output to the output of DPDispatcher
    local log_size code
    stop_if_removed
    touch "$$log"
    log_size=$$(stat -c %s "$$log")
    new_output=
    ensure_recorded_submission || return $changed
    printf '== %s submit %s\n' "$$(print_time)" "$$*" >> "$$log"
    $at$dpdisp submit "$$@" $flags"$$attempt/submission.json" $into_log
    code=$${PIPESTATUS[0]}
    remove_failure_copies
    new_output=$$(tail -c "+$$((log_size + 1))" "$$log")
    [ "$$code" -eq 0 ] || ! grep -qiE $no_room <<< "$$new_output" || code=$no_room_code
    return "$$code"
}

# Writes the recovery file of DPDispatcher if an earlier monitor was killed after it submitted the
# jobs and before DPDispatcher wrote the file. Without the file, DPDispatcher would not know of the
# jobs. The call is not needed if this monitor saw that the submission succeeded.
write_recovery_file() {
    printf '== %s remember\n' "$$(print_time)" >> "$$log"
    $at$remember $flags"$$attempt/submission.json" $into_log
}

keep_error_files() {
    local job
    for job in "$$attempt"/job-*.started; do
        job=$${job##*/job-}
        job=$${job%.started}_last_err_file
        [ -e "$$job" ] && mv "$$job" "$$attempt/"
    done
}

read -r stat < "/proc/$$$$/stat"
set -- $${stat##*) }
remove_failure_copies
write_lines "$$attempt/monitor.json" "{\"pid\": $$$$, \"ticks\": $${20}, \"boot_id\": \
\"$$(cat /proc/sys/kernel/random/boot_id)\"}" || exit 74
keep_stale_markers
"""

#: Template of the script for jobs whose state can be seen in the processes of this machine.
_HERE = Template(
    _COMMON
    + r"""
$tagging
$keeping
count() { # paths; prints the number of paths that exist
    local name n=0
    for name in "$$@"; do [ -e "$$name" ] && n=$$((n + 1)); done
    echo "$$n"
}

count_submitted_jobs() { count $work/*/*_job_id; }
count_scratch_copies() { count $work/*/; }
count_started_jobs() { count "$$attempt"/job-*.started; }

# Removes the scratch copies, the folders in which the jobs ran. Each folder is renamed first,
# because a later monitor would take half a scratch copy for a job that was never submitted.
remove_copies() {
    local copy
    for copy in $work/*/; do
        mv -T "$${copy%/}" $work/.collected && rm -rf $work/.collected
    done
}

# Succeeds if a process works in a scratch copy. The process may belong to a job that an earlier
# monitor submitted and that has not claimed its start yet.
is_any_copy_in_use() { [ -n "$$(find /proc/[0-9]*/cwd -lname $work_pattern 2> /dev/null)" ]; }

await_starts() { # number of jobs that must start
    local tries=0
    while [ "$$(count_started_jobs)" -lt "$$1" ] && [ "$$tries" -lt 300 ]; do
        sleep 0.05 8>&-
        tries=$$((tries + 1))
    done
}

await_earlier_copies() {
    while [ "$$(count_started_jobs)" -eq 0 ] && is_any_copy_in_use; do sleep 0.1 8>&-; done
}

# Succeeds if the record of the job's end exists. The lock of the job proves less, because a process
# that the job left running may still hold it. A record with a code above 128 is not sufficient: a
# signal ended the script of the job, and the command may still run.
has_ended() { # job
    local code
    [ -f "$$1.exit" ] && read -r code < "$$1.exit" && [ "$$code" -le 128 ]
}

# Marks a job whose shells were killed while its command still runs. No shell remains that could
# record how the command ends.
mark_job_without_shell() { # job
    local record stat
    [ -e "$$1.alone" ] && return
    [ -f "$$1.started/record" ] || return
    mapfile -t record < "$$1.started/record"
    [ "$${#record[@]}" -ge 5 ] || return
    if read -r stat < "/proc/$${record[-4]}/stat"; then
        set -- "$$1" $${stat##*) }
        [ "$${21}" != "$${record[-3]}" ] || [[ $$2 == [ZX] ]] || return
    fi
    flock -n -s "$$1.lock" true 8>&- || : > "$$1.alone"
} 2> /dev/null

# Prints the jobs that `mark_job_without_shell` marked. If all tasks of a job are tagged as
# finished, a shell of the job survived and tagged them, so the mark is removed.
list_jobs_without_shell() {
    local job run
    for job in "$$attempt"/job-*.alone; do
        job=$${job##*/job-} job=$${job%.alone}
        for run in $work/*/".$$job.sub.run"; do
            [ -e "$$run" ] || continue
            tasks_are_tagged "$${run%/*}" "$$run" && rm "$$attempt/job-$$job.alone" && continue
            echo "$$job"
        done
    done
}

await_ends() {
    local job
    for job in "$$attempt"/job-*.started; do
        [ -e "$$job" ] || continue
        job=$${job%.started}
        until has_ended "$$job"; do
            mark_job_without_shell "$$job"
            flock -s -w 2 "$$job.lock" true 8>&-
            # Code 1 means that the lock is held. A code above 128 means that a signal ended flock,
            # so the state of the lock is unknown. In both cases the loop waits again.
            case $$? in 1 | 1[2-9][0-9]) ;; *) break ;; esac
        done
    done
}

all_jobs_succeeded() {
    local job code
    for job in "$$attempt"/job-*.started; do
        [ -f "$${job%.started}.exit" ] || return 1
        read -r code < "$${job%.started}.exit"
        [ "$$code" = 0 ] || return 1
    done
}

was_submitted=
if [ "$$(count_started_jobs)" -eq 0 ]; then
    await_earlier_copies
fi
if [ "$$(count_started_jobs)" -eq 0 ]; then
    # The script creates this folder itself, because DPDispatcher would report a folder that it
    # cannot create as a refused submission.
    mkdir -p $work 2>> "$$log" || finish $silent
    submit --exit-on-submit --no-clean
    code=$$?
    case $$new_output in
    *'submission succeeded: '*)
        was_submitted=1
        await_starts "$$(count_submitted_jobs)"
        ;;
    *)
        # Either the submission was refused, or every job had ended before DPDispatcher first
        # checked it, and the results are collected.
        if [ "$$code" -eq 0 ]; then
            keep_left $work "$$attempt/left" && remove_copies
            finish 0
        fi
        [ "$$(count_started_jobs)" -gt 0 ] || finish "$$code"
        ;;
    esac
elif [ "$$(count_scratch_copies)" -eq 0 ] && all_jobs_succeeded; then
    # DPDispatcher removes a scratch copy only after it has collected all results, so nothing
    # remains to be done.
    finish 0
fi
await_ends
stop_if_removed
tag_jobs $work "$$attempt" "$$(list_jobs_without_shell | paste -sd ' ')" $backward
[ -n "$$was_submitted" ] || write_recovery_file
# If the files that the jobs wrote cannot be kept elsewhere, DPDispatcher must not remove them.
clean_flag=--no-clean
keep_left $work "$$attempt/left" && clean_flag=
submit $$clean_flag
code=$$?
keep_error_files
finish "$$code"
"""
)

#: Template of the script for jobs of a scheduler or of another machine. A separate process asks
#: there for the state of the jobs.
_ELSEWHERE = Template(
    _COMMON
    + r"""
$keeping
watch_jobs() {
    WFCTL_SUBMISSION=$$submission_digest PYTHONPATH=$modules$${PYTHONPATH:+:$$PYTHONPATH} \
        $python -P -m reconciler.dpdispatcher.watch "$$root" $names >> "$$log" 2>&1 < /dev/null
}

submit_code=
while :; do
    watch_jobs
    case $$? in
    $over)
        [ "$$submit_code" = $silent ] || write_recovery_file
        clean_flag=--no-clean
        $keep && clean_flag=
        submit $$clean_flag
        code=$$?
        keep_error_files
        finish "$$code"
        ;;
    $collected) finish 0 ;;
    $nothing)
        # If no job exists even after a submission, the submission was refused. The exit code of
        # DPDispatcher is then the result.
        [ -z "$$submit_code" ] || finish "$$submit_code"
        submit --exit-on-submit --no-clean
        submit_code=$$?
        # A scheduler that gave no answer may still have queued the jobs, so the loop continues.
        # Exit code 0 means that every job had ended before the first check and its results are
        # collected. The other files of these jobs are then kept as after any other job.
        case $$submit_code$$new_output in
        0* | *'submission succeeded: '* | $unheard) submit_code=$silent ;;
        esac
        ;;
    # If a signal ended the watching process, the process itself reported no error. This case is
    # treated like a missing answer.
    $silent | 1[2-9][0-9] | 2[0-9][0-9]) finish $silent ;;
    $removed) finish $removed ;;
    *) finish $broken ;;
    esac
done
"""
)


def render_wrapper(
    attempt: AttemptPaths, dpdisp: Path, where: ExecutionHost, allow_ref: bool
) -> str:
    """Return the text of the wrapper script for one attempt.

    ``where`` is the machine on which the jobs run. ``allow_ref`` allows the submission to refer to
    other files.
    """
    elsewhere = where.is_far or where.has_scheduler
    hides = where.is_far or allow_ref
    common = {
        "python": shlex.quote(sys.executable),
        "take_up": shlex.quote(machine.TAKE_UP),
        "environment": ENVIRONMENT_RECORD,
        "as_kept": "as-kept",
        "root": _quote_path(attempt.root),
        "stage": _quote_path(attempt.stage_folder),
        "folder": _quote_path(attempt.folder),
        "tag": shlex.quote(attempt.tag),
        "kept": _quote_path(genuine.kept_submission(attempt)),
        "dpdisp": shlex.join(
            program.build_start_command(dpdisp, None if elsewhere else attempt.folder)
        ),
        "recorded": shlex.quote(attempt.sha256),
        "changed": int(ScriptEnd.CHANGED),
        "removed": int(ScriptEnd.REMOVED),
        "starts": _quote_path(attempt.start_claims_folder),
        "no_room": shlex.quote(_NO_ROOM),
        "no_room_code": int(ScriptEnd.NO_ROOM),
        "flags": "--allow-ref " if allow_ref else "",
        "into_log": _build_redaction(attempt, dpdisp) if hides else _PLAIN,
        "at": _ASIDE if hides else "",
        "remember": _build_recovery_command(dpdisp),
        "keeping": _read_script("keep.sh"),
    }
    if elsewhere:
        # For jobs on another machine this command does nothing, because the process that watches
        # the jobs keeps leftover files there.
        near = f'keep_left {shlex.quote(where.scratch)} "$attempt/left"'
        keep = "true" if where.is_far else near
        return _ELSEWHERE.substitute(common, keep=keep, **_build_watch_values(attempt))
    # `find` interprets this path as a pattern, so special characters in it must be escaped.
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", where.scratch)
    return _HERE.substitute(
        common,
        work=shlex.quote(where.scratch),
        silent=int(ScriptEnd.SILENT),
        backward=shlex.join(backward_files.attempt_backward_patterns(attempt)),
        tagging=_read_script("tags.sh"),
        work_pattern=shlex.quote(f"{pattern}/*"),
    )


_PLAIN = '>> "$log" 2>&1 < /dev/null'
#: DPDispatcher also writes a log with secrets into the current folder. A link to /dev/null prevents
#: that file.
_ASIDE = 'ln -sfn /dev/null "$attempt/dpdispatcher.log"\n    env -C "$attempt" '
_FAR = Path(__file__).parents[1] / "far"


def _join_start_command(python: list[str], *words: object) -> str:
    return shlex.join([*python, str(_FAR / "patched_dpdispatcher.py"), *map(str, words)])


def _build_redaction(attempt: AttemptPaths, dpdisp: Path) -> str:
    """Return shell code that writes output into the log without secrets.

    The secrets are those in the connection settings of the attempt's machine.
    """
    python = program.read_interpreter(dpdisp)
    passing = _join_start_command(python, _FAR / "connection.py", attempt.submission)
    # The filter runs until its input ends. It closes descriptor 8, so that it does not hold the
    # lock of the monitor during this time.
    return f'2>&1 < /dev/null | {passing} 8>&- >> "$log"'


def _read_script(name: str) -> str:
    return (_FAR / name).read_text(encoding="utf-8")


def _build_recovery_command(dpdisp: Path) -> str:
    python = program.read_interpreter(dpdisp)
    # If the interpreter is another program, it may not be a Python that can run this module.
    is_python = any("python" in word for word in python)
    return _join_start_command(python, _FAR / "remember.py") if is_python else "true"


def _build_watch_values(attempt: AttemptPaths) -> dict[str, object]:
    names = (attempt.workflow, attempt.stage, attempt.name, *attempt.outputs)
    return {
        "modules": _quote_path(Path(__file__).resolve().parents[2]),
        "names": shlex.join(names),
        "over": int(WatchResult.OVER),
        "collected": int(WatchResult.COLLECTED),
        "nothing": int(WatchResult.NOTHING),
        "silent": int(WatchResult.SILENT),
        "broken": int(WatchResult.BROKEN),
        "unheard": " | ".join(f"*{shlex.quote(words)}*" for words in UNHEARD),
    }


def write_wrapper(path: Path, script: str) -> None:
    """Replace the wrapper script. A copy that is running continues with the old text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    with part.open("x", encoding="utf-8", errors="surrogateescape") as file:
        file.write(script)
    part.chmod(0o755)
    part.replace(path)


def _quote_path(path: Path) -> str:
    return shlex.quote(os.fspath(path))
