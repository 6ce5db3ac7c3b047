/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is there whole or not at all: written beside its place, then put
 * there.  A signal that ends the process meanwhile takes what was written with
 * it; this holds for one file at a time.  What a SIGKILL left beside it is removed
 * by a write to the same file an hour or more later.
 */
#ifndef ARGUS_UTIL_REPLACE_H
#define ARGUS_UTIL_REPLACE_H

#include <stdio.h>

#include "analyzer/util/error.h"

struct argus_replacement {
    FILE *out;
    char *path, *temporary;
};

/* Open `r->out`.  -1: nothing is open and nothing is left behind. */
int argus_replace_open(struct argus_replacement *r, const char *path, argus_error_t *err);
/* Close it and put it in its place; `why` (NULL: all is well): what went wrong on the writer's side,
 * then the file is dropped.  `durable`: it is on the disk before it is in its place. */
int argus_replace_finish(struct argus_replacement *r, const char *why, int durable,
                         argus_error_t *err);

#endif /* ARGUS_UTIL_REPLACE_H */
