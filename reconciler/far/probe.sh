# Looks at attempts where their jobs run and changes nothing. A line a finding: a kind, then
# values, between tabs; free text in base64. Only files are read: to open a pipe would wait. The
# scheduler is asked before any record is read, so that a job which ends in between is seen as ended.

text() { base64 -w 0; }

ids_of() { # scratch …
    local scratch
    for scratch in "$@"; do
        grep -h -d skip -D skip . "$scratch"/*/*_job_id 2>/dev/null
    done
    echo
}

# A job is the attempt's by the folder it works in; one of a known id is told too, so that an id
# which the scheduler has given to somebody else is seen.
queue() { # scratch …
    local asked code said note
    asked=$(date +%s%N)
    # The last line of stderr follows the list, behind a mark that no job's line starts with.
    said=$({
        timeout 25 squeue -h -t all -u "$(id -un)" -o '%i|%T %r|%Z' 2>&1 >&3 |
            { note=$(tail -n 1); printf '\n!%s' "$note"; }
        exit "${PIPESTATUS[0]}"
    } 3>&1)
    code=$? note=${said##*$'\n!'} said=${said%$'\n!'*}
    if [ "$code" = 0 ] && grep -qavE '^[^|]+\|[A-Z_]+( [^|]*)?\|/|^$' <<<"$said"; then
        code=1 note='squeue exited 0 with what is no list of jobs'
    fi
    printf 'queue\t%s\t%s\t%s\n' "$asked" "$code" "$([ "$code" = 0 ] || printf %s "$note" | text)"
    [ "$code" = 0 ] || return 0
    # The list of ids comes first, then the folders, then what the scheduler said.
    awk -F '|' -v OFS='\t' '
        FNR == 1 { part++ }
        part == 1 { ids[$1]; next }
        part == 2 { folders[$0]; next }
        {
            folder = substr($0, length($1) + length($2) + 3)
            ours = ($1 in ids)
            for (f = folder; f != "" && !ours; sub("/[^/]*$", "", f)) ours = f in folders
            if (ours) print "listed", $1, $2, folder
        }' <(ids_of "$@") <(readlink -m -- "$@"; echo /nowhere) - <<<"$said"
}

processes() {
    find /proc/[0-9]*/cwd -maxdepth 0 -printf 'cwd\t%h\t%l\n' 2>/dev/null
    # The name stands in parentheses and may hold anything; state and start time come after it.
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v OFS='\t' '{
        pid = $1; sub(/^.*\) /, ""); print "stat", pid, $1, $20 }'
}

held() { # lock
    [ -L "$1" ] && { echo unknown; return; }
    # A folder or a pipe in its place is no job's lock; to open a pipe would wait.
    [ -f "$1" ] || { echo free; return; }
    flock -n -s -E 75 "$1" true 2>/dev/null
    case $? in 0) echo free ;; 75) echo held ;; *) echo unknown ;; esac
}

# A task leaves a mark while it is at work; one that stays is that of a task that was killed.
has_marks() { # job's records
    local mark
    for mark in "$1".task.*; do
        [ -e "$mark" ] && return
    done
    return 1
}

job() { # started folder
    local base=${1%.started} name code= ended=
    name=${base##*/job-}
    [ -f "$base.exit" ] && read -r code <"$base.exit" && ended=$(stat -c %.9Y "$base.exit")
    # The shell that was to say so was killed with the command.
    [ -z "$code" ] && [ -e "$base.killed" ] && code=137 ended=$(stat -c %.9Y "$base.killed")
    printf 'job\t%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$(stat -c %.9Y "$1")" \
        "$([ -e "$base.unlocked" ] && echo unknown || held "$base.lock")" "$code" "$ended" "$([ -f "$1/record" ] && text <"$1/record")"
    [ -z "$code" ] || [ ! -f "$base.exit" ] || printf 'used\t%s\t%s\n' "$name" "$(sed -n '3,$p' "$base.exit" | head -c 4000 | text)"
    [ ! -f "$base.code" ] || printf 'command_code\t%s\t%s\n' "$name" "$(head -c 10 "$base.code" | tr -d '\n\t')"
}

copy() { # folder, patterns that must be there …
    local file name hash=${1##*/}
    printf 'copy\t%s\n' "$hash"
    for file in "$1"/*_job_id "$1"/*_job_tag_finished "$1"/*_flag_if_job_task_fail; do
        [ -f "$file" ] || continue
        name=${file##*/}
        # A job's shell tags or flags it for a task, too, that was killed and could not tell.
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
    # Of the recovery file only these lines are told: it holds the connection settings too.
    [ -f "$1/$hash.json" ] && printf 'recovery\t%s\n' "$hash" && sed -nE \
        's/^ *"([0-9a-f]{40})": \{$/of\t\1/p; s/^ *"(job_state|fail_count)": ([0-9]+),?$/\1\t\2/p' \
        "$1/$hash.json"
    find "$1" -type f \( -name err -o -name '*_last_err_file' \) -size +0 2>/dev/null | head -n 5 |
        while read -r file; do printf 'err\t%s\n' "$(tail -c 4000 "$file" | text)"; done
}

began_with() { # NAME=value
    grep -lzxF "$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/|process\t|; s|/environ||'
}

# Only what no further try changes: a full disk may have room again.
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

attempt() { # tag, scratch, patterns that must be there …
    local scratch=$2 place pattern found
    printf 'attempt\t%s\n' "$1"
    # A cleaner may have removed the folder while its processes work there, or elsewhere by now.
    printf 'place\t%s\n' "$(readlink -mn "$scratch" | text)"
    if [ ! -d "$scratch" ]; then
        printf 'none\t\n'
        began_with "WFCTL_ATTEMPT=$1"
        found=$(why_unmakable "$scratch" "${scratch%"/$1"}")
        [ -z "$found" ] || printf 'refused\t%s\n' "$(printf %s "$found" | text)"
        return
    fi
    shift 2
    for place in "$scratch"/job-*.started; do
        [ -e "$place" ] && job "$place"
    done
    for place in "$scratch"/*/; do
        place=${place%/}
        [[ ${place##*/} =~ ^[0-9a-f]{40}$ ]] && copy "$place" "$@"
    done
    for pattern in "$@"; do
        found=$(cd "$scratch" && compgen -G "*/$pattern" | head -n 1)
        [ -n "$found" ] || printf 'absent\t%s\n' "$(printf %s "$pattern" | text)"
    done
}

printf 'here\t%s\t%s\t%s\n' "$(uname -n)" "$(cat /proc/sys/kernel/random/boot_id)" "$(date +%s%N)"
