#!/bin/bash
# Runs tasks of a sweep, one after another, until none is left that nobody has claimed. It works in
# the scratch copy of the stage's folder. $1: its number. A task's failure is written down and is
# never its own: it exits 0. WFCTL_TASKS is the folder of the attempt's tasks, WFCTL_TASKS_TO where
# the folders of tasks that are done go, WFCTL_TASKS_BACK where all else that is to come back
# from another machine goes. $2: where its job keeps its records. With a number, a folder
# and assignments behind them it ends that task alone, whose command outlived its shells.
set -uC
unset WFCTL_JUDGE
back=${WFCTL_TASKS_BACK:-$WFCTL_TASKS}
journal=$back/journal.$1

# A fork for each would take longer than many a task.
claim() { { : > "$WFCTL_TASKS/claims/$1"; } 2> /dev/null; }

place() { # folder, where to; what lies there is kept, and a folder that somebody removed is made
    [ -d "${2%/*}" ] || mkdir "${2%/*}"
    [ ! -e "$2" ] || mv -T --backup=numbered "$2" "$WFCTL_TASKS/aside/${2##*/}"
    mv -T "$1" "$2"
}

# Each command has the end of a pipe open, and so has all that it starts: nobody is left of it once the
# pipe has no other end. To look at every process for this would take longer than many a task.
pipe=$(mktemp -u) && mkfifo -m 600 "$pipe" 2> /dev/null && exec 8<> "$pipe" 5< "$pipe" 8>&- &&
    rm -f "$pipe"
is_alone() { [ ! -e /proc/self/fd/5 ] || read -t 0 -u 5; }

# Its own shell, which outlives the worker: a task that was computed to its end is written down.
task() ( # number, folder, assignments, where its job keeps its records
    eval "export $3"
    local began=${EPOCHREALTIME/[.,]/} over=
    mkdir -p "tasks/$2" && cd "tasks/$2" || exit
    set +C
    if [ "${WFCTL_JUDGE:-}" ]; then # it was computed, and the verdict on it is another now
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
        [ "$code" != 0 ] || { is_alone && have_come "${files[@]}"; } ||
            wfctl_await "$WFCTL_TASKS/claims/$1" "$4.awaited.$1" "${files[@]}"
        wfctl_in_time "$WFCTL_TASKS/claims/$1" is_alone || code=124 over=1
    fi
    ended "$1" "$2" "$code" "$over"
    [ -z "${WFCTL_JUDGE:-}" ] || exit 0
    # To start Python would take longer than many a task.
    [ "${EPOCHREALTIME/[.,]/}" -gt $((began + 1000000)) ] || wfctl_python=
    wfctl_used "$journal" 0 "u"$'\t'"$1"$'\t' "$WFCTL_TASKS/claims/$1"
)

have_come() { # files
    local file
    for file in "$@"; do
        [ -s "$file" ] || return
    done
}

# In the folder of a task whose command is over.
ended() { # number, folder, exit code, a word if its time was over
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
    # A command may fill the disk without a word; its folder leaves this disk below.
    [ "$state" != failed ] || [ "$(stat -f -c %a .)" != 0 ] ||
        why="no room is left on the file system $(stat -c %m .) (0 bytes free): $why"
    # Put in place with its folder: it is believed by this, whatever becomes of journal and attempt.
    [ "$state" != done ] ||
        printf '%s\t%s\t%s\t%s\t%s\n' "$WFCTL_ATTEMPT" "$1" "$EPOCHREALTIME" \
            "$WFCTL_TASKS_ORIGIN" "$WFCTL_TASK" >| .wfctl-done
    cd ../.. || exit
    # What did not pass is no result any more.
    [ ! "${WFCTL_JUDGE:-}" ] || [ "$state" = done ] || [ ! -e "$WFCTL_TASKS_TO/$2" ] ||
        mv -T --backup=numbered "$WFCTL_TASKS_TO/$2" "$WFCTL_TASKS/aside/$2"
    case $state in
    done) place "tasks/$2" "$WFCTL_TASKS_TO/$2" ;;
    *) place "tasks/$2" "$back/$state/$2" ;;
    esac || { state=lost why="its folder could not be put in place"; }
    printf 'e\t%s\t%s\t%s\t%s\t%s\n' "$1" "$state" "$code" "$EPOCHREALTIME" "$why" >> "$journal"
}

if [ "$#" -gt 2 ]; then
    eval "export $5"
    cd "tasks/$4" && ended "$3" "$4" 0
    exit
fi
printf 'j\t%s\n' "${2##*/job-}" >> "$journal"
while IFS=$'\t' read -r number folder assignments <&7; do
    [ ! -e "${2%/*}/stopped" ] || break
    claim "$number" || continue
    printf 's\t%s\t%s\n' "$number" "$EPOCHREALTIME" >> "$journal"
    task "$number" "$folder" "$assignments" "$2" 7<&-
done 7< "$WFCTL_TASKS/list"
exit 0
