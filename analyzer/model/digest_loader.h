/* SPDX-License-Identifier: Apache-2.0 */
/* One timeline on its way into a digest: what digest.c, digest_step_comm.c and digest_clusters.c share. */
#ifndef ARGUS_MODEL_DIGEST_LOADER_H
#define ARGUS_MODEL_DIGEST_LOADER_H

#include "analyzer/model/digest.h"
#include "analyzer/timeline/timeline_io.h"

struct argus_digest_loader {
    argus_timeline_t *t;
    argus_arena_t *arena;
    struct argus_digest *d;
    argus_error_t *err;
    struct argus_class_row *classes;
    size_t n_classes;
    int *slot; /* by class id: index of comm class or kernel class, -1: not kept */
};

int argus_digest_no_memory(argus_error_t *err, const char *path);
/* Classes and steps are loaded before these.  digest_step_comm.c: collectives by class and step. */
int argus_digest_load_step_comm(struct argus_digest_loader *l);
/* digest_clusters.c: kernel classes by window. */
int argus_digest_load_clusters(struct argus_digest_loader *l);

#endif /* ARGUS_MODEL_DIGEST_LOADER_H */
