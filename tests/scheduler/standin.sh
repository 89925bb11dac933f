#!/bin/bash
# squeue, sbatch, scancel and sacct of a cluster that is a folder: `jobs/ID/` holds state, folder
# and script of each job. Before a call answers it takes the first line of `lies/TOOL`, if there is
# one, and lies as that says; without one it tells the truth.
cluster=${0%/bin/*} tool=${0##*/}
exec 3>>"$cluster/lock" && /usr/bin/flock 3

lie=
if [ -s "$cluster/lies/$tool" ]; then
    read -r lie <"$cluster/lies/$tool"
    sed -i 1d "$cluster/lies/$tool"
fi
echo "$tool ${lie:-honest} $*" >>"$cluster/calls"

refuse() { # words
    echo "$tool: error: $*" >&2
    exit 1
}

garbage() {
    printf '\001\002 %%$!|~\n|||\nslurm says hello\n'
    exit 0
}

short() {
    case $1 in
    PENDING) echo PD ;; RUNNING) echo R ;; COMPLETED) echo CD ;; CANCELLED) echo CA ;;
    NODE_FAIL) echo NF ;; TIMEOUT) echo TO ;; COMPLETING) echo CG ;; *) echo F ;;
    esac
}

truth() { # what squeue could tell: id|state|folder
    local job
    for job in "$cluster"/jobs/*/; do
        [ -e "$job/state" ] || continue
        job=${job%/}
        echo "${job##*/}|$(<"$job/state")|$(<"$job/folder")"
    done
}

line() { # format, id, state, folder
    local text=$1
    text=${text//%i/$2} text=${text//%.18i/$2} text=${text//%T/$3} text=${text//%Z/$4}
    printf '%s\n' "${text//%.2t/$(short "$3")}"
}

squeue() {
    local format='%i' only= all= header=JOBID id state folder known=
    while [ $# -gt 0 ]; do
        case $1 in
        -o) format=$2 && shift ;; -j) only=$2 && shift ;; -t) all=1 && shift ;;
        -h) header= ;; -u) shift ;;
        esac
        shift
    done
    case $lie in
    silent) refuse 'Unable to contact slurm controller (connect failure)' ;;
    broken) echo 'slurmstepd: segfault' >&2; exit 139 ;;
    garbage) garbage ;;
    stale) cp "$cluster/before" "$cluster/now" 2>/dev/null || : >"$cluster/now" ;;
    *) cp "$cluster/now" "$cluster/before" 2>/dev/null; truth >"$cluster/now" ;;
    esac
    [ "$lie" != slow ] || sleep 0.3
    [ -z "$header" ] || echo 'JOBID ST'
    [ "$lie" != forget ] || exit 0
    while IFS='|' read -r id state folder; do
        [ -z "$only" ] || [ "$only" = "$id" ] || continue
        known=1
        case $state in PENDING | RUNNING | COMPLETING) ;; *) [ -n "$all" ] || continue ;; esac
        case $lie in
        other) line "$format" "$id" COMPLETED /somebody/else ;;
        half) line "$format" "$id" "$state" "$folder" | cut -c -6 ;;
        *) line "$format" "$id" "$state" "$folder" ;;
        esac
    done <"$cluster/now"
    [ -z "$only" ] || [ -n "$known" ] || refuse 'Invalid job id specified'
}

sbatch() { # --parsable, script
    local script=${!#} id
    case $lie in
    silent) refuse 'Batch job submission failed: Unable to contact slurm controller' ;;
    refused) refuse 'Batch job submission failed: Invalid account specified' ;;
    empty) exit 0 ;;
    esac
    id=$(($(find "$cluster/jobs" -mindepth 1 -maxdepth 1 | wc -l) + 101))
    mkdir "$cluster/jobs/$id"
    cp "$script" "$cluster/jobs/$id/script"
    pwd -P >"$cluster/jobs/$id/folder"
    echo PENDING >"$cluster/jobs/$id/state"
    case $lie in
    taken) refuse 'Batch job submission failed: Socket timed out on send/recv operation' ;;
    mute) exit 0 ;;
    garbage) garbage ;;
    other) echo 7 ;;
    *) echo "$id" ;;
    esac
}

scancel() {
    case $lie in
    silent) refuse 'Unable to contact slurm controller (connect failure)' ;;
    forget) exit 0 ;;
    esac
    for id in "$@"; do
        case $(cat "$cluster/jobs/$id/state" 2>/dev/null) in
        PENDING) echo CANCELLED >"$cluster/jobs/$id/state" ;;
        RUNNING)
            kill -KILL -- "-$(<"$cluster/jobs/$id/group")"
            echo CANCELLED >"$cluster/jobs/$id/state"
            ;;
        esac
    done
}

sacct() { refuse 'Slurm accounting storage is disabled'; }

"$tool" "$@"
