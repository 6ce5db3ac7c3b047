/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The period of a stream of tokens.  Pure functions.
 */
#ifndef ARGUS_SUMMARY_PERIOD_H
#define ARGUS_SUMMARY_PERIOD_H

#include <stddef.h>
#include <stdint.h>

/* z[i] = length of the longest common prefix of s and s + i, z[0] = n (Gusfield 1997). O(n). */
void argus_z_function(const uint32_t *s, size_t n, uint32_t *z);

struct argus_period {
    size_t period;  /* tokens; 0: none */
    size_t covered; /* tokens at the end of the stream that repeat with it */
    double match;   /* share of them equal to the token one period earlier */
};

/* The smallest period with which the last tokens repeat: >= 3 times exactly, else >= 4 times with
 * >= 95 % of the tokens equal.  `mark` (may be NULL) is one byte a token; where given, tokens
 * are equal only if their marks are, and a period must hold a marked one: a gradient accumulation's
 * micro-batch repeats too, but only the whole step has an optimizer in it.  -1: no memory. */
int argus_period_find(const uint32_t *tokens, const uint8_t *mark, size_t n,
                      struct argus_period *out);

#endif /* ARGUS_SUMMARY_PERIOD_H */
