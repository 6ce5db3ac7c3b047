/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun, sbatch and salloc: the only place where the plugin speaks by itself.
 *
 * With summary=on srun ends with three lines about its step.  They are another
 * program's (argus report --summary), which gets a few seconds and is then
 * killed; whatever becomes of it, srun's exit status is the job's.
 */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spank/drop.h"
#include "spank/facts.h"
#include "spank/plugin.h"

#ifndef ARGUS_PROGRAM
#define ARGUS_PROGRAM ARGUS_BINDIR "/argus"
#endif
#ifndef ARGUS_SUMMARY_MS
#define ARGUS_SUMMARY_MS 8000
#endif
#define NAP_MS 10
#define KILLED_MS 500

/* Listed by two paths the plugin is loaded twice: only one copy speaks. */
#define SAID "ARGUS_SPANK_SAID"

static char step_dir[1100];

void argus_local_say(const char *line)
{
    slurm_spank_log("%s", line);
}

static uint32_t env_id(const char *name, uint32_t missing)
{
    const char *value = getenv(name);
    size_t n = value ? strspn(value, "0123456789") : 0;

    return n && n < 11 && !value[n] ? (uint32_t)strtoul(value, NULL, 10) : missing;
}

/* What slurmstepd works out of the job's environment, out of the same one. */
static void find_step(spank_t sp)
{
    struct argus_facts *f = calloc(1, sizeof(*f));
    argus_error_t err;

    if (!f)
        return;
    if (spank_get_item(sp, S_JOB_ID, &f->slurm_job) != ESPANK_SUCCESS ||
        spank_get_item(sp, S_JOB_STEPID, &f->slurm_step) != ESPANK_SUCCESS)
        goto out;
    f->array_job = env_id("SLURM_ARRAY_JOB_ID", f->slurm_job);
    f->array_task = env_id("SLURM_ARRAY_TASK_ID", ARGUS_NO_ARRAY);
    f->uid = getuid();
    f->gid = getgid();
    f->node = "srun";
    f->env = (const char *const *)environ;
    argus_facts_names(f);
    if (!argus_facts_complete(f, &argus_plugin.keys, &err))
        snprintf(step_dir, sizeof(step_dir), "%s/step-%s", f->dir, f->step);
out:
    free(f);
}

/* Called once for each component of a heterogeneous job; the first is the leader. */
void argus_local_user_init(spank_t sp)
{
    static bool done;
    const struct argus_keys *keys = &argus_plugin.keys;

    if (done || !argus_keys_is(keys, ARGUS_KEY_SUMMARY, "on") || argus_plugin.request.off ||
        argus_keys_is(&argus_plugin.site, ARGUS_KEY_MODE, "off") ||
        (!argus_plugin.request.given && argus_keys_is(keys, ARGUS_KEY_DEFAULT, "off")))
        return;
    done = true;
    find_step(sp);
}

/* srun has threads: async-signal-safe. */
static _Noreturn void run_program(char *const argv[], pid_t parent)
{
    int null = open("/dev/null", O_RDWR);

    argus_drop_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(0);
    /* Should srun be stopped meanwhile, this ends all the same. */
    alarm(ARGUS_SUMMARY_MS / 1000 + 2);
    if (null < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0)
        _exit(127);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3u, ~0u, 0u);
#endif
    execv(argv[0], argv);
    _exit(127);
}

/* Has it ended within `ms`? */
static bool ended(pid_t pid, long ms)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000000};

    for (;; ms -= NAP_MS) {
        pid_t got = waitpid(pid, NULL, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (ms <= 0)
            return false;
        nanosleep(&nap, NULL);
    }
}

void argus_local_exit(void)
{
    char *argv[] = {(char *)ARGUS_PROGRAM, (char *)"report", (char *)"--summary", step_dir, NULL};
    const char *said = getenv(SAID);
    char me[16];
    pid_t self = getpid(), pid;

    snprintf(me, sizeof(me), "%ld", (long)self);
    if (!step_dir[0] || !argv[0] || (said && !strcmp(said, me)) || access(step_dir, X_OK))
        return;
    setenv(SAID, me, 1);
    pid = fork();
    if (pid == 0)
        run_program(argv, self);
    if (pid > 0 && !ended(pid, ARGUS_SUMMARY_MS)) {
        kill(pid, SIGKILL);
        ended(pid, KILLED_MS);
    }
    step_dir[0] = '\0';
}
