# A command may outlive its job's shell, which alone would have tagged the job; and a scheduler may
# have forgotten a job, or never named it. What is over needs neither, once DPDispatcher knows it.
tag_jobs() { # scratch, folder of the jobs' records, jobs that ran on alone, patterns to bring back …
    local scratch=$1 records=$2 alone=" $3 " run copy job recovery
    shift 3
    for run in "$scratch"/*/.*.sub.run; do
        copy=${run%/*} job=${run##*/.} job=${job%.sub.run}
        recovery=$copy/${copy##*/}.json
        [ -e "$run" ] || continue
        tasks_are_tagged "$copy" "$run" ||
            is_through_alone "$copy" "$records/job-$job" "$@" || continue
        : >"$copy/${job}_job_tag_finished"
        [ ! -e "$recovery" ] || sed -i -E \
            '/"'"$job"'": \{$/,/"job_state": /s/("job_state": )[0-9]+/\15/' "$recovery"
    done
}

is_through_alone() { # copy, the job's records, patterns …
    [[ $alone == *" ${2##*/job-} "* ]] && is_untold "$2" && is_complete "$1" "$2.started" "${@:3}"
}

# A shell that was left tells that others were killed (137), and not how the command ended.
is_untold() { # the job's records
    local code
    [ ! -e "$1.exit" ] || { [ -f "$1.exit" ] && read -r code <"$1.exit" && [ "$code" = 137 ]; }
}

tasks_are_tagged() { # copy, what runs the job's tasks
    local tag tags
    tags=$(grep -oE -d skip -D skip '[0-9a-f]{40}_task_tag_finished' "$2" | sort -u)
    for tag in $tags; do
        [ -n "$(find "$1" -name "$tag")" ] || return 1
    done
    [ -n "$tags" ]
}

# A command may keep an old modification time (`cp -p`, `tar`); the time of a file's change tells.
is_changed_since() { # start, file
    local started changed
    started=$(stat -c %.9Y "$1") && changed=$(stat -Lc %.9Z "$2") &&
        [ "${changed/[.,]/}" -ge "${started/[.,]/}" ]
} 2>/dev/null

# Each pattern has a file that was written since the start. Where the shells of a job were killed
# and its command ran on without them, only this tells that it came to its end.
is_complete() { # copy, start, patterns …
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
