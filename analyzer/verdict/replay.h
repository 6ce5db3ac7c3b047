/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay of kept steps on their dependency graph (after Lin et al., "Understanding Stragglers in
 * Large Model Training Using What-if Analysis", OSDI 2025; built from kernels, not framework
 * records).
 *
 * An operation follows the one before it on its stream, and the last one of another stream that
 * ended before it began, if that is what it waited for or is a receive.  A collective ends for
 * everybody when the last member has come, plus the transfer; the two sides of a send alike.
 * Replaying with other durations tells what the step would have taken.
 */
#ifndef ARGUS_VERDICT_REPLAY_H
#define ARGUS_VERDICT_REPLAY_H

#include "analyzer/detect/detect.h"

typedef struct argus_replay argus_replay_t;

/* Up to `most` kept steps of [first, end), evenly spread.  NULL without an error text: nothing to
 * replay (no kept steps, or not of enough ranks). */
argus_replay_t *argus_replay_create(const struct argus_model *m, int first, int end, int most,
                                    argus_error_t *err);
void argus_replay_destroy(argus_replay_t *r);
int argus_replay_steps(const argus_replay_t *r);

/* Mean step time, ns: with the durations that were; and with compute at its mean over all ranks
 * and transfers at their median.  S = actual / ideal; waste = 1 - 1/S. */
double argus_replay_actual(argus_replay_t *r);
double argus_replay_ideal(argus_replay_t *r);
/* Ideal for the chosen ranks only, the rest as it was: what a repair would bring. */
double argus_replay_without_ranks(argus_replay_t *r, const int *ranks, size_t n);
/* Faults that a replay can take away: slow kernels of ranks, of a stage, of a side; slow copies and
 * transfers; stalls that are in every step. */
int argus_replay_can(const struct argus_evidence *e);
/* As if the faults were not there, except `but` (may be NULL): kernels (or copies) of culprits, and
 * of a split's slow side, at their peers' median, the stage's at the others' level, transfers at
 * what was expected, no delay on a stalling rank.  delays: 1 keeps the gaps between operations, 0
 * drops them. */
double argus_replay_without(argus_replay_t *r, const struct argus_evidence *const *e, size_t n,
                            const struct argus_evidence *but, double delays);

#endif /* ARGUS_VERDICT_REPLAY_H */
