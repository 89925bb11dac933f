# A command with a limit has a watcher, which ends it after so many seconds, with all that it started.
# All of these hold the watcher's pipe open: it goes away where nobody is left.
wfctl_limit=

wfctl_watch() { # mark of the command; holds a word as soon as its time is over
    wfctl_watched=
    [ "$wfctl_limit" ] || return 0
    exec {wfctl_watched}> >(
        read -r -t "$wfctl_limit" || [ "$?" -le 128 ] || { echo over >> "$1"; wfctl_end "$1"; }
    )
    wfctl_watcher=$!
}

# Nothing that a command with a limit started outlives it. False: its time was over.
wfctl_in_time() { # mark of the command, a command that may know that nobody is left
    [ "$wfctl_watched" ] || return 0
    "${2:-false}" || wfctl_end "$1"
    { kill "$wfctl_watcher" || :; wait "$wfctl_watcher" || :; } 2> /dev/null
    exec {wfctl_watched}>&-
    [ ! -s "$1" ]
}

# What does not end when it is asked is killed 10 s later.
wfctl_end() { # mark of the command
    local left signal=TERM began=$SECONDS
    while left=$(wfctl_left "$1") && [ "$((SECONDS - began))" -lt 20 ]; do
        [ "$((SECONDS - began))" -lt 10 ] || signal=KILL
        kill "-$signal" ${left//\/proc\//} 2> /dev/null || :
        [ "$signal" = KILL ] || signal=0
        sleep 1
    done
}
