/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the summary: a job written down in a few lines, fed to a
 * summary, and its timeline read back. */
#ifndef ARGUS_SUMMARY_TESTKIT_H
#define ARGUS_SUMMARY_TESTKIT_H

#include "analyzer/summary/summary.h"

struct kit {
    char dir[64];
    char path[128];
    argus_timeline_writer_t *w;
    argus_summary_t *s;
    int64_t now;  /* where the GPU is */
    uint32_t seq; /* of communicator `comm` */
    uint32_t comm;
    uint64_t events, total; /* fed: how many, sum of durations */
    uint64_t random;
};

void kit_open(struct kit *k, const struct argus_summary_options *options);
uint32_t kit_kernel(struct kit *k, const char *name, uint32_t grid);
uint32_t kit_collective(struct kit *k, uint32_t comm, int func, uint64_t bytes);
uint32_t kit_comm(struct kit *k, uint64_t hash, uint32_t size);
/* One event of `duration` at k->now + idle; moves k->now to its end. */
void kit_run(struct kit *k, uint32_t class_id, int64_t idle, int64_t duration);
void kit_call(struct kit *k, uint32_t class_id, int64_t idle, int64_t duration, uint32_t seq);
/* 0..n-1 */
uint32_t kit_random(struct kit *k, uint32_t n);
/* Finish, seal, open for reading.  kit_close() closes and removes everything. */
argus_timeline_t *kit_read(struct kit *k);
void *kit_rows(argus_timeline_t *t, enum argus_dataset dataset, size_t *n);
void kit_close(struct kit *k, argus_timeline_t *t);

#endif /* ARGUS_SUMMARY_TESTKIT_H */
