/* SPDX-License-Identifier: Apache-2.0 */
/* Which unit slow paths have in common: what locate.c, link_units.c and link_evidence.c share. */
#ifndef ARGUS_DETECT_LOCATE_H
#define ARGUS_DETECT_LOCATE_H

#include "analyzer/detect/link.h"

enum argus_link_unit_kind {
    ARGUS_UNIT_PAIR,
    ARGUS_UNIT_RANK,
    ARGUS_UNIT_NODE_PAIR,
    ARGUS_UNIT_NODE,
    ARGUS_UNIT_KINDS
};

struct argus_link_unit {
    enum argus_link_unit_kind kind;
    int a, b; /* rank indices or nodes */
    double explained;
};

struct argus_link_place {
    const struct argus_model *m;
    struct argus_link_group *groups;
    size_t n;
    double *excess; /* by path: ns a step */
    double total;   /* of the slow paths looked at */
    int inter;      /* the kind of path looked at, or ARGUS_LINK_BOTH */
    struct argus_link_unit *found;
    size_t n_found;
};
#define ARGUS_LINK_BOTH -1

static inline int argus_link_in_place(const struct argus_link_place *p,
                                      const struct argus_link_group *g)
{
    return p->inter == ARGUS_LINK_BOTH || g->inter == p->inter;
}

/* link_units.c.  Rank index of member i of a path; -1: not recorded, -2: there are no more. */
int argus_link_member(const struct argus_model *m, const struct argus_link_group *g, uint32_t i);
/* Every unit that lies on a slow path. */
int argus_link_find_units(struct argus_link_place *p);
/* Smallest kind with a unit that explains enough; *n of them move to the front of `found`. */
enum argus_link_unit_kind argus_link_smallest(struct argus_link_place *p, size_t *n);
/* No single unit: as few as possible that explain enough together; 0: none do. */
size_t argus_link_several(struct argus_link_place *p, enum argus_link_unit_kind *kind);
/* The one GPU (else, where both are slow, the one node) that explains enough of the slow paths
 * within the nodes and enough of those between them; 0: there is none, or there are several. */
int argus_link_common(const struct argus_link_place *within, const struct argus_link_place *between,
                      struct argus_link_unit *unit);

/* link_evidence.c.  What the slow paths add to their members, as far as nothing hides it. */
int argus_link_add_excess(const struct argus_link_place *p, struct argus_evidence *e);
/* The classes of the slow paths. */
int argus_link_list_classes(const struct argus_link_place *p, struct argus_evidence *e);
/* Numbers and a sentence; `where` says what is slow. */
int argus_link_describe(const struct argus_link_place *p, struct argus_evidence *e,
                        const char *where);

#endif /* ARGUS_DETECT_LOCATE_H */
