/* Count the file events of one process, and kill this process before a given event.

   A file event creates, opens for writing, renames, links or removes a file or a folder. The dynamic
   linker loads this library through LD_PRELOAD. It acts only in the process whose id is in
   FAULT_DRIVER, not in its children. FAULT_EVENTS names a file of 4 bytes with the number of events.
   FAULT_KILL_AT is the number of the event before which the process is killed; 0 kills nothing. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static _Atomic int *events;
static int kill_at;
static pid_t driver;

__attribute__((constructor)) static void start_counting(void) {
  const char *process = getenv("FAULT_DRIVER"), *path = getenv("FAULT_EVENTS");
  if (!process || !path || atoi(process) != getpid()) return;
  int file = open(path, O_RDWR);
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (page == MAP_FAILED) return;
  kill_at = getenv("FAULT_KILL_AT") ? atoi(getenv("FAULT_KILL_AT")) : 0;
  driver = getpid();
  events = page;
}

/* Count an event, except for devices and compiled Python files, which differ between runs. */
static void count(const char *path) {
  if (!events || getpid() != driver) return;
  if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) || strstr(path, "__pycache__"))
    return;
  if (atomic_fetch_add(events, 1) + 1 == kill_at) kill(driver, SIGKILL);
}

static void count_open(const char *path, int flags) {
  if (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) count(path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define READ_MODE mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) { \
  va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }

#define OPEN(name) int name(const char *path, int flags, ...) { \
  READ_MODE count_open(path, flags); return NEXT(name)(path, flags, mode); }
#define OPENAT(name) int name(int folder, const char *path, int flags, ...) { \
  READ_MODE count_open(path, flags); return NEXT(name)(folder, path, flags, mode); }
#define FOPEN(name) FILE *name(const char *path, const char *mode) { \
  if (strpbrk(mode, "wa+")) { count(path); } return NEXT(name)(path, mode); }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
FOPEN(fopen)
FOPEN(fopen64)

#define ONE_PATH(name) int name(const char *path) { count(path); return NEXT(name)(path); }
#define TWO_PATHS(name) int name(const char *old, const char *new) { \
  count(new); return NEXT(name)(old, new); }
ONE_PATH(unlink)
ONE_PATH(rmdir)
TWO_PATHS(rename)
TWO_PATHS(link)
TWO_PATHS(symlink)

int mkdir(const char *path, mode_t mode) { count(path); return NEXT(mkdir)(path, mode); }
int unlinkat(int folder, const char *path, int flags) {
  count(path);
  return NEXT(unlinkat)(folder, path, flags);
}
int renameat(int from, const char *old, int to, const char *new) {
  count(new);
  return NEXT(renameat)(from, old, to, new);
}
int linkat(int from, const char *old, int to, const char *new, int flags) {
  count(new);
  return NEXT(linkat)(from, old, to, new, flags);
}
