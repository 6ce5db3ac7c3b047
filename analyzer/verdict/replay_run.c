/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the graph of kept steps: when everything is done, given how long each operation takes. */
#include <config.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/verdict/replay_graph.h"

/* Run the ranks of one step against one another; returns the time until the last is through. */
static double run_step(struct argus_replay *r, const size_t *first, const size_t *end, size_t n)
{
    size_t *pc = malloc((n + 1) * sizeof(*pc));
    double most = 0;
    int moved = 1;

    if (!pc)
        return NAN;
    for (size_t i = 0; i < n; i++)
        pc[i] = first[i];
    while (moved) {
        moved = 0;
        for (size_t i = 0; i < n; i++)
            while (pc[i] < end[i]) {
                const struct argus_replay_op *op = &r->ops[pc[i]];
                double t = 0;
                int wait = 0;

                for (int d = 0; d < op->n_deps; d++) {
                    const struct argus_replay_op *dep = &r->ops[op->deps[d]];

                    /* a call that others have not come to has no end yet */
                    if (dep->call >= 0 && r->waiting[dep->call] > 0)
                        wait = 1;
                    else if (dep->call >= 0)
                        t = fmax(t, r->arrived[dep->call] + r->work[op->deps[d]]);
                    else
                        t = fmax(t, r->done[op->deps[d]]);
                }
                if (wait)
                    break;
                t += r->delays[op->rank] * op->delay;
                if (op->call >= 0) {
                    r->arrived[op->call] = fmax(r->arrived[op->call], t);
                    r->waiting[op->call]--;
                } else {
                    r->done[pc[i]] = t + r->work[pc[i]];
                    most = fmax(most, r->done[pc[i]]);
                }
                pc[i]++;
                moved = 1;
            }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = first[i]; k < end[i]; k++) {
            const struct argus_replay_op *op = &r->ops[k];

            if (op->call >= 0)
                most = fmax(most, r->arrived[op->call] + r->work[k]);
            if (pc[i] < end[i])
                most = NAN; /* ranks wait for one another: the graph is wrong */
        }
    free(pc);
    return most;
}

double argus_replay_run(struct argus_replay *r)
{
    size_t ranks = r->m->n_ranks, *first = calloc(2 * (ranks + 1), sizeof(*first)),
           *end = first + ranks + 1;
    double sum = 0;

    if (!first)
        return NAN;
    for (size_t c = 0; c < r->n_calls; c++) {
        r->arrived[c] = 0;
        r->waiting[c] = r->calls[c].members;
    }
    for (int s = 0; s < r->n_steps; s++) {
        size_t n = 0;

        for (size_t i = 0; i < r->n;) {
            size_t j = i;

            while (j < r->n && r->ops[j].rank == r->ops[i].rank && r->ops[j].step == r->ops[i].step)
                j++;
            if (r->ops[i].step == r->steps[s]) {
                first[n] = i;
                end[n++] = j;
            }
            i = j;
        }
        sum += run_step(r, first, end, n);
    }
    free(first);
    return sum / r->n_steps;
}
