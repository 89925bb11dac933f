# Ends what is left of an attempt where its jobs run. A line a finding: `ended` or `left`, then
# what, after a tab. A job is the attempt's by the folder it works in, never by its id alone, which
# may be another job's by now.
set -o pipefail

# Each prints this user's jobs that wait or run: an id, a tab, a text that has "at FOLDER/" in it.
slurm_jobs() { squeue -h -u "$(id -un)" -o '%i|%Z' | sed 's/|\(.*\)/\tat \1\//'; }
pbs_jobs() {
    local ids id
    ids=$(qselect -u "$(id -un)") || return 1
    for id in $ids; do # qstat breaks long lines
        printf '%s\t' "$id"
        qstat -f "$id" 2>/dev/null | tr -d '\n\t' | sed 's|PBS_O_WORKDIR=|at |; s|,|/|g'
        echo
    done
}
torque_jobs() { pbs_jobs; }
sge_jobs() {
    local ids id
    ids=$(qstat -u "$(id -un)" | awk 'NR > 2 { print $1 }') || return 1
    for id in $ids; do
        printf '%s\t' "$id"
        qstat -j "$id" 2>/dev/null | sed -n 's|^sge_o_workdir: *\(.*\)|at \1/|p'
        echo
    done
}
lsf_jobs() {
    local said id
    said=$(bjobs -w -u "$(id -un)" 2>&1) || [[ $said == *'No unfinished job'* ]] || return 1
    for id in $(awk '$1 ~ /^[0-9]+$/ { print $1 }' <<<"$said"); do # bjobs shortens the home
        printf '%s\t' "$id"
        bjobs -l "$id" 2>/dev/null | tr -d ' \n' |
            sed 's|CWD<\([^>]*\)>|at \1/|; s|at \$HOME|at '"$HOME"'|'
        echo
    done
}

cancel() { # scheduler, id
    case $1 in
    slurm) scancel "$2" ;;
    lsf) bkill "$2" ;;
    *) qdel "$2" ;;
    esac >/dev/null 2>&1
}

queued() { # place, scheduler
    "$2_jobs" | P=$1 awk -F '\t' '
        { gsub(/ /, "", ENVIRON["P"]); gsub(/ /, "") }
        index($2, "at" ENVIRON["P"] "/") { print $1 }'
}

# A terminal server that a job started may serve a person by now.
serves_a_terminal() { # process
    local process=$1 name parent
    while [ "$process" -gt 1 ]; do
        read -r name <"/proc/$process/comm" || return 1
        case $name in tmux* | screen* | SCREEN*) return 0 ;; esac
        parent=$(sed 's/^.*) . \([0-9]*\) .*$/\1/' "/proc/$process/stat") || return 1
        process=${parent:-0}
    done 2>/dev/null
    return 1
}

# What a command started may work in another folder, with every file of it closed.
began_with() { # NAME=value
    local process
    grep -lzxF "$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/||; s|/environ||' |
        while read -r process; do
            serves_a_terminal "$process" || echo "$process"
        done
}

# Who works in the folder, and who has inherited the lock of a job and works elsewhere by now.
working() { # place
    find /proc/[0-9]*/cwd -maxdepth 0 -printf '%h\t%l\n' 2>/dev/null | P=$1 awk -F '\t' '
        index($2 "/", ENVIRON["P"] "/") == 1 { sub("/proc/", "", $1); print $1 }'
    find /proc/[0-9]*/fd -mindepth 1 -printf '%h\t%f\t%l\n' 2>/dev/null | P=$1 awk -F '\t' '
        index($3, ENVIRON["P"] "/job-") == 1 && $3 ~ /\.lock$/ { sub("/fd$", "", $1); print $1, $2 }
    ' | while read -r process fd; do
        grep -q 'FLOCK.*WRITE' "$process/fdinfo/$fd" 2>/dev/null && echo "${process#/proc/}"
    done
}

told() { # ended or left, job or process, ids
    local word=$1 what=$2
    shift 2
    [ "$#" = 0 ] || printf "$word\t$what %s\n" "$@"
}

# Looks twice where there is a queue: what was being submitted shows a moment later.
stop() { # scratch, scheduler or none, seconds, the attempt in the environment of its processes
    local place ids= pids= jobs= processes= quiet=0 id end=$((SECONDS + $3))
    # The folder may have been removed while its jobs run.
    place=$(readlink -m "$1") && [ -n "$place" ] || return 0
    # No job that comes late starts its command.
    [ ! -d "$place" ] || : >"$place/stopped"
    while :; do
        if [ "$2" != none ]; then
            ids=$(queued "$place" "$2") || { printf 'left\ta job that the scheduler does not report\n'; break; }
            for id in $ids; do cancel "$2" "$id"; done
        fi
        pids=$({ working "$place"; began_with "$4"; } | sort -u)
        [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
        jobs+=" $ids" processes+=" $pids"
        if [ -z "$ids$pids" ]; then
            quiet=$((quiet + 1))
            if [ "$2" = none ] || [ "$quiet" = 2 ]; then break; fi
            sleep 1
            continue
        fi
        quiet=0
        [ "$SECONDS" -lt "$end" ] || break
        sleep 0.2
    done
    told left job $ids
    told left process $pids
    told ended job $(printf '%s\n' $jobs | sort -u)
    told ended process $(printf '%s\n' $processes | sort -un)
}
