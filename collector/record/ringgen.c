/* SPDX-License-Identifier: Apache-2.0 */
/* ringgen SPOOL RANK JOB KERNELS STEPS PACE_MS [SLOTS [die]]: a process that writes a ring, for the
 * scripts; prints what it committed.  Records are generated: it says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/ringkit.h"

int main(int argc, char **argv)
{
    struct kit_options o = {.world = 1, .seed = 1};
    const struct kit_totals *t;
    struct timespec pace = {0};
    char path[4096];
    uint64_t slots = 1u << 17;
    long steps, ms;
    ringkit_t *k;

    if (argc < 7) {
        fprintf(stderr, "Usage: ringgen SPOOL RANK JOB KERNELS STEPS PACE_MS [SLOTS [die]]\n");
        return 2;
    }
    o.rank = atoi(argv[2]);
    o.world = o.rank + 1;
    o.seed = (uint64_t)o.rank + 1;
    o.job = (enum kit_job)kit_job_from_name(argv[3]);
    o.kernels = (unsigned)atoi(argv[4]);
    o.start = 1700000000000000000; /* the same bytes in every run */
    steps = atol(argv[5]);
    ms = atol(argv[6]);
    pace.tv_sec = ms / 1000;
    pace.tv_nsec = ms % 1000 * 1000000;
    if (argc > 7)
        slots = strtoull(argv[7], NULL, 10);
    snprintf(path, sizeof(path), "%s/%d-%d.ring", argv[1], o.rank, (int)getpid());
    k = ringkit_create(path, slots, &o);
    if (!k) {
        perror(path);
        return 1;
    }
    for (long i = 0; i < steps; i++) {
        ringkit_step(k, 1);
        if (ms)
            nanosleep(&pace, NULL);
    }
    t = ringkit_totals(k);
    if (argc > 8) {
        ringkit_claim(k); /* a record that was begun and never committed */
        printf("records=%llu gpu=%llu ns=%llu steps=%llu\n", (unsigned long long)t->records,
               (unsigned long long)t->gpu, (unsigned long long)t->gpu_ns,
               (unsigned long long)t->steps);
        fflush(stdout);
        raise(SIGKILL);
    }
    ringkit_end(k, 1);
    printf("records=%llu gpu=%llu ns=%llu steps=%llu\n", (unsigned long long)t->records,
           (unsigned long long)t->gpu, (unsigned long long)t->gpu_ns, (unsigned long long)t->steps);
    ringkit_close(k);
    return 0;
}
