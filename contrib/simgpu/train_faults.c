/* SPDX-License-Identifier: Apache-2.0 */
/* What the faults of the command line do to this rank in this step. */
#include <fnmatch.h>
#include <signal.h>

#include "simtrain.h"

int fault_is_mine(const struct train *t, const struct fault *f)
{
    if (!fault_active(f, t->step))
        return 0;
    if (f->rank == RANK_ROTATE)
        return (t->step / (f->every ? f->every : 1)) % t->self.world == t->self.rank;
    return f->rank == RANK_ALL || f->rank == t->self.rank;
}

/* Is a fault that comes every N-th step due, and how long is it this time? */
static int64_t stall_ns(const struct train *t, const struct fault *f)
{
    int times;

    if (!fault_is_mine(t, f) || (f->every && (t->step - f->from + 1) % f->every != 0))
        return 0;
    if (!f->growing)
        return f->ns;
    times = (t->step - f->from) / (f->every ? f->every : 1);
    return f->ns + f->ns * times / 2;
}

int64_t fault_stalls(const struct train *t, enum fault_kind kind)
{
    int64_t ns = 0;

    for (int i = 0; i < t->options.fault_count; i++)
        if (t->options.faults[i].kind == kind)
            ns += stall_ns(t, &t->options.faults[i]);
    return ns;
}

double fault_on_kernel(const struct train *t, const char *name)
{
    double factor = 1;

    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_KERNEL && fault_is_mine(t, f) && fnmatch(f->text, name, 0) == 0)
            factor *= f->factor;
    }
    return factor;
}

void fault_set_factors(struct train *t)
{
    t->step_slow =
        1 + 0.002 * gaussian(mix(t->options.seed, (uint64_t)t->self.rank, (uint64_t)t->step, 2));
    t->work = t->moe_work = 1;
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_SLOW_RANK && fault_is_mine(t, f))
            t->step_slow *= f->factor;
        if (f->kind == FAULT_SLOW_STAGE && fault_active(f, t->step) && f->rank == t->pp_rank)
            t->work *= f->factor;
        if (f->kind == FAULT_IMBALANCE && fault_is_mine(t, f))
            t->work *= f->factor;
        if (f->kind == FAULT_MOE_HOT && fault_is_mine(t, f))
            t->moe_work *= f->factor;
    }
}

void fault_die_if_told(const struct train *t)
{
    for (int i = 0; i < t->options.fault_count; i++) {
        const struct fault *f = &t->options.faults[i];

        if (f->kind == FAULT_DIE && f->rank == t->self.rank && f->from == t->step)
            raise(f->signal);
    }
}
