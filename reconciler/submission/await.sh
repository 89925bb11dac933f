# Waits for processes that a command left running, such as a solver in the background after a forgotten
# `wait`. The job waits while an expected file is missing, is empty, or is held open for writing by
# such a process. Other processes may continue to run, and $wfctl_remaining lists them.
wfctl_await() { # mark file of the command, file for the names of the processes, expected files …
    local mark=$1 note=$2 last_processes=
    shift 2
    while wfctl_remaining=$(wfctl_left "$mark") && wfctl_misses_files "$wfctl_remaining" "$@"; do
        [ "$last_processes" = "$wfctl_remaining" ] || wfctl_print_names $wfctl_remaining >| "$note"
        last_processes=$wfctl_remaining
        sleep 1
    done 2> /dev/null
    [ -z "$last_processes" ] || rm -f "$note"
}

# Records the names of the processes that a successful command left running. Helper processes often end
# shortly after their command, so only the processes that still run a second later are recorded.
wfctl_record_remaining() { # mark file of the command, file for the names
    [ "${wfctl_remaining:-}" ] || return 0
    sleep 1
    wfctl_print_names $(wfctl_left "$1") >> "$2"
} 2> /dev/null

# Prints the processes of a command: those that have its mark file open, those with the mark in their
# environment, and all their child processes. Fails if no such process exists.
wfctl_left() { # mark file
    local place processes=
    for place in /proc/[0-9]*/fd/*; do
        [ ! "$place" -ef "$1" ] || processes+="${place%/fd/*} "
    done
    for place in $(grep -lszxF "WFCTL_RUN=$1" /proc/[0-9]*/environ); do
        processes+="${place%/environ} "
    done
    processes=$(for place in $(wfctl_list_descendants $processes); do wfctl_serves_terminal "${place#/proc/}" || echo "$place"; done | sort -u)
    [ -n "$processes" ] && printf '%s\n' "$processes"
}

wfctl_list_descendants() { # processes
    local place
    for place in "$@"; do
        echo "$place"
        set -- $(cat "$place"/task/*/children)
        wfctl_list_descendants "${@/#//proc/}"
    done 2> /dev/null
}

# Succeeds for a terminal server (tmux or screen) and the processes in it. A person may work in the
# server now, so a job neither waits for it nor stops it.
wfctl_serves_terminal() { # process
    local pid=$1 name stat
    while [ "$pid" -gt 1 ] && [ "$pid" != "$$" ]; do
        read -r name < "/proc/$pid/comm" && read -r stat < "/proc/$pid/stat" || return 1
        case $name in tmux* | screen* | SCREEN*) return 0 ;; esac
        set -- ${stat##*) }
        pid=$2
    done
    return 1
}

wfctl_misses_files() { # processes, patterns of the expected files
    local processes=$1 pattern file
    shift
    for pattern in "$@"; do
        [ ! -d "$pattern" ] || continue
        compgen -G "$pattern" > /dev/null || [ -e "$pattern" ] || return 0
        while IFS= read -r file; do
            [ -s "$file" ] && ! wfctl_is_written "$file" $processes || return 0
        done < <(compgen -G "$pattern" || printf '%s\n' "$pattern")
    done
    return 1
}

wfctl_is_written() { # file, processes
    local file=$1 process place key flags
    shift
    for process in "$@"; do
        for place in "$process"/fd/*; do
            [ "$place" -ef "$file" ] || continue
            while read -r key flags; do
                [ "$key" != flags: ] || [ "$((flags & 3))" = 0 ] || return 0
            done < "$process/fdinfo/${place##*/}"
        done
    done
    return 1
}

wfctl_print_names() { # processes
    local place name
    for place in "$@"; do
        read -r name < "$place/comm" && printf 'process %s (%s)\n' "${place#/proc/}" "$name"
    done
}
