/* SPDX-License-Identifier: Apache-2.0 */
/* Recall by magnitude, one line a fault, as SVG. */
#include <cairo-svg.h>
#include <cairo.h>
#include <math.h>
#include <stdio.h>

#include "contrib/faultbench/bench.h"

enum { LEFT = 130, CELL = 64, ROW = 26, TOP = 60 };

static void text(cairo_t *c, double x, double y, const char *s)
{
    cairo_move_to(c, x, y);
    cairo_show_text(c, s);
}

/* From white over blue to dark blue: readable in grey, too. */
static void colour(cairo_t *c, double share)
{
    cairo_set_source_rgb(c, 0.95 - 0.90 * share, 0.97 - 0.65 * share, 1.0 - 0.40 * share);
}

static void cell(cairo_t *c, const struct fb_score *s, int k, int m, double x, double y)
{
    double share =
        s->magnitude_jobs[k][m] ? (double)s->magnitude_found[k][m] / s->magnitude_jobs[k][m] : 0.0;
    char buf[48];

    colour(c, share);
    cairo_rectangle(c, x, y, CELL - 2, ROW - 2);
    cairo_fill(c);
    if (share > 0.5)
        cairo_set_source_rgb(c, 1, 1, 1);
    else
        cairo_set_source_rgb(c, 0, 0, 0);
    snprintf(buf, sizeof(buf), "%g: %.2f", s->magnitude[k][m], share);
    text(c, x + 3, y + ROW - 10, buf);
}

int fb_score_picture(const struct fb_score *s, const char *path)
{
    int rows = 0, y = TOP;
    cairo_surface_t *surface;
    cairo_t *c;
    cairo_status_t status;

    for (int k = 1; k < FB_FAULT_COUNT; k++)
        rows += s->jobs[k] > 0;
    surface = cairo_svg_surface_create(path, LEFT + CELL * 8, TOP + ROW * rows + 20);
    c = cairo_create(surface);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_set_font_size(c, 13);
    text(c, 8, 20, "faultbench (simulated): share of jobs with the right verdict and culprit");
    cairo_set_font_size(c, 11);
    text(c, 8, 40, "each cell: magnitude of the fault: share");
    for (int k = 1; k < FB_FAULT_COUNT; k++) {
        if (!s->jobs[k])
            continue;
        cairo_set_source_rgb(c, 0, 0, 0);
        text(c, 8, y + ROW - 10, fb_fault_name((enum fb_fault_kind)k));
        for (int m = 0; m < s->magnitudes[k] && m < 8; m++)
            cell(c, s, k, m, LEFT + m * CELL, y);
        y += ROW;
    }
    cairo_destroy(c);
    cairo_surface_finish(surface);
    status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS ? 0 : -1;
}
