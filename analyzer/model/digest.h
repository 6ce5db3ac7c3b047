/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One timeline boiled down: what a loader process hands to its parent.  All
 * of it lives in the arena.
 */
#ifndef ARGUS_MODEL_DIGEST_H
#define ARGUS_MODEL_DIGEST_H

#include <jansson.h>
#include "analyzer/model/arena.h"
#include "analyzer/model/model.h"

struct argus_digest_comm {
    struct argus_comm_row row;
    const char *name;
    const char *members;
    int group;    /* index into the model's groups, set by argus_model_build_groups() */
    int position; /* our rank in it, -1: not known */
};

struct argus_digest_comm_class {
    int comm; /* index into comms, -1: unknown communicator */
    uint8_t func, dtype;
    int32_t peer;
    uint64_t bytes;
    uint32_t flags;
    struct argus_rank_comm data;
    int comm_class; /* set by argus_model_build_collectives() */
    int folded;     /* 1: added to `into`, another one of the same class */
    struct argus_digest_comm_class *into;
    uint64_t bytes_max;
};

struct argus_digest_class {
    struct argus_kernel_class key;
    struct argus_rank_class data;
};

struct argus_digest {
    int done; /* 1: rank is filled, -1: `error` says why not */
    char error[512];
    struct argus_model_rank rank;
    struct argus_digest_comm *comms;
    size_t n_comms;
    struct argus_digest_comm_class *comm_classes;
    size_t n_comm_classes;
    struct argus_digest_class *classes; /* in order of signature */
    size_t n_classes;
    int *slot; /* by class id of the file: index into comm_classes or classes, -1: neither */
    uint8_t *kind;
    size_t n_slots;
};

/* Read `path` into `d`. */
int argus_digest_load(const char *path, argus_arena_t *arena, struct argus_digest *d,
                      argus_error_t *err);

/* The parts of argus_model_load(), each in its file. */
struct argus_model_build {
    struct argus_model *m;
    argus_arena_t *arena;
    struct argus_digest **digests; /* by rank index */
    const struct argus_model_options *options;
    int unknown_group; /* of calls without a communicator, -1: none */
    size_t *uses;      /* by group: calls by function, [group * ARGUS_FUNC_COUNT + func] */
};
int argus_model_build_groups(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_steps(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_collectives(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_topology(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_peers(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_kernels(struct argus_model_build *b, argus_error_t *err);
int argus_model_build_wait(struct argus_model_build *b, argus_error_t *err);
void argus_model_read_keys(struct argus_model *m);
/* NULL: err->text says why, "" where there is no such file. */
json_t *argus_model_load_json(const char *path, json_error_t *err);
void argus_model_note_standdowns(struct argus_model *m);

#endif /* ARGUS_MODEL_DIGEST_H */
