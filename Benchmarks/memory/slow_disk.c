// Preloaded into the service by memory.py: all writes to files together get SLOW_DISK bytes a second.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds_per_byte;
static double free_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *rate = getenv("SLOW_DISK");
    if (rate && atof(rate) > 0) seconds_per_byte = 1 / atof(rate);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    pthread_mutex_lock(&lock);
    double begin = now();
    if (free_at < begin) free_at = begin;
    free_at += (double)count * seconds_per_byte;
    double wait = free_at - begin;
    pthread_mutex_unlock(&lock);
    struct timespec pause = {.tv_sec = (time_t)wait, .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
    nanosleep(&pause, NULL);
    return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(fd, bytes, count, offset);
}
