# Reports the state of attempts on the machine of their jobs, and changes nothing. Each line is one
# finding: a kind and its values, separated by tabs, with free text in base64. Only regular files are
# read, because opening a pipe would block. The scheduler is asked before any record is read, so that
# a job that ends in the meantime is reported as ended.

text() { base64 -w 0; }

print_job_ids() { # scratch folders …
    local scratch
    for scratch in "$@"; do
        grep -h -d skip -D skip . "$scratch"/*/*_job_id 2>/dev/null
    done
    echo
}

# Prints the path of the stored answer to a query, in a folder that only this user can access. Fails if
# there is no such folder. Logins with another scheduler or configuration have other answers.
locate_answer() { # name of the query
    local folder=${XDG_STATE_HOME:-${HOME:?}/.local/state}/wfctl/scheduler key
    [[ $folder == /* ]] && (umask 077 && mkdir -p -- "$folder") && [ ! -L "$folder" ] || return 1
    [ -O "$folder" ] && [[ $(stat -c %a -- "$folder") =~ ^2?700$ ]] || return 1
    key=$(printf '%s\n' "$(uname -n)" "$(command -v squeue)" "${SLURM_CONF-}" "${SLURM_CLUSTERS-}" |
        sha256sum) && printf '%s/%s-%s' "$folder" "$1" "${key:0:32}"
} 2>/dev/null

# Prints a stored answer if it is not older than the given seconds, or if its query started after the
# given time. Fails for a file that is damaged or that another user could have written.
read_answer() { # file, seconds, time in ns
    local answer asked_at now
    [ -f "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ "$(stat -c %a -- "$1")" = 600 ] || return 1
    answer=$(head -c 67108864 -- "$1")
    [ "${answer##*$'\n'}" = "$(sha256sum <<<"${answer%$'\n'*}")" ] || return 1
    asked_at=${answer%%$'\t'*} now=$(date +%s%N)
    # A time in the future means that the clock was set back.
    [[ $asked_at =~ ^[1-9][0-9]{0,18}$ ]] && [ "$asked_at" -le "$now" ] || return 1
    [ "$asked_at" -gt "$3" ] || [ $(((now - asked_at) / 1000000000)) -lt "$2" ] || return 1
    printf '%s' "${answer%$'\n'*}"
} 2>/dev/null

write_answer() { # file, answer
    local new
    new=$(mktemp -- "$1.XXXXXXXX") || return
    { printf '%s\n' "$2" && sha256sum <<<"$2"; } >"$new" && mv -f -- "$new" "$1" || rm -f -- "$new"
} 2>/dev/null

# Prints the time of a query, its exit code and its last message in base64, and then its output.
ask_scheduler() { # seconds to wait for the answer, command …
    local asked_at code output note
    asked_at=$(date +%s%N)
    # The last line of stderr is appended to the output. It starts with `!`, and no line of a list does.
    output=$({
        timeout "$@" 2>&1 >&3 | { note=$(tail -n 1); printf '\n!%s' "$note"; }
        exit "${PIPESTATUS[0]}"
    } 3>&1)
    code=$? note=${output##*$'\n!'} output=${output%$'\n!'*}
    printf '%s\t%s\t%s\n%s' "$asked_at" "$code" "$([ "$code" = 0 ] || printf %s "$note" | text)" "$output"
}

# Prints the answer to a query as `ask_scheduler` does. All processes of this user share the answer for
# the given seconds. Processes that ask at the same time wait for one answer.
query_scheduler() { # name of the query, seconds to reuse an answer, time of the caller in ns, seconds to wait, command …
    local file lock answer
    if ! file=$(locate_answer "$1") || ! { exec {lock}>>"$file.lock"; } 2>/dev/null; then
        ask_scheduler "${@:4}"
        return
    fi
    read_answer "$file" "$2" "$3" && return
    flock -w "$(($4 / 2))" "$lock" 2>/dev/null
    if ! read_answer "$file" "$2" "$3"; then
        answer=$(ask_scheduler "${@:4}" {lock}>&-)
        write_answer "$file" "$answer"
        printf '%s' "$answer"
    fi
    exec {lock}>&-
}

# Lists the jobs of the scheduler that belong to an attempt, because they work in its folder. Jobs with
# a known id are listed too, so that an id that the scheduler has given to another job is noticed.
queue() { # seconds to reuse an answer, scratch folders …
    local since asked_at code note listing seconds=$1
    shift
    since=$(date +%s%N)
    listing=$(query_scheduler jobs "$seconds" "$since" 25 squeue -h -t all -u "$(id -un)" -o '%i|%T %r|%Z')
    IFS=$'\t' read -r asked_at code note <<<"${listing%%$'\n'*}"
    [[ $listing == *$'\n'* ]] && listing=${listing#*$'\n'} || listing=
    if [ "$code" = 0 ] && grep -qavE '^[^|]+\|[A-Z_]+( [^|]*)?\|/|^$' <<<"$listing"; then
        code=1 note=$(printf 'squeue exited 0 with what is no list of jobs' | text)
    fi
    printf 'queue\t%s\t%s\t%s\t%s\n' "$asked_at" "$code" "$note" "$([ "$asked_at" -ge "$since" ] || echo reused)"
    [ "$code" = 0 ] || return 0
    # awk reads the job ids first, then the folders, and then the list of jobs from stdin.
    awk -F '|' -v OFS='\t' '
        FNR == 1 { part++ }
        part == 1 { ids[$1]; next }
        part == 2 { folders[$0]; next }
        {
            folder = substr($0, length($1) + length($2) + 3)
            is_ours = ($1 in ids)
            for (f = folder; f != "" && !is_ours; sub("/[^/]*$", "", f)) is_ours = f in folders
            if (is_ours) print "listed", $1, $2, folder
        }' <(print_job_ids "$@") <(readlink -m -- "$@"; echo /nowhere) - <<<"$listing"
}

# Prints the ids of the pending jobs of all users, in the order in which they will start.
pending() { # seconds to reuse an answer
    query_scheduler pending "$1" "$(date +%s%N)" 5 squeue -h -t PENDING -o %i --sort=-p,i | tail -n +2
}

processes() {
    find /proc/[0-9]*/cwd -maxdepth 0 -printf 'cwd\t%h\t%l\n' 2>/dev/null
    # The name of the program is in parentheses and may contain any character. The state and the
    # start time are therefore read after the last parenthesis.
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v OFS='\t' '{
        pid = $1; sub(/^.*\) /, ""); print "stat", pid, $1, $20 }'
}

print_lock_state() { # lock file
    [ -L "$1" ] && { echo unknown; return; }
    # A folder or a pipe is not the lock of a job, and opening a pipe would block.
    [ -f "$1" ] || { echo free; return; }
    flock -n -s -E 75 "$1" true 2>/dev/null
    case $? in 0) echo free ;; 75) echo held ;; *) echo unknown ;; esac
}

# Succeeds if a task of the job has a mark. A task has a mark while it runs. After the end of the job,
# a mark belongs to a task that was killed.
has_marks() { # path prefix of the job's records
    local mark
    for mark in "$1".task.*; do
        [ -e "$mark" ] && return
    done
    return 1
}

report_job() { # folder that marks the start of the job
    local base=${1%.started} name code= end_time=
    name=${base##*/job-}
    [ -f "$base.exit" ] && read -r code <"$base.exit" && end_time=$(stat -c %.9Y "$base.exit")
    # If the shell was killed together with the command, it could not record the exit code.
    [ -z "$code" ] && [ -e "$base.killed" ] && code=137 end_time=$(stat -c %.9Y "$base.killed")
    printf 'job\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$(stat -c %.9Y "$1")" \
        "$([ -e "$base.unlocked" ] && echo unknown || print_lock_state "$base.lock")" "$code" "$end_time" "$([ -f "$1/record" ] && text <"$1/record")"
    [ -z "$code" ] || [ ! -f "$base.exit" ] || printf 'used\t%s\t%s\n' "$name" "$(sed -n '3,$p' "$base.exit" | head -c 4000 | text)"
    [ ! -f "$base.code" ] || printf 'command_code\t%s\t%s\n' "$name" "$(head -c 10 "$base.code" | tr -d '\n\t')"
}

report_copy() { # scratch copy, patterns of the expected files …
    local file name hash=${1##*/}
    printf 'copy\t%s\n' "$hash"
    for file in "$1"/*_job_id "$1"/*_job_tag_finished "$1"/*_flag_if_job_task_fail; do
        [ -f "$file" ] || continue
        name=${file##*/}
        # The shell of a job also writes this tag or flag if a task was killed before it recorded
        # its end. The tags and marks of the tasks themselves are reliable.
        case ${name#*_} in
        job_tag_finished) [ -e "$1/.${name%%_*}.sub.run" ] && continue ;;
        flag_if_job_task_fail) has_marks "${1%/*}/job-${name%%_*}" && continue ;;
        esac
        printf '%s\t%s\t%s\n' "${name#*_}" "${name%%_*}" "$(head -c 100 "$file" | tr -d '\n\t')"
    done
    for file in "$1"/.*.sub.run; do
        name=${file##*/.}
        [ -e "$file" ] || continue
        name=${name%.sub.run}
        tasks_are_tagged "$1" "$file" && printf 'job_tag_finished\t%s\t\n' "$name"
        is_complete "$1" "${1%/*}/job-$name.started" "${@:2}" && printf 'complete\t%s\n' "$name"
    done
    for file in "$1"/slurm-*.out; do
        [ -f "$file" ] || continue
        name=${file##*/slurm-}
        printf 'printed\t%s\t%s\n' "${name%.out}" "$(tail -c 4000 "$file" | grep -a slurmstepd | text)"
    done
    # Only these lines of the recovery file are printed, because the file also contains the
    # connection settings.
    [ -f "$1/$hash.json" ] && printf 'recovery\t%s\n' "$hash" && sed -nE \
        's/^ *"([0-9a-f]{40})": \{$/of\t\1/p; s/^ *"(job_state|fail_count)": ([0-9]+),?$/\1\t\2/p' \
        "$1/$hash.json"
    find "$1" -type f \( -name err -o -name '*_last_err_file' \) -size +0 2>/dev/null | head -n 5 |
        while read -r file; do printf 'err\t%s\n' "$(tail -c 4000 "$file" | text)"; done
}

# Prints the processes that started with this environment variable.
find_processes_with() { # NAME=value
    grep -lzxF "$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/|process\t|; s|/environ||'
}

# Prints the reason why the folder of an attempt cannot be created. A full disk is not reported,
# because space may become free and a later try may succeed.
why_unmakable() { # folder of an attempt, remote_root
    local at=$1 above=${2%/*}
    if [ ! -d "$2" ] && [ ! -d "${above:-/}" ]; then
        printf 'the folder %s (remote_root) cannot be made: the folder %s does not exist' "$2" "$above"
        return
    fi
    until [ -z "$at" ] || [ -e "$at" ]; do at=${at%/*}; done
    if [ ! -d "${at:-/}" ]; then
        printf 'the folder %s (remote_root) cannot be used: %s is not a folder' "$2" "$at"
    elif [ ! -w "${at:-/}" ] || [ ! -x "${at:-/}" ]; then
        printf 'the folder %s (remote_root) cannot be used: %s may not write to %s' "$2" "$(id -un)" "${at:-/}"
    fi
}

attempt() { # tag, scratch folder, patterns of the expected files …
    local scratch=$2 place pattern reason match
    printf 'attempt\t%s\n' "$1"
    # Processes of the attempt may still run after a clean-up removed the folder. The resolved path
    # identifies those that work in it. An environment variable identifies those that work elsewhere.
    printf 'place\t%s\n' "$(readlink -mn "$scratch" | text)"
    if [ ! -d "$scratch" ]; then
        printf 'none\t\n'
        find_processes_with "WFCTL_ATTEMPT=$1"
        reason=$(why_unmakable "$scratch" "${scratch%"/$1"}")
        [ -z "$reason" ] || printf 'refused\t%s\n' "$(printf %s "$reason" | text)"
        return
    fi
    shift 2
    for place in "$scratch"/job-*.started; do
        [ -e "$place" ] && report_job "$place"
    done
    for place in "$scratch"/*/; do
        place=${place%/}
        [[ ${place##*/} =~ ^[0-9a-f]{40}$ ]] && report_copy "$place" "$@"
    done
    for pattern in "$@"; do
        match=$(cd "$scratch" && compgen -G "*/$pattern" | head -n 1)
        [ -n "$match" ] || printf 'absent\t%s\n' "$(printf %s "$pattern" | text)"
    done
}

printf 'here\t%s\t%s\t%s\n' "$(uname -n)" "$(cat /proc/sys/kernel/random/boot_id)" "$(date +%s%N)"
