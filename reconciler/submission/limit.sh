# Ends a command after as many seconds as WFCTL_TIME_LIMIT says, and with it all that it started.
wfctl_limited() { # command …
    [ "${WFCTL_TIME_LIMIT:-}" ] || { "$@"; return; }
    local began=$SECONDS code
    timeout -k 10 "$WFCTL_TIME_LIMIT" "$@"
    code=$?
    [ "$((SECONDS - began))" -lt "$WFCTL_TIME_LIMIT" ] || code=124
    return "$code"
}

# Whether what a command left at work may be waited for.
wfctl_has_time() { [ -z "${WFCTL_TIME_LIMIT:-}" ] || [ "$((SECONDS - wfctl_began))" -lt "$WFCTL_TIME_LIMIT" ]; }

# Nothing that a command with a limit started outlives it.
wfctl_end() { # mark of the command
    local left
    [ "${WFCTL_TIME_LIMIT:-}" ] || return 0
    for _ in 1 2 3; do
        left=$(wfctl_left "$1") || return 0
        kill -KILL ${left//\/proc\//} 2> /dev/null || :
    done
}
