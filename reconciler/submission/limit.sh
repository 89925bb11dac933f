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
    local word=
    read -r word < "$1" 2> /dev/null || :
    [ "$word" != over ]
}

# A command runs in a process group of its own, so that a signal to its group, as by `kill 0`, reaches
# nobody but what it started and the shell that leads the group, which notes it and lives on.
wfctl_lead() {
    wfctl_hit=
    for signal in 1 2 15; do trap "wfctl_hit=$signal" "$signal"; done
}

wfctl_led() { # mark of the command, its exit code
    [ -z "$wfctl_hit" ] || [ "$2" != "$((128 + wfctl_hit))" ] || echo group >> "$1"
    exit "$2"
}

# Names the signal that ended a command and its whole group; false if none did.
wfctl_hits() { # mark of the command, exit code
    local word=
    read -r word < "$1" 2> /dev/null || :
    [ "$word" = group ] && wfctl_why="ended by signal $(($2 - 128)) to its own process group, as by \
'kill 0', which ends its own shell too; before it, trap '' TERM keeps that shell"
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
