/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: makes a process one that cannot be killed, as a dead file system
 * does.  It is killed while this program traces it: until this program ends,
 * nobody can wait for it.  "held" on stdout says that it is so.
 */
#include <config.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Should the test forget it. */
#define HOLD_MAX_S 600

/* May we?  A child stands for a process of another user. */
static int check(void)
{
    int ready[2], rc;
    char byte = 0;
    pid_t pid;

    if (pipe(ready) < 0 || (pid = fork()) < 0)
        return 1;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    rc = ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return rc;
}

int main(int argc, char **argv)
{
    pid_t pid = argc == 2 ? (pid_t)atoi(argv[1]) : 0;

    if (argc == 2 && !strcmp(argv[1], "--check"))
        return check();
    if (pid <= 1) {
        fputs("usage: hold_process PID|--check\n", stderr);
        return 2;
    }
    alarm(HOLD_MAX_S);
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || kill(pid, SIGKILL) < 0) {
        fprintf(stderr, "hold_process: %ld: %s\n", (long)pid, strerror(errno));
        return 1;
    }
    puts("held");
    fflush(stdout);
    for (;;)
        pause();
}
