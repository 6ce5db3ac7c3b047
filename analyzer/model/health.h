/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devices said of themselves in a span of time, read from a rank's
 * timeline when somebody asks.  The rows come every ten seconds and only when
 * a value changed, so a value holds until the next one.
 *
 * Of the last ten seconds of a job what was counted stands in a row that comes
 * after its last step.  It is taken for a span that goes to the end: an error
 * that ended the job is in no other.  Clocks and power of then are those of a
 * GPU that has nothing to do.
 */
#ifndef ARGUS_MODEL_HEALTH_H
#define ARGUS_MODEL_HEALTH_H

#include "analyzer/model/model.h"

enum argus_health_kind {
    ARGUS_HEALTH_GAUGE,   /* mean over the span, weighted by time */
    ARGUS_HEALTH_COUNTER, /* growth within the span */
    ARGUS_HEALTH_EVENT    /* the last one until the end of the span; no value without one */
};

struct argus_health_want {
    const char *metric;
    enum argus_health_kind kind;
};

struct argus_health_reading {
    int want;        /* index into the list that was asked for */
    char device[64]; /* GPU or port */
    double value;
};

struct argus_health_span {
    int64_t from, to; /* ns */
    int to_end;       /* no step comes after it */
};

/* Readings of rank `rank_index` in `span`; *readings is malloc'd.  A timeline without health rows
 * gives none. */
int argus_model_health(const struct argus_model *m, size_t rank_index,
                       const struct argus_health_span *span, const struct argus_health_want *want,
                       size_t n_want, struct argus_health_reading **readings, size_t *n,
                       argus_error_t *err);

#endif /* ARGUS_MODEL_HEALTH_H */
