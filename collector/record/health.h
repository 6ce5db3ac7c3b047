/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks, throttling, errors of the node's GPUs (NVML, loaded at run time)
 * and counters of its network ports (sysfs), every ten seconds.
 *
 * A thread of its own asks: a driver with a sick GPU can take minutes to
 * answer, and the rings must be read meanwhile.  Values are handed over in
 * batches; one that did not change is handed over once a minute.
 */
#ifndef ARGUS_RECORD_HEALTH_H
#define ARGUS_RECORD_HEALTH_H

#include <stdint.h>

#define ARGUS_HEALTH_DEVICE_BYTES 64
#define ARGUS_HEALTH_METRIC_BYTES 48

struct argus_health_value {
    char metric[ARGUS_HEALTH_METRIC_BYTES]; /* "gpu_..." or "nic_..." */
    char device[ARGUS_HEALTH_DEVICE_BYTES]; /* GPU uuid; "mlx5_0:1", "eth0" */
    int64_t time;                           /* CLOCK_REALTIME ns */
    double value;
};

typedef struct argus_health argus_health_t;
typedef void (*argus_health_f)(void *arg, const struct argus_health_value *value);

/* `sysfs` NULL: /sys; `nvml` NULL: libnvidia-ml.so.1.  Nothing of it there is no error.  NULL: no
 * thread could be started. */
argus_health_t *argus_health_start(const char *sysfs, const char *nvml, int64_t period_ns);
/* A GPU of this node is in use; known ones are ignored. */
void argus_health_watch(argus_health_t *h, const char *uuid);
/* Asks for a sample now; does not wait. */
void argus_health_ask(argus_health_t *h);
/* Is there an answer to the last argus_health_ask()? */
int argus_health_answered(argus_health_t *h);
/* Hands over what has come since the last call. */
void argus_health_take(argus_health_t *h, argus_health_f f, void *arg);
/* Ends the thread; one that hangs in the driver is left behind. */
void argus_health_stop(argus_health_t *h); /* accepts NULL */

#endif /* ARGUS_RECORD_HEALTH_H */
