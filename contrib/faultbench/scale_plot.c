/* SPDX-License-Identifier: Apache-2.0 */
/* What analyzing costs by the number of ranks, both axes logarithmic, beside a straight proportion. */
#include <cairo-svg.h>
#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contrib/faultbench/job.h"

enum { PANEL_W = 320, PANEL_H = 240, LEFT = 60, TOP = 50, GAP = 70, POINTS = 64, COLUMNS = 4 };

static const char *const titles[COLUMNS] = {"seconds", "MiB of memory", "file opens", "MiB read"};

struct table {
    double ranks[POINTS], value[COLUMNS][POINTS];
    int n;
};

static int read_table(const char *path, struct table *t)
{
    FILE *f = fopen(path, "r");
    char line[256];

    t->n = 0;
    while (f && t->n < POINTS && fgets(line, sizeof(line), f)) {
        double *v[COLUMNS];

        for (int k = 0; k < COLUMNS; k++)
            v[k] = &t->value[k][t->n];
        if (sscanf(line, "%lf %lf %lf %lf %lf", &t->ranks[t->n], v[0], v[1], v[2], v[3]) == 5)
            t->n++;
    }
    if (f)
        fclose(f);
    return f && t->n > 1 ? 0 : -1;
}

static void text(cairo_t *c, double x, double y, const char *s)
{
    cairo_move_to(c, x, y);
    cairo_show_text(c, s);
}

static double across(const struct table *t, double ranks)
{
    double low = log(t->ranks[0]), high = log(t->ranks[t->n - 1]);

    return PANEL_W * (log(ranks) - low) / (high > low ? high - low : 1);
}

static void panel(cairo_t *c, const struct table *t, int k, double x, double y)
{
    const double *v = t->value[k];
    double low = v[0] > 0 ? v[0] : 1e-3, high = low, last = t->ranks[t->n - 1];
    char buf[64];

    for (int i = 0; i < t->n; i++)
        high = fmax(high, fmax(v[i], low * t->ranks[i] / t->ranks[0]));
    cairo_set_source_rgb(c, 0, 0, 0);
    text(c, x, y - 8, titles[k]);
    cairo_rectangle(c, x, y, PANEL_W, PANEL_H);
    cairo_stroke(c);
    cairo_set_source_rgb(c, 0.6, 0.6, 0.6);
    cairo_move_to(c, x, y + PANEL_H);
    cairo_line_to(c, x + PANEL_W,
                  y + PANEL_H * (1 - log(last / t->ranks[0]) / fmax(log(high / low), 1e-9)));
    cairo_stroke(c);
    for (int i = 0; i < t->n; i++) {
        double px = x + across(t, t->ranks[i]);
        double share = log(fmax(v[i], low) / low) / fmax(log(high / low), 1e-9);
        double py = y + PANEL_H * (1 - share);

        cairo_set_source_rgb(c, 0.05, 0.32, 0.6);
        cairo_arc(c, px, py, 4, 0, 2 * M_PI);
        cairo_fill(c);
        cairo_set_source_rgb(c, 0, 0, 0);
        snprintf(buf, sizeof(buf), "%.4g", v[i]);
        text(c, px - (i == t->n - 1 ? 34 : -6), py - 7, buf);
        snprintf(buf, sizeof(buf), "%g", t->ranks[i]);
        text(c, px - 12, y + PANEL_H + 14, buf);
    }
}

int fb_scale_plot(const char *data, const char *svg)
{
    const int width = 2 * (PANEL_W + GAP) + LEFT, height = 2 * (PANEL_H + GAP) + TOP;
    struct table t;
    cairo_surface_t *surface;
    cairo_status_t status;
    cairo_t *c;

    if (read_table(data, &t) < 0) {
        fprintf(stderr, "scale: %s: fewer than two lines of figures\n", data);
        return 1;
    }
    surface = cairo_svg_surface_create(svg, width, height);
    c = cairo_create(surface);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_set_line_width(c, 1);
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_set_font_size(c, 13);
    text(c, LEFT, 20, "argus analyze by ranks (simulated jobs); grey: in proportion to the ranks");
    cairo_set_font_size(c, 11);
    for (int k = 0; k < COLUMNS; k++)
        panel(c, &t, k, LEFT + k % 2 * (PANEL_W + GAP), TOP + k / 2 * (PANEL_H + GAP));
    cairo_destroy(c);
    cairo_surface_finish(surface);
    status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status != CAIRO_STATUS_SUCCESS)
        fprintf(stderr, "scale: %s: %s\n", svg, cairo_status_to_string(status));
    return status != CAIRO_STATUS_SUCCESS;
}
