/* SPDX-License-Identifier: Apache-2.0 */
/* What layout.c (who), program.c (what) and engine.c (when) share. */
#ifndef FAULTBENCH_INTERNAL_H
#define FAULTBENCH_INTERNAL_H

#include "contrib/faultbench/job.h"

enum fb_stream {
    FB_COMPUTE = 0,
    FB_GRADS = 1,
    FB_RECV_F = 2,
    FB_SEND_F = 3,
    FB_RECV_B = 4,
    FB_SEND_B = 5,
    FB_MODEL = 6,
    FB_COPY_IN = 7,
    FB_COPY_OUT = 8
};

enum fb_op_type {
    FB_OP_KERNEL,   /* ns on `stream` */
    FB_OP_COPY,     /* ns on `stream`, whatever the step's data */
    FB_OP_TRANSFER, /* a collective, or one side of a send/recv, on `channel` */
    FB_OP_WAIT,     /* `stream` waits for what `other` has been given so far */
    FB_OP_HOST,     /* the host does something else for ns; sync: once compute is done so far */
    FB_OP_NOTE,     /* a host-side record (OVERHEAD, ALLOC) that ends now and lasted ns */
    FB_OP_SYNC      /* the host waits for all streams */
};

struct fb_op {
    uint8_t type, stream, other, sync;
    uint32_t cls;
    int channel;
    int64_t ns;
    uint64_t bytes;
};

struct fb_program {
    struct fb_op *v;
    size_t n, room;
};

/* One ordered line of transfers between fixed members: a communicator's
 * collectives, or one direction of a pair. */
struct fb_channel {
    int group;
    int func;
    int n, arrived;
    int is_pair;
    int pair[2]; /* sender, receiver */
    int64_t latest;
    int64_t *arrival; /* [n] */
    uint8_t *stream;  /* [n] */
    uint32_t *cls;    /* [n] */
    uint64_t bytes;
    uint32_t seq;
};

#define FB_CLASS_SLOTS (1u << 20)

struct fb_layout { /* positions and communicators of a job */
    struct fb_result *r;
    int dp;
    struct fb_channel *channels;
    size_t n_channels, channels_room;
    int *ch_world, *ch_tp, *ch_dp, *ch_ep; /* [world] channel of the rank's group, -1: none */
    int *ch_replica;                       /* [world] FSDP: the same shard in the other replicas */
    int *ch_fwd, *ch_bwd; /* [world] channel to the next stage (fwd), from it (bwd) */
    double *rank_factor;  /* [world] */
    double *copy_factor;  /* [world] */
    uint32_t *class_slot; /* open addressing: class id + 1 */
    int64_t nominal_step;
    uint64_t rng;
};

int fb_layout_make(struct fb_layout *l, struct fb_result *r);
void fb_layout_free(struct fb_layout *l);
int fb_tp_of(const struct fb_spec *s, int rank);
int fb_dp_of(const struct fb_spec *s, int rank);
int fb_pp_of(const struct fb_spec *s, int rank);
int fb_node_of(const struct fb_spec *s, int rank);
/* The rank's ops of one step, with the fault's effect on what is done (not on how long transfers take). */
int fb_program_build(struct fb_layout *l, int rank, int step, struct fb_program *p);
int fb_fault_active(const struct fb_fault *f, int step);
/* Class id of an equal class, added when new. */
uint32_t fb_class_id(struct fb_layout *l, const struct fb_class *c);
/* Member i of a channel, and which member a rank is. */
int fb_member(const struct fb_layout *l, const struct fb_channel *c, int i);
int fb_index(const struct fb_layout *l, const struct fb_channel *c, int rank);

#endif /* FAULTBENCH_INTERNAL_H */
