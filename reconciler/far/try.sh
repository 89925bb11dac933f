# Tries where jobs run what they need, in a new folder of remote_root that is removed afterwards. A
# line for each problem: `problem`, a tab, and the problem in base64. probe.sh comes before.

problem() { printf 'problem\t%s\n' "$(printf %s "$1" | text)"; }

# The lines of a program's output as one.
joined() { tr -s '\r\n' '\n' | paste -s -d '|' | sed 's/|/; /g'; }

wfctl_clear() {
    [ -z "$wfctl_place" ] || rm -rf -- "$wfctl_place"
    [ -z "$wfctl_made" ] || rmdir -- "$wfctl_made"
}

can_write() { # remote_root
    local said
    said=$(why_unmakable "$1/wfctl-try" "$1")
    [ -z "$said" ] || { problem "$said"; return 1; }
    if [ ! -d "$1" ]; then
        said=$(mkdir -- "$1" 2>&1) || { problem "remote_root $1 cannot be made: $said"; return 1; }
        wfctl_made=$1
    fi
    if ! said=$(mktemp -d -- "$1/wfctl-try.XXXXXXXXXX" 2>&1); then
        problem "remote_root $1 cannot be written: $said"
        return 1
    fi
    wfctl_place=$said
    said=$({ head -c 100000 /dev/zero >"$wfctl_place/written" && sync "$wfctl_place/written"; } 2>&1) ||
        problem "remote_root $1 cannot be written: $said ($(df -P "$1" | awk 'END { print $NF }'))"
}

can_submit() { # program of the scheduler
    local said code
    if ! command -v "$1" >/dev/null; then
        problem "$1 was not found on $(uname -n)"
    elif [ "$1" = sbatch ]; then
        said=$(cd "$wfctl_place" && timeout 30 sbatch --test-only try.sub 2>&1 </dev/null)
        code=$?
        [ "$code" != 124 ] || said='no answer within 30 s'
        [ "$code" = 0 ] || problem "sbatch refuses the job: $(printf %s "$said" | joined)"
    fi
}

# The script prints a line for all that it lacks, and reaches its last line.
has_software() { # shell …
    local line code last
    (cd "$wfctl_place" && timeout 60 "$@" environment </dev/null >printed 2>errors)
    code=$?
    while IFS= read -r line; do
        problem "${line#wfctl: }"
    done < <(grep -a '^wfctl: ' "$wfctl_place/errors")
    if [ ! -e "$wfctl_place/reached" ]; then
        last=$(tail -n 1 "$wfctl_place/errors")
        [ "$code" != 124 ] || last='no end within 60 s'
        problem "the lines before the command ended the job (exit code $code): $last"
    fi
}

wfctl_try() { # remote_root, program of the scheduler or nothing, header and environment in base64, shell …
    wfctl_place='' wfctl_made=''
    trap wfctl_clear EXIT
    can_write "$1" || return 0
    base64 -d <<<"$3" >"$wfctl_place/try.sub"
    base64 -d <<<"$4" >"$wfctl_place/environment"
    [ -z "$2" ] || can_submit "$2"
    has_software "${@:5}"
}
