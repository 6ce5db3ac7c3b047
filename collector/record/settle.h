/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUS_RECORD_SETTLE_H
#define ARGUS_RECORD_SETTLE_H

#include <jansson.h>

#include <argus/record.h>

#include "analyzer/util/error.h"

/* Who is called by its rank.  The first process of a rank gets the rank's name, "rank-NNNNN.h5" below
 * `dir`, any other one with its pid; what a recorder that was killed at once left under a name is
 * removed. */
void argus_settle_first(const char *dir, const struct argus_ring_header *h, char *path,
                        size_t size);

/* At the end: several processes may have had one rank: a compiler or a data loader that touched the
 * GPU, a worker that was started again.  The one that communicates, else the busiest, gets the rank's
 * name; files below `dir` and "file" in `rings` (argus_source_json()) change places. */
int argus_settle_names(const char *dir, json_t *rings, argus_error_t *err);

#endif /* ARGUS_RECORD_SETTLE_H */
