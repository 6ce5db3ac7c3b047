/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines as a running job leaves them, for the tests of argus top:
 * live_make DIR RANKS STEPS SLOW_RANK SEALED.  Steps of 50 ms; SLOW_RANK (-1:
 * none) computes 1.3x.  SEALED 0: the ".open" files of live recorders.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/stats/test_series.h"
#include "analyzer/timeline/timeline_io.h"

#define STEP_NS 50000000LL

static int make_rank(const char *dir, int rank, int ranks, int steps, int slow, int sealed)
{
    struct argus_timeline_info info = {
        .rank = rank, .world = ranks, .local_rank = rank % 8, .simulated = 1};
    struct test_random random = {(uint64_t)rank + 1};
    argus_timeline_writer_t *w;
    argus_error_t err;
    char path[4096];

    snprintf(info.job, sizeof(info.job), "4711");
    snprintf(info.step, sizeof(info.step), "0");
    snprintf(info.node, sizeof(info.node), "n%02d", rank / 8 + 1);
    snprintf(info.source, sizeof(info.source), "argus");
    snprintf(info.mode, sizeof(info.mode), "summary");
    snprintf(path, sizeof(path), "%s/" ARGUS_TIMELINE_NAME, dir, rank);
    w = argus_timeline_create(path, &info, 1, &err);
    for (int k = 0; w && k < steps; k++) {
        double factor = rank == slow ? 1.3 : 1;
        struct argus_step_row row = {.start = 1700000000000000000LL + k * STEP_NS, .step = k};

        row.end = row.start + STEP_NS;
        row.compute = (int64_t)(30e6 * factor * (1 + 0.005 * test_normal(&random)));
        row.exposed = STEP_NS - row.compute - 2000000;
        row.comm = row.exposed;
        row.idle = 2000000;
        row.kernels = 400;
        row.flags = k < 3 ? ARGUS_STEP_WARMUP : 0;
        if (argus_timeline_append(w, ARGUS_DS_STEPS, &row, 1, &err) < 0) {
            argus_timeline_abandon(w);
            w = NULL;
        }
    }
    if (w && sealed)
        return argus_timeline_seal(w, "exit", &err);
    if (w && argus_timeline_flush(w, &err) == 0) {
        argus_timeline_abandon(w);
        return 0;
    }
    fprintf(stderr, "live_make: %s\n", err.text);
    return -1;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: live_make DIR RANKS STEPS SLOW_RANK SEALED\n");
        return 2;
    }
    for (int r = 0; r < atoi(argv[2]); r++)
        if (make_rank(argv[1], r, atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5])) < 0)
            return 1;
    return 0;
}
