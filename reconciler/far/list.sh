# Lists the kept files of the jobs. A line contains, separated by tabs, `file`, the path in base64, the
# size and the SHA-256 digest, or `link`, the path in base64 and the target of the link in base64.
list_left() { # folder with the kept files
    local file
    [ -d "$1" ] && cd "$1" || return 0
    while IFS= read -r -d '' file; do
        if [ -L "$file" ]; then
            printf 'link\t%s\t%s\n' "$(printf %s "${file#./}" | base64 -w 0)" \
                "$(readlink -n "$file" | base64 -w 0)"
        else
            print_file "${file#./}"
        fi
    done < <(find . \( -type f -o -type l \) -print0 | sort -z)
}

print_file() { # path
    printf 'file\t%s\t%s\t%s\n' "$(printf %s "$1" | base64 -w 0)" \
        "$(stat -Lc %s "$1")" "$(sha256sum <"$1" | cut -d ' ' -f 1)"
}

# Lists the results of the jobs, the files that match the patterns. A line with `copy` and the name of a
# scratch copy precedes the files of that copy. A link is listed as the file to which it leads. A link
# to a missing file is not listed.
list_results() { # folder with the scratch copies, patterns …
    local copy pattern match file
    cd "$1" || return 1
    shift
    for copy in */; do
        copy=${copy%/}
        [[ $copy =~ ^[0-9a-f]{40}$ ]] || continue
        printf 'copy\t%s\n' "$copy"
        (
            cd "$copy" || exit 1
            for pattern in "$@"; do
                while IFS= read -r match; do
                    while IFS= read -r -d '' file; do print_file "$file"; done \
                        < <(find -L "$match" -type f -print0 | sort -z)
                done < <(compgen -G "$pattern")
            done
        )
    done
}

# Does the same as `list_results`, but prints nothing and succeeds if the folder no longer exists.
list_left_results() { [ ! -d "$1" ] || list_results "$@"; }

# Prints parts of files. Each line is one part in base64.
send_parts() { # folder; then for each part: path in base64, bytes to skip, bytes to send …
    cd "$1" || return 1
    shift
    while [ $# -gt 2 ]; do
        printf '%s\n' "$(tail -c "+$(($2 + 1))" "$(printf %s "$1" | base64 -d)" | head -c "$3" | base64 -w 0)"
        shift 3
    done
}
