// The kernel calls that Swift's Glibc module does not import, the spawning of a child that must change
// its user (fork is not available to Swift), and checksums for which the processor has instructions.
#ifndef CSYS_H
#define CSYS_H

#include <dirent.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/types.h>

/// renameat2(2) with RENAME_NOREPLACE: 0, or -1 with errno EEXIST when `to` is there already.
int csys_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to);
/// openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS and, when asked, RESOLVE_NO_SYMLINKS: a
/// descriptor that is certainly below `directory`, or -1 with errno (EXDEV when the path leaves it).
int csys_open_beneath(int directory, const char *path, int flags, mode_t mode, int no_symlinks);
/// sync_file_range(2) with the WRITE flag: starts write-back of the range and returns at once.
int csys_start_writeback(int fd, int64_t offset, int64_t length);
/// The name of a directory's entry (readdir(3)), valid as long as the entry.
const char *csys_entry_name(const struct dirent *entry);
/// futex(2): sleeps while `*word` is `expected`, at most `microseconds` (−1: for ever); may return early.
void csys_futex_wait(uint32_t *word, uint32_t expected, int64_t microseconds);
/// futex(2): changes `*word` and wakes one sleeper.
void csys_futex_wake(uint32_t *word);
/// The value of a futex word.
uint32_t csys_futex_load(const uint32_t *word);
/// Names the calling thread (at most 15 bytes), for top, gdb and perf.
void csys_name_thread(const char *name);
/// The magic number of the file system that an open file is on (statfs(2)); -1 with errno.
int64_t csys_file_system_type(int fd);
/// The size of an open file as the kernel knows it, statx(2) with AT_STATX_DONT_SYNC: asks no file server;
/// -1 with errno.
int64_t csys_known_size(int fd);

/// Starts a program with its own session. `uid`/`gid`: the user it runs as, or (uid_t)-1 to keep ours.
/// The child receives `death_signal` when the thread that called this ends (PR_SET_PDEATHSIG), closes
/// every descriptor above 2 and writes its output to `log_fd`. Returns the pid, or -1 with errno.
pid_t csys_spawn(const char *path, char *const arguments[], char *const environment[], uid_t uid, gid_t gid,
                 int death_signal, int log_fd, const char *working_directory);

/// pidfd_open(2): a descriptor that stands for this process and for no later one with its number; -1 with errno.
int csys_pidfd_open(pid_t pid);
/// pidfd_send_signal(2): 0, or -1 with errno (ESRCH: the process has been reaped). Signal 0 sends nothing.
int csys_pidfd_signal(int pidfd, int signal);
/// The directory that a process works in (proc(5), cwd), looked at as the user `uid`/`gid`, or as ourselves with
/// (uid_t)-1: a container's root may not look at the processes of others. Its device and inode, and 0; or -1 with
/// errno (EACCES; ENOENT: the process has ended).
int csys_working_directory(pid_t pid, uid_t uid, gid_t gid, uint64_t *device, uint64_t *inode);

/// CRC-32C (Castagnoli) of what `value` stands for followed by these bytes; 0 stands for nothing. With the
/// processor's instruction where it has one.
uint32_t csys_crc32c(uint32_t value, const void *bytes, size_t count);
/// The same without the instruction.
uint32_t csys_crc32c_portable(uint32_t value, const void *bytes, size_t count);
/// CRC-32 (IEEE 802.3, as in zlib), the same way.
uint32_t csys_crc32(uint32_t value, const void *bytes, size_t count);
/// Adler-32 (RFC 1950), the same way; 1 stands for nothing.
uint32_t csys_adler32(uint32_t value, const void *bytes, size_t count);

#endif
