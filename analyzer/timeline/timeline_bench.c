/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_bench DIR [FILES [STEPS [EVENTS]]]: how fast timelines are written
 * and read, how large they are.  EVENTS a step go into `events`.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/timeline/timeline_io.h"

#define COMM_CLASSES 12

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint64_t noise_state = 88172645463325252u;

static int64_t noise(int64_t below)
{
    noise_state ^= noise_state << 13;
    noise_state ^= noise_state >> 7;
    noise_state ^= noise_state << 17;
    return (int64_t)(noise_state % (uint64_t)below);
}

static int write_step(argus_timeline_writer_t *w, int step, int events, argus_error_t *err)
{
    int64_t start = INT64_C(1764633600000000000) + step * INT64_C(1000000000) + noise(1000000);
    struct argus_step_row row = {.start = start,
                                 .end = start + 990000000 + noise(5000000),
                                 .compute = 700000000 + noise(5000000),
                                 .comm = 200000000 + noise(5000000),
                                 .exposed = 90000000 + noise(5000000),
                                 .idle = 100000000 + noise(5000000),
                                 .head_idle = noise(1000000),
                                 .gap = noise(1000000),
                                 .gap_offset = noise(900000000),
                                 .lead_idle = noise(1000000),
                                 .forward = 200000000 + noise(5000000),
                                 .backward = 400000000 + noise(5000000),
                                 .optimizer = 20000000 + noise(500000),
                                 .anchor_seq = (uint64_t)step * 40,
                                 .step = step,
                                 .kernels = (uint32_t)(3000 + events),
                                 .comms = 40};

    for (int c = 0; c < COMM_CLASSES; c++) {
        struct argus_step_comm_row comm = {.step = step,
                                           .class_id = (uint32_t)c,
                                           .count = 4,
                                           .first_seq = (uint32_t)(step * 4),
                                           .sum = 40000000 + noise(4000000),
                                           .min = 9000000 + noise(100000),
                                           .max = 11000000 + noise(100000),
                                           .lead_idle = noise(100000)};

        if (argus_timeline_append(w, ARGUS_DS_STEP_COMM, &comm, 1, err) != 0)
            return -1;
    }
    for (int i = 0; i < events; i++) {
        struct argus_event_row ev = {.start = start + i * INT64_C(100000) + noise(20000),
                                     .duration = 50000 + noise(20000),
                                     .class_id = (uint32_t)noise(300),
                                     .stream = 7,
                                     .step = step,
                                     .seq = ARGUS_NONE};

        if (argus_timeline_append(w, ARGUS_DS_EVENTS, &ev, 1, err) != 0)
            return -1;
    }
    return argus_timeline_append(w, ARGUS_DS_STEPS, &row, 1, err);
}

static int write_clusters(argus_timeline_writer_t *w, int steps, argus_error_t *err)
{
    for (int first = 0; first < steps; first += 64) {
        for (uint32_t c = 0; c < 300; c++) {
            struct argus_cluster_row row = {.first_step = first,
                                            .last_step = first + 63,
                                            .class_id = c,
                                            .clusters = 1,
                                            .count = 640,
                                            .p50 = 50000 + noise(10000),
                                            .p99 = 60000 + noise(10000),
                                            .sum = 32000000 + noise(1000000),
                                            .min = 40000 + noise(10000),
                                            .max = 90000 + noise(10000)};

            if (argus_timeline_append(w, ARGUS_DS_CLUSTERS, &row, 1, err) != 0)
                return -1;
        }
    }
    return 0;
}

static int write_file(const char *path, int rank, int steps, int events, argus_error_t *err)
{
    struct argus_timeline_info info = {.job = "1", .step = "0", .rank = rank, .source = "bench"};
    argus_timeline_writer_t *w = argus_timeline_create(path, &info, 1, err);

    if (!w)
        return -1;
    for (uint32_t c = 0; c < 300; c++) {
        struct argus_class_row row = {.kind = ARGUS_CLASS_COMPUTE, .grid = {c, 1, 1}};
        char name[160];

        snprintf(name, sizeof(name),
                 "void at::native::vectorized_elementwise_kernel_%u<4, at::native::Add<float>, "
                 "at::detail::Array<char*, 3>>(int, float, char*)",
                 c);
        row.name = argus_timeline_add_string(w, name, strlen(name));
        if (argus_timeline_append(w, ARGUS_DS_CLASSES, &row, 1, err) != 0)
            goto error;
    }
    for (int s = 0; s < steps; s++) {
        if (write_step(w, s, events, err) != 0)
            goto error;
    }
    if (write_clusters(w, steps, err) != 0)
        goto error;
    return argus_timeline_seal(w, "exit", err);
error:
    argus_timeline_abandon(w);
    return -1;
}

static int read_file(const char *path, int open_only, argus_error_t *err)
{
    static const enum argus_dataset sets[] = {ARGUS_DS_CLASSES,  ARGUS_DS_COMMS,
                                              ARGUS_DS_STEPS,    ARGUS_DS_STEP_COMM,
                                              ARGUS_DS_CLUSTERS, ARGUS_DS_EVENTS};
    argus_timeline_t *t = argus_timeline_open(path, err);

    if (!t)
        return -1;
    for (size_t i = 0; !open_only && i < sizeof(sets) / sizeof(sets[0]); i++) {
        size_t n;
        void *rows = argus_timeline_read_all(t, sets[i], 0, &n, err);

        if (!rows) {
            argus_timeline_close(t);
            return -1;
        }
        free(rows);
    }
    argus_timeline_close(t);
    return 0;
}

int main(int argc, char **argv)
{
    int files = argc > 2 ? atoi(argv[2]) : 64, steps = argc > 3 ? atoi(argv[3]) : 1000;
    int events = argc > 4 ? atoi(argv[4]) : 0;
    double wrote, opened, read, total = 0;
    struct rusage usage;
    char path[4096];
    argus_error_t err;
    struct stat st;

    if (argc < 2) {
        fputs("usage: timeline_bench DIR [FILES [STEPS [EVENTS]]]\n", stderr);
        return 2;
    }
    wrote = now();
    for (int f = 0; f < files; f++) {
        snprintf(path, sizeof(path), "%s/rank-%05d.h5", argv[1], f);
        if (write_file(path, f, steps, events, &err) != 0)
            goto error;
        if (stat(path, &st) == 0)
            total += (double)st.st_size;
    }
    wrote = now() - wrote;
    for (int pass = 0; pass < 2; pass++) {
        double start = now();

        for (int f = 0; f < files; f++) {
            snprintf(path, sizeof(path), "%s/rank-%05d.h5", argv[1], f);
            if (read_file(path, pass == 0, &err) != 0)
                goto error;
        }
        if (pass == 0)
            opened = now() - start;
        else
            read = now() - start;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("%d files, %d steps, %d events a step: %.0f bytes a file, %.0f a step\n", files, steps,
           events, total / files, total / files / steps);
    printf("write %.2f ms a file, open %.2f ms, open and read all %.2f ms; peak %ld MiB\n",
           wrote * 1e3 / files, opened * 1e3 / files, read * 1e3 / files, usage.ru_maxrss >> 10);
    for (int f = 0; f < files; f++) {
        snprintf(path, sizeof(path), "%s/rank-%05d.h5", argv[1], f);
        unlink(path);
    }
    return 0;
error:
    fprintf(stderr, "timeline_bench: %s\n", err.text);
    return 1;
}
