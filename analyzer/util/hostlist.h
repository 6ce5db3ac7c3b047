/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's way to write a list of nodes: "n[1-4,7],login,r[01-02]c[0-3]".
 *
 * The text comes from markers and from environments, so the expansion is
 * bounded: a list of more than `max` names is an error, not a long wait.
 */
#ifndef ARGUS_UTIL_HOSTLIST_H
#define ARGUS_UTIL_HOSTLIST_H

#include <stddef.h>

#include "analyzer/util/error.h"

#define ARGUS_HOSTLIST_MAX 65536 /* nodes; more than any cluster has */
#define ARGUS_HOST_NAME_MAX 255  /* bytes of one name */

struct argus_hostlist {
    char **names; /* in the list's order, repeated names once */
    size_t n;
};

/*
 * Names are letters, digits, '.', '_' and '-'; they never begin with '-' or
 * '.'.  Leading zeros of a range are kept: "m[08-10]" is m08, m09, m10.
 * On error the list is empty.  argus_hostlist_clear() frees it.
 */
int argus_hostlist_expand(const char *text, size_t max, struct argus_hostlist *list,
                          argus_error_t *err);
void argus_hostlist_clear(struct argus_hostlist *list);

/* Position of a name, -1: not there. */
long argus_hostlist_find(const struct argus_hostlist *list, const char *name);

/* Append a name unless it is there already; 0, or -1 when memory is short. */
int argus_hostlist_add(struct argus_hostlist *list, const char *name);

/* "n1,n2,n7": a buffer that the caller frees, NULL when memory is short. */
char *argus_hostlist_join(const struct argus_hostlist *list);

/* 1 if it is a name as described above. */
int argus_host_name_valid(const char *name);

#endif /* ARGUS_UTIL_HOSTLIST_H */
