/* SPDX-License-Identifier: Apache-2.0 */
/* ringgen SPOOL RANK JOB KERNELS STEPS PACE_MS [SLOTS [die|drop]]: a process that writes a ring, for
 * the scripts; prints what it committed.  A full ring is waited for, or with `drop` dropped into. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/ringkit.h"

static void tell(const struct kit_totals *t)
{
    printf("records=%llu gpu=%llu ns=%llu steps=%llu dropped=%llu\n",
           (unsigned long long)t->records, (unsigned long long)t->gpu,
           (unsigned long long)t->gpu_ns, (unsigned long long)t->steps,
           (unsigned long long)t->dropped);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct kit_options o = {.start = 1700000000000000000}; /* the same bytes in every run */
    int drop = argc > 8 && !strcmp(argv[8], "drop");
    int die = argc > 8 && !strcmp(argv[8], "die");
    struct timespec pace = {0};
    uint64_t slots = 1u << 17;
    char path[4096];
    long steps, ms;
    ringkit_t *k;
    int job;

    if (argc < 7 || (job = kit_job_from_name(argv[3])) < 0) {
        fprintf(stderr, "Usage: ringgen SPOOL RANK JOB KERNELS STEPS PACE_MS [SLOTS [die|drop]]\n");
        return 2;
    }
    o.rank = atoi(argv[2]);
    o.world = o.rank + 1;
    o.seed = (uint64_t)o.rank + 1;
    o.job = (enum kit_job)job;
    o.kernels = (unsigned)atoi(argv[4]);
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
        ringkit_step(k, !drop);
        if (ms)
            nanosleep(&pace, NULL);
    }
    if (die) {
        ringkit_claim(k); /* a record that was begun and never committed */
        tell(ringkit_totals(k));
        raise(SIGKILL);
    }
    ringkit_end(k, 1);
    tell(ringkit_totals(k));
    ringkit_close(k);
    return 0;
}
