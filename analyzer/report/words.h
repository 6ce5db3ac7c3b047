/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences and figures that the terminal report and the HTML page share. */
#ifndef ARGUS_REPORT_WORDS_H
#define ARGUS_REPORT_WORDS_H

#include <argus/verdict.h>
#include <stddef.h>

/* One sentence: what the verdict means. */
const char *argus_words_meaning(const struct argus_verdict *v);
/* A slow link between host and GPU: no collective shows it. */
int argus_words_slow_copies(const struct argus_verdict *v);
/* Names into `out`, always terminated. */
void argus_words_who(const struct argus_verdict *v, char *out, size_t size);
void argus_words_culprits(const struct argus_culprit *list, size_t n, char *out, size_t size);
void argus_words_since(const struct argus_verdict *v, char *out, size_t size);
void argus_words_cost(const struct argus_verdict *v, char *out, size_t size);
void argus_words_job(const struct argus_verdict *v, char *out, size_t size);
/* What the verdict says, line by line: "who" and its text, since, cost, job, what is missing. */
void argus_words_facts(const struct argus_verdict *v,
                       void (*line)(void *arg, const char *name, const char *text), void *arg);
/* "1.93 s", "12.3 ms", "45 us"; "-" for NAN. */
void argus_words_duration(double ns, char *out, size_t size);
/* Three or four figures: "0.74", "1930", "2.25e+07" when it must; "-" for NAN. */
void argus_words_number(double x, char *out, size_t size);
/* Does this line of `next` look like a command to run? */
int argus_words_is_command(const char *text);
/* "1 rank", "512 ranks" */
void argus_words_count(long n, const char *thing, char *out, size_t size);

#endif /* ARGUS_REPORT_WORDS_H */
