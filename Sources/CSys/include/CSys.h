// Kernel calls that Swift's Glibc module does not import, starting a program as another user (Swift cannot
// call fork), and checksums with processor instructions.
#ifndef CSYS_H
#define CSYS_H

#include <dirent.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/types.h>

/// renameat2(2) with RENAME_NOREPLACE: 0, or -1 with errno (EEXIST if `to` exists).
int csys_rename_noreplace(int from_directory, const char *from, int to_directory, const char *to);
/// openat2(2) with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, and RESOLVE_NO_SYMLINKS if `no_symlinks`. Returns
/// a descriptor of a file below `directory`, owned by the caller, or -1 with errno (EXDEV if the path leaves
/// it).
int csys_open_beneath(int directory, const char *path, int flags, mode_t mode, int no_symlinks);
/// sync_file_range(2) with SYNC_FILE_RANGE_WRITE: starts write-back of the range. 0, or -1 with errno.
int csys_start_writeback(int fd, int64_t offset, int64_t length);
/// openat(2) with O_TMPFILE: returns a descriptor of a new file without a name on the directory's file system,
/// owned by the caller, or -1 with errno (EOPNOTSUPP if it has none, EISDIR or ENOENT on old kernels).
int csys_unnamed_file(int directory, mode_t mode);
/// memfd_create(2): returns a descriptor of an empty file in memory, owned by the caller, or -1 with errno.
int csys_memory_file(void);
/// fallocate(2) with FALLOC_FL_PUNCH_HOLE: gives up the memory or disk space of a range of an open file, which
/// then reads as zeros. 0, or -1 with errno.
int csys_release_memory(int fd, int64_t offset, int64_t length);
/// Returns the name of a directory entry (readdir(3)), valid as long as the entry.
const char *csys_entry_name(const struct dirent *entry);
/// futex(2): sleeps while `*word` is `expected`, at most `microseconds` (-1: no limit). May return early.
void csys_futex_wait(uint32_t *word, uint32_t expected, int64_t microseconds);
/// futex(2): increments `*word` and wakes one sleeping thread.
void csys_futex_wake(uint32_t *word);
/// Returns the value of a futex word.
uint32_t csys_futex_load(const uint32_t *word);
/// Names the calling thread, for top, gdb and perf. At most 15 bytes.
void csys_name_thread(const char *name);
/// Writes the first 256 bytes of `line` to standard error, once, when the process ends by this signal, and then
/// does what the signal did before: runs an earlier handler, or its default action.
void csys_report_crash(int number, const void *line, size_t count);
/// Gives the calling thread a stack for signal handlers unless it has one, so that a handler can also run
/// after an overflow of the thread's stack.
void csys_use_signal_stack(void);
/// Returns the magic number of an open file's file system (statfs(2)), or -1 with errno.
int64_t csys_file_system_type(int fd);
/// Returns the size of an open file from the kernel's cache (statx(2) with AT_STATX_DONT_SYNC), without
/// asking a file server, or -1 with errno.
int64_t csys_known_size(int fd);

/// Starts a program in a new session. `uid`/`gid`: the user it runs as, or (uid_t)-1 for the user of this
/// process. The child receives `death_signal` when the calling thread ends (PR_SET_PDEATHSIG), closes all
/// descriptors above 2 and writes its output to `log_fd`. Returns the child's pid, which the caller must wait
/// for, or -1 with errno.
pid_t csys_spawn(const char *path, char *const arguments[], char *const environment[], uid_t uid, gid_t gid,
                 int death_signal, int log_fd, const char *working_directory);

/// pidfd_open(2): returns a descriptor of this process, and of no later one with its pid, or -1 with errno.
/// Owned by the caller.
int csys_pidfd_open(pid_t pid);
/// pidfd_send_signal(2): 0, or -1 with errno (ESRCH: the process was reaped). Signal 0 only checks.
int csys_pidfd_signal(int pidfd, int signal);
/// Writes device and inode of a process's working directory (proc(5), cwd). Returns 0, or -1 with errno
/// (EACCES; ENOENT: the process has ended). Reads as the user `uid`/`gid`, because root in a container may
/// not read about processes of other users; (uid_t)-1 keeps the user.
int csys_working_directory(pid_t pid, uid_t uid, gid_t gid, uint64_t *device, uint64_t *inode);

/// Returns the CRC-32C (Castagnoli) of the bytes whose checksum is `value`, followed by these; 0 to begin.
/// Uses the processor's instruction if it has one.
uint32_t csys_crc32c(uint32_t value, const void *bytes, size_t count);
/// Like csys_crc32c, without the instruction.
uint32_t csys_crc32c_portable(uint32_t value, const void *bytes, size_t count);
/// Like csys_crc32c, for CRC-32 (IEEE 802.3, as in zlib).
uint32_t csys_crc32(uint32_t value, const void *bytes, size_t count);
/// Like csys_crc32c, for CRC-64/NVME, the checksum CRC64NVME of object stores. Has no instruction.
uint64_t csys_crc64nvme(uint64_t value, const void *bytes, size_t count);
/// Like csys_crc32c, for Adler-32 (RFC 1950); 1 to begin.
uint32_t csys_adler32(uint32_t value, const void *bytes, size_t count);

#endif
