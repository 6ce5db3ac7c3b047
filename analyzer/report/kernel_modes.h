/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of one rank's kernel classes, from the clusters of its timeline. */
#ifndef ARGUS_REPORT_KERNEL_MODES_H
#define ARGUS_REPORT_KERNEL_MODES_H

#include "analyzer/model/model.h"
#include "analyzer/stats/stats.h"

#define ARGUS_KERNEL_MODES 64 /* modes kept of a class: windows are thinned evenly */

struct argus_kernel_modes {
    char *key; /* name, grid and block: equal on all ranks */
    char *name;
    uint32_t grid[3], block[3];
    double time; /* ns, all calls counted */
    double calls;
    struct argus_mode modes[ARGUS_KERNEL_MODES];
    size_t n_modes;
};

/* Compute classes of a rank from step `first_step` of the model on, sorted by key; from its timeline, or, where that
 * cannot be read, from the model's windows.  NULL with *n = 0: nothing, or no memory. */
struct argus_kernel_modes *argus_kernel_modes_load(const struct argus_model *m, size_t rank,
                                                   int first_step, size_t *n);
void argus_kernel_modes_free(struct argus_kernel_modes *list, size_t n);
const struct argus_kernel_modes *argus_kernel_modes_find(const struct argus_kernel_modes *list,
                                                         size_t n, const char *key);

#endif /* ARGUS_REPORT_KERNEL_MODES_H */
