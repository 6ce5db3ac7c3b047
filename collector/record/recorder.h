/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder of one node and step: rings in, timelines out. */
#ifndef ARGUS_RECORD_RECORDER_H
#define ARGUS_RECORD_RECORDER_H

#include <signal.h>

#include "analyzer/util/error.h"

struct argus_recorder_options {
    const char *spool;
    const char *dir;   /* NULL: the step's own */
    int drain;         /* only what is left there */
    const char *sysfs; /* root of sysfs; NULL: /sys */
    const char *nvml;  /* library; NULL: libnvidia-ml.so.1 */
};

enum argus_recorder_stop {
    ARGUS_STOP_AFTER_RANKS = 1, /* once no process with a ring lives */
    ARGUS_STOP_NOW = 2          /* the step is over */
};

/* Runs until *stop (enum argus_recorder_stop) says so (or the rings are empty, with `drain`).  0; -1: nothing could be recorded. */
int argus_recorder_run(const struct argus_recorder_options *options,
                       const volatile sig_atomic_t *stop, argus_error_t *err);

#endif /* ARGUS_RECORD_RECORDER_H */
