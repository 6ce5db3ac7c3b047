/* SPDX-License-Identifier: Apache-2.0 */
/* make bench-recorder: events a second on one core, bytes a rank and step, memory of 8 ranks.
 * doc/recorder.md tells the method. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/ringkit.h"
#include "collector/record/source.h"

#define CUPTI_KERNEL_RECORD 216.0
#define KINETO_EVENT 650.0 /* bytes of one kernel in a Kineto JSON, with its arguments */

struct row {
    enum kit_job job;
    unsigned kernels;
    unsigned steps;
    int full;
};

static double cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int64_t monotonic(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static char directory[64];

static void name_it(void *arg, const struct argus_ring_header *h, char *path, size_t size)
{
    (void)arg;
    snprintf(path, size, "%s/rank-%05d.h5", directory, h->rank);
}

static void defaults(struct argus_stream_options *o, int full)
{
    memset(o, 0, sizeof(*o));
    argus_summary_defaults(&o->summary);
    if (full)
        o->summary.window = 0;
    snprintf(o->mode, sizeof(o->mode), "%s", full ? "full" : "summary");
    snprintf(o->job, sizeof(o->job), "1");
    snprintf(o->step, sizeof(o->step), "0");
}

static uint64_t power_of_two(uint64_t n)
{
    uint64_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* One rank's records, all in the ring before the clock starts. */
static int throughput(const struct row *row)
{
    struct kit_options o = {.job = row->job, .kernels = row->kernels, .world = 8, .seed = 1};
    uint64_t slots = power_of_two((uint64_t)row->steps * (row->kernels * 2 + 2048));
    struct argus_stream_options options;
    argus_error_t err = {""};
    char path[128], file[128];
    argus_source_t *s;
    struct stat st;
    ringkit_t *k;
    double begin, seconds;
    int64_t flushed = 0;
    uint64_t records, kernels;
    size_t n;

    snprintf(path, sizeof(path), "%s/0-1.ring", directory);
    snprintf(file, sizeof(file), "%s/rank-00000.h5", directory);
    k = ringkit_create(path, slots, &o);
    if (!k) {
        perror(path);
        return -1;
    }
    for (unsigned i = 0; i < row->steps; i++)
        ringkit_step(k, 0);
    ringkit_end(k, 1);
    records = ringkit_totals(k)->records;
    kernels = ringkit_totals(k)->gpu;
    ringkit_close(k);
    defaults(&options, row->full);
    begin = cpu_seconds();
    s = argus_source_open(directory, "0-1.ring", &options, &err);
    if (!s) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    do {
        int64_t now = monotonic();

        n = argus_source_poll(s, &options, name_it, NULL, now);
        if (now - flushed > 1000000000) {
            argus_source_flush(s, &err);
            argus_source_checkpoint(s, now, 0, &err);
            flushed = now;
        }
    } while (n);
    if (argus_source_seal(s, 0, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    seconds = cpu_seconds() - begin;
    argus_source_destroy(s);
    if (stat(file, &st) < 0) {
        perror(file);
        return -1;
    }
    printf("%-6s %-7s %7u kernels x %5u steps: %5.2f M records/s, %5.2f M events/s;  %8.1f bytes a "
           "step, 1/%.0f of CUPTI records, 1/%.0f of Kineto JSON\n",
           kit_job_name(row->job), row->full ? "full" : "summary", row->kernels, row->steps,
           (double)records / seconds / 1e6, (double)kernels / seconds / 1e6,
           (double)st.st_size / row->steps,
           CUPTI_KERNEL_RECORD * (double)kernels / (double)st.st_size,
           KINETO_EVENT * (double)kernels / (double)st.st_size);
    unlink(file);
    return 0;
}

static long resident(const char *what)
{
    char line[256];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof(line), f)) {
        if (!strncmp(line, what, strlen(what)))
            kb = atol(line + strlen(what));
    }
    if (f)
        fclose(f);
    return kb;
}

/* 8 ranks at once, each with the default ring, written and read in turns. */
static int memory(enum kit_job job, unsigned kernels, unsigned steps)
{
    struct argus_stream_options options;
    argus_source_t *s[8] = {NULL};
    ringkit_t *k[8] = {NULL};
    argus_error_t err = {""};
    long peak = 0, anonymous = 0;
    double begin = cpu_seconds(), generator = 0;

    defaults(&options, 0);
    for (int r = 0; r < 8; r++) {
        struct kit_options o = {
            .job = job, .kernels = kernels, .world = 8, .rank = r, .seed = (uint64_t)r + 1};
        char path[128], name[32];

        snprintf(name, sizeof(name), "%d-1.ring", r);
        snprintf(path, sizeof(path), "%s/%s", directory, name);
        k[r] = ringkit_create(path, 1u << 19, &o);
        s[r] = k[r] ? argus_source_open(directory, name, &options, &err) : NULL;
        if (!s[r]) {
            fprintf(stderr, "%s: %s\n", path, err.text);
            return -1;
        }
    }
    for (unsigned i = 0; i < steps; i++) {
        for (int r = 0; r < 8; r++) {
            double t = cpu_seconds();
            int64_t now = monotonic();

            ringkit_step(k[r], 0);
            generator += cpu_seconds() - t;
            argus_source_poll(s[r], &options, name_it, NULL, now);
            argus_source_flush(s[r], &err);
            argus_source_checkpoint(s[r], now, i % 8 == 0, &err);
        }
        if (getenv("ARGUS_BENCH_VERBOSE")) {
            struct argus_stream_stats st;

            argus_stream_stats(argus_source_stream(s[0]), &st);
            printf("step %u: %.1f MiB resident, summary of rank 0 %.2f MiB\n", i,
                   (double)(resident("VmRSS:") - resident("RssShmem:")) / 1024,
                   (double)st.memory / 1048576);
        }
        if (resident("VmRSS:") - resident("RssShmem:") > peak)
            peak = resident("VmRSS:") - resident("RssShmem:");
        if (resident("RssAnon:") > anonymous)
            anonymous = resident("RssAnon:");
    }
    printf("%-6s 8 ranks, %u kernels a step, %u steps: %.1f MiB resident (%.1f MiB anonymous) "
           "without the rings, %.2f s of CPU\n",
           kit_job_name(job), kernels, steps, (double)peak / 1024, (double)anonymous / 1024,
           cpu_seconds() - begin - generator);
    for (int r = 0; r < 8; r++) {
        char path[128];

        argus_source_seal(s[r], 0, &err);
        argus_source_destroy(s[r]);
        ringkit_close(k[r]);
        snprintf(path, sizeof(path), "%s/rank-%05d.h5", directory, r);
        unlink(path);
    }
    return 0;
}

/* Each measurement in a process of its own: none inherits another's memory. */
static int apart(const struct row *row, enum kit_job job, unsigned kernels, unsigned steps)
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        int rc = row ? throughput(row) : memory(job, kernels, steps);

        fflush(stdout);
        _exit(rc < 0);
    }
    return pid < 0 || waitpid(pid, &status, 0) < 0 || status ? -1 : 0;
}

int main(int argc, char **argv)
{
    static const struct row rows[] = {
        {KIT_DENSE, 3000, 512, 0}, {KIT_MOE, 3000, 512, 0},   {KIT_DDP, 3000, 512, 0},
        {KIT_DENSE, 50000, 32, 0}, {KIT_STORM, 20000, 64, 0}, {KIT_GRAPH, 3000, 512, 0},
        {KIT_DENSE, 3000, 128, 1},
    };
    int rc = 0;

    snprintf(directory, sizeof(directory), "/dev/shm/argus-bench-XXXXXX");
    if (!mkdtemp(directory)) {
        perror(directory);
        return 1;
    }
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    /* What a step needed goes back to the system after it, in whatever order it is freed. */
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 1 << 20);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (argc > 1 && strcmp(argv[1], kit_job_name(rows[i].job)))
            continue;
        rc |= apart(&rows[i], 0, 0, 0);
    }
    if (argc == 1 || !strcmp(argv[1], "memory")) {
        if (!getenv("ARGUS_BENCH_LARGE"))
            rc |= apart(NULL, KIT_DENSE, 3000, 200);
        rc |= apart(NULL, KIT_DENSE, 50000, 24);
    }
    rmdir(directory);
    return rc ? 1 : 0;
}
