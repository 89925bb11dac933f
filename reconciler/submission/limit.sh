# A command with a time limit has a watcher, which stops the command and its child processes after the
# given number of seconds. They hold the watcher's pipe open, so the watcher ends when they all ended.
wfctl_limit=

wfctl_watch() { # mark file of the command; the watcher writes to it when the time is over
    wfctl_watched=
    [ "$wfctl_limit" ] || return 0
    exec {wfctl_watched}> >(
        read -r -t "$wfctl_limit" || [ "$?" -le 128 ] || { echo over >> "$1"; wfctl_end "$1"; }
    )
    wfctl_watcher=$!
}

# Stops all processes that a command with a time limit left running. Fails if the command exceeded its
# time limit.
wfctl_in_time() { # mark file of the command, optional check that no process of the command is left
    [ "$wfctl_watched" ] || return 0
    "${2:-false}" || wfctl_end "$1"
    { kill "$wfctl_watcher" || :; wait "$wfctl_watcher" || :; } 2> /dev/null
    exec {wfctl_watched}>&-
    [ ! -s "$1" ]
}

# Sends SIGTERM to the processes of a command, and SIGKILL 10 s later to those that still run.
wfctl_end() { # mark file of the command
    local processes signal=TERM start=$SECONDS
    while processes=$(wfctl_left "$1") && [ "$((SECONDS - start))" -lt 20 ]; do
        [ "$((SECONDS - start))" -lt 10 ] || signal=KILL
        kill "-$signal" ${processes//\/proc\//} 2> /dev/null || :
        [ "$signal" = KILL ] || signal=0
        sleep 1
    done
}
