/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the Kineto importer: kineto.c parses, kineto_event.c keeps. */
#ifndef ARGUS_IMPORT_KINETO_H
#define ARGUS_IMPORT_KINETO_H

#include "analyzer/import/import.h"

enum kineto_value { KINETO_OTHER = 0, KINETO_NUMBER, KINETO_STRING };

/* A value as it stands in the file; valid during the call. */
struct kineto_slice {
    enum kineto_value kind;
    const char *text;
    size_t length;
};

struct kineto_text { /* grows; kept over events */
    char *s;
    size_t length, size;
};
/* The value itself; one more of a list, as "0, 4, 8".  -1: no memory. */
int kineto_text_set(struct kineto_text *to, struct kineto_slice v);
int kineto_text_add(struct kineto_text *to, struct kineto_slice v);

#define KINETO_DEVICES 16

/* One event while its map is read. */
struct kineto_event {
    char phase;
    struct kineto_text category, name, collective, dtype, group_name, group_ranks;
    int64_t start, duration; /* ns; INT64_MIN: none or bad */
    int64_t tid;
    int64_t stream, device, correlation, bytes;
    int64_t in_elements, out_elements, group_size, source, destination;
    uint32_t grid[3], block[3];
    unsigned n_grid, n_block;
    uint64_t on_device[KINETO_DEVICES]; /* GPU events by device, over the file */
    int failed;
};

void kineto_event_reset(struct kineto_event *e);
void kineto_event_free(struct kineto_event *e);
void kineto_event_field(struct kineto_event *e, const char *key, struct kineto_slice v);
void kineto_event_arg(struct kineto_event *e, const char *key, struct kineto_slice v);
/* Into the trace, if it is of a kind that we keep.  -1: no memory or a full table. */
int kineto_event_finish(struct kineto_event *e, struct import_trace *t);

/* "distributedInfo": rank and size of the job. */
void kineto_distributed(struct import_trace *t, const char *key, struct kineto_slice v);

/* "distributedInfo.pg_config": members of process groups, whole where the events' are shortened. */
struct kineto_group {
    struct kineto_text name, ranks;
    int64_t size;
};
struct kineto_groups {
    struct kineto_group open;
    int is_open;
    struct kineto_group *list;
    size_t n;
};
void kineto_group_start(struct kineto_groups *g);
void kineto_group_field(struct kineto_groups *g, int depth, const char *key, struct kineto_slice v);
int kineto_group_finish(struct kineto_groups *g);
int kineto_groups_apply(struct kineto_groups *g, struct import_trace *t);
void kineto_groups_free(struct kineto_groups *g);

/* "deviceProperties": names of the GPUs. */
struct kineto_devices {
    int64_t id;
    char name[64];
    struct {
        int64_t id;
        char name[64];
    } list[KINETO_DEVICES];
    size_t n;
};
void kineto_device_start(struct kineto_devices *d);
void kineto_device_field(struct kineto_devices *d, const char *key, struct kineto_slice v);
void kineto_devices_apply(const struct kineto_devices *d, struct import_trace *t,
                          const struct kineto_event *counts);

int64_t kineto_integer(struct kineto_slice v, int64_t otherwise);
/* Microseconds with a fraction, in decimal, to nanoseconds; exact.  INT64_MIN: not a time. */
int64_t kineto_time(struct kineto_slice v);
/* -1 with a text when `path` is no regular file. */
int kineto_is_regular(const char *path, argus_error_t *err);

#endif /* ARGUS_IMPORT_KINETO_H */
