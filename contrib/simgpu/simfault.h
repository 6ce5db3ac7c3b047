/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIMGPU_FAULT: what the stand-in libraries shall do wrong, a list of
 *
 *   name[@FROM[-TO]][:value[:text]]        separated by commas
 *
 * FROM and TO count launches (libcuda's faults) or GPU records (libcupti's),
 * from 1; without them a fault holds from the start.  README.md lists the names.
 */
#ifndef SIMFAULT_H
#define SIMFAULT_H

#include <stdint.h>

#define SIMFAULT_MAX 32

struct simfault {
    char name[32];
    uint64_t from, to; /* to: UINT64_MAX when not given */
    double value;
    char text[32]; /* the value, or what follows it, as written */
    int fired;
};

/* Each stand-in library has its own copy of the list (hidden symbols). */
int simfault_armed(void);
void simfault_disarm(void);
/* The fault of that name, or NULL. */
struct simfault *simfault_find(const char *name);
/* As find, but once only, when `count` has reached `from`. */
const struct simfault *simfault_due(const char *name, uint64_t count);
/* As find, while from <= count <= to. */
const struct simfault *simfault_active(const char *name, uint64_t count);
/* The fault's value if it is there, else `otherwise`. */
double simfault_value(const char *name, double otherwise);

#endif /* SIMFAULT_H */
