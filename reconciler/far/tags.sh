# A command may outlive its job's shell, which alone would have tagged the job; and a scheduler may
# have forgotten a job, or never named it. What is over needs neither, once DPDispatcher knows it.
tag_jobs() { # scratch
    local run copy job recovery
    for run in "$1"/*/.*.sub.run; do
        copy=${run%/*} job=${run##*/.} job=${job%.sub.run}
        recovery=$copy/${copy##*/}.json
        [ -e "$run" ] && tasks_are_tagged "$copy" "$run" || continue
        : >"$copy/${job}_job_tag_finished"
        [ ! -e "$recovery" ] || sed -i -E \
            '/"'"$job"'": \{$/,/"job_state": /s/("job_state": )[0-9]+/\15/' "$recovery"
    done
}

tasks_are_tagged() { # copy, what runs the job's tasks
    local tag tags
    tags=$(grep -oE '[0-9a-f]{40}_task_tag_finished' "$2" | sort -u)
    for tag in $tags; do
        [ -n "$(find "$1" -name "$tag")" ] || return 1
    done
    [ -n "$tags" ]
}
