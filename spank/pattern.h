/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path patterns of plugstack.conf: %u user, %j job, %A array job, %a array
 * task, %w directory of submission, %N cluster, %n node, %% a percent sign.
 */
#ifndef ARGUS_SPANK_PATTERN_H
#define ARGUS_SPANK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/util/error.h"

/* Values; NULL where there is none. */
struct argus_pattern_facts {
    const char *user;
    const char *job;
    const char *array_job;
    const char *array_task;
    const char *workdir;
    const char *cluster;
    const char *node;
};

/*
 * Is it absolute (or, if `relative`, begins with %w), of printable characters,
 * without ".." and with no letters after % but those of `letters`?
 */
int argus_pattern_check(const char *pattern, const char *letters, bool relative,
                        argus_error_t *err);

/*
 * Expands a checked pattern.  Values may come from the user: %w must be an
 * absolute path without "..", any other value one path component.
 */
int argus_pattern_expand(const char *pattern, const struct argus_pattern_facts *facts, char *out,
                         size_t size, argus_error_t *err);

/* Absolute, printable, no component "..". */
bool argus_path_sane(const char *path);

#endif /* ARGUS_SPANK_PATTERN_H */
