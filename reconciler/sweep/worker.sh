#!/bin/bash
# Runs tasks of a sweep, one after another, until all tasks are claimed. The worker runs in the scratch
# copy of the stage's folder. It records the failure of a task and still exits with 0. $1 is the number
# of the worker, and $2 the path prefix of the records of its job. WFCTL_TASKS is the folder of the
# attempt's tasks, WFCTL_TASKS_TO the folder for finished tasks, and WFCTL_TASKS_BACK the folder for all
# other files that another machine sends back. If $3 to $5 (number, folder and assignments of a task)
# are given, the worker only records the end of that task, whose command outlived its shells.
set -uC
unset WFCTL_JUDGE
return_folder=${WFCTL_TASKS_BACK:-$WFCTL_TASKS}
journal=$return_folder/journal.$1

# Claims a task by creating a file that must not exist (`set -C`). Starting a program for each claim
# would take longer than many tasks do.
claim() { { : > "$WFCTL_TASKS/claims/$1"; } 2> /dev/null; }

move_folder() { # folder, target; moves an existing target aside, and creates a removed parent
    [ -d "${2%/*}" ] || mkdir "${2%/*}"
    [ ! -e "$2" ] || mv -T --backup=numbered "$2" "$WFCTL_TASKS/aside/${2##*/}"
    mv -T "$1" "$2"
}

# Each command and its child processes hold the write end of this pipe open. All of them have ended
# when the pipe is at its end. Inspecting every process would take longer than many tasks do.
pipe=$(mktemp -u) && mkfifo -m 600 "$pipe" 2> /dev/null && exec 8<> "$pipe" 5< "$pipe" 8>&- &&
    rm -f "$pipe"
have_processes_ended() { [ ! -e /proc/self/fd/5 ] || read -t 0 -u 5; }

# Runs a task in a shell of its own. This shell survives if the worker is killed, so that the end of
# the task is recorded.
run_task() ( # number, folder, assignments, path prefix of the records of its job
    eval "export $3"
    local start=${EPOCHREALTIME/[.,]/} is_timed_out=
    mkdir -p "tasks/$2" && cd "tasks/$2" || exit
    set +C
    if [ "${WFCTL_JUDGE:-}" ]; then # results exist, and only the verification runs again
        [ "$WFCTL_JUDGE" -ef . ] || cp -aT --reflink=auto "$WFCTL_JUDGE" .
        code=$?
    else
        wfctl_watch "$WFCTL_TASKS/claims/$1"
        [ ! -e /proc/self/fd/5 ] || exec 6> /proc/self/fd/5
        WFCTL_RUN=$WFCTL_TASKS/claims/$1 bash "$WFCTL_TASKS/command.sh" \
            > log 2> err < /dev/null 5<&-
        code=$?
        exec 6>&-
        mapfile -t files < "$WFCTL_TASKS/outputs"
        [ "$code" != 0 ] || { have_processes_ended && have_all_files "${files[@]}"; } ||
            wfctl_await "$WFCTL_TASKS/claims/$1" "$4.awaited.$1" "${files[@]}"
        wfctl_in_time "$WFCTL_TASKS/claims/$1" have_processes_ended || code=124 is_timed_out=1
        wfctl_record_remaining "$WFCTL_TASKS/claims/$1" "$4.remaining.$1"
    fi
    record_end "$1" "$2" "$code" "$is_timed_out"
    [ -z "${WFCTL_JUDGE:-}" ] || exit 0
    # For a task of less than 1 s, starting Python would take too long, so bash counts its resources.
    [ "${EPOCHREALTIME/[.,]/}" -gt $((start + 1000000)) ] || wfctl_python=
    wfctl_used "$journal" 0 "u"$'\t'"$1"$'\t' "$WFCTL_TASKS/claims/$1"
)

have_all_files() { # files
    local file
    for file in "$@"; do
        [ -s "$file" ] || return
    done
}

# Records the end of a task. It must be called in the folder of the task, after the command ended.
record_end() { # number, folder, exit code, 1 if the task exceeded its time limit
    local code=$3 state=done why= file
    if [ "${4:-}" ]; then
        state=failed why="ended by its time limit of $wfctl_limit s (exit $code)"
    elif [ "$code" = 137 ] || [ "$code" = 143 ]; then
        state=lost why="ended by signal $((code - 128))"
    elif [ "$code" != 0 ]; then
        state=failed why="exit $code"
    fi
    while [ "$state" = done ] && read -r file; do
        [ -e "$file" ] && { [ -d "$file" ] || [ -s "$file" ]; } ||
            { state=failed why="no $file, or an empty one"; }
    done < "$WFCTL_TASKS/outputs"
    if [ "$state" = done ] && [ -e "$WFCTL_TASKS/verify.sh" ]; then
        bash "$WFCTL_TASKS/verify.sh" >> log 2>> err < /dev/null ||
            { state=failed why="task_verify: exit $?"; }
    fi
    # A command may fill the disk without an error message. The disk is checked here, because the
    # folder of the task may be moved to another disk below.
    [ "$state" != failed ] || [ "$(stat -f -c %a .)" != 0 ] ||
        why="no room is left on the file system $(stat -c %m .) (0 bytes free): $why"
    # This mark moves together with the folder of the task. It proves that the task finished, even
    # if the journal and the folder of the attempt are lost.
    [ "$state" != done ] ||
        printf '%s\t%s\t%s\t%s\t%s\n' "$WFCTL_ATTEMPT" "$1" "$EPOCHREALTIME" \
            "$WFCTL_TASKS_ORIGIN" "$WFCTL_TASK" >| .wfctl-done
    cd ../.. || exit
    # A finished task that fails the new verification must not remain among the results.
    [ ! "${WFCTL_JUDGE:-}" ] || [ "$state" = done ] || [ ! -e "$WFCTL_TASKS_TO/$2" ] ||
        mv -T --backup=numbered "$WFCTL_TASKS_TO/$2" "$WFCTL_TASKS/aside/$2"
    case $state in
    done) move_folder "tasks/$2" "$WFCTL_TASKS_TO/$2" ;;
    *) move_folder "tasks/$2" "$return_folder/$state/$2" ;;
    esac || { state=lost why="its folder could not be put in place"; }
    printf 'e\t%s\t%s\t%s\t%s\t%s\n' "$1" "$state" "$code" "$EPOCHREALTIME" "$why" >> "$journal"
}

if [ "$#" -gt 2 ]; then
    eval "export $5"
    cd "tasks/$4" && record_end "$3" "$4" 0
    exit
fi
printf 'j\t%s\n' "${2##*/job-}" >> "$journal"
while IFS=$'\t' read -r number folder assignments <&7; do
    [ ! -e "${2%/*}/stopped" ] || break
    claim "$number" || continue
    printf 's\t%s\t%s\n' "$number" "$EPOCHREALTIME" >> "$journal"
    run_task "$number" "$folder" "$assignments" "$2" 7<&-
done 7< "$WFCTL_TASKS/list"
exit 0
