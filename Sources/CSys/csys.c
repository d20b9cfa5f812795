#define _GNU_SOURCE
#include "CSys.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

int csys_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to) {
    return renameat2(from_directory, from, to_directory, to, RENAME_NOREPLACE);
}

int csys_open_beneath(int directory, const char *path, int flags, mode_t mode, int no_symlinks) {
    struct open_how how = {0};
    how.flags = (uint64_t)flags;
    how.mode = (flags & O_CREAT) ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (no_symlinks ? RESOLVE_NO_SYMLINKS : 0);
    long opened;
    int tries = 100;
    /* EAGAIN: a directory was renamed while the kernel followed a "..". */
    do opened = syscall(SYS_openat2, directory, path, &how, sizeof how);
    while (opened < 0 && errno == EAGAIN && --tries > 0);
    return (int)opened;
}

int csys_start_writeback(int fd, int64_t offset, int64_t length) {
    return sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE);
}

int csys_unnamed_file(int directory, mode_t mode) {
    return openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

int csys_memory_file(void) {
    return memfd_create("ferry-copy", MFD_CLOEXEC);
}

int csys_release_memory(int fd, int64_t offset, int64_t length) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
}

const char *csys_entry_name(const struct dirent *entry) {
    return entry->d_name;
}

void csys_futex_wait(uint32_t *word, uint32_t expected, int64_t microseconds) {
    struct timespec limit = {.tv_sec = microseconds / 1000000, .tv_nsec = (long)(microseconds % 1000000) * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, microseconds < 0 ? NULL : &limit, NULL, 0);
}

void csys_futex_wake(uint32_t *word) {
    __atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

uint32_t csys_futex_load(const uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void csys_name_thread(const char *name) {
    pthread_setname_np(pthread_self(), name);
}

int64_t csys_file_system_type(int fd) {
    struct statfs information;
    return fstatfs(fd, &information) == 0 ? (int64_t)information.f_type : -1;
}

int64_t csys_known_size(int fd) {
    struct statx information;
    int code = statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &information);
    return code == 0 ? (int64_t)information.stx_size : -1;
}

int csys_pidfd_open(pid_t pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0U);
}

int csys_pidfd_signal(int pidfd, int signal) {
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0U);
}

int csys_working_directory(pid_t pid, uid_t uid, gid_t gid, uint64_t *device, uint64_t *inode) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%ld/cwd", (long)pid);
    int is_own = uid == (uid_t)-1, old_gid = 0, old_uid = 0;
    if (!is_own) {
        // Affects only this thread (setfsuid(2)). The kernel compares these IDs with the process's
        // (ptrace(2)).
        old_gid = setfsgid(gid);
        old_uid = setfsuid(uid);
    }
    struct stat directory;
    int result = stat(path, &directory), code = errno;
    if (!is_own) {
        setfsuid((uid_t)old_uid);
        setfsgid((gid_t)old_gid);
    }
    if (result == 0) {
        *device = directory.st_dev;
        *inode = directory.st_ino;
    }
    errno = code;
    return result;
}

// Sets up the child between fork and exec, so only async-signal-safe calls. Exits with 127 on any failure, so
// that the parent's readiness check finds that the child has ended.
static void become(uid_t uid, gid_t gid, int death_signal, pid_t parent, int log_fd, const char *directory) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    setsid();
    if (uid != (uid_t)-1 && (setgroups(0, NULL) != 0 || setgid(gid) != 0 || setuid(uid) != 0)) _exit(127);
    // After setuid, because a change of credentials clears the death signal (prctl(2)).
    if (death_signal && prctl(PR_SET_PDEATHSIG, death_signal) != 0) _exit(127);
    if (getppid() != parent) _exit(127);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0) _exit(127);
    if (log_fd >= 0 && (dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0)) _exit(127);
    if (directory && chdir(directory) != 0) _exit(127);
    syscall(SYS_close_range, 3U, ~0U, 0U);
}

pid_t csys_spawn(const char *path, char *const arguments[], char *const environment[], uid_t uid, gid_t gid,
                 int death_signal, int log_fd, const char *working_directory) {
    pid_t parent = getpid();
    pid_t child = fork();
    if (child != 0) return child;
    become(uid, gid, death_signal, parent, log_fd, working_directory);
    execve(path, arguments, environment);
    _exit(127);
}
