"""The wrapper: the script that submits an attempt, waits for its jobs and collects the results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Template

from reconciler.attempt import Attempt

#: What a monitor in a tmux session needs of the caller's environment: the tmux server passes on
#: its own. Nothing here holds a secret, since the script stays on the disk.
PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "OMP_NUM_THREADS",
)

_SCRIPT = Template(r"""#!/bin/bash
# Watches one attempt of a stage. May be run again at any time: it takes up where an earlier run
# was stopped and never starts a computation twice. Exit code 75: another monitor is at work.
set -u
$exports
root=$root
stage=$stage
attempt=$folder
tag=$tag
dpdisp=$dpdisp
log=$$attempt/dpdisp.log
cd "$$root" || exit 74

# The lock passes to dpdisp, so that no second one starts beside it, but not to the job.
exec 8>>"$$stage/.monitor.lock" || exit 74
flock -w 1 8 || exit 75

# Through a temporary file and a rename, so that nobody ever reads a half of it.
write() { # file, lines
    local file=$$1
    shift
    printf '%s\n' "$$@" > "$$file.tmp" && sync "$$file.tmp" && mv "$$file.tmp" "$$file" &&
        sync "$${file%/*}"
}

now() { date -u +%Y-%m-%dT%H:%M:%S.%6NZ; }

finish() { # exit code
    write "$$stage/DPDISP_EXIT_CODE" "$$1" "$$tag $$(now)" &&
        write "$$stage/DPDISP_DONE" "$$1" "$$tag $$(now)" || exit 74
    exit "$$1"
}

keep_stale_markers() {
    local marker second
    for marker in "$$stage/DPDISP_EXIT_CODE" "$$stage/DPDISP_DONE"; do
        [ -e "$$marker" ] || continue
        second=
        { read -r _; read -r second _; } < "$$marker"
        [ "$$second" = "$$tag" ] && continue
        mkdir -p "$$attempt/stale" && mv --backup=numbered "$$marker" "$$attempt/stale/"
    done
}

submit() { # further flags; tells its part of the log in $$printed
    local from code
    touch "$$log"
    from=$$(stat -c %s "$$log")
    printf '== %s submit %s\n' "$$(now)" "$$*" >> "$$log"
    "$$dpdisp" submit "$$@" $flags"$$attempt/submission.json" >> "$$log" 2>&1 < /dev/null
    code=$$?
    printed=$$(tail -c "+$$((from + 1))" "$$log")
    return "$$code"
}

count() { # names that exist
    local name n=0
    for name in "$$@"; do [ -e "$$name" ] && n=$$((n + 1)); done
    echo "$$n"
}

submitted() { count $work/*/*_job_id; }
scratch_copies() { count $work/*/; }
started() { count "$$attempt"/job-*.started; }

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
    [ -e "$$1.exit" ] && read -r code < "$$1.exit" && [ "$$code" -le 128 ]
}

await_ends() {
    local job
    for job in "$$attempt"/job-*.started; do
        [ -e "$$job" ] || continue
        job=$${job%.started}
        until is_over "$$job"; do
            flock -s -w 5 "$$job.lock" true 8>&-
            [ "$$?" -eq 1 ] || break
        done
    done
}

keep_error_files() {
    local job
    for job in "$$attempt"/job-*.started; do
        job=$${job##*/job-}
        job=$${job%.started}_last_err_file
        [ -e "$$job" ] && mv "$$job" "$$attempt/"
    done
}

all_jobs_succeeded() {
    local job code
    for job in "$$attempt"/job-*.started; do
        [ -e "$${job%.started}.exit" ] || return 1
        read -r code < "$${job%.started}.exit"
        [ "$$code" = 0 ] || return 1
    done
}

read -r stat < "/proc/$$$$/stat"
set -- $${stat##*) }
write "$$attempt/monitor.json" "{\"pid\": $$$$, \"ticks\": $${20}, \"boot_id\": \
\"$$(cat /proc/sys/kernel/random/boot_id)\"}" || exit 74
keep_stale_markers

if [ "$$(started)" -eq 0 ]; then
    await_earlier_copies
fi
if [ "$$(started)" -eq 0 ]; then
    submit --exit-on-submit
    code=$$?
    case $$printed in
    *'submission succeeded: '*) await_starts "$$(submitted)" ;;
    *)
        # Refused, or every job was over at the first look and its results are back.
        if [ "$$code" -eq 0 ] || [ "$$(started)" -eq 0 ]; then
            finish "$$code"
        fi
        ;;
    esac
elif [ "$$(scratch_copies)" -eq 0 ] && all_jobs_succeeded; then
    # DPDispatcher removes the scratch copy only after it has brought everything back.
    finish 0
fi
await_ends
submit
code=$$?
keep_error_files
finish "$$code"
""")


def render(
    attempt: Attempt, dpdisp: Path, work: Path, allow_ref: bool, environ: Mapping[str, str]
) -> str:
    """Return the script for one attempt; ``work`` is where the scratch copies are made."""
    return _SCRIPT.substitute(
        exports=_exports(environ),
        root=_quoted(attempt.root),
        stage=_quoted(attempt.stage_folder),
        folder=_quoted(attempt.folder),
        tag=shlex.quote(attempt.tag),
        dpdisp=_quoted(dpdisp),
        flags="--allow-ref " if allow_ref else "",
        work=_quoted(work),
        work_pattern=shlex.quote(f"{_literal(str(work))}/*"),
    )


def write(path: Path, script: str) -> None:
    """Put the script in place; one that runs keeps reading the file it was started from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.tmp")
    part.write_text(script, encoding="utf-8", errors="surrogateescape")
    part.chmod(0o755)
    part.replace(path)


def _exports(environ: Mapping[str, str]) -> str:
    return "\n".join(
        f"export {name}={shlex.quote(environ[name])}" for name in PASSED_ON if name in environ
    )


def _quoted(path: Path) -> str:
    return shlex.quote(os.fspath(path))


def _literal(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in text)
