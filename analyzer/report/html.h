/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the HTML page.  Internal to the html_*.c files.
 *
 * No script, no network, no style from elsewhere: pictures are images in data
 * URIs, drawn by cairo; behind each stands a table with its figures, closed
 * until asked for.  Every string of a verdict or a timeline goes through
 * html_text().
 */
#ifndef ARGUS_REPORT_HTML_H
#define ARGUS_REPORT_HTML_H

#include <cairo.h>
#include <stdio.h>

#include "analyzer/report/report.h"
#include "analyzer/report/view.h"

struct html {
    FILE *out;
    const struct argus_verdict *v;
    const struct argus_model *m; /* may be NULL */
    int failed;                  /* out of memory while drawing */
};

/* ---- html_out.c: text --------------------------------------------------- */

void html_put(struct html *h, const char *markup); /* as it is: constants only */
void html_text(struct html *h, const char *text);  /* escaped; NULL prints nothing */
void html_textf(struct html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* <section id> with its heading and a sentence that says how to read it (NULL: none). */
void html_section(struct html *h, const char *id, const char *heading, const char *how);
void html_section_end(struct html *h);
/* "<details><summary>Figures</summary><table>" with a head of n columns, the first of them text. */
void html_table(struct html *h, const char *summary, const char *const *head, size_t n);
void html_table_end(struct html *h, int in_details);
void html_cell(struct html *h, const char *text);
void html_cell_number(struct html *h, double x);
void html_cell_duration(struct html *h, double ns);
void html_row(struct html *h);
void html_row_end(struct html *h);

/* ---- html_picture.c: drawing ---------------------------------------------- */

struct picture {
    cairo_surface_t *surface;
    cairo_t *cr;
    double width, height;
    int png;
    unsigned char *data;
    size_t length, room;
    int failed;
};

/* Lines and text: SVG.  Cells: PNG at twice the resolution. */
void picture_begin(struct picture *p, double width, double height, int png);
/* Writes <img alt="..."> and frees. */
void picture_end(struct html *h, struct picture *p, const char *alt);
void picture_colour(struct picture *p, unsigned rgb);
/* x: -1 left, 0 centre, 1 right of the point; y: the middle of the text stands at it. */
void picture_label(struct picture *p, double x, double y, int align, double size, unsigned rgb,
                   const char *text);
/* From the point upwards. */
void picture_label_up(struct picture *p, double x, double y, double size, unsigned rgb,
                      const char *text);
void picture_line(struct picture *p, double x1, double y1, double x2, double y2, double width,
                  unsigned rgb);
void picture_box(struct picture *p, double x, double y, double w, double h, unsigned rgb);
/* Onset and recovery of the verdict over an axis of so many steps: lines through the plot, words 27 below it. */
void picture_marks(struct picture *p, const struct argus_verdict *v, double left, double top,
                   double width, double height, int steps);
/* From pale to dark, the darker the worse; also in grey and for the colour-blind.  level 0..1; NAN: no data. */
unsigned picture_heat(double level);
/* A round distance for about n ticks over a span. */
double picture_tick(double span, int n);

#define INK 0x1b1b1b
#define FAINT 0x767676
#define GRID 0xd9d9d9
#define ACCENT 0x0b4f8a /* lines of data */
#define ALERT 0xb3261e  /* culprit, onset */

/* Rows by columns of a view with labels, scale and onset; `low`, `high`: ends of the scale. */
void html_heat(struct html *h, const struct argus_view *view, double low, double high,
               const char *alt);

/* ---- sections; each prints nothing where the data has nothing ------------- */

void html_steps(struct html *h);       /* step time */
void html_heat_maps(struct html *h);   /* compute, wait, idle */
void html_collectives(struct html *h); /* work against siblings, node pairs */
int html_edges(struct html *h);        /* node pairs by the network's proxies; 0: no such rows */
void html_kernels(struct html *h);     /* densities of the culprit's kernel classes */
void html_stages(struct html *h);      /* pipeline */
void html_stacks(struct html *h);      /* flame graph of starving samples */

#endif /* ARGUS_REPORT_HTML_H */
