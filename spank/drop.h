/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming the job's user for good, in a child of slurmstepd.
 *
 * Everything here is async-signal-safe: slurmstepd has threads, so between
 * fork and exec nothing may allocate or lock.
 */
#ifndef ARGUS_SPANK_DROP_H
#define ARGUS_SPANK_DROP_H

#include <stddef.h>
#include <sys/types.h>

struct argus_identity {
    uid_t uid;
    gid_t gid;
    size_t ngroups;
    gid_t *groups; /* supplementary */
};

/*
 * Supplementary groups, all group ids, all user ids, in that order; then
 * checks that nothing is left and nothing comes back.  0 or an errno.
 */
int argus_drop_become(const struct argus_identity *id);

/* Signals: nothing blocked, everything at its default. */
void argus_drop_signals(void);

/* 0, 1, 2 from /dev/null, every other descriptor but `keep` closed (-1: none kept).
 * 0 or an errno. */
int argus_drop_files(int keep);

#endif /* ARGUS_SPANK_DROP_H */
