/* Loaded before a program, this writes down every change it makes to the files below
 * POWERLOSS_ROOT, in order, to the file POWERLOSS_RECORD:
 *     kind path-length other-length offset data-length \n path other data
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int record_fd(void) {
    static int fd = -1;
    const char *path = getenv("POWERLOSS_RECORD");
    if (fd < 0 && path)
        fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return fd;
}

static int below_root(const char *path) {
    const char *root = getenv("POWERLOSS_ROOT");
    return root && strncmp(path, root, strlen(root)) == 0;
}

static void record(const char *kind, const char *path, const char *other, long long offset,
                   const void *data, size_t length) {
    char head[256];
    if (!below_root(path)) return;
    int n = snprintf(head, sizeof head, "%s %zu %zu %lld %zu\n", kind, strlen(path),
                     strlen(other), offset, length);
    struct iovec parts[] = {{head, n}, {(void *)path, strlen(path)},
                            {(void *)other, strlen(other)}, {(void *)data, length}};
    if (syscall(SYS_writev, record_fd(), parts, 4) < 0) abort();
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

static const char *absolute(const char *name, char *path) {
    if (name[0] == '/') return name;
    char *here = getcwd(NULL, 0);
    snprintf(path, PATH_MAX, "%s/%s", here ? here : "", name);
    free(here);
    return path;
}

static int opened(int fd, int existed, int flags) {
    char path[PATH_MAX];
    if (fd < 0 || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE) return fd;
    if (!existed) record("create", path_of(fd, path), "", 0, "", 0);
    else if (flags & O_TRUNC) record("truncate", path_of(fd, path), "", 0, "", 0);
    return fd;
}

static int mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); int mode = mode_of(flags, rest); va_end(rest); \
        int existed = syscall(SYS_faccessat, AT_FDCWD, path, F_OK, 0) == 0; \
        return opened(real(path, flags, mode), existed, flags); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); int mode = mode_of(flags, rest); va_end(rest); \
        int existed = syscall(SYS_faccessat, at, path, F_OK, 0) == 0; \
        return opened(real(at, path, flags, mode), existed, flags); \
    }
OPENAT(openat)
OPENAT(openat64)

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t length, off64_t offset) { \
        REAL(ssize_t, #name, int, const void *, size_t, off64_t); \
        char path[PATH_MAX]; \
        ssize_t n = real(fd, data, length, offset); \
        if (n > 0) record("write", path_of(fd, path), "", offset, data, n); \
        return n; \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *data, size_t length) {
    REAL(ssize_t, "write", int, const void *, size_t);
    char path[PATH_MAX];
    ssize_t n = real(fd, data, length);
    if (n > 0) record("write", path_of(fd, path), "", lseek64(fd, 0, SEEK_CUR) - n, data, n);
    return n;
}

#define TRUNCATE(name) \
    int name(int fd, off64_t size) { \
        REAL(int, #name, int, off64_t); \
        char path[PATH_MAX]; \
        int failed = real(fd, size); \
        if (!failed) record("truncate", path_of(fd, path), "", size, "", 0); \
        return failed; \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        char path[PATH_MAX]; \
        int failed = real(fd); \
        if (!failed) record("sync", path_of(fd, path), "", 0, "", 0); \
        return failed; \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *name) {
    REAL(int, "unlink", const char *);
    char path[PATH_MAX];
    int failed = real(name);
    if (!failed) record("unlink", absolute(name, path), "", 0, "", 0);
    return failed;
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    char path[PATH_MAX], other[PATH_MAX];
    int failed = real(from, to);
    if (!failed) record("rename", absolute(from, path), absolute(to, other), 0, "", 0);
    return failed;
}
