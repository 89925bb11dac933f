# Tags each finished job for DPDispatcher, which then needs no scheduler to know that the job ended.
# The shell of a job normally writes this tag, but a command may outlive the shell. A scheduler may
# have forgotten the job, or never have reported its id.
tag_jobs() { # scratch folder, folder of the jobs' records, jobs without a shell, result patterns …
    local scratch=$1 records=$2 no_shell=" $3 " run copy job recovery
    shift 3
    for run in "$scratch"/*/.*.sub.run; do
        copy=${run%/*} job=${run##*/.} job=${job%.sub.run}
        recovery=$copy/${copy##*/}.json
        [ -e "$run" ] || continue
        tasks_are_tagged "$copy" "$run" ||
            is_finished_without_shell "$copy" "$records/job-$job" "$@" || continue
        : >"$copy/${job}_job_tag_finished"
        [ ! -e "$recovery" ] || sed -i -E \
            '/"'"$job"'": \{$/,/"job_state": /s/("job_state": )[0-9]+/\15/' "$recovery"
    done
}

is_finished_without_shell() { # scratch copy, path prefix of the job's records, patterns …
    [[ $no_shell == *" ${2##*/job-} "* ]] && has_unknown_result "$2" && is_complete "$1" "$2.started" "${@:3}"
}

# Succeeds if the records do not show how the command ended. A surviving shell of the job records 137
# if other shells of the job were killed, whatever the result of the command was.
has_unknown_result() { # path prefix of the job's records
    local code
    [ ! -e "$1.exit" ] || { [ -f "$1.exit" ] && read -r code <"$1.exit" && [ "$code" = 137 ]; }
}

tasks_are_tagged() { # scratch copy, script that runs the job's tasks
    local tag tags
    tags=$(grep -oE -d skip -D skip '[0-9a-f]{40}_task_tag_finished' "$2" | sort -u)
    for tag in $tags; do
        [ -n "$(find "$1" -name "$tag")" ] || return 1
    done
    [ -n "$tags" ]
}

# Succeeds if the file was changed after the job started. The status change time is compared, because a
# command may set an old modification time (`cp -p`, `tar`).
is_changed_since() { # folder that marks the start, file
    local start_time change_time
    start_time=$(stat -c %.9Y "$1") && change_time=$(stat -Lc %.9Z "$2") &&
        [ "${change_time/[.,]/}" -ge "${start_time/[.,]/}" ]
} 2>/dev/null

# Succeeds if each pattern matches a file that was written since the start. If the shells of a job were
# killed and its command continued without them, only these files show that the command finished.
is_complete() { # scratch copy, folder that marks the start, patterns …
    local copy=$1 start=$2 pattern file new
    shift 2
    [ "$#" -gt 0 ] || return 1
    for pattern in "$@"; do
        new=
        while IFS= read -r file; do
            is_changed_since "$start" "$copy/$file" && new=1
        done < <(cd "$copy" && compgen -G "$pattern")
        [ -n "$new" ] || return 1
    done
}
