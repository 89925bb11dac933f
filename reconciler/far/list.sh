# Lists what is kept of what jobs wrote: a kind, its path, then size and digest, or where a link leads.
list_left() { # where it is kept
    local file
    [ -d "$1" ] && cd "$1" || return 0
    while IFS= read -r -d '' file; do
        if [ -L "$file" ]; then
            printf 'link\t%s\t%s\n' "$(printf %s "${file#./}" | base64 -w 0)" \
                "$(readlink -n "$file" | base64 -w 0)"
        else
            printf 'file\t%s\t%s\t%s\n' "$(printf %s "${file#./}" | base64 -w 0)" \
                "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d ' ' -f 1)"
        fi
    done < <(find . \( -type f -o -type l \) -print0 | sort -z)
}

# Prints files, a line each.
send_left() { # where they are kept, paths in base64 …
    local path
    cd "$1" || return 1
    shift
    for path in "$@"; do
        printf '%s\t%s\n' "$path" "$(base64 -w 0 <"$(printf %s "$path" | base64 -d)")"
    done
}
