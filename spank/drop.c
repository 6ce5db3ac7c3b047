/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spank/drop.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/*
 * The C library's set*id functions reach for every thread of the process and
 * may take locks; a child of fork has one thread, the bare calls do.
 */
static int set_ids(const struct argus_identity *id)
{
    if (geteuid() != 0 && syscall(SYS_setresuid, -1, 0, -1))
        return errno;
    if (syscall(SYS_setgroups, id->ngroups, id->groups) ||
        syscall(SYS_setresgid, id->gid, id->gid, id->gid) ||
        syscall(SYS_setresuid, id->uid, id->uid, id->uid))
        return errno;
    return 0;
}

static int check_ids(const struct argus_identity *id)
{
    uid_t ruid, euid, suid;
    gid_t rgid, egid, sgid;

    if (getresuid(&ruid, &euid, &suid) || getresgid(&rgid, &egid, &sgid))
        return errno;
    if (ruid != id->uid || euid != id->uid || suid != id->uid || rgid != id->gid ||
        egid != id->gid || sgid != id->gid)
        return EPERM;
    if (id->uid != 0 && (!syscall(SYS_setresuid, -1, 0, -1) || !syscall(SYS_setuid, 0)))
        return EPERM;
    return 0;
}

int argus_drop_become(const struct argus_identity *id)
{
    uid_t ruid, euid, suid;
    int rc = 0;

#ifdef PR_CAP_AMBIENT
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
#endif
    /* An unprivileged slurmd runs the jobs of its own user only. */
    if (getresuid(&ruid, &euid, &suid))
        return errno;
    if (ruid == 0 || euid == 0 || suid == 0)
        rc = set_ids(id);
    if (!rc)
        rc = check_ids(id);
    if (!rc && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        rc = errno;
    return rc;
}

void argus_drop_signals(void)
{
    struct sigaction sa;
    sigset_t none;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = SIG_DFL;
    for (int sig = 1; sig < NSIG; sig++)
        sigaction(sig, &sa, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

struct entry {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* Kernels before 5.9: what /proc names, else everything up to a bound. */
static void close_listed(int keep)
{
    _Alignas(struct entry) char buffer[4096];
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long bound = sysconf(_SC_OPEN_MAX);
    long n;

    if (dir < 0) {
        if (bound < 0 || bound > 65536)
            bound = 65536;
        for (int fd = 3; fd < bound; fd++) {
            if (fd != keep)
                close(fd);
        }
        return;
    }
    /* Closing while reading may make the kernel skip entries: repeat until none is left. */
    for (int closed = 1; closed;) {
        closed = 0;
        lseek(dir, 0, SEEK_SET);
        while ((n = syscall(SYS_getdents64, dir, buffer, sizeof(buffer))) > 0) {
            for (long at = 0; at < n;) {
                const struct entry *e = (const struct entry *)(buffer + at);
                int fd = 0;

                for (const char *p = e->name; *p >= '0' && *p <= '9'; p++)
                    fd = fd * 10 + (*p - '0');
                if (fd > 2 && fd != keep && fd != dir)
                    closed |= !close(fd);
                at += e->reclen;
            }
        }
    }
    close(dir);
}

int argus_drop_files(int keep)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0)
        return errno;
    for (int fd = 0; fd < 3; fd++) {
        if (null != fd && dup2(null, fd) < 0)
            return errno;
    }
    if (keep < 0) {
        if (syscall(SYS_close_range, 3U, ~0U, 0))
            close_listed(-1);
    } else if ((keep > 3 && syscall(SYS_close_range, 3U, (unsigned)keep - 1, 0)) ||
               syscall(SYS_close_range, (unsigned)keep + 1, ~0U, 0)) {
        close_listed(keep);
    }
    return 0;
}
