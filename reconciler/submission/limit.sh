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

# It is asked to end, and 10 s later it is not asked any more.
wfctl_end() { # mark of the command
    local left second
    for second in {0..15}; do
        left=$(wfctl_left "$1") || return 0
        case $second in
        0) kill -TERM ${left//\/proc\//} ;;
        1?) kill -KILL ${left//\/proc\//} ;;
        esac 2> /dev/null || :
        sleep 1
    done
}
