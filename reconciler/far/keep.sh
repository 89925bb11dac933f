# Gives every file that jobs wrote a second name, before DPDispatcher removes the folder they worked in.
# May be done again. DPDispatcher's own files are no result, and one of them may hold a password.
keep_left() { # scratch, where to keep it
    local copy name
    for copy in "$1"/*/; do
        copy=${copy%/} name=${copy%/}
        [[ ${name##*/} =~ ^[0-9a-f]{40}$ ]] || continue
        open_folders "$copy"
        mkdir -p "$2" && linked "$copy" "$2" || return 1
    done
}

# Makes the folders of a copy usable for their owner: a job may have closed one, and nothing could be
# moved out of it or removed.
open_folders() { # copy
    find "$1" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
}

linked() { # copy, where to keep it
    local how
    # Where the place is on another file system, or the file system knows no second names.
    for how in -Plf -Paf; do
        (
            set -o pipefail
            cd "$1" && written_here | xargs -0r cp "$how" --parents -t "$2" --
        ) 2>/dev/null && return
    done
    return 1
}

written_here() {
    local job='[0-9a-f]{40}'
    find . -mindepth 1 -regextype posix-extended \( -type f -o -type l \) ! -regex "\./\.$job\.sub(\.run)?" \
        ! -regex "\./$job(\.json|\.out|_job_id|_job_tag_finished|_flag_if_job_task_fail|_last_err_file)" \
        ! -regex ".*/${job}_task_tag_finished" -print0
}
