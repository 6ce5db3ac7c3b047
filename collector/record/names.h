/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process's names and kernels were resolved to.  The ring's strings
 * are looked at once; after that a kernel is one look-up away from its class.
 */
#ifndef ARGUS_RECORD_NAMES_H
#define ARGUS_RECORD_NAMES_H

#include <argus/record.h>

#include "analyzer/summary/summary.h"
#include "collector/record/ring_reader.h"

struct argus_name_facts {
    uint32_t offset; /* in the ring's heap */
    uint32_t string; /* id in the timeline */
    uint32_t phase;  /* ARGUS_CLASS_FORWARD, _BACKWARD or 0 */
    uint8_t family;
    uint8_t comm_func; /* ARGUS_FUNC_NONE: not communication */
    uint16_t mark_kind;
};

struct argus_kernel_key {
    struct argus_rec_kernel kernel; /* device, graph and node 0 */
    uint32_t class_id;
    uint32_t used;
};

struct argus_names {
    argus_timeline_writer_t *w;
    struct argus_name_facts *facts;
    uint32_t n_facts, cap_facts;
    uint32_t *index; /* hash table of facts + 1 */
    uint32_t cap_index;
    struct argus_kernel_key *kernels;
    uint32_t n_kernels, cap_kernels;
    uint32_t graphs[64]; /* ids in order of appearance */
    uint32_t n_graphs;
    uint32_t newest_class; /* classes below have been seen */
};

void argus_names_init(struct argus_names *n, argus_timeline_writer_t *w);
void argus_names_free(struct argus_names *n);
/* Index of the facts of a name; of "(unknown)" where the ring has no such name. */
uint32_t argus_names_find(struct argus_names *n, struct argus_ring *ring, uint32_t offset);
const struct argus_name_facts *argus_names_at(const struct argus_names *n, uint32_t index);
/* 1: this kernel's class is known. */
int argus_names_kernel(const struct argus_names *n, const struct argus_rec_kernel *k,
                       uint32_t *class_id);
void argus_names_remember(struct argus_names *n, const struct argus_rec_kernel *k,
                          uint32_t class_id);
/* Graph ids differ between ranks; the order of their appearance does not. */
uint32_t argus_names_graph(struct argus_names *n, uint32_t graph);
void argus_names_save(const struct argus_names *n, struct argus_blob *b);
/* The same names again, from the same ring. */
void argus_names_restore(struct argus_names *n, struct argus_ring *ring, struct argus_blob *b);

#endif /* ARGUS_RECORD_NAMES_H */
