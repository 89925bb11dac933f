# Stops all jobs and processes of an attempt on the machine where they run. Each line is one finding:
# `ended` or `left`, a tab, and the job or process. A job is recognized by the folder in which it
# works, never by its id alone, because the scheduler may have given the id to another job.
set -o pipefail

# Each function prints the waiting and running jobs of this user for one scheduler. A line contains
# the job id, a tab, and a text that contains "at FOLDER/".
slurm_jobs() { squeue -h -u "$(id -un)" -o '%i|%Z' | sed 's/|\(.*\)/\tat \1\//'; }
pbs_jobs() {
    local ids id
    ids=$(qselect -u "$(id -un)") || return 1
    for id in $ids; do # qstat wraps long lines
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
    local listing id
    listing=$(bjobs -w -u "$(id -un)" 2>&1) || [[ $listing == *'No unfinished job'* ]] || return 1
    for id in $(awk '$1 ~ /^[0-9]+$/ { print $1 }' <<<"$listing"); do # bjobs prints $HOME literally
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

list_queued_jobs() { # folder, scheduler
    "$2_jobs" | P=$1 awk -F '\t' '
        { gsub(/ /, "", ENVIRON["P"]); gsub(/ /, "") }
        index($2, "at" ENVIRON["P"] "/") { print $1 }'
}

# Succeeds for a terminal server (tmux or screen) and for the processes below it. A job may have started
# the server, but a person may work in it now, so it is not stopped.
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

# Prints the processes that started with this environment variable. A child process of a command may
# work in another folder and have no file of the attempt open.
find_processes_with() { # NAME=value
    local process
    grep -lzxF "$1" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/||; s|/environ||' |
        while read -r process; do
            serves_a_terminal "$process" || echo "$process"
        done
}

# Prints the processes that work in the folder, and the processes elsewhere that hold the lock of a job,
# which they inherited.
find_working_processes() { # folder
    find /proc/[0-9]*/cwd -maxdepth 0 -printf '%h\t%l\n' 2>/dev/null | P=$1 awk -F '\t' '
        index($2 "/", ENVIRON["P"] "/") == 1 { sub("/proc/", "", $1); print $1 }'
    find /proc/[0-9]*/fd -mindepth 1 -printf '%h\t%f\t%l\n' 2>/dev/null | P=$1 awk -F '\t' '
        index($3, ENVIRON["P"] "/job-") == 1 && $3 ~ /\.lock$/ { sub("/fd$", "", $1); print $1, $2 }
    ' | while read -r process fd; do
        grep -q 'FLOCK.*WRITE' "$process/fdinfo/$fd" 2>/dev/null && echo "${process#/proc/}"
    done
}

print_findings() { # ended or left, job or process, ids
    local word=$1 what=$2
    shift 2
    [ "$#" = 0 ] || printf "$word\t$what %s\n" "$@"
}

# Stops jobs and processes until none is found. With a scheduler, two checks in a row must find none,
# because a job that is being submitted appears in the queue a moment later.
stop() { # scratch folder, scheduler or none, seconds, environment variable of the attempt's processes
    local place ids= pids= jobs= processes= quiet=0 id end=$((SECONDS + $3))
    # `readlink -m` is used because the folder may have been removed while its jobs run.
    place=$(readlink -m "$1") && [ -n "$place" ] || return 0
    # This file keeps a job that starts later from running its command.
    [ ! -d "$place" ] || : >"$place/stopped"
    while :; do
        if [ "$2" != none ]; then
            ids=$(list_queued_jobs "$place" "$2") || { printf 'left\ta job that the scheduler does not report\n'; break; }
            for id in $ids; do cancel "$2" "$id"; done
        fi
        pids=$({ find_working_processes "$place"; find_processes_with "$4"; } | sort -u)
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
    print_findings left job $ids
    print_findings left process $pids
    print_findings ended job $(printf '%s\n' $jobs | sort -u)
    print_findings ended process $(printf '%s\n' $processes | sort -un)
}
