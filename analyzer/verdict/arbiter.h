/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence -> one verdict.
 *
 * What is priced below `info` is a finding of severity none; the costliest
 * fault is the verdict, further ones are findings, symptoms are explained.
 * Confidence = data quality x effect x persistence x agreement; below 0.5 the
 * verdict is insufficient-data and says what is missing.
 */
#ifndef ARGUS_VERDICT_ARBITER_H
#define ARGUS_VERDICT_ARBITER_H

#include <argus/verdict.h>

#include "analyzer/detect/detect.h"

/* NULL on error. */
struct argus_verdict *argus_arbiter_decide(const struct argus_model *m,
                                           const struct argus_evidence_list *evidence,
                                           argus_error_t *err);
/* All of it: detectors, prices, verdict. */
struct argus_verdict *argus_diagnose(struct argus_model *m, argus_error_t *err);

/* short.c: what a recording too short for a verdict shows; notes may be added to the model. */
int argus_short_recording(struct argus_model *m, struct argus_verdict *v);
/* explain.c: who waits where, and what the culprits look like to others. */
int argus_explain(const struct argus_model *m, const struct argus_evidence *e,
                  struct argus_verdict *v);
/* cause.c: what the culprits' devices said in the span of the fault, against others: sentences and evidence. */
int argus_cause(const struct argus_model *m, const struct argus_evidence *e,
                struct argus_verdict *v);
/* Ready commands and advice. */
int argus_advise(const struct argus_model *m, const struct argus_evidence *e,
                 struct argus_verdict *v);

#endif /* ARGUS_VERDICT_ARBITER_H */
