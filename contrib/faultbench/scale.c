/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale: synthetic jobs of many ranks in summary mode, and what analyzing them
 * costs.
 *
 *   scale make DIR RANKS STEPS          timelines of a TP8 PP8 DPn job in which one GPU slows by 1.3 at 40 %
 *   scale events DIR RANKS STEPS        a TP4 PP4 DPn job with every event kept, as the faultbench runs it
 *   scale measure DIR FILE COMMAND...   runs the command on the job: seconds, peak memory of the whole process tree,
 *                                       files opened, bytes read; a line "RANKS s MiB opens MiB" is added to FILE
 *   scale plot FILE SVG                 these lines as a picture
 *
 * The rows of `make` are drawn, not simulated: the numbers only have to be
 * those of a job, in the sizes of a job.
 */
#include <argus/record.h>
#include <argus/timeline.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/timeline/timeline_io.h"
#include "contrib/faultbench/internal.h"
#include "contrib/faultbench/job.h"

enum { TP = 8, PP = 8, WINDOW = 64, KERNEL_CLASSES = 48, COMM_CLASSES = 6 };

struct job {
    int ranks, steps, dp, slow;
    double *step_factor;  /* [steps] */
    double *rank_factor;  /* [ranks] */
    float *slowest;       /* [steps] the largest compute time of all ranks, ms */
    float *group_slowest; /* [steps * ranks / TP] of a tensor-parallel group, ms */
};

static double noise(uint64_t a, uint64_t b, double sd)
{
    uint64_t s = a * 0x9e3779b97f4a7c15ULL + b;

    return 1.0 + sd * fb_normal(&s);
}

static double compute_ms(const struct job *j, int rank, int step)
{
    double ms = 150.0 * j->rank_factor[rank] * j->step_factor[step] *
                noise((uint64_t)rank + 1, (uint64_t)step + 1, 0.003);

    return rank == j->slow && step >= j->steps * 2 / 5 ? ms * 1.3 : ms;
}

static int prepare(struct job *j)
{
    uint64_t rng = 42;
    size_t groups = (size_t)j->ranks / TP;

    j->dp = j->ranks / (TP * PP);
    j->slow = j->ranks / 2 + 3;
    j->step_factor = calloc((size_t)j->steps, sizeof(double));
    j->rank_factor = calloc((size_t)j->ranks, sizeof(double));
    j->slowest = calloc((size_t)j->steps, sizeof(float));
    j->group_slowest = calloc((size_t)j->steps * groups, sizeof(float));
    if (!j->step_factor || !j->rank_factor || !j->slowest || !j->group_slowest)
        return -1;
    for (int k = 0; k < j->steps; k++)
        j->step_factor[k] = 1.0 + 0.004 * fb_normal(&rng);
    for (int r = 0; r < j->ranks; r++)
        j->rank_factor[r] = 1.0 + 0.003 * fb_normal(&rng);
    for (int r = 0; r < j->ranks; r++) {
        for (int k = 0; k < j->steps; k++) {
            float ms = (float)compute_ms(j, r, k),
                  *g = &j->group_slowest[(size_t)k * groups + (size_t)(r / TP)];

            if (ms > *g)
                *g = ms;
            if (ms > j->slowest[k])
                j->slowest[k] = ms;
        }
    }
    return 0;
}

struct rank_writer {
    argus_timeline_writer_t *w;
    uint32_t comm[COMM_CLASSES]; /* class ids */
    uint32_t kernel[KERNEL_CLASSES];
};

static uint32_t text(argus_timeline_writer_t *w, const char *s)
{
    return argus_timeline_add_string(w, s, strlen(s));
}

static int write_tables(const struct job *j, int r, struct rank_writer *rw, argus_error_t *err)
{
    static const struct {
        int comm, func, peer;
        uint64_t bytes;
    } kinds[COMM_CLASSES] = {{0, ARGUS_FUNC_ALLREDUCE, -1, 8},
                             {1, ARGUS_FUNC_ALLREDUCE, -1, 32u << 20},
                             {2, ARGUS_FUNC_REDUCESCATTER, -1, 48u << 20},
                             {2, ARGUS_FUNC_ALLGATHER, -1, 24u << 20},
                             {3, ARGUS_FUNC_SEND, 1, 16u << 20},
                             {4, ARGUS_FUNC_RECV, 0, 16u << 20}};
    int tp_group = r / TP, pp = r / (TP * j->dp), stage = TP * j->dp, dp_rank = r / TP % j->dp;
    struct argus_comm_row comms[5] = {
        {.hash = 1, .size = (uint32_t)j->ranks, .rank = (uint32_t)r},
        {.hash = 1000000u + (uint64_t)tp_group, .size = TP, .rank = (uint32_t)(r % TP)},
        {.hash = 2000000u + (uint64_t)(pp * TP + r % TP),
         .size = (uint32_t)j->dp,
         .rank = (uint32_t)dp_rank},
        {.hash = 3000000u + (uint64_t)r, .size = 2, .rank = 0},
        {.hash = 3000000u + (uint64_t)((r + j->ranks - stage) % j->ranks), .size = 2, .rank = 1}};

    for (int i = 0; i < 5; i++)
        comms[i].name = comms[i].members = ARGUS_NONE;
    if (argus_timeline_append(rw->w, ARGUS_DS_COMMS, comms, 5, err) < 0)
        return -1;
    for (int i = 0; i < COMM_CLASSES + KERNEL_CLASSES; i++) {
        struct argus_class_row c = {.kind =
                                        i < COMM_CLASSES ? ARGUS_CLASS_COMM : ARGUS_CLASS_COMPUTE,
                                    .comm = ARGUS_NONE,
                                    .peer = -1,
                                    .stream = 7,
                                    .grid = {(uint32_t)(64 + i), 1, 1},
                                    .block = {256, 1, 1}};
        char name[64];

        if (i < COMM_CLASSES) {
            c.func = (uint8_t)kinds[i].func;
            c.comm = (uint32_t)kinds[i].comm;
            c.peer = kinds[i].peer;
            c.bytes = kinds[i].bytes;
            c.dtype = ARGUS_DTYPE_BF16;
            rw->comm[i] = (uint32_t)i;
            c.name = text(rw->w, "ncclDevKernel");
        } else {
            snprintf(name, sizeof(name), "gemm_kernel_%d", i);
            c.family = i % 3 ? ARGUS_FAMILY_GEMM : ARGUS_FAMILY_ELEMENTWISE;
            rw->kernel[i - COMM_CLASSES] = (uint32_t)i;
            c.name = text(rw->w, name);
        }
        if (argus_timeline_append(rw->w, ARGUS_DS_CLASSES, &c, 1, err) < 0)
            return -1;
    }
    return 0;
}

static int64_t ns(double ms)
{
    return (int64_t)(ms * 1e6);
}

static int write_step(const struct job *j, int r, int k, int64_t *clock, struct rank_writer *rw,
                      argus_error_t *err)
{
    static const double work_ms[COMM_CLASSES] = {0.03, 12.0, 9.0, 5.0, 0.4, 0.4};
    static const uint32_t calls[COMM_CLASSES] = {1, 64, 8, 8, 16, 16};
    size_t groups = (size_t)j->ranks / TP;
    double mine = compute_ms(j, r, k),
           group = j->group_slowest[(size_t)k * groups + (size_t)(r / TP)], wait_tp = group - mine,
           wait_dp = j->slowest[k] - group, total = j->slowest[k] + 22.0, comm = 0;
    struct argus_step_row s = {.start = *clock,
                               .end = *clock + ns(total),
                               .step = k,
                               .anchor_comm = 0,
                               .anchor_seq = (uint64_t)k,
                               .kernels = KERNEL_CLASSES * 12,
                               .copies = 1,
                               .flags = k < 3 ? ARGUS_STEP_WARMUP : 0,
                               .gap_class = rw->kernel[0]};
    struct argus_step_comm_row c[COMM_CLASSES];

    for (int i = 0; i < COMM_CLASSES; i++) {
        double work = work_ms[i] * noise((uint64_t)(r / TP) * 7u + (uint64_t)i, (uint64_t)k, 0.01);
        double sum = work + (i == 1 ? wait_tp : i == 2 ? wait_dp : 0.0);

        memset(&c[i], 0, sizeof(c[i]));
        c[i].step = k;
        c[i].class_id = rw->comm[i];
        c[i].count = calls[i];
        c[i].first_seq = (uint32_t)k * calls[i];
        c[i].sum = ns(sum);
        c[i].min = ns(work / calls[i]);
        c[i].max = ns(work / calls[i] + sum - work);
        comm += sum;
        s.comms += calls[i];
    }
    s.compute = ns(mine);
    s.comm = ns(comm);
    s.exposed = ns(total - mine - 0.5);
    s.idle = s.end - s.start - s.compute - s.exposed;
    s.gap = s.idle / 2;
    s.head_idle = s.idle / 4;
    s.forward = s.compute / 3;
    s.backward = s.compute - s.compute / 3 - ns(2);
    s.optimizer = ns(2);
    *clock = s.end;
    return argus_timeline_append(rw->w, ARGUS_DS_STEPS, &s, 1, err) < 0 ||
                   argus_timeline_append(rw->w, ARGUS_DS_STEP_COMM, c, COMM_CLASSES, err) < 0
               ? -1
               : 0;
}

static int write_clusters(const struct job *j, int r, int first, struct rank_writer *rw,
                          argus_error_t *err)
{
    int last = first + WINDOW - 1 < j->steps - 1 ? first + WINDOW - 1 : j->steps - 1;

    for (int i = 0; i < KERNEL_CLASSES; i++) {
        double ms = compute_ms(j, r, (first + last) / 2) / (KERNEL_CLASSES * 12) *
                    noise((uint64_t)r * 131u + (uint64_t)i, (uint64_t)first, 0.003);
        struct argus_cluster_row c = {.first_step = first,
                                      .last_step = last,
                                      .class_id = rw->kernel[i],
                                      .clusters = 1,
                                      .count = (uint32_t)(12 * (last - first + 1))};

        c.p50 = ns(ms);
        c.p99 = ns(ms * 1.02);
        c.min = ns(ms * 0.98);
        c.max = ns(ms * 1.03);
        c.sum = c.p50 * (int64_t)c.count;
        if (argus_timeline_append(rw->w, ARGUS_DS_CLUSTERS, &c, 1, err) < 0)
            return -1;
    }
    return 0;
}

static int write_rank(const struct job *j, int r, const char *dir, argus_error_t *err)
{
    struct argus_timeline_info info = {.rank = r,
                                       .world = j->ranks,
                                       .local_rank = r % 8,
                                       .pid = 1,
                                       .simulated = 1,
                                       .window = WINDOW};
    struct argus_timeline_counters counters = {.records = (uint64_t)j->steps * 600u};
    struct rank_writer rw = {0};
    int64_t clock = 1700000000000000000LL;
    char path[4352];

    snprintf(path, sizeof(path), "%.4096s/" ARGUS_TIMELINE_NAME, dir, r);
    snprintf(info.job, sizeof(info.job), "scale%d", j->ranks);
    snprintf(info.step, sizeof(info.step), "0");
    snprintf(info.node, sizeof(info.node), "n%04d", r / 8);
    snprintf(info.gpu_uuid, sizeof(info.gpu_uuid), "GPU-scale-%06d", r);
    snprintf(info.source, sizeof(info.source), "faultbench");
    snprintf(info.mode, sizeof(info.mode), "summary");
    rw.w = argus_timeline_create(path, &info, 1, err);
    if (!rw.w)
        return -1;
    if (write_tables(j, r, &rw, err) < 0)
        goto error;
    for (int k = 0; k < j->steps; k++) {
        if (write_step(j, r, k, &clock, &rw, err) < 0 ||
            (k % WINDOW == 0 && write_clusters(j, r, k, &rw, err) < 0))
            goto error;
    }
    argus_timeline_set_counters(rw.w, &counters);
    return argus_timeline_seal(rw.w, "exit", err);
error:
    argus_timeline_abandon(rw.w);
    return -1;
}

static int make(const char *dir, int ranks, int steps)
{
    struct job j = {.ranks = ranks, .steps = steps};
    argus_error_t err = {""};
    char path[4352];

    if (ranks < TP * PP || ranks % (TP * PP) || steps < 1) {
        fprintf(stderr, "scale: ranks must be a multiple of %d\n", TP * PP);
        return 2;
    }
    snprintf(path, sizeof(path), "%s/step-0", dir);
    if ((mkdir(dir, 0700) < 0 && errno != EEXIST) || (mkdir(path, 0700) < 0 && errno != EEXIST)) {
        fprintf(stderr, "scale: %s: %s\n", path, strerror(errno));
        return 1;
    }
    if (prepare(&j) < 0)
        return 1;
    for (int r = 0; r < ranks; r++) {
        if (write_rank(&j, r, path, &err) < 0) {
            fprintf(stderr, "scale: %s\n", err.text);
            return 1;
        }
        if (isatty(2) && r % 64 == 0)
            fprintf(stderr, "\r%d of %d ranks", r, ranks);
    }
    if (isatty(2))
        fprintf(stderr, "\r                    \r");
    free(j.step_factor);
    free(j.rank_factor);
    free(j.slowest);
    free(j.group_slowest);
    return 0;
}

/* Proportional memory, KiB, of all processes of a process group; bytes read so far in *io. */
static long tree_memory(pid_t group, unsigned long long *io)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    long total = 0;

    *io = 0;
    while (proc && (d = readdir(proc))) {
        pid_t pid = (pid_t)atoi(d->d_name);
        char path[64], line[256];
        unsigned long long n;
        long kib;
        FILE *f;

        if (pid <= 0 || getpgid(pid) != group)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            if (sscanf(line, "Pss: %ld", &kib) == 1)
                total += kib;
        }
        if (f)
            fclose(f);
        snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            if (sscanf(line, "rchar: %llu", &n) == 1)
                *io += n;
        }
        if (f)
            fclose(f);
    }
    if (proc)
        closedir(proc);
    return total;
}

/* Opens of files in the directory since the last call. */
static long opened(int watch)
{
    char buf[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
    long n = 0;
    ssize_t got;

    while ((got = read(watch, buf, sizeof(buf))) > 0) {
        for (char *p = buf; p < buf + got;) {
            const struct inotify_event *e = (const struct inotify_event *)p;

            n += (e->mask & IN_OPEN) && !(e->mask & IN_ISDIR);
            p += sizeof(*e) + e->len;
        }
    }
    return n;
}

static int ranks_in(const char *dir)
{
    struct dirent *d;
    DIR *v = opendir(dir);
    int n = 0;

    while (v && (d = readdir(v)))
        n += !strncmp(d->d_name, "rank-", 5);
    if (v)
        closedir(v);
    return n;
}

static int measure(const char *dir, const char *file, char **argv)
{
    struct timespec a, b, pause = {0, 20000000};
    long peak = 0, kib, opens = 0;
    unsigned long long io, most = 0;
    int status, watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[4352];
    double seconds;
    pid_t pid;
    FILE *f;

    snprintf(path, sizeof(path), "%s/step-0", dir);
    if (watch < 0 || inotify_add_watch(watch, path, IN_OPEN) < 0) {
        fprintf(stderr, "scale: %s: %s\n", path, strerror(errno));
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        execvp(argv[0], argv);
        fprintf(stderr, "scale: %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (pid < 0)
        return 1;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        kib = tree_memory(pid, &io);
        if (kib > peak)
            peak = kib;
        if (io > most)
            most = io;
        opens += opened(watch);
        nanosleep(&pause, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    opens += opened(watch);
    close(watch);
    seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
    printf("%.2f s, %.0f MiB at the peak (all processes), %ld opens, %.0f MiB read\n", seconds,
           (double)peak / 1024.0, opens, (double)most / 1048576.0);
    f = fopen(file, "a");
    if (!f ||
        fprintf(f, "%d %.3f %.1f %ld %.1f\n", ranks_in(path), seconds, (double)peak / 1024.0, opens,
                (double)most / 1048576.0) < 0 ||
        fclose(f)) {
        fprintf(stderr, "scale: %s: %s\n", file, strerror(errno));
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int make_events(const char *dir, int ranks, int steps)
{
    struct fb_result r = {0};
    struct fb_spec spec;
    char error[512] = "it cannot be run";
    int rc;

    fb_defaults(&spec, FB_3D, ranks);
    spec.steps = steps;
    spec.window = 0;
    spec.fault = (struct fb_fault){.kind = FB_SLOW_GPU,
                                   .magnitude = 1.3,
                                   .rank = ranks / 2 + 3,
                                   .node = -1,
                                   .stage = -1,
                                   .onset = steps * 2 / 5,
                                   .end = -1};
    rc = (mkdir(dir, 0700) < 0 && errno != EEXIST) || fb_run(&spec, &r) < 0 ||
         fb_emit(&r, dir, error, sizeof(error)) < 0;
    if (rc)
        fprintf(stderr, "scale: %s: %s\n", dir, error);
    fb_result_free(&r);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "make"))
        return make(argv[2], atoi(argv[3]), atoi(argv[4]));
    if (argc == 5 && !strcmp(argv[1], "events"))
        return make_events(argv[2], atoi(argv[3]), atoi(argv[4]));
    if (argc > 4 && !strcmp(argv[1], "measure"))
        return measure(argv[2], argv[3], argv + 4);
    if (argc == 4 && !strcmp(argv[1], "plot"))
        return fb_scale_plot(argv[2], argv[3]);
    fputs("Usage: scale make|events DIR RANKS STEPS | scale measure DIR FILE COMMAND... |\n"
          "       scale plot FILE SVG\n",
          stderr);
    return 2;
}
