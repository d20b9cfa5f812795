// Preloaded into the service by FaultTests: the n-th call on a file below FAULTS_ROOT fails. What it does is
// said in the file FAULTS_CONTROL, which the test and the service map.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

struct control {
    // Calls are counted, and may fail, while this is set.
    _Atomic int32_t armed;
    // The call that fails: 1 is the next one.
    _Atomic int32_t countdown;
    // With which errno; 0: it reads or writes less than it was asked for.
    _Atomic int32_t error;
    _Atomic int32_t calls;
    // The call that failed.
    char name[32];
    // If not empty, only calls with this name are counted.
    char only[32];
};

static struct control *control;
static char root[4096];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_CONTROL"), *below = getenv("FAULTS_ROOT");
    if (!path || !below) return;
    strncpy(root, below, sizeof root - 1);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) control = memory;
    syscall(SYS_close, fd);
}

static int is_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long count = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (count <= 0) return 0;
    path[count] = 0;
    return strncmp(path, root, strlen(root)) == 0;
}

// 0: the call is made; −1: it is cut short; else its errno. The file is named by `path`, or by `fd`.
static int fault_of(const char *name, int fd, const char *path, int can_be_short) {
    int before = errno, result = 0;
    if (control && atomic_load(&control->armed) && (!*control->only || strcmp(name, control->only) == 0) &&
        (path ? strncmp(path, root, strlen(root)) == 0 : is_below(fd))) {
        atomic_fetch_add(&control->calls, 1);
        if (atomic_fetch_sub(&control->countdown, 1) == 1) {
            result = atomic_load(&control->error);
            if (result == 0 && can_be_short) result = -1;
            if (result != 0) strncpy(control->name, name, sizeof control->name - 1);
        }
    }
    errno = before;
    return result;
}

static int fault(const char *name, int fd, int can_be_short) {
    return fault_of(name, fd, NULL, can_be_short);
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define FAIL_WITH(name, fd, path, value)                                                                    \
    do {                                                                                                    \
        int code = fault_of(#name, fd, path, 0);                                                            \
        if (code > 0) {                                                                                     \
            errno = code;                                                                                   \
            return value;                                                                                   \
        }                                                                                                   \
    } while (0)
#define FAIL(name, fd) FAIL_WITH(name, fd, NULL, -1)

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    int code = fault("pwrite", fd, count > 1);
    if (code > 0) return errno = code, -1;
    return REAL(ssize_t, pwrite, int, const void *, size_t, off_t)(fd, bytes, code ? count / 2 : count, offset);
}

ssize_t pread(int fd, void *bytes, size_t count, off_t offset) {
    int code = fault("pread", fd, count > 1);
    if (code > 0) return errno = code, -1;
    return REAL(ssize_t, pread, int, void *, size_t, off_t)(fd, bytes, code ? count / 2 : count, offset);
}

int fdatasync(int fd) {
    FAIL(fdatasync, fd);
    return REAL(int, fdatasync, int)(fd);
}

int fsync(int fd) {
    FAIL(fsync, fd);
    return REAL(int, fsync, int)(fd);
}

int ftruncate(int fd, off_t length) {
    FAIL(ftruncate, fd);
    return REAL(int, ftruncate, int, off_t)(fd, length);
}

int flock(int fd, int operation) {
    FAIL(flock, fd);
    return REAL(int, flock, int, int)(fd, operation);
}

int fstat(int fd, struct stat *status) {
    FAIL(fstat, fd);
    return REAL(int, fstat, int, struct stat *)(fd, status);
}

int fstatat(int fd, const char *path, struct stat *status, int flags) {
    FAIL(fstatat, fd);
    return REAL(int, fstatat, int, const char *, struct stat *, int)(fd, path, status, flags);
}

int fstatvfs(int fd, struct statvfs *status) {
    FAIL(fstatvfs, fd);
    return REAL(int, fstatvfs, int, struct statvfs *)(fd, status);
}

int sync_file_range(int fd, off_t offset, off_t count, unsigned flags) {
    FAIL(sync_file_range, fd);
    return REAL(int, sync_file_range, int, off_t, off_t, unsigned)(fd, offset, count, flags);
}

int mkdirat(int fd, const char *path, mode_t mode) {
    FAIL(mkdirat, fd);
    return REAL(int, mkdirat, int, const char *, mode_t)(fd, path, mode);
}

int unlinkat(int fd, const char *path, int flags) {
    FAIL(unlinkat, fd);
    return REAL(int, unlinkat, int, const char *, int)(fd, path, flags);
}

int linkat(int from, const char *old, int to, const char *name, int flags) {
    FAIL(linkat, from);
    return REAL(int, linkat, int, const char *, int, const char *, int)(from, old, to, name, flags);
}

int renameat(int from, const char *old, int to, const char *name) {
    FAIL(renameat, from);
    return REAL(int, renameat, int, const char *, int, const char *)(from, old, to, name);
}

int renameat2(int from, const char *old, int to, const char *name, unsigned flags) {
    FAIL(renameat2, from);
    return REAL(int, renameat2, int, const char *, int, const char *, unsigned)(from, old, to, name, flags);
}

int openat(int fd, const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    FAIL(openat, fd);
    return REAL(int, openat, int, const char *, int, ...)(fd, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    FAIL_WITH(open, -1, path, -1);
    return REAL(int, open, const char *, int, ...)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    FAIL_WITH(mkdir, -1, path, -1);
    return REAL(int, mkdir, const char *, mode_t)(path, mode);
}

int unlink(const char *path) {
    FAIL_WITH(unlink, -1, path, -1);
    return REAL(int, unlink, const char *)(path);
}

int fstatfs(int fd, struct statfs *status) {
    FAIL(fstatfs, fd);
    return REAL(int, fstatfs, int, struct statfs *)(fd, status);
}

DIR *fdopendir(int fd) {
    FAIL_WITH(fdopendir, fd, NULL, NULL);
    return REAL(DIR *, fdopendir, int)(fd);
}

struct dirent *readdir(DIR *directory) {
    FAIL_WITH(readdir, dirfd(directory), NULL, NULL);
    return REAL(struct dirent *, readdir, DIR *)(directory);
}

long syscall(long number, ...) {
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == SYS_openat2) FAIL(openat2, (int)a[0]);
    static _Atomic(void *) real;
    void *next = atomic_load(&real);
    if (!next) atomic_store(&real, next = dlsym(RTLD_NEXT, "syscall"));
    return ((long (*)(long, ...))next)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
