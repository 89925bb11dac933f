/* Set the clock back by two hours for the processes of one game.

   The dynamic linker loads this library through LD_PRELOAD. FAULT_CLOCK names a file of 8 bytes with
   the time at which the clock goes back, in seconds since 1970, or 0 before that. From this time on,
   the clock and the times of files that are written later are two hours less. The monotonic clock
   and the times of older files stay the same, as after a real change of the clock. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STEP 7200
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static volatile int64_t *change;

__attribute__((constructor)) static void read_change(void) {
  const char *path = getenv("FAULT_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (page != MAP_FAILED) change = page;
}

static int has_changed(void) { return change && *change; }
static time_t shift(time_t written) {
  return has_changed() && written > *change ? written - STEP : written;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = NEXT(clock_gettime)(clock, now);
  int is_real = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!code && is_real && has_changed()) now->tv_sec -= STEP;
  return code;
}

int gettimeofday(struct timeval *now, void *zone) {
  int code = NEXT(gettimeofday)(now, zone);
  if (!code && has_changed()) now->tv_sec -= STEP;
  return code;
}

time_t time(time_t *place) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (place) *place = now.tv_sec;
  return now.tv_sec;
}

#define SHIFT(status) \
  if (!code) { \
    status->st_mtim.tv_sec = shift(status->st_mtim.tv_sec); \
    status->st_ctim.tv_sec = shift(status->st_ctim.tv_sec); \
    status->st_atim.tv_sec = shift(status->st_atim.tv_sec); \
  } \
  return code;
#define STAT(name, type) \
  int name(const char *path, struct type *status) { \
    int code = NEXT(name)(path, status); \
    SHIFT(status) \
  }
#define FSTAT(name, type) \
  int name(int file, struct type *status) { \
    int code = NEXT(name)(file, status); \
    SHIFT(status) \
  }
#define FSTATAT(name, type) \
  int name(int folder, const char *path, struct type *status, int flags) { \
    int code = NEXT(name)(folder, path, status, flags); \
    SHIFT(status) \
  }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)
FSTATAT(fstatat, stat)
FSTATAT(fstatat64, stat64)

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *status) {
  int code = NEXT(statx)(folder, path, flags, mask, status);
  if (code) return code;
  status->stx_mtime.tv_sec = shift(status->stx_mtime.tv_sec);
  status->stx_ctime.tv_sec = shift(status->stx_ctime.tv_sec);
  status->stx_btime.tv_sec = shift(status->stx_btime.tv_sec);
  return 0;
}
