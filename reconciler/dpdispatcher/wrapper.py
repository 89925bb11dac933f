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
from reconciler.attempt.paths import ENVIRONMENT_RECORD, AttemptPaths, ScriptEnd, Watched
from reconciler.host import program
from reconciler.host.program import UNHEARD
from reconciler.records import backward_files

#: Pattern of the messages that DPDispatcher prints if a disk is full. Over SFTP, the only message
#: is that a file is too short.
_NO_ROOM = f"{NO_ROOM_REPORTED.pattern}|size mismatch in put!"

_COMMON = r"""#!/bin/bash
# Watches one attempt of a stage. May be run again at any time: it takes up where an earlier run
# was stopped and never starts a computation twice. Exit code 75: another monitor is at work.
set -u
root=$root
stage=$stage
attempt=$folder
# A tmux server and another shell have other environments than the one that is the attempt's.
[ "$${1-}" = $as_kept ] ||
    exec $python -I -S -c $take_up "$$attempt"/$environment "$$BASH" "$$0" $as_kept
tag=$tag
recorded=$recorded
starts=$starts
log=$$attempt/dpdisp.log
cd "$$root" || exit 74
# A tmux server has the umask of its first user; what is made in a shared root is the group's too.
case $$(stat -c %a .) in [2367]?[2367]?) umask g=rwx ;; esac

# The lock passes to dpdisp, so that no second one starts beside it, but not to the job.
# A link there leads to a file of somebody else's.
[ ! -L "$$stage/.monitor.lock" ] && exec 8>>"$$stage/.monitor.lock" || exit 74
flock -w 1 8 || exit 75

# Through a new file and a rename, so that nobody ever reads a half of it, and no link is followed:
# the name of the new file cannot be known before.
place() { # file, its content comes in
    local new
    new=$$(mktemp "$${1%/*}/.$${1##*/}.XXXXXXXX.tmp") && chmod =rw "$$new" && cat > "$$new" &&
        sync "$$new" && mv -fT "$$new" "$$1" && sync "$${1%/*}"
}

write() { # file, lines
    local file=$$1
    shift
    printf '%s\n' "$$@" | place "$$file"
}

now() { date -u +%Y-%m-%dT%H:%M:%S.%6NZ; }

finish() { # exit code
    write "$$attempt/exit-code" "$$1" "$$tag $$(now)" &&
        write "$$stage/DPDISP_EXIT_CODE" "$$1" &&
        write "$$stage/DPDISP_DONE" "$$1" "$$tag $$(now)" || exit 74
    exit "$$1"
}

keep_stale_markers() {
    local marker second
    for marker in "$$stage/DPDISP_EXIT_CODE" "$$stage/DPDISP_DONE"; do
        [ -e "$$marker" ] || continue
        second=
        [ ! -f "$$marker" ] || { read -r _; read -r second _; } < "$$marker"
        [ "$$second" = "$$tag" ] && continue
        # A number alone is this attempt's where it wrote down its end beside it.
        [ "$$marker$$second" = "$$stage/DPDISP_EXIT_CODE" ] && [ -f "$$marker" ] &&
            [ -f "$$attempt/exit-code" ] && continue
        mkdir -p "$$attempt/stale" && mv --backup=numbered "$$marker" "$$attempt/stale/"
    done
}

# Of what failed DPDispatcher keeps a copy for a command of its own, with the connection settings as
# plain text. Nothing here ever reads it: it takes up a submission by what lies in the job's folder.
forget() {
    local copy
    for copy in ~/.dpdispatcher/submission/*.json; do
        [ -e "$$copy" ] && grep -qsF "\"WFCTL_ATTEMPT\": \"$$tag\"" "$$copy" && rm -f "$$copy"
    done
}

# What was recorded is submitted, and nothing that was put in its place: a copy of it is put back.
is_recorded() {
    local found=
    [ -n "$$recorded" ] || return 0
    [ ! -f "$$attempt/submission.json" ] ||
        read -r found _ < <(sha256sum 2> /dev/null < "$$attempt/submission.json")
    [ "$$found" = "$$recorded" ] && return 0
    printf '%s: not the one that was recorded, SHA-256 %s; found %s. It is not submitted.\n' \
        "$$attempt/submission.json" "$$recorded" "$$found" >> "$$log"
    put_back
}

put_back() {
    local kept
    read -r kept _ < <(sha256sum 2> /dev/null < $kept)
    [ "$$kept" = "$$recorded" ] && mkdir -p "$$attempt/stale" || return 1
    [ ! -e "$$attempt/submission.json" ] ||
        mv --backup=numbered "$$attempt/submission.json" "$$attempt/stale/" || return 1
    place "$$attempt/submission.json" < $kept
}

# A job has claimed its start, and its own claim beside the attempt's files is gone with them: who
# submits once more, be it to collect, would compute a second time.
stop_if_removed() {
    local job
    for job in "$$starts"/job-*.started; do
        [ ! -e "$$job" ] || [ -e "$$attempt/$${job##*/}" ] || exit $removed
    done
}

submit() { # further flags; tells its part of the log in $$printed
    local from code
    stop_if_removed
    touch "$$log"
    from=$$(stat -c %s "$$log")
    printed=
    is_recorded || return $changed
    printf '== %s submit %s\n' "$$(now)" "$$*" >> "$$log"
    $at$dpdisp submit "$$@" $flags"$$attempt/submission.json" $into_log
    code=$${PIPESTATUS[0]}
    forget
    printed=$$(tail -c "+$$((from + 1))" "$$log")
    [ "$$code" -eq 0 ] || ! grep -qiE $no_room <<< "$$printed" || code=$no_room_code
    return "$$code"
}

# A monitor that was killed between submitting and writing it down left jobs that DPDispatcher does
# not know of. Where this one saw it written down there is nothing to do.
remember() {
    printf '== %s remember\n' "$$(now)" >> "$$log"
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
forget
write "$$attempt/monitor.json" "{\"pid\": $$$$, \"ticks\": $${20}, \"boot_id\": \
\"$$(cat /proc/sys/kernel/random/boot_id)\"}" || exit 74
keep_stale_markers
"""

#: Template of the script for jobs whose state can be seen in the processes of this machine.
_HERE = Template(
    _COMMON
    + r"""
$tagging
$keeping
count() { # names that exist
    local name n=0
    for name in "$$@"; do [ -e "$$name" ] && n=$$((n + 1)); done
    echo "$$n"
}

submitted() { count $work/*/*_job_id; }
scratch_copies() { count $work/*/; }
started() { count "$$attempt"/job-*.started; }

# By a rename first: half a copy would be taken for one that was never submitted.
remove_copies() {
    local copy
    for copy in $work/*/; do
        mv -T "$${copy%/}" $work/.collected && rm -rf $work/.collected
    done
}

# A job that an earlier monitor submitted works in its folder before it claims its start.
copies_alive() { [ -n "$$(find /proc/[0-9]*/cwd -lname $work_pattern 2> /dev/null)" ]; }

await_starts() { # how many jobs are to start
    local tries=0
    while [ "$$(started)" -lt "$$1" ] && [ "$$tries" -lt 300 ]; do
        sleep 0.05 8>&-
        tries=$$((tries + 1))
    done
}

await_earlier_copies() {
    while [ "$$(started)" -eq 0 ] && copies_alive; do sleep 0.1 8>&-; done
}

# What a job leaves behind may hold its lock on, so the job's own record of its end counts too,
# unless a signal ended the script: then its command may still be at work.
is_over() { # job
    local code
    [ -f "$$1.exit" ] && read -r code < "$$1.exit" && [ "$$code" -le 128 ]
}

# Its shells were killed, and its command computes on: nobody is left to write down how it ends.
note_alone() { # job
    local said stat
    [ -e "$$1.alone" ] && return
    [ -f "$$1.started/record" ] || return
    mapfile -t said < "$$1.started/record"
    [ "$${#said[@]}" -ge 5 ] || return
    if read -r stat < "/proc/$${said[-4]}/stat"; then
        set -- "$$1" $${stat##*) }
        [ "$${21}" != "$${said[-3]}" ] || [[ $$2 == [ZX] ]] || return
    fi
    flock -n -s "$$1.lock" true 8>&- || : > "$$1.alone"
} 2> /dev/null

# A shell that was left after all may have told of the end of its task.
alone() {
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
        until is_over "$$job"; do
            note_alone "$$job"
            flock -s -w 2 "$$job.lock" true 8>&-
            # Killed, flock has said nothing of the lock.
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

written=
if [ "$$(started)" -eq 0 ]; then
    await_earlier_copies
fi
if [ "$$(started)" -eq 0 ]; then
    # DPDispatcher calls it a refused submission if this folder cannot be made.
    mkdir -p $work 2>> "$$log" || finish $silent
    submit --exit-on-submit --no-clean
    code=$$?
    case $$printed in
    *'submission succeeded: '*)
        written=1
        await_starts "$$(submitted)"
        ;;
    *)
        # Refused, or every job was over at the first look and its results are back.
        if [ "$$code" -eq 0 ]; then
            keep_left $work "$$attempt/left" && remove_copies
            finish 0
        fi
        [ "$$(started)" -gt 0 ] || finish "$$code"
        ;;
    esac
elif [ "$$(scratch_copies)" -eq 0 ] && all_jobs_succeeded; then
    # DPDispatcher removes the scratch copy only after it has brought everything back.
    finish 0
fi
await_ends
stop_if_removed
tag_jobs $work "$$attempt" "$$(alone | paste -sd ' ')" $backward
[ -n "$$written" ] || remember
# What could not be kept is not removed.
unkept=--no-clean
keep_left $work "$$attempt/left" && unkept=
submit $$unkept
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
watch() {
    WFCTL_SUBMISSION=$$recorded PYTHONPATH=$modules$${PYTHONPATH:+:$$PYTHONPATH} \
        $python -P -m reconciler.dpdispatcher.watch "$$root" $names >> "$$log" 2>&1 < /dev/null
}

submitted=
while :; do
    watch
    case $$? in
    $over)
        [ "$$submitted" = $silent ] || remember
        unkept=--no-clean
        $keep && unkept=
        submit $$unkept
        code=$$?
        keep_error_files
        finish "$$code"
        ;;
    $collected) finish 0 ;;
    $nothing)
        # Told so after a submission too, DPDispatcher was refused, and its exit code says it.
        [ -z "$$submitted" ] || finish "$$submitted"
        submit --exit-on-submit --no-clean
        submitted=$$?
        # Without an answer it may be queued all the same. 0: every job was over at the first look
        # and its results are back; what else it wrote is kept like that of any other.
        case $$submitted$$printed in
        0* | *'submission succeeded: '* | $unheard) submitted=$silent ;;
        esac
        ;;
    # Killed, it has shown no error of its own.
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
        "starts": _quote_path(attempt.starts),
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
        backward=shlex.join(backward_files.backward(attempt)),
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
        "over": int(Watched.OVER),
        "collected": int(Watched.COLLECTED),
        "nothing": int(Watched.NOTHING),
        "silent": int(Watched.SILENT),
        "broken": int(Watched.BROKEN),
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
