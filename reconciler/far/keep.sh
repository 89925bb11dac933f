# Links every file that the jobs wrote into a second folder, because DPDispatcher removes the scratch
# copies, the folders in which the jobs ran. Safe to run again. DPDispatcher's own files are not
# linked: they are no results, and one of them may contain a password.
keep_left() { # folder with the scratch copies, target folder
    local copy name
    for copy in "$1"/*/; do
        copy=${copy%/} name=${copy%/}
        [[ ${name##*/} =~ ^[0-9a-f]{40}$ ]] || continue
        open_folders "$copy"
        mkdir -p "$2" && link_files "$copy" "$2" || return 1
    done
}

# Gives the owner all permissions on the folders of a scratch copy. A job may have removed some of
# them, and then nothing in such a folder could be moved or deleted.
open_folders() { # scratch copy
    find "$1" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null
}

link_files() { # scratch copy, target folder
    local copy_flags
    # Hard links (-l) fail between two file systems and on a file system without hard links. Then
    # the files are copied (-a).
    for copy_flags in -Plf -Paf; do
        (
            set -o pipefail
            cd "$1" && list_written_files | xargs -0r cp "$copy_flags" --parents -t "$2" --
        ) 2>/dev/null && return
    done
    return 1
}

list_written_files() {
    local job='[0-9a-f]{40}'
    find . -mindepth 1 -regextype posix-extended \( -type f -o -type l \) ! -regex "\./\.$job\.sub(\.run)?" \
        ! -regex "\./$job(\.json|\.out|_job_id|_job_tag_finished|_flag_if_job_task_fail|_last_err_file)" \
        ! -regex ".*/${job}_task_tag_finished" -print0
}
