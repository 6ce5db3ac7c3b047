/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step's time went into, by interval unions.  A pure function of the
 * step's events.
 */
#ifndef ARGUS_SUMMARY_BREAKDOWN_H
#define ARGUS_SUMMARY_BREAKDOWN_H

#include <stddef.h>
#include <stdint.h>

#include <argus/timeline.h>

/* Where an event counts. */
enum argus_lane {
    ARGUS_LANE_COMPUTE = 0,
    ARGUS_LANE_COMM = 1,
    ARGUS_LANE_COPY = 2,
    ARGUS_LANE_COUNT = 3,
    ARGUS_LANE_HOST = 3 /* not on the GPU */
};

struct argus_pending { /* an event that waits for its step */
    int64_t start;
    int64_t end;
    uint32_t class_id;
    uint32_t seq;
};

/* What the breakdown asks of a class. */
struct argus_class_brief {
    uint8_t lane;
    uint8_t family; /* enum argus_family */
    uint8_t phase;  /* ARGUS_CLASS_FORWARD, ARGUS_CLASS_BACKWARD or 0 */
    uint8_t kind;   /* enum argus_class_kind */
    uint8_t func;
    uint8_t pad[3];
    uint32_t comm;
    uint64_t bytes;
};

struct argus_span {
    int64_t start;
    int64_t end;
};

/* Memory that one breakdown leaves for the next, and what reaches over the border: GPU work of an
 * earlier step that still ran when the step began. */
struct argus_breakdown {
    struct argus_span *spans[ARGUS_LANE_COUNT];
    size_t capacity[ARGUS_LANE_COUNT];
    size_t n[ARGUS_LANE_COUNT];
    int64_t busy_until[ARGUS_LANE_COUNT];
    int64_t *lead; /* idle directly before event i, for communication kernels */
    size_t lead_capacity;
    int failed; /* no memory on the way */
};

/* Events sorted by start, all starting in [start, end).  Fills every time and count of `row` but
 * not its number, anchors, flags and new_classes; b->lead[i] for event i.  -1: no memory. */
int argus_breakdown_step(struct argus_breakdown *b, const struct argus_pending *events, size_t n,
                         const struct argus_class_brief *classes, int64_t start, int64_t end,
                         struct argus_step_row *row);
/* Give back what only a large step needed; b->lead is gone then. */
void argus_breakdown_trim(struct argus_breakdown *b);
void argus_breakdown_free(struct argus_breakdown *b);

#endif /* ARGUS_SUMMARY_BREAKDOWN_H */
