/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of a live view: timelines that are followed (live_files.c), what they say (live.c). */
#ifndef ARGUS_REPORT_LIVE_FILES_H
#define ARGUS_REPORT_LIVE_FILES_H

#include <argus/timeline.h>

#include "analyzer/report/live.h"
#include "analyzer/timeline/timeline_io.h"

/* One rank's timeline and its last steps, newest last. */
struct argus_live_follower {
    char *path;
    argus_timeline_t *t; /* NULL: closed, or not readable so far */
    int known;           /* it was read once: info and counters are there */
    struct argus_timeline_info info;
    struct argus_timeline_counters counters;
    size_t seen; /* rows of `steps` */
    struct argus_step_row rows[ARGUS_LIVE_WINDOW];
    int n;
    int sealed;
    double duration, compute, exposed, idle, kernels; /* medians of the window */
};

struct argus_live {
    char *dir; /* of the timelines */
    int close; /* each timeline as soon as it is read */
    struct argus_live_follower **followers;
    size_t n;
    int until_rescan;
    struct argus_live_view view;
};

/* Read what is new in all of them, look for new ranks now and then.  -1: the directory is gone or memory is short. */
int argus_live_follow(struct argus_live *l, argus_error_t *err);
void argus_live_follower_free(struct argus_live_follower *f); /* accepts NULL */

#endif /* ARGUS_REPORT_LIVE_FILES_H */
