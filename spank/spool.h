/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node-local spool (layout: include/argus/step.h), as root.
 *
 * The spool and the marker directories belong to root, the step's spool to
 * the user.  Once that is handed over, root opens nothing in it any more: what
 * must be done inside is done by a child that is the user.
 */
#ifndef ARGUS_SPANK_SPOOL_H
#define ARGUS_SPANK_SPOOL_H

#include "analyzer/util/error.h"
#include "spank/drop.h"
#include "spank/facts.h"

/* The path of the step's spool. */
void argus_spool_path(const struct argus_facts *f, char *out, size_t size);

/*
 * Makes what is missing: spool, marker, step's spool with step.conf.  Refuses
 * where rings of `ring_mb` for each of the step's tasks would not fit.
 * On error nothing of ours is left.
 */
int argus_spool_create(const struct argus_facts *f, const char *text, uint64_t ring_mb,
                       const struct argus_identity *id, argus_error_t *err);

/*
 * The step is over.  Removes its spool unless rings are left in it; the
 * marker stays for the epilog, unless `all`.
 */
void argus_spool_finish(const struct argus_facts *f, const struct argus_identity *id, bool all);

/* As the user, in a task: step.conf anew, and the count for argus_spool_restarted(). */
int argus_spool_restart(const char *spool, const char *text, unsigned restart);

/* As root: what a task found there, 0 if none did.  At most 100. */
unsigned argus_spool_restarted(const struct argus_facts *f, const struct argus_identity *id);

/* As root: the marker anew. */
int argus_spool_remark(const struct argus_facts *f, const char *text, argus_error_t *err);

#endif /* ARGUS_SPANK_SPOOL_H */
