/* SPDX-License-Identifier: Apache-2.0 */
/* How long the network proxy of a rank waited for its sends to each peer (`links=on`), read from its timeline when somebody
 * asks. */
#ifndef ARGUS_MODEL_PEERWAIT_H
#define ARGUS_MODEL_PEERWAIT_H

#include "analyzer/model/model.h"

struct argus_send_wait {
    int group;    /* index into the model's groups */
    int from, to; /* rank indices */
    double sum;   /* ns, over the steps asked for */
    double count; /* operations */
};

/* Of rank `rank_index` in common steps first..end-1; *waits is malloc'd.  Without such rows there are none. */
int argus_model_send_waits(const struct argus_model *m, size_t rank_index, int first, int end,
                           struct argus_send_wait **waits, size_t *n, argus_error_t *err);

#endif /* ARGUS_MODEL_PEERWAIT_H */
