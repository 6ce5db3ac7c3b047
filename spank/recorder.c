/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank/recorder.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define START_MS 2000
#define KILL_MS 500
#define STATUS_FD_MIN 10
#define DIR_MS 100
#define CHECK_MS 1000 /* before a script begins */

/* What the child tells through the status pipe, before its exec closes it. */
enum stage {
    STAGE_PID, /* value: the recorder's process id, told by the guard */
    STAGE_FILES,
    STAGE_IDENTITY,
    STAGE_FORK,
    STAGE_DIR, /* looks at the step's directory; with a value: that cannot be written */
    STAGE_EXEC,
};

struct status {
    int32_t stage;
    int32_t value;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static int pidfd_open_(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    /* The kernel sets close-on-exec by itself. */
    return fd;
}

/* Field 22 of /proc/PID/stat; 0 when the process is gone. */
static unsigned long long birth_of(pid_t pid)
{
    char path[40], text[1024];
    const char *p;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    /* The second field is the name, in parentheses, and may hold anything. */
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* --- In the child: async-signal-safe from here ------------------------- */

/* Has it been told? */
static bool report(int fd, enum stage stage, int value)
{
    struct status s = {.stage = stage, .value = value};

    return write(fd, &s, sizeof(s)) == (ssize_t)sizeof(s);
}

static _Noreturn void fail(int fd, enum stage stage, int error)
{
    report(fd, stage, error);
    _exit(127);
}

/* slurmstepd protects itself from the OOM killer and may allow core files. */
static void ordinary_process(mode_t mask)
{
    struct rlimit none = {0, 0};
    int fd;

    if (getuid() == 0 && geteuid() != 0)
        syscall(SYS_setresuid, -1, 0, -1);
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t rc = write(fd, "0", 1);

        (void)rc;
        close(fd);
    }
    setrlimit(RLIMIT_CORE, &none);
    umask(mask);
    setsid();
}

/* May the user make `dir`, or write in it?  0, or why not.
 * Nothing is made: the recorder does it. */
static int check_dir(const char *dir)
{
    char path[PATH_MAX];
    size_t n = strlen(dir);
    struct stat st;

    if (n >= sizeof(path))
        return ENAMETOOLONG;
    memcpy(path, dir, n + 1);
    /* The deepest part of it that is there. */
    while (stat(path, &st)) {
        if (errno != ENOENT)
            return errno;
        while (n > 0 && path[n] != '/')
            n--;
        if (!n)
            return access("/", W_OK | X_OK) ? errno : 0;
        path[n--] = '\0';
    }
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    return access(path, W_OK | X_OK) ? errno : 0;
}

static _Noreturn void run_program(const struct argus_recorder_start *start, pid_t parent, int fd)
{
    char *const argv[] = {(char *)"argus-record", (char *)start->spool, NULL};
    char *envp[] = {(char *)"PATH=/usr/bin:/bin", (char *)"LC_ALL=C", NULL, NULL};
    int rc = argus_drop_become(start->id);
    sigset_t term;

    if (rc)
        fail(fd, STAGE_IDENTITY, rc);
    /* A step may be over before the program is ready to be told: it unblocks this itself. */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    /* Changing ids cleared it; the parent may have died before it was set. */
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    if (getppid() != parent)
        _exit(0);
    if (chdir("/"))
        fail(fd, STAGE_FILES, errno);
    /* Which cluster: for scontrol, with live=on.  slurmd's own variable. */
    for (char **e = environ; *e && !envp[2]; e++) {
        if (!strncmp(*e, "SLURM_CONF=", 11))
            envp[2] = *e;
    }
    if (start->dir) {
        /* Nobody listens any more when the file system was slow to answer:
         * the recorder will see. */
        signal(SIGPIPE, SIG_IGN);
        report(fd, STAGE_DIR, 0);
        rc = check_dir(start->dir);
        if (rc && report(fd, STAGE_DIR, rc))
            _exit(127);
        signal(SIGPIPE, SIG_DFL);
    }
    execve(start->program, argv, envp);
    fail(fd, STAGE_EXEC, errno);
}

static bool alive(pid_t pid)
{
    return !kill(pid, 0) || errno == EPERM;
}

/* Ends, and with it the recorder, when slurmstepd or the recorder does. */
static _Noreturn void run_guard(const struct argus_recorder_start *start, int fd)
{
    pid_t self = getpid(), pid = fork();
    struct pollfd polls[2];
    int rc;

    if (pid < 0)
        fail(fd, STAGE_FORK, errno);
    if (pid == 0)
        run_program(start, self, fd);
    report(fd, STAGE_PID, pid);
    close(fd);
    rc = argus_drop_become(start->id);
    if (rc || chdir("/"))
        _exit(127);
    polls[0] = (struct pollfd){.fd = pidfd_open_(start->stepd), .events = POLLIN};
    polls[1] = (struct pollfd){.fd = pidfd_open_(pid), .events = POLLIN};
    if (polls[0].fd >= 0 && polls[1].fd >= 0) {
        while (poll(polls, 2, -1) < 0 && errno == EINTR)
            continue;
        _exit(0);
    }
    while (alive(start->stepd) && waitpid(pid, NULL, WNOHANG) == 0)
        nap(200);
    _exit(0);
}

static _Noreturn void child(const struct argus_recorder_start *start, pid_t parent, int fd)
{
    int rc;

    argus_drop_signals();
    rc = argus_drop_files(fd);
    if (rc)
        fail(fd, STAGE_FILES, rc);
    ordinary_process(start->mask);
    if (parent != start->stepd)
        run_guard(start, fd);
    run_program(start, parent, fd);
}

/* --- In slurmstepd ------------------------------------------------------ */

static bool same_process(const struct argus_recorder *rec)
{
    return rec->birth && birth_of(rec->pid) == rec->birth;
}

/*
 * True when it has ended within `ms`, reaped if it was ours to reap.  Never
 * a blocking wait: a process stuck in a dead file system does not even die.
 */
static bool ended(const struct argus_recorder *rec, long ms, int *status)
{
    int64_t deadline = now_ms() + ms;

    for (;;) {
        int64_t left = deadline - now_ms();
        pid_t rc = waitpid(rec->pid, status, WNOHANG);

        if (rc == rec->pid)
            return true;
        if (rec->pidfd >= 0) {
            struct pollfd p = {.fd = rec->pidfd, .events = POLLIN};

            if (poll(&p, 1, left > 0 ? (int)left : 0) == 1) {
                waitpid(rec->pid, status, WNOHANG);
                return true;
            }
        } else if (rc < 0 && !same_process(rec)) {
            return true;
        } else if (left > 0) {
            nap(5);
        }
        if (left <= 0)
            return false;
    }
}

/* Queued: so the recorder tells our word from a signal that was sent to the whole step. */
static void signal_to(const struct argus_recorder *rec, int sig)
{
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    info.si_signo = sig;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (rec->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, rec->pidfd, sig, &info, 0);
    else if (same_process(rec))
        sigqueue(rec->pid, sig, info.si_value);
}

static int start_error(const struct argus_recorder_start *start, const struct status *s,
                       argus_error_t *err)
{
    static const char *const doing[] = {[STAGE_FILES] = "closing files",
                                        [STAGE_IDENTITY] = "becoming the user",
                                        [STAGE_FORK] = "fork",
                                        [STAGE_EXEC] = "starting it"};

    if (s->stage == STAGE_DIR)
        return argus_error(err, "cannot write %s: %s", start->dir, strerror(s->value));
    return argus_error(err, "%s: %s: %s", start->program, doing[s->stage], strerror(s->value));
}

/* Reads until the exec closes the pipe.  0, or -1 with the reason. */
static int read_status(int fd, struct argus_recorder *rec, const struct argus_recorder_start *start,
                       argus_error_t *err)
{
    int64_t deadline = now_ms() + START_MS;
    bool at_dir = false;
    struct status s;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - now_ms();
        ssize_t n;

        /* The recorder hangs where the data are to go, as it may at any time later. */
        if (left < 0 && at_dir)
            return 0;
        if (left < 0)
            return argus_error(err, "%s: did not start within %d ms", start->program, START_MS);
        if (poll(&p, 1, (int)left) != 1)
            continue;
        n = read(fd, &s, sizeof(s));
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return 0;
        if (n != (ssize_t)sizeof(s) || s.stage < STAGE_PID || s.stage > STAGE_EXEC)
            return argus_error(err, "%s: no word from its process", start->program);
        if (s.stage == STAGE_PID) {
            rec->pid = s.value;
        } else if (s.stage == STAGE_DIR && !s.value) {
            at_dir = true;
            deadline = now_ms() + DIR_MS;
        } else {
            return start_error(start, &s, err);
        }
    }
}

int argus_recorder_start(struct argus_recorder *rec, const struct argus_recorder_start *start,
                         argus_error_t *err)
{
    pid_t self = getpid(), pid;
    int pipe_fd[2], write_fd, rc;

    rec->pid = 0;
    rec->pidfd = -1;
    if (pipe2(pipe_fd, O_CLOEXEC))
        return argus_error(err, "%s: pipe: %s", start->program, strerror(errno));
    /* Out of the way of 0, 1 and 2, which the child replaces. */
    write_fd = fcntl(pipe_fd[1], F_DUPFD_CLOEXEC, STATUS_FD_MIN);
    close(pipe_fd[1]);
    if (write_fd < 0) {
        rc = argus_error(err, "%s: %s", start->program, strerror(errno));
        goto out;
    }
    pid = fork();
    if (pid == 0)
        child(start, self, write_fd);
    if (pid < 0) {
        rc = argus_error(err, "%s: fork: %s", start->program, strerror(errno));
        close(write_fd);
        goto out;
    }
    rec->pid = pid;
    /* Now, before slurmstepd's own wait could reap it and free its number. */
    rec->pidfd = self == start->stepd ? pidfd_open_(pid) : -1;
    close(write_fd);
    rc = read_status(pipe_fd[0], rec, start, err);
    if (rc) {
        rec->pid = pid;
        kill(pid, SIGKILL);
        ended(rec, KILL_MS, NULL);
        if (rec->pidfd >= 0)
            close(rec->pidfd);
        rec->pid = 0;
        rec->pidfd = -1;
        goto out;
    }
    rec->birth = birth_of(rec->pid);
out:
    close(pipe_fd[0]);
    return rc;
}

int argus_recorder_stop(struct argus_recorder *rec, long wait_ms)
{
    int rc = 0;

    if (rec->pid <= 0)
        return 0;
    /* A hook in a clone of slurmstepd leaves no descriptor behind. */
    if (rec->pidfd < 0) {
        rec->pidfd = pidfd_open_(rec->pid);
        if (rec->pidfd >= 0 && !same_process(rec)) {
            close(rec->pidfd);
            rec->pidfd = -1;
        }
    }
    signal_to(rec, SIGTERM);
    if (!ended(rec, wait_ms, NULL)) {
        rc = -1;
        signal_to(rec, SIGKILL);
        ended(rec, KILL_MS, NULL);
    }
    if (rec->pidfd >= 0)
        close(rec->pidfd);
    rec->pid = 0;
    rec->pidfd = -1;
    return rc;
}

static _Noreturn void user_child(const struct argus_identity *id, const char *spool,
                                 int (*work)(int dirfd))
{
    int dir;

    argus_drop_signals();
    if (argus_drop_files(-1) || argus_drop_become(id))
        _exit(127);
    /* Nobody waits longer than a second or two. */
    alarm(5);
    dir = open(spool, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _exit(dir < 0 ? 127 : work(dir));
}

int argus_recorder_as_user(const struct argus_identity *id, const char *spool,
                           int (*work)(int dirfd), long wait_ms)
{
    struct argus_recorder rec = {.pid = fork(), .pidfd = -1};
    int status = -1;

    if (rec.pid == 0)
        user_child(id, spool, work);
    if (rec.pid < 0)
        return -1;
    rec.pidfd = pidfd_open_(rec.pid);
    rec.birth = birth_of(rec.pid);
    if (!ended(&rec, wait_ms, &status)) {
        signal_to(&rec, SIGKILL);
        ended(&rec, KILL_MS, &status);
    }
    if (rec.pidfd >= 0)
        close(rec.pidfd);
    return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

static const char *dir_to_check;

static int check_work(int dirfd)
{
    (void)dirfd;
    return check_dir(dir_to_check);
}

int argus_recorder_check_dir(const struct argus_identity *id, const char *spool, const char *dir)
{
    int rc;

    dir_to_check = dir;
    rc = argus_recorder_as_user(id, spool, check_work, CHECK_MS);
    dir_to_check = NULL;
    return rc > 0 ? rc : 0;
}
