/* SPDX-License-Identifier: Apache-2.0 */
/* Where health values come from.  Called by the health thread only. */
#ifndef ARGUS_RECORD_HEALTH_SOURCES_H
#define ARGUS_RECORD_HEALTH_SOURCES_H

/* device, metric, value */
typedef void (*argus_sample_f)(void *arg, const char *device, const char *metric, double value);

typedef struct argus_nvml argus_nvml_t;
argus_nvml_t *argus_nvml_open(const char *library); /* NULL: none, or it refuses */
void argus_nvml_sample(argus_nvml_t *n, const char *uuid, argus_sample_f f, void *arg);
/* Errors that the driver has reported since (XID). */
void argus_nvml_events(argus_nvml_t *n, argus_sample_f f, void *arg);
void argus_nvml_close(argus_nvml_t *n); /* accepts NULL */

/* Ports of class/infiniband and class/net below `root`. */
void argus_ports_sample(const char *root, argus_sample_f f, void *arg);

#endif /* ARGUS_RECORD_HEALTH_SOURCES_H */
