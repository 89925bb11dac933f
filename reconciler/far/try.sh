# Tests whether a machine has everything that jobs need, in a new folder below remote_root that is
# removed afterwards. Each line is one problem: `problem`, a tab, and the problem in base64. The
# functions of probe.sh must be defined before.

problem() { printf 'problem\t%s\n' "$(printf %s "$1" | text)"; }

# Joins the lines of a program's output into one line.
join_lines() { tr -s '\r\n' '\n' | paste -s -d '|' | sed 's/|/; /g'; }

wfctl_clear() {
    [ -z "$wfctl_place" ] || rm -rf -- "$wfctl_place"
    [ -z "$wfctl_new_folder" ] || rmdir -- "$wfctl_new_folder"
}

can_write() { # remote_root
    local output
    output=$(why_unmakable "$1/wfctl-try" "$1")
    [ -z "$output" ] || { problem "$output"; return 1; }
    if [ ! -d "$1" ]; then
        output=$(mkdir -- "$1" 2>&1) || { problem "remote_root $1 cannot be made: $output"; return 1; }
        wfctl_new_folder=$1
    fi
    if ! output=$(mktemp -d -- "$1/wfctl-try.XXXXXXXXXX" 2>&1); then
        problem "remote_root $1 cannot be written: $output"
        return 1
    fi
    wfctl_place=$output
    output=$({ head -c 100000 /dev/zero >"$wfctl_place/written" && sync "$wfctl_place/written"; } 2>&1) ||
        problem "remote_root $1 cannot be written: $output ($(df -P "$1" | awk 'END { print $NF }'))"
}

can_submit() { # program of the scheduler
    local output code
    if ! command -v "$1" >/dev/null; then
        problem "$1 was not found on $(uname -n)"
    elif [ "$1" = sbatch ]; then
        output=$(cd "$wfctl_place" && timeout 30 sbatch --test-only try.sub 2>&1 </dev/null)
        code=$?
        [ "$code" != 124 ] || output='no answer within 30 s'
        [ "$code" = 0 ] || problem "sbatch refuses the job: $(printf %s "$output" | join_lines)"
    fi
}

# Runs the environment lines of a job as a script. The script prints a line for each missing part, and
# its last line creates the file `reached`.
has_software() { # words of the shell command …
    local line code last_line
    (cd "$wfctl_place" && timeout 60 "$@" environment </dev/null >printed 2>errors)
    code=$?
    while IFS= read -r line; do
        problem "${line#wfctl: }"
    done < <(grep -a '^wfctl: ' "$wfctl_place/errors")
    if [ ! -e "$wfctl_place/reached" ]; then
        last_line=$(tail -n 1 "$wfctl_place/errors")
        [ "$code" != 124 ] || last_line='no end within 60 s'
        problem "the lines before the command ended the job (exit code $code): $last_line"
    fi
}

wfctl_try() { # remote_root, scheduler program or nothing, header and environment in base64, shell …
    wfctl_place='' wfctl_new_folder=''
    trap wfctl_clear EXIT
    can_write "$1" || return 0
    base64 -d <<<"$3" >"$wfctl_place/try.sub"
    base64 -d <<<"$4" >"$wfctl_place/environment"
    [ -z "$2" ] || can_submit "$2"
    has_software "${@:5}"
}
