/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simtrain: one rank of a simulated training job (a test double).
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simcu_driver.h"
#include "simtrain.h"

static int64_t monotonic(void)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

__attribute__((format(printf, 2, 3), noreturn)) static void refuse(const struct train *t,
                                                                   const char *format, ...)
{
    va_list args;

    if (t->self.rank == 0) {
        fputs("simtrain: ", stderr);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fputc('\n', stderr);
    }
    exit(2);
}

static void check_shape(struct train *t)
{
    struct options *o = &t->options;
    int world = t->self.world;

    if (o->dp == 0)
        o->dp = world / (o->tp * o->pp) > 0 ? world / (o->tp * o->pp) : 1;
    if (o->tp * o->pp * o->dp != world)
        refuse(t, "tp %d x pp %d x dp %d is not the world of %d ranks", o->tp, o->pp, o->dp, world);
    if (o->dp % o->ep != 0)
        refuse(t, "ep %d does not divide dp %d", o->ep, o->dp);
    for (int i = 0; i < o->fault_count; i++)
        if (o->faults[i].rank >= (o->faults[i].kind == FAULT_SLOW_STAGE ? o->pp : world))
            refuse(t, "a fault names %d, which is not there", o->faults[i].rank);
    t->tp_rank = t->self.rank % o->tp;
    t->dp_rank = t->self.rank / o->tp % o->dp;
    t->pp_rank = t->self.rank / (o->tp * o->dp);
}

/* A node's clock that is wrong shows in all its ranks. */
static void set_clock(struct train *t)
{
    const struct options *o = &t->options;
    int index = -1, node = t->peers.node_of[t->self.rank];

    simcu_clock_start(t->peers.epoch);
    if (!o->clock_node[0])
        return;
    if (strcmp(t->peers.names[node], o->clock_node) == 0 ||
        (sscanf(o->clock_node, "node%d", &index) == 1 && index == node))
        simcu_clock_offset(o->clock_offset);
}

/* With a pace, virtual time does not run ahead of real time. */
static void keep_pace(const struct train *t, int64_t began)
{
    int64_t real = monotonic() - began, due;
    struct timespec ts;

    if (t->options.pace <= 0)
        return;
    due = (int64_t)((double)(simcu_host_now() - t->peers.epoch) / t->options.pace);
    if (due <= real)
        return;
    ts.tv_sec = (due - real) / 1000000000;
    ts.tv_nsec = (due - real) % 1000000000;
    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        continue;
}

static void say_start(const struct train *t)
{
    const struct options *o = &t->options;

    if (t->self.rank != 0 || o->quiet)
        return;
    printf("simtrain: simulated training, no real GPU: %d ranks on %d nodes, tp %d pp %d dp %d "
           "ep %d, %d steps\n",
           t->self.world, t->peers.nodes, o->tp, o->pp, o->dp, o->ep, o->steps);
    fflush(stdout);
}

static void say_end(const struct train *t)
{
    double virtual_s = (double)(simcu_host_now() - t->peers.epoch) / 1e9;

    if (t->self.rank != 0 || t->options.quiet)
        return;
    printf("simtrain: simulation done: %d steps in %.6f virtual s, %llu kernels and %llu "
           "collectives on rank 0\n",
           t->options.steps, virtual_s, (unsigned long long)t->total_kernels,
           (unsigned long long)t->total_collectives);
}

static void make_streams(struct train *t)
{
    t->compute = simcu_stream_default();
    t->copy = simcu_stream_create();
    groups_make(t);
}

static void remake_groups(struct train *t)
{
    groups_free(t);
    t->peers.token++;
    groups_make(t);
}

/* A framework has CUPTI loaded before the driver starts; SIMGPU_CUPTI says which
 * release: 13 (the default), 12, 11.8 or none. */
static void load_cupti(void)
{
    const char *release = getenv("SIMGPU_CUPTI");
    char name[64];

    if (release && strcmp(release, "none") == 0)
        return;
    snprintf(name, sizeof(name), "libcupti.so.%s", release ? release : "13");
    if (!dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "simtrain: %s\n", dlerror());
        exit(2);
    }
}

/* Children that inherit everything and touch no GPU, as a data loader's workers
 * do.  They leave, by exit, when the rank is gone. */
static void start_loaders(const struct train *t)
{
    int ends[2];
    char c;

    if (t->options.loaders == 0 || pipe(ends) < 0)
        return;
    for (int i = 0; i < t->options.loaders; i++) {
        if (fork() != 0)
            continue;
        close(ends[1]);
        while (read(ends[0], &c, 1) < 0 && errno == EINTR)
            continue;
        exit(0);
    }
    close(ends[0]);
}

static void leave(const struct train *t)
{
    fflush(stdout);
    if (t->options.leave == LEAVE_EXIT_NOW)
        _exit(0);
    if (t->options.leave == LEAVE_ABORT)
        abort();
}

static int run(struct train *t)
{
    int64_t began;
    int devices = 8;

    identity_find(&t->self, &t->options);
    check_shape(t);
    t->net = net_join(&t->self, &t->options, &t->peers);
    link_resolve_nodes(&t->options, &t->peers);
    set_clock(t);
    t->silicon = 1 + 0.01 * uniform(mix(t->options.seed, (uint64_t)t->self.rank, 11, 12));
    simcu_configure(t->self.node, t->self.local_rank, devices);
    load_cupti();
    cuInit(0);
    if (t->options.nvtx)
        nvtx_open();
    make_streams(t);
    start_loaders(t);
    say_start(t);
    began = monotonic();
    train_warm_up(t);
    for (t->step = 0; t->step < t->options.steps; t->step++) {
        if (t->options.reinit_every && t->step > 0 && t->step % t->options.reinit_every == 0)
            remake_groups(t);
        train_step(t);
        keep_pace(t, began);
    }
    say_end(t);
    groups_free(t);
    net_leave(t->net, t->self.world);
    leave(t);
    free(t->peers.names);
    free(t->peers.node_of);
    return 0;
}

/* A death by signal tells more than the exits that follow from it. */
static int worse(int a, int b)
{
    return a > b ? a : b;
}

/* --spawn N: the ranks of a run without a launcher; the worst of their statuses. */
static int spawn(int n)
{
    int failed = 0, status;
    char text[32];

    snprintf(text, sizeof(text), "%d", (int)getpid());
    setenv("SIMTRAIN_RUN", text, 1);
    snprintf(text, sizeof(text), "%d", n);
    setenv("WORLD_SIZE", text, 1);
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid < 0) {
            fprintf(stderr, "simtrain: fork: %s\n", strerror(errno));
            return 1;
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            snprintf(text, sizeof(text), "%d", i);
            setenv("RANK", text, 1);
            return -1;
        }
    }
    while (wait(&status) > 0)
        failed = worse(failed, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return failed;
}

int main(int argc, char **argv)
{
    static struct train t;

    options_parse(&t.options, argc, argv);
    if (t.options.ignore_term)
        signal(SIGTERM, SIG_IGN);
    if (t.options.spawn) {
        int rc = spawn(t.options.spawn);

        if (rc >= 0)
            return rc;
    }
    return run(&t);
}
