# A command may end while something that it started is still at work: a forgotten `wait`, a solver in
# the background. It is waited for as long as a file that was to come is missing, is empty, or is held
# open by it. What has left all of its files may run on.
wfctl_await() { # mark of the command, where it is told who is waited for, patterns of its files …
    local mark=$1 note=$2 left told=
    shift 2
    while left=$(wfctl_left "$mark") && wfctl_lacks "$left" "$@"; do
        [ "$told" = "$left" ] || wfctl_names $left >| "$note"
        told=$left
        sleep 1
    done 2> /dev/null
    [ -z "$told" ] || rm -f "$note"
}

# The processes that have the mark open, as whatever the command starts, or in their environment, and
# all that they started.
wfctl_left() { # mark
    local place left=
    for place in /proc/[0-9]*/fd/*; do
        [ ! "$place" -ef "$1" ] || left+="${place%/fd/*} "
    done
    for place in $(grep -lszxF "WFCTL_RUN=$1" /proc/[0-9]*/environ); do
        left+="${place%/environ} "
    done
    left=$(for place in $(wfctl_below $left); do wfctl_serves "${place#/proc/}" || echo "$place"; done | sort -u)
    [ -n "$left" ] && printf '%s\n' "$left"
}

wfctl_below() { # processes
    local place
    for place in "$@"; do
        echo "$place"
        set -- $(cat "$place"/task/*/children)
        wfctl_below "${@/#//proc/}"
    done 2> /dev/null
}

# A terminal server, and anyone who works in it, may serve a person by now.
wfctl_serves() { # process
    local pid=$1 name stat
    while [ "$pid" -gt 1 ] && [ "$pid" != "$$" ]; do
        read -r name < "/proc/$pid/comm" && read -r stat < "/proc/$pid/stat" || return 1
        case $name in tmux* | screen* | SCREEN*) return 0 ;; esac
        set -- ${stat##*) }
        pid=$2
    done
    return 1
}

wfctl_lacks() { # processes, patterns
    local left=$1 pattern file
    shift
    for pattern in "$@"; do
        [ ! -d "$pattern" ] || continue
        compgen -G "$pattern" > /dev/null || [ -e "$pattern" ] || return 0
        while IFS= read -r file; do
            [ -s "$file" ] && ! wfctl_is_written "$file" $left || return 0
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

wfctl_names() { # processes
    local place name
    for place in "$@"; do
        read -r name < "$place/comm" && printf 'process %s (%s)\n' "${place#/proc/}" "$name"
    done
}
