/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would the step have taken without a fault?
 *
 * From the step rows: a step ends when its slowest rank is through, so
 * T = max over ranks of what the rank did itself (busy compute and copies, plus
 * the gaps and transfers that faults add) + the rest.  Taking the excess of
 * a fault away from the ranks it hits gives the step that others would still
 * have needed.  Faults are priced one by one with all the others already gone:
 * slowdown = T(ideal with this fault) / T(ideal).
 *
 * Where a fault began after healthy steps the job itself has measured what it
 * costs, pipelines included: the step time before and since, if no other fault
 * began at the same time.  Else, for slow kernels, copies and transfers, kept
 * steps are replayed on their dependency graph (replay.h).
 */
#ifndef ARGUS_VERDICT_WHATIF_H
#define ARGUS_VERDICT_WHATIF_H

#include "analyzer/detect/detect.h"

struct argus_cost {
    double slowdown; /* over the steps from onset to recovery; 1: costs nothing */
    double loss;     /* ns a step over the same steps */
    double share;    /* of the time of all compared steps */
    int steps;       /* compared steps from onset to recovery */
    /* Slow-down that repairing this fault alone would undo: by replay; where no step is kept, by the
     * breakdowns of the steps.  NAN: neither can tell. */
    double alone;
    /* ns a step of the loss that the step rows do not show: a copy that a collective hides delays
     * what comes after it all the same. */
    double hidden;
};

/* Price n faults; costs[i] for e[i].  -1: no memory. */
int argus_whatif_price(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                       struct argus_cost *costs);
/* Per step, ns that all n faults together cost, of which costs[i] is known for e[i]; `gain` has room
 * for n_steps. */
int argus_whatif_gain(const struct argus_model *m, const struct argus_evidence *const *e, size_t n,
                      const struct argus_cost *const *costs, double *gain);

#endif /* ARGUS_VERDICT_WHATIF_H */
