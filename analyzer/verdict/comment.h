/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounting comment: one line of at most ARGUS_COMMENT_MAX bytes, printed
 * by nobody but this file.  A promise to users; tokens are parted by single
 * blanks:
 *
 *   comment  = "argus:1" verdict [severity] *( key "=" value )
 *   verdict  = "ok" | "compute-straggler" | ... | "insufficient-data"
 *   severity = "none" | "info" | "warn" | "critical"     (not with ok, insufficient-data)
 *
 * Keys, in this order, each at most once and only where the verdict has it:
 *
 *   ranks= steps= step=1930ms  ok, insufficient-data: ranks, compared steps, median step time
 *   missing=steps              insufficient-data: the signal that is missing
 *   rank=13                    culprits: "3,7,9", "3,7+12" is two of fourteen
 *   node=n07                   their nodes, likewise; for slow-link the link's node
 *   gpu=5                      local index of the one culprit
 *   stage=3                    pipeline stage
 *   link=nic                   slow-link: gpu, pcie, nic, node, pair, fabric
 *   peer=n08 oneof=n1,n3       slow-link: the other end; what the data cannot tell apart
 *   pattern=periodic phase=backward
 *   slowdown=1.31              step time / step time without the fault
 *   since=412 until=520        steps
 *   lost=42.1gpuh conf=0.97
 *   simulated=1                the GPUs were a stand-in
 *   dir=/shared/argus/4711     job directory; always last
 *
 * All lower case, no quotes, no '|', no blanks in values: in names and paths a
 * byte outside [a-z0-9/._+@:,~-] stands as %xx, so that a directory survives
 * releases of sacctmgr that lower-case what they store.  A line that would be
 * too long loses pattern, phase, until, oneof, simulated, dir in this order;
 * no value is ever cut.
 */
#ifndef ARGUS_VERDICT_COMMENT_H
#define ARGUS_VERDICT_COMMENT_H

#include <argus/verdict.h>

#include "analyzer/util/error.h"

#define ARGUS_COMMENT_LIST 8   /* names that a list holds */
#define ARGUS_COMMENT_NAME 128 /* bytes of a name, with NUL */

struct argus_comment_names {
    char name[ARGUS_COMMENT_LIST][ARGUS_COMMENT_NAME];
    size_t n;
    int more; /* not named */
};

/* A comment taken apart; what it does not say is ARGUS_UNKNOWN, NAN, "" or an empty list. */
struct argus_comment {
    enum argus_verdict_kind kind;
    enum argus_severity severity;
    int ranks, steps;
    double step_ms;
    char missing[ARGUS_COMMENT_NAME];
    int rank[ARGUS_COMMENT_LIST];
    size_t n_rank;
    int more_rank;
    struct argus_comment_names node;
    int gpu;
    int stage;
    char link[ARGUS_COMMENT_NAME];
    struct argus_comment_names peer, oneof;
    char pattern[ARGUS_COMMENT_NAME];
    char phase[ARGUS_COMMENT_NAME];
    double slowdown;
    int since, until;
    double gpu_hours;
    double confidence;
    int simulated;
    char dir[ARGUS_COMMENT_MAX + 1];
};

/* The line of a verdict, malloc'd; NULL: no memory. */
char *argus_comment_format(const struct argus_verdict *v);
/* The whole line must be one comment: byte for byte what argus_comment_format() could have written. */
int argus_comment_validate(const char *line, argus_error_t *err);
int argus_comment_parse(const char *line, struct argus_comment *out, argus_error_t *err);
/* Our part of a field that may hold other tools' text: its first byte, its length in *length; NULL: none.  It ends
 * before the first token that is not ours. */
const char *argus_comment_find(const char *field, size_t *length);
/* What the field becomes with our line in it: the part already there is replaced in place, else ours is appended after
 * a blank; other text is kept byte for byte.  `field` may be NULL.  malloc'd; NULL: no memory. */
char *argus_comment_merge(const char *field, const char *line);

/* What the field becomes without any part of ours.  malloc'd; NULL: no memory. */
char *argus_comment_without(const char *field);

#endif /* ARGUS_VERDICT_COMMENT_H */
