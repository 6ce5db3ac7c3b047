/* SPDX-License-Identifier: Apache-2.0 */
/* `argus run`: the chain of srun --argus without Slurm.  Starts N ranks of a
 * command with the environment that the plugin would set, one recorder a node
 * (played, with --ranks-per-node), waits, analyzes and reports. */
#include <config.h>
#include <argus/step.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/util/stepconf.h"

#define RANKS_MAX 4096
#define SETTINGS_MAX 32
#define DRAIN_S 10
#define CANNOT_START 127

struct launch {
    int n, per_node, nodes;
    const char *settings[SETTINGS_MAX]; /* "key=value" of step.conf */
    int n_settings;
    int report, quiet;
    char dir[PATH_MAX];
    char spool[64];
    char recorder[PATH_MAX], collector[PATH_MAX];
    char host[64];
    char port[16];
    pid_t *ranks;
    pid_t *recorders;
    int started;
    char **command;
    struct argus_stepconf conf; /* of node 0 */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    interrupted = sig;
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
          "gives them, unless they are set.  The exit status is the command's: the first that\n"
          "is not 0, or 128 + the signal that ended a rank.\n",
          out);
}

/* ---- where things are --------------------------------------------------- */

static int locate(char *out, size_t size, const char *variable, const char *dir, const char *name)
{
    const char *v = getenv(variable);

    if ((size_t)snprintf(out, size, "%s/%s", v && *v ? v : dir, name) >= size ||
        access(out, R_OK) < 0) {
        argus_cli_error("run", "%s: %s", out, strerror(errno));
        return -1;
    }
    return 0;
}

static int find_parts(struct launch *l)
{
    if (locate(l->recorder, sizeof(l->recorder), "ARGUS_LIBEXECDIR", ARGUS_PKGLIBEXECDIR,
               "argus-record") < 0)
        return -1;
    return locate(l->collector, sizeof(l->collector), "ARGUS_LIBDIR", ARGUS_LIBDIR "/argus",
                  "libargus-collector.so");
}

static int make_directory(struct launch *l, const char *dir)
{
    char cwd[PATH_MAX], path[PATH_MAX], *slash;

    if (!getcwd(cwd, sizeof(cwd))) {
        argus_cli_error("run", "cannot tell the current directory: %s", strerror(errno));
        return -1;
    }
    if ((size_t)(dir[0] == '/' ? snprintf(path, sizeof(path), "%s", dir)
                               : snprintf(path, sizeof(path), "%s/%s", cwd, dir)) >= sizeof(path)) {
        argus_cli_error("run", "%s: the name is too long", dir);
        return -1;
    }
    for (slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST) {
            argus_cli_error("run", "%s: cannot make the directory: %s", path, strerror(errno));
            return -1;
        }
        if (!slash)
            break;
        *slash = '/';
    }
    if (!realpath(path, l->dir)) {
        argus_cli_error("run", "%s: %s", path, strerror(errno));
        return -1;
    }
    return 0;
}

/* A directory with an earlier run in it would mix two jobs' ranks. */
static int check_empty(const struct launch *l)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/step-0", l->dir);
    if (access(path, F_OK) < 0)
        return 0;
    argus_cli_error("run", "%s: holds an earlier run; give another --dir", l->dir);
    return -1;
}

static void free_port(char *out, size_t size)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(out, size, "29500");
    if (fd < 0)
        return;
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &length) == 0)
        snprintf(out, size, "%d", ntohs(a.sin_port));
    close(fd);
}

/* ---- the spools --------------------------------------------------------- */

static void node_name(const struct launch *l, int node, char *out, size_t size)
{
    if (l->nodes > 1)
        snprintf(out, size, "node%d", node);
    else
        snprintf(out, size, "%s", l->host);
}

static void node_spool(const struct launch *l, int node, char *out, size_t size)
{
    snprintf(out, size, "%s/%d", l->spool, node);
}

static int local_tasks(const struct launch *l, int node)
{
    int left = l->n - node * l->per_node;

    return left < l->per_node ? left : l->per_node;
}

static int write_conf(const struct launch *l, int node, char *text, size_t size)
{
    const struct passwd *pw = getpwuid(getuid());
    char name[64], path[128];
    struct timespec now;
    FILE *f;

    node_name(l, node, name, sizeof(name));
    node_spool(l, node, path, sizeof(path));
    if (mkdir(path, 0700) < 0)
        goto error;
    strcat(path, "/" ARGUS_STEP_CONF_NAME);
    f = fmemopen(text, size, "w");
    if (!f)
        goto error;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(f,
            "version=%d\njob=%ld\nstep=0\nuser=%s\nuid=%ld\ngid=%ld\nnode=%s\nnodeid=%d\n"
            "nnodes=%d\nntasks=%d\nlocal_tasks=%d\ndir=%s\nstarted=%lld\nargus=%s\n",
            ARGUS_STEP_CONF_VERSION, (long)getpid(), pw ? pw->pw_name : "", (long)getuid(),
            (long)getgid(), name, node, l->nodes, l->n, local_tasks(l, node), l->dir,
            (long long)now.tv_sec * 1000000000LL + now.tv_nsec, PACKAGE_VERSION);
    if (l->nodes > 1)
        fprintf(f, "nodes=node[0-%d]\n", l->nodes - 1);
    else
        fprintf(f, "nodes=%s\n", name);
    for (int i = 0; i < l->n_settings; i++)
        fprintf(f, "%s\n", l->settings[i]);
    fclose(f);
    f = fopen(path, "wxe");
    if (!f)
        goto error;
    fputs(text, f);
    if (fclose(f) == 0)
        return 0;
error:
    argus_cli_error("run", "%s: cannot write: %s", path, strerror(errno));
    return -1;
}

static int make_spools(struct launch *l)
{
    static char text[ARGUS_STEP_CONF_MAX];
    argus_error_t err = {""};

    snprintf(l->spool, sizeof(l->spool), "/dev/shm/argus-run-XXXXXX");
    if (!mkdtemp(l->spool)) {
        argus_cli_error("run", "%s: cannot make the directory: %s", l->spool, strerror(errno));
        l->spool[0] = '\0';
        return -1;
    }
    for (int node = 0; node < l->nodes; node++) {
        if (write_conf(l, node, text, sizeof(text)) < 0)
            return -1;
        /* A bad option is told here, once, and not by each recorder. */
        if (node == 0 && argus_stepconf_parse(text, strlen(text), "option", &l->conf, &err) < 0) {
            argus_cli_error("run", "%s", err.text);
            return -1;
        }
    }
    return 0;
}

static void remove_spools(const struct launch *l)
{
    char path[128], file[PATH_MAX];

    for (int node = 0; l->spool[0] && node < l->nodes; node++) {
        struct dirent *e;
        DIR *d;

        node_spool(l, node, path, sizeof(path));
        d = opendir(path);
        while (d && (e = readdir(d))) {
            snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
            if (e->d_name[0] != '.')
                unlink(file);
        }
        if (d)
            closedir(d);
        rmdir(path);
    }
    if (l->spool[0])
        rmdir(l->spool);
}

/* ---- processes ---------------------------------------------------------- */

static void restore_signals(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static int start_recorders(struct launch *l)
{
    for (int node = 0; node < l->nodes; node++) {
        char path[128];
        pid_t pid;

        node_spool(l, node, path, sizeof(path));
        pid = fork();
        if (pid == 0) {
            restore_signals();
            setsid(); /* the terminal's interrupt is for the ranks */
            execl(l->recorder, "argus-record", path, (char *)NULL);
            argus_cli_error("run", "%s: %s", l->recorder, strerror(errno));
            _exit(CANNOT_START);
        }
        if (pid < 0) {
            argus_cli_error("run", "cannot start a recorder: %s", strerror(errno));
            return -1;
        }
        l->recorders[node] = pid;
    }
    return 0;
}

static void set_number(const char *name, int value, int overwrite)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, overwrite);
}

/* Each of the three only if the user has not set it; who stands down is noted in the spool. */
static void set_sources(const struct launch *l, const char *spool, int rank)
{
    static const char *const variables[][2] = {{"CUDA_INJECTION64_PATH", "cupti"},
                                               {"NCCL_PROFILER_PLUGIN", "nccl"},
                                               {"NVTX_INJECTION64_PATH", "nvtx"}};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        char path[160], line[64];
        int fd, n;

        if (!getenv(variables[i][0])) {
            setenv(variables[i][0], l->collector, 1);
            continue;
        }
        snprintf(path, sizeof(path), "%s/" ARGUS_STANDDOWN_NAME, spool);
        n = snprintf(line, sizeof(line), "rank=%d source=%s reason=user-set\n", rank,
                     variables[i][1]);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0)
            continue;
        if (write(fd, line, (size_t)n) != n)
            argus_cli_error("run", "%s: cannot write: %s", path, strerror(errno));
        close(fd);
    }
}

static void set_environment(const struct launch *l, int rank)
{
    int node = rank / l->per_node;
    char spool[128], name[64];

    node_spool(l, node, spool, sizeof(spool));
    node_name(l, node, name, sizeof(name));
    set_number("ARGUS_JOB", (int)getppid(), 1);
    setenv("ARGUS_STEP", "0", 1);
    setenv("ARGUS_SPOOL", spool, 1);
    setenv("ARGUS_DIR", l->dir, 1);
    setenv("ARGUS_NODE", name, 1);
    setenv("ARGUS_SOURCES", l->conf.sources, 1);
    set_number("ARGUS_RANK", rank, 1);
    set_number("ARGUS_WORLD", l->n, 1);
    set_number("ARGUS_LOCAL_RANK", rank % l->per_node, 1);
    /* several ranks cannot share what one of them had set */
    set_number("RANK", rank, l->n > 1);
    set_number("WORLD_SIZE", l->n, l->n > 1);
    set_number("LOCAL_RANK", rank % l->per_node, l->n > 1);
    set_number("LOCAL_WORLD_SIZE", local_tasks(l, node), l->n > 1);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", l->port, 0);
    set_sources(l, spool, rank);
}

static int start_ranks(struct launch *l)
{
    for (l->started = 0; l->started < l->n; l->started++) {
        pid_t pid = fork();

        if (pid == 0) {
            restore_signals();
            if (strcmp(l->conf.mode, "off"))
                set_environment(l, l->started);
            execvp(l->command[0], l->command);
            argus_cli_error("run", "%s: %s", l->command[0], strerror(errno));
            _exit(CANNOT_START);
        }
        if (pid < 0) {
            argus_cli_error("run", "cannot start rank %d: %s", l->started, strerror(errno));
            return -1;
        }
        l->ranks[l->started] = pid;
    }
    return 0;
}

static void signal_ranks(const struct launch *l, int sig)
{
    for (int i = 0; i < l->started; i++) {
        if (l->ranks[i] > 0)
            kill(l->ranks[i], sig);
    }
}

static int wait_ranks(struct launch *l)
{
    int left = l->started, status = 0, passed_on = 0;

    while (left > 0) {
        int s, code;
        pid_t pid = waitpid(-1, &s, 0);

        if (pid < 0 && errno != EINTR)
            break;
        if (interrupted && !passed_on) {
            passed_on = 1;
            signal_ranks(l, interrupted);
        }
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
                l->recorders[i] = 0; /* it said why on stderr */
        }
    }
    return status;
}

static void stop_recorders(struct launch *l)
{
    struct timespec nap = {.tv_nsec = 20000000};
    int left = 0;

    for (int i = 0; i < l->nodes; i++) {
        if (l->recorders[i] > 0 && kill(l->recorders[i], SIGTERM) == 0)
            left++;
    }
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
    if (left)
        argus_cli_error("run", "a recorder did not finish in %d s; its data may be incomplete",
                        DRAIN_S);
}

/* Ourselves, in a process of its own: whatever the analysis does, the command's status counts. */
static int call_self(const struct launch *l, const char *command, int quiet)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (quiet)
            execl("/proc/self/exe", "argus", command, l->dir, "-q", (char *)NULL);
        else
            execl("/proc/self/exe", "argus", command, l->dir, (char *)NULL);
        _exit(CANNOT_START);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int run(struct launch *l)
{
    struct sigaction sa = {.sa_handler = on_signal};
    int off = 0, status, rc = ARGUS_EXIT_ERROR;

    l->ranks = calloc((size_t)l->n, sizeof(*l->ranks));
    l->recorders = calloc((size_t)l->nodes, sizeof(*l->recorders));
    if (!l->ranks || !l->recorders) {
        argus_cli_error("run", "no memory");
        goto out;
    }
    if (find_parts(l) < 0 || check_empty(l) < 0 || make_spools(l) < 0)
        goto out;
    off = !strcmp(l->conf.mode, "off");
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    if ((!off && start_recorders(l) < 0) || start_ranks(l) < 0) {
        signal_ranks(l, SIGTERM);
        wait_ranks(l);
        stop_recorders(l);
        goto out;
    }
    status = wait_ranks(l);
    stop_recorders(l);
    rc = status;
    if (!off && l->report && call_self(l, "analyze", 1) == 0 && !l->quiet)
        call_self(l, "report", 0);
out:
    remove_spools(l);
    argus_stepconf_clear(&l->conf);
    free(l->ranks);
    free(l->recorders);
    return rc;
}

static int add_setting(struct launch *l, const char *key_value)
{
    static const char *const keys[] = {
        "sources=", "links=",    "window=",   "keep_mb=",   "ring_mb=", "info=",
        "warn=",    "critical=", "floor_ms=", "min_steps=", "mode="};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!strncmp(key_value, keys[i], strlen(keys[i])) && l->n_settings < SETTINGS_MAX &&
            !strchr(key_value, '\n')) {
            l->settings[l->n_settings++] = key_value;
            return 0;
        }
    }
    argus_cli_error("run", "\"%s\" is no option; `argus run --help` lists them", key_value);
    return -1;
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
            if (add_setting(&l, mode) < 0)
                return ARGUS_EXIT_USAGE;
            break;
        case 'o':
            if (add_setting(&l, optarg) < 0)
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
            argus_cli_error("run", "\"%s\" is no number from 1 to %d", optarg, RANKS_MAX);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (optind == argc) {
        usage(stderr);
        return ARGUS_EXIT_USAGE;
    }
    l.command = argv + optind;
    l.per_node = l.per_node ? l.per_node : l.n;
    l.nodes = (l.n + l.per_node - 1) / l.per_node;
    if (gethostname(l.host, sizeof(l.host)) < 0)
        snprintf(l.host, sizeof(l.host), "localhost");
    l.host[sizeof(l.host) - 1] = '\0';
    l.host[strcspn(l.host, ".")] = '\0';
    free_port(l.port, sizeof(l.port));
    if (make_directory(&l, dir) < 0)
        return ARGUS_EXIT_ERROR;
    return run(&l);
}
