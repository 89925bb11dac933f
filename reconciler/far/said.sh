# Prints the new output of the jobs. Each line is one file: its number, the bytes read so far, and the
# new content in base64. The last line contains the number of started jobs and the number of ended
# jobs. The jobs are counted before the files are read, so that the output of an ended job is complete.
said() { # scratch folder, maximum lines or nothing; then for each file: path, bytes already read …
    local scratch=$1 lines=$2 number=0 start_count end_count file size
    start_count=$(count "$scratch"/job-*.started) end_count=$(count "$scratch"/job-*.exit)
    shift 2
    while [ $# -gt 1 ]; do
        for file in "$scratch"/*/"$1" "$scratch/left/$1"; do
            [ -f "$file" ] || continue
            size=$(stat -c %s "$file")
            [ "$size" -le "$(($2 + max_bytes))" ] || [ -n "$lines" ] || size=$(($2 + max_bytes))
            printf '%s\t%s\t%s\n' "$number" "$size" "$(print_part "$file" "$2" "$size" "$lines" | base64 -w 0)"
            break
        done
        number=$((number + 1))
        shift 2
    done
    printf '%s\t%s\n' "$start_count" "$end_count"
}

# Maximum number of bytes that one call prints of each file.
max_bytes=16000000

print_part() { # file, offset, end, maximum number of lines or nothing
    if [ -n "$4" ]; then
        head -c "$3" "$1" | tail -n "$4"
    else
        tail -c "+$(($2 + 1))" "$1" | head -c "$(($3 - $2))"
    fi
}

count() { # paths; prints the number of paths that exist
    local name n=0
    for name in "$@"; do [ -e "$name" ] && n=$((n + 1)); done
    echo "$n"
}
