/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text on a terminal.  Names in a verdict come from jobs and drivers: control
 * bytes never reach the terminal, and without UTF-8 nothing beyond ASCII does.
 */
#ifndef ARGUS_REPORT_PAGE_H
#define ARGUS_REPORT_PAGE_H

#include <stdio.h>

#include "analyzer/report/report.h"

enum argus_ink {
    ARGUS_INK_PLAIN,
    ARGUS_INK_BOLD,
    ARGUS_INK_DIM,
    ARGUS_INK_GOOD,
    ARGUS_INK_INFO,
    ARGUS_INK_WARN,
    ARGUS_INK_BAD
};

struct argus_page {
    FILE *out;
    struct argus_report_options options;
    int at; /* columns used of the line */
};

void argus_page_begin(struct argus_page *p, FILE *out, const struct argus_report_options *options);
void argus_page_ink(struct argus_page *p, enum argus_ink ink);
/* Text as it is, made safe; a line feed ends the line. */
void argus_page_put(struct argus_page *p, const char *text);
void argus_page_printf(struct argus_page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Blanks up to a column. */
void argus_page_tab(struct argus_page *p, int column);
/* Words, wrapped between the present column and the width, continued at `indent`; ends the line. */
void argus_page_wrap(struct argus_page *p, int indent, const char *text);
/* A command: like wrap, but broken with a backslash, and never inside quotes. */
void argus_page_command(struct argus_page *p, int indent, const char *text);
void argus_page_heading(struct argus_page *p, const char *text);
void argus_page_rule(struct argus_page *p);
/* One cell of a picture: 0..1 as a shade, a bar or (NAN) as "no data". */
void argus_page_shade(struct argus_page *p, double level);
void argus_page_bar(struct argus_page *p, double level);

#endif /* ARGUS_REPORT_PAGE_H */
