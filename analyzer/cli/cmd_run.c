/* SPDX-License-Identifier: Apache-2.0 */
/* `argus run`: the chain of srun --argus without Slurm.  Starts N ranks of a
 * command with the environment that the plugin would set, one recorder a node
 * (played, with --ranks-per-node), waits, analyzes and reports. */
#include <config.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/cli/run.h"

#define RANKS_MAX 4096
#define RECORDER_DIED (-1)
#define DRAIN_S 10
#define CANNOT_START 127

#define N_SIGNALS 4

static const int passed_on_signals[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static volatile sig_atomic_t interrupted;     /* by any of them, ever */
static volatile sig_atomic_t came[N_SIGNALS]; /* and is not passed on yet */

static void on_signal(int sig)
{
    interrupted = 1;
    for (int i = 0; i < N_SIGNALS; i++) {
        if (passed_on_signals[i] == sig)
            came[i] = 1;
    }
}

/* Only for it to end a wait. */
static void on_child(int sig)
{
    (void)sig;
}

static void usage(FILE *out)
{
    fputs("Usage: argus run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
          "Runs COMMAND under argus without Slurm and reports what made it slow.\n\n"
          "  -n, --ranks N            processes to start (default 1)\n"
          "  -d, --dir DIR            where the data goes (default argus/<pid>)\n"
          "  -r, --ranks-per-node K   play several nodes, K ranks each: node0, node1, ...\n"
          "  -m, --mode MODE          summary (default), full or off\n"
          "  -o, --option KEY=VALUE   sources, links, window, keep_mb, ring_mb, info, warn,\n"
          "                           critical, floor_ms or min_steps, as in plugstack.conf\n"
          "      --no-report          record only\n"
          "  -q, --quiet              no report on the terminal\n"
          "  -h, --help               this text\n\n"
          "Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun\n"
          "gives them; the last two unless they are set.  The exit status is the command's: the\n"
          "first that is not 0, or 128 + the signal that ended a rank.\n",
          out);
}

/* ---- processes ---------------------------------------------------------- */

/* What the caller ignores (nohup) stays ignored, here and in the ranks. */
static void set_signals(void (*from)(int), void (*to)(int))
{
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction sa;

        if (sigaction(passed_on_signals[i], NULL, &sa) < 0 || sa.sa_handler != from)
            continue;
        sa = (struct sigaction){.sa_handler = to};
        sigemptyset(&sa.sa_mask);
        sigaction(passed_on_signals[i], &sa, NULL);
    }
}

static void restore_signals(void)
{
    set_signals(on_signal, SIG_DFL);
}

static pid_t start_recorder(const struct launch *l, int node, int drain)
{
    char path[128];
    sigset_t term, before;
    pid_t pid;

    argus_run_node_spool(l, node, path, sizeof(path));
    /* Blocked in it until it can be told: the ranks may be done before. */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    pid = fork();
    if (pid == 0) {
        restore_signals();
        setsid(); /* the terminal's interrupt is for the ranks */
        if (drain)
            execl(l->recorder, "argus-record", "--drain", path, (char *)NULL);
        else
            execl(l->recorder, "argus-record", path, (char *)NULL);
        argus_cli_error("run", "%s: %s", l->recorder, strerror(errno));
        _exit(CANNOT_START);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        argus_cli_error("run", "cannot start a recorder: %s", strerror(errno));
    return pid;
}

static int start_recorders(struct launch *l)
{
    for (int node = 0; node < l->nodes; node++) {
        l->recorders[node] = start_recorder(l, node, 0);
        if (l->recorders[node] < 0)
            return -1;
    }
    return 0;
}

/* Where a recorder died, another one takes what is left in the rings. */
static void finish_for_the_dead(struct launch *l)
{
    for (int node = 0; node < l->nodes; node++) {
        if (l->recorders[node] == RECORDER_DIED)
            l->recorders[node] = start_recorder(l, node, 1);
    }
}

static _Noreturn void become_rank(const struct launch *l, int rank, int told)
{
    ssize_t n;
    int e;

    restore_signals();
    if (!l->off)
        argus_run_set_environment(l, rank);
    execvp(l->command[0], l->command);
    e = errno;
    n = write(told, &e, sizeof(e));
    _exit(n == sizeof(e) ? CANNOT_START : ARGUS_EXIT_ERROR);
}

/* 0 once the command runs, else why it does not. */
static int start_rank(struct launch *l)
{
    int fds[2], e = 0;
    ssize_t n;
    pid_t pid;

    /* Its end is close-on-exec: nothing comes when the command runs. */
    if (pipe2(fds, O_CLOEXEC) < 0)
        return errno;
    pid = fork();
    if (pid == 0)
        become_rank(l, l->started, fds[1]);
    if (pid < 0)
        e = errno;
    close(fds[1]);
    if (pid > 0) {
        l->ranks[l->started++] = pid;
        do
            n = read(fds[0], &e, sizeof(e));
        while (n < 0 && errno == EINTR);
        if (n != sizeof(e))
            e = 0;
        l->no_command = e != 0;
    }
    close(fds[0]);
    return e;
}

static int start_ranks(struct launch *l)
{
    while (l->started < l->n && !interrupted) {
        int e = start_rank(l);

        if (e) {
            argus_cli_error("run", "%s: cannot start: %s", l->command[0], strerror(e));
            return -1;
        }
    }
    return 0;
}

static void signal_all(const pid_t *pids, int n, int sig)
{
    for (int i = 0; i < n; i++) {
        if (pids[i] > 0)
            kill(pids[i], sig);
    }
}

/* The next child that ends; what we are told meanwhile reaches those of `pids` that are left. */
static pid_t wait_child(const pid_t *pids, int n, int *status)
{
    struct sigaction child = {.sa_handler = on_child}, child_before;
    sigset_t blocked, before;
    pid_t pid;

    /* Nothing can come between looking and sleeping. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&blocked, passed_on_signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigemptyset(&child.sa_mask);
    sigaction(SIGCHLD, &child, &child_before);
    for (;;) {
        for (int i = 0; i < N_SIGNALS; i++) {
            if (came[i])
                signal_all(pids, n, passed_on_signals[i]);
            came[i] = 0;
        }
        pid = waitpid(-1, status, WNOHANG);
        if (pid)
            break;
        sigsuspend(&before);
    }
    sigaction(SIGCHLD, &child_before, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int wait_ranks(struct launch *l)
{
    int left = l->started, status = 0;

    while (left > 0) {
        int s, code;
        pid_t pid = wait_child(l->ranks, l->started, &s);

        if (pid < 0)
            break;
        for (int i = 0; pid > 0 && i < l->started; i++) {
            if (l->ranks[i] != pid)
                continue;
            l->ranks[i] = 0;
            left--;
            code = WIFSIGNALED(s) ? 128 + WTERMSIG(s) : WEXITSTATUS(s);
            if (code && !status)
                status = code;
        }
        for (int i = 0; pid > 0 && i < l->nodes; i++) {
            if (l->recorders[i] == pid)
                l->recorders[i] = RECORDER_DIED;
        }
    }
    return status;
}

static void stop_recorders(struct launch *l)
{
    struct timespec nap = {.tv_nsec = 20000000};
    int left = 0;

    for (int i = 0; i < l->nodes; i++) {
        if (l->recorders[i] > 0)
            sigqueue(l->recorders[i], SIGTERM, (union sigval){0});
    }
    finish_for_the_dead(l);
    for (int i = 0; i < l->nodes; i++)
        left += l->recorders[i] > 0;
    for (int tick = 0; left > 0 && tick < DRAIN_S * 50; tick++) {
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
            for (int i = 0; i < l->nodes; i++) {
                if (l->recorders[i] == pid) {
                    l->recorders[i] = 0;
                    left--;
                }
            }
        }
        if (left)
            nanosleep(&nap, NULL);
    }
    if (left > 0)
        argus_cli_error("run", "a recorder did not finish in %d s; its data may be incomplete",
                        DRAIN_S);
}

/* Ourselves, in a process of its own: whatever the analysis does, the command's status counts.  The
 * wait status, or -1 told. */
static int call_self(const struct launch *l, const char *command, int quiet)
{
    pid_t pid, ended;
    int status;

    for (int i = 0; i < N_SIGNALS; i++)
        came[i] = 0; /* that was for the ranks, which are over */
    pid = fork();
    if (pid == 0) {
        restore_signals();
        if (quiet)
            execl("/proc/self/exe", "argus", command, l->dir, "-q", (char *)NULL);
        else
            execl("/proc/self/exe", "argus", command, l->dir, (char *)NULL);
        argus_cli_error("run", "cannot start argus %s: %s", command, strerror(errno));
        _exit(CANNOT_START);
    }
    if (pid < 0) {
        argus_cli_error("run", "cannot start argus %s: %s", command, strerror(errno));
        return -1;
    }
    do /* a recorder that was late may end, too */
        ended = wait_child(&pid, 1, &status);
    while (ended > 0 && ended != pid);
    return ended < 0 ? -1 : status;
}

/* The verdict as it is now; all 0 where there is none. */
static void look_at_verdict(const struct launch *l, struct stat *st)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/verdict.json", l->dir);
    if (stat(path, st) < 0 || !S_ISREG(st->st_mode))
        memset(st, 0, sizeof(*st));
}

/* Why the analysis failed it has said itself; where a signal ended it, it could not. */
static void tell_failure(const struct launch *l, int status)
{
    char how[64];

    if (status >= 0 && WIFSIGNALED(status))
        snprintf(how, sizeof(how), "the analysis was killed by signal %d", WTERMSIG(status));
    else if (status >= 0)
        snprintf(how, sizeof(how), "the analysis ended with status %d", WEXITSTATUS(status));
    else
        snprintf(how, sizeof(how), "there was no analysis");
    argus_cli_error("run", "no report: %s; the data is in %s", how, l->dir);
}

static void report(const struct launch *l)
{
    struct stat before, after;
    int status;

    look_at_verdict(l, &before);
    status = call_self(l, "analyze", 1);
    look_at_verdict(l, &after);
    /* A verdict counts though another file could not be written. */
    if (status && (!after.st_ino || (before.st_ino == after.st_ino &&
                                     before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                                     before.st_mtim.tv_nsec == after.st_mtim.tv_nsec)))
        tell_failure(l, status);
    else if (!l->quiet)
        call_self(l, "report", 0);
}

static int run(struct launch *l)
{
    int status, rc = ARGUS_EXIT_ERROR;

    l->ranks = calloc((size_t)l->n, sizeof(*l->ranks));
    l->recorders = calloc((size_t)l->nodes, sizeof(*l->recorders));
    if (!l->ranks || !l->recorders) {
        argus_cli_error("run", "no memory");
        goto out;
    }
    if (!l->off && (argus_run_find_parts(l) < 0 || argus_run_check_empty(l) < 0 ||
                    argus_run_make_spools(l) < 0))
        goto out;
    if (!l->off)
        argus_run_remove_stale(l->recorder);
    set_signals(SIG_DFL, on_signal);
    if ((!l->off && start_recorders(l) < 0) || start_ranks(l) < 0) {
        signal_all(l->ranks, l->started, SIGTERM);
        wait_ranks(l);
        if (l->no_command)
            rc = CANNOT_START;
        stop_recorders(l);
        goto out;
    }
    status = wait_ranks(l);
    stop_recorders(l);
    rc = status;
    if (!l->off && l->report)
        report(l);
out:
    argus_run_remove_spools(l);
    argus_stepconf_clear(&l->conf);
    free(l->ranks);
    free(l->recorders);
    return rc;
}

static int number(const char *text, int max)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *text && !*end && n >= 1 && n <= max ? (int)n : -1;
}

int argus_cmd_run(int argc, char **argv)
{
    static const struct option longs[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"dir", required_argument, NULL, 'd'},
                                          {"ranks-per-node", required_argument, NULL, 'r'},
                                          {"mode", required_argument, NULL, 'm'},
                                          {"option", required_argument, NULL, 'o'},
                                          {"no-report", no_argument, NULL, 'R'},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct launch l = {.n = 1, .report = 1};
    char fallback[32], mode[64];
    const char *dir = fallback;
    int c;

    snprintf(fallback, sizeof(fallback), "argus/%ld", (long)getpid());
    optind = 1;
    while ((c = getopt_long(argc, argv, "+n:d:r:m:o:qh", longs, NULL)) != -1) {
        switch (c) {
        case 'n':
            l.n = number(optarg, RANKS_MAX);
            break;
        case 'd':
            dir = optarg;
            break;
        case 'r':
            l.per_node = number(optarg, RANKS_MAX);
            break;
        case 'm':
            snprintf(mode, sizeof(mode), "mode=%s", optarg);
            if (argus_run_add_setting(&l, mode) < 0)
                return ARGUS_EXIT_USAGE;
            break;
        case 'o':
            if (argus_run_add_setting(&l, optarg) < 0)
                return ARGUS_EXIT_USAGE;
            break;
        case 'R':
            l.report = 0;
            break;
        case 'q':
            l.quiet = 1;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
        if (l.n < 0 || l.per_node < 0) {
            argus_cli_error("run", "--%s %s: a number from 1 to %d expected",
                            c == 'n' ? "ranks" : "ranks-per-node", optarg, RANKS_MAX);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (optind == argc) {
        argus_cli_error("run", "no command; `argus run --help` tells the options");
        return ARGUS_EXIT_USAGE;
    }
    l.command = argv + optind;
    l.per_node = l.per_node ? l.per_node : l.n;
    l.nodes = (l.n + l.per_node - 1) / l.per_node;
    if (gethostname(l.host, sizeof(l.host)) < 0)
        snprintf(l.host, sizeof(l.host), "localhost");
    l.host[sizeof(l.host) - 1] = '\0';
    l.host[strcspn(l.host, ".")] = '\0';
    argus_run_free_port(l.port, sizeof(l.port));
    if (argus_run_check_name(dir) < 0)
        return ARGUS_EXIT_USAGE;
    if (argus_run_check_settings(&l) < 0)
        return ARGUS_EXIT_USAGE;
    if (!l.off && argus_run_make_directory(&l, dir) < 0)
        return ARGUS_EXIT_ERROR;
    return run(&l);
}
