# Records the resources that commands used, as counted by the kernel. Bash knows only the CPU time.
# Python also knows the memory of the largest process and the bytes written to disks. Python replaces
# the shell at its end, so it is used only if it has passed a test.
read -r wfctl_python < <(command -v /usr/bin/python3 python3) || wfctl_python=
"${wfctl_python:-false}" -I -S -c 'import resource' 2> /dev/null || wfctl_python=
wfctl_usage_script='import os, resource, sys
try:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = "%scpu_seconds=%.3f peak_memory_bytes=%d written_bytes=%d\n" % (
        sys.argv[3], usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, usage.ru_oublock * 512)
    mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    os.write(os.open(sys.argv[1], mode, 0o666), line.encode())
finally:
    os._exit(int(sys.argv[2]))'

# Records the resources and ends this shell. All child processes must have ended.
wfctl_used() { # file, exit code, start of the line, optional file that may be overwritten
    [ -z "$wfctl_python" ] || exec "$wfctl_python" -I -S -c "$wfctl_usage_script" "$1" "$2" "$3"
    local times=${4:-} user= system=
    [ "$times" ] || times=$(mktemp "$1.XXXXXXXXXXXX")
    { times >| "$times" && { read -r _; read -r user system; } < "$times" &&
        printf '%scpu_seconds=%s+%s\n' "$3" "$user" "$system" >> "$1"; } 2> /dev/null || :
    [ "${4:-}" ] || rm -f "$times"
    exit "$2"
}
