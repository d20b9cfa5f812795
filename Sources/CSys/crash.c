#define _GNU_SOURCE
#include "CSys.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The line of each signal. Written before its handler is installed, and never changed afterwards. */
static struct report {
    char line[256];
    size_t count;
    struct sigaction before;
} reports[NSIG];

/* Not 0 once a thread has written its line: others may crash meanwhile. */
static volatile int has_reported = 0;

/* Only async-signal-safe calls (signal-safety(7)). */
static void report_crash(int number, siginfo_t *information, void *context) {
    (void)context;
    struct report *report = &reports[number];
    if (__atomic_exchange_n(&has_reported, 1, __ATOMIC_RELAXED) == 0) {
        /* A reader of the log that hangs must not keep the process. */
        struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&log, 1, 1000) == 1) {
            ssize_t written = write(STDERR_FILENO, report->line, report->count);
            (void)written;
        }
    }
    if (information->si_code > 0) {
        sigaction(number, &report->before, NULL);
    } else {
        /* The signal was sent, by kill(2) or abort(3), as si_code tells: no instruction fails again after a handler
           such as Swift's backtracer has returned, so the process would go on. */
        struct sigaction end = {.sa_handler = SIG_DFL};
        sigaction(number, &end, NULL);
    }
    /* The signal is blocked until this handler returns. Then the kernel delivers it with the registers of the
       crash: to the handler that was installed before, or as the default action. */
    pid_t process = getpid();
    pid_t thread = (pid_t)syscall(SYS_gettid);
    if (syscall(SYS_rt_tgsigqueueinfo, process, thread, number, information) != 0)
        syscall(SYS_tgkill, process, thread, number);
}

void csys_report_crash(int number, const void *line, size_t count) {
    struct report *report = &reports[number];
    report->count = count < sizeof report->line ? count : sizeof report->line;
    memcpy(report->line, line, report->count);
    struct sigaction action = {0};
    action.sa_sigaction = report_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, &report->before);
}

void csys_use_signal_stack(void) {
    /* More than the registers of any processor need (getauxval(3), AT_MINSIGSTKSZ). */
    static _Thread_local char bytes[32768];
    stack_t current;
    if (sigaltstack(NULL, &current) != 0 || !(current.ss_flags & SS_DISABLE)) return;
    stack_t own = {.ss_sp = bytes, .ss_size = sizeof bytes};
    sigaltstack(&own, NULL);
}
