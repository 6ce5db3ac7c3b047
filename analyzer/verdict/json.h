/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.json, schema "argus-verdict/1": the keys of the design and of
 * include/argus/verdict.h, in a fixed order; unknown numbers, ranks, steps and
 * strings are null.  `job.dir` is not part of it.
 *
 * Reading checks every type and bound and says which key of which file is
 * wrong; a key that is missing counts as unknown, a key that is not known is
 * skipped (a newer argus may have written it).
 */
#ifndef ARGUS_VERDICT_JSON_H
#define ARGUS_VERDICT_JSON_H

#include <argus/verdict.h>
#include <jansson.h>

#include "analyzer/util/error.h"

#define ARGUS_VERDICT_JSON_MAX (32u << 20) /* bytes of a verdict.json that is read */

/* The verdict as an object, for callers that wrap it; NULL: no memory. */
json_t *argus_verdict_to_object(const struct argus_verdict *v);
/* Its text, malloc'd, ends in LF; NULL: no memory. */
char *argus_verdict_to_json(const struct argus_verdict *v);
/* `name` stands for the file in errors.  NULL on error. */
struct argus_verdict *argus_verdict_from_json(const char *text, size_t length, const char *name,
                                              argus_error_t *err);
struct argus_verdict *argus_verdict_read(const char *path, argus_error_t *err);
/* Whole or not at all: a temporary file beside it, then rename. */
int argus_verdict_write(const struct argus_verdict *v, const char *path, argus_error_t *err);

#endif /* ARGUS_VERDICT_JSON_H */
