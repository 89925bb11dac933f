# Lists what is kept of what jobs wrote: a kind, its path, then size and digest, or where a link leads.
list_left() { # where it is kept
    local file
    [ -d "$1" ] && cd "$1" || return 0
    while IFS= read -r -d '' file; do
        if [ -L "$file" ]; then
            printf 'link\t%s\t%s\n' "$(printf %s "${file#./}" | base64 -w 0)" \
                "$(readlink -n "$file" | base64 -w 0)"
        else
            told_file "${file#./}"
        fi
    done < <(find . \( -type f -o -type l \) -print0 | sort -z)
}

told_file() { # path
    printf 'file\t%s\t%s\t%s\n' "$(printf %s "$1" | base64 -w 0)" \
        "$(stat -Lc %s "$1")" "$(sha256sum <"$1" | cut -d ' ' -f 1)"
}

# Lists what jobs were to bring back: `copy` and a folder that one worked in, then its files. What a
# link leads to counts as the file; one that leads nowhere is no result.
list_results() { # scratch, patterns …
    local copy pattern found file
    cd "$1" || return 1
    shift
    for copy in */; do
        copy=${copy%/}
        [[ $copy =~ ^[0-9a-f]{40}$ ]] || continue
        printf 'copy\t%s\n' "$copy"
        (
            cd "$copy" || exit 1
            for pattern in "$@"; do
                while IFS= read -r found; do
                    while IFS= read -r -d '' file; do told_file "$file"; done \
                        < <(find -L "$found" -type f -print0 | sort -z)
                done < <(compgen -G "$pattern")
            done
        )
    done
}

# As `list_results`; where nothing is left nothing is to come.
list_left_results() { [ ! -d "$1" ] || list_results "$@"; }

# Prints parts of files, a line each.
send_parts() { # where they lie, then path in base64, bytes to skip and bytes to send, each …
    cd "$1" || return 1
    shift
    while [ $# -gt 2 ]; do
        printf '%s\n' "$(tail -c "+$(($2 + 1))" "$(printf %s "$1" | base64 -d)" | head -c "$3" | base64 -w 0)"
        shift 3
    done
}
