/* Moves the wall clock of a process by the seconds in the file that CLOCK_FILE names. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    void *seen = mmap(0, 8, PROT_READ, MAP_SHARED, open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC), 0);
    offset = seen == MAP_FAILED ? 0 : seen;
}

int clock_gettime(clockid_t kind, struct timespec *found)
{
    if (!real)
        begin();
    int code = real(kind, found);
    if (!code && kind == CLOCK_REALTIME && offset)
        found->tv_sec += *offset;
    return code;
}

int gettimeofday(struct timeval *found, void *zone)
{
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return code;
}

time_t time(time_t *found)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
