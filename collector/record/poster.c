/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <argus/step.h>

#include "collector/record/poster.h"

#define PROGRAM ARGUS_BINDIR "/argus"
#define WAIT_MS 1000
#define NAP_MS 10

/* Async-signal-safe: the recorder may have threads. */
static _Noreturn void run_program(char *const argv[], pid_t parent)
{
    struct sigaction sa = {.sa_handler = SIG_DFL};
    int null = open("/dev/null", O_RDWR);
    sigset_t none;

    sigaction(SIGPIPE, &sa, NULL);
    sigaction(SIGHUP, &sa, NULL);
    /* Slurm sends what is meant for a step (scancel -s TERM) to its whole tree of processes, and
     * the step may go on: it stays ignored there. */
    sa.sa_handler = SIG_IGN;
    sigaction(SIGTERM, &sa, NULL);
    sigaction(SIGINT, &sa, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, ARGUS_POST_OVER);
    if (getppid() != parent)
        _exit(0);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(127);
    /* The CPUs are the training's. */
    setpriority(PRIO_PROCESS, 0, 10);
    execv(PROGRAM, argv);
    _exit(127);
}

pid_t argus_poster_start(const char *step_dir)
{
    char *argv[] = {(char *)"argus", (char *)"top", (char *)"--post", (char *)step_dir, NULL};
    pid_t self = getpid(), pid = fork();

    if (pid == 0)
        run_program(argv, self);
    return pid > 0 ? pid : 0;
}

/* The number stays its own until it is waited for. */
void argus_poster_tell(pid_t pid)
{
    if (pid > 0)
        kill(pid, ARGUS_POST_OVER);
}

void argus_poster_wait(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000000};

    for (int ms = 0; pid > 0 && ms < WAIT_MS; ms += NAP_MS) {
        pid_t got = waitpid(pid, NULL, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return;
        nanosleep(&nap, NULL);
    }
}
