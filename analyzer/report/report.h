/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verdict for people: on a terminal, and as one self-contained HTML file.
 * Both take the verdict alone, and show pictures where a model is given.
 */
#ifndef ARGUS_REPORT_H
#define ARGUS_REPORT_H

#include <argus/verdict.h>
#include <stdio.h>

#include "analyzer/model/model.h"
#include "analyzer/util/error.h"

struct argus_report_options {
    int utf8;    /* 0: plain ASCII */
    int colour;  /* 1: ANSI colours */
    int columns; /* width of text; 0: 80 */
};

/* What the stream can show: UTF-8 by the locale, colours on a terminal unless NO_COLOR is set or TERM is "dumb". */
void argus_report_options_for(struct argus_report_options *options, FILE *out);

/* -1: writing failed. */
int argus_report_text(FILE *out, const struct argus_verdict *v, const struct argus_model *m,
                      const struct argus_report_options *options);
int argus_report_html_to(FILE *out, const struct argus_verdict *v, const struct argus_model *m,
                         argus_error_t *err);
/* Written whole, then renamed to `path`. */
int argus_report_html(const char *path, const struct argus_verdict *v, const struct argus_model *m,
                      argus_error_t *err);

/* Three lines: the verdict; who, since when, at what cost; where in `dir`, the job's, the report is. */
int argus_report_summary(FILE *out, const struct argus_verdict *v, const char *dir);

/* <dir>/report.txt (UTF-8, no colours) and <dir>/report.html. */
int argus_report_write(const char *dir, const struct argus_verdict *v, const struct argus_model *m,
                       argus_error_t *err);

#endif /* ARGUS_REPORT_H */
