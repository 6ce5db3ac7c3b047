/* SPDX-License-Identifier: Apache-2.0 */
/* Step time over the run, and the heat maps of ranks by steps. */
#include <config.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"

#define WIDTH 950
#define HEIGHT 230
#define LEFT 70
#define RIGHT 20
#define TOP 16
#define BOTTOM 40
#define COLUMNS 400  /* points of the step-time line */
#define HEAT_ROWS 48 /* culprits, outliers and groups */
#define HEAT_COLUMNS 260
#define TABLE_COLUMNS 12 /* of a heat map's table */
#define TABLE_POINTS 40

struct axes {
    double low, high; /* ns */
    int steps;
};

static double at_x(const struct axes *a, double step)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * step / a->steps;
}

static double at_y(const struct axes *a, double ns)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (ns - a->low) / (a->high - a->low));
}

static void draw_axes(struct picture *p, const struct axes *a)
{
    double tick = picture_tick(a->high - a->low, 5), step = fmax(picture_tick(a->steps, 8), 1);
    char text[32];

    for (double ns = ceil(a->low / tick) * tick; ns <= a->high; ns += tick) {
        picture_line(p, LEFT, at_y(a, ns), WIDTH - RIGHT, at_y(a, ns), 1, GRID);
        argus_words_duration(ns, text, sizeof(text));
        picture_label(p, LEFT - 6, at_y(a, ns), -1, 11, FAINT, text);
    }
    for (double k = 0; k <= a->steps; k += step) {
        snprintf(text, sizeof(text), "%.0f", k);
        picture_label(p, at_x(a, k), HEIGHT - BOTTOM + 14, 0, 11, FAINT, text);
    }
    picture_label(p, LEFT - 14, HEIGHT - BOTTOM + 14, -1, 11, FAINT, "step");
}

static void draw_series(struct picture *p, const struct axes *a, const float *times, int columns,
                        int bin)
{
    int down = 0;

    picture_colour(p, ACCENT);
    cairo_set_line_width(p->cr, 1.5);
    for (int c = 0; c < columns; c++) {
        double x = at_x(a, (c + 0.5) * bin);

        if (isnan(times[c])) {
            down = 0;
            continue;
        }
        if (down)
            cairo_line_to(p->cr, x, at_y(a, times[c]));
        else
            cairo_move_to(p->cr, x, at_y(a, times[c]));
        down = 1;
    }
    cairo_stroke(p->cr);
}

static void steps_table(struct html *h)
{
    static const char *const head[] = {"steps from", "to", "median step time"};
    int columns, bin;
    float *times = argus_view_step_times(h->m, TABLE_POINTS, &columns, &bin);

    if (!times)
        return;
    html_table(h, "Figures", head, 3);
    for (int c = 0; c < columns; c++) {
        int last = (c + 1) * bin < h->m->n_steps ? (c + 1) * bin : h->m->n_steps;

        html_row(h);
        html_cell_number(h, c * bin);
        html_cell_number(h, last - 1);
        html_cell_duration(h, times[c]);
        html_row_end(h);
    }
    html_table_end(h, 1);
    free(times);
}

void html_steps(struct html *h)
{
    int columns, bin;
    float *times = argus_view_step_times(h->m, COLUMNS, &columns, &bin), low = NAN, high = NAN;
    struct axes a;
    struct picture p;

    if (!times)
        return;
    for (int c = 0; c < columns; c++) {
        low = fminf(low, times[c]);
        high = fmaxf(high, times[c]);
    }
    if (isnan(low)) {
        free(times);
        return;
    }
    /* At least a fifth from bottom to top: noise of a healthy job must look like noise. */
    a.high = high + 0.05 * (high - low);
    a.low = fmin(low - 0.05 * (high - low), a.high / 1.2);
    a.steps = columns * bin;
    html_section(h, "steps", "Step time",
                 bin > 1 ? "The median over all ranks; a point stands for several steps."
                         : "The median over all ranks, every compared step.");
    picture_begin(&p, WIDTH, HEIGHT, 0);
    draw_axes(&p, &a);
    draw_series(&p, &a, times, columns, bin);
    picture_marks(&p, h->v, LEFT, TOP - 8, WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - TOP + 8,
                  a.steps);
    picture_end(h, &p, "Line of the step time over the steps; its figures are in the table below.");
    steps_table(h);
    html_section_end(h);
    free(times);
}

/* A coarser copy of the picture in figures. */
static void heat_table(struct html *h, enum argus_view_kind kind)
{
    struct argus_view *view = argus_view_create(h->m, h->v, kind, HEAT_ROWS, TABLE_COLUMNS);
    char text[TABLE_COLUMNS][32];
    const char *head[TABLE_COLUMNS + 2] = {"", "ranks"};

    if (!view)
        return;
    for (int c = 0; c < view->n_columns; c++) {
        snprintf(text[c], sizeof(text[c]), "step %d", c * view->steps_per_column);
        head[c + 2] = text[c];
    }
    html_table(h, "Figures", head, (size_t)view->n_columns + 2);
    for (size_t r = 0; r < view->n_rows; r++) {
        html_row(h);
        html_put(h, view->rows[r].culprit ? "<th scope=\"row\" class=\"culprit\">"
                                          : "<th scope=\"row\">");
        html_text(h, view->rows[r].label);
        html_put(h, "</th>");
        html_cell_number(h, (double)view->rows[r].n_ranks);
        for (int c = 0; c < view->n_columns; c++)
            html_cell_number(h, view->rows[r].value[c]);
        html_row_end(h);
    }
    html_table_end(h, 1);
    argus_view_destroy(view);
}

static void heat_map(struct html *h, enum argus_view_kind kind, const char *id, const char *heading,
                     const char *how, double low, double least_high)
{
    struct argus_view *view = argus_view_create(h->m, h->v, kind, HEAT_ROWS, HEAT_COLUMNS);

    if (!view)
        return;
    html_section(h, id, heading, how);
    html_heat(h, view, low, fmax(view->high, least_high), heading);
    heat_table(h, kind);
    html_section_end(h);
    argus_view_destroy(view);
}

void html_heat_maps(struct html *h)
{
    if (argus_words_slow_copies(h->v))
        heat_map(h, ARGUS_VIEW_COPY, "copies", "Copies of each rank against its peers",
                 "Time in copies of a step, most of it between host and GPU. Pale is as long as "
                 "those of the peers take; dark is slower.",
                 1, 1.5);
    heat_map(h, ARGUS_VIEW_COMPUTE, "compute", "Compute of each rank against its peers",
             "Peers run the same stage of the model. Pale is as fast as they are; dark is slower. "
             "With many ranks, the ones named and the ones that stand out keep rows of their own.",
             1, 1.1);
    heat_map(h, ARGUS_VIEW_WAIT, "wait", "Waiting for others",
             "Share of the step that a rank spends waiting in collectives. A late rank stays pale "
             "while the ranks that wait for it go dark.",
             0, 0.05);
    heat_map(h, ARGUS_VIEW_IDLE, "idle", "Idle GPU",
             "Share of the step in which nothing ran on the GPU; the worst step of each column.", 0,
             0.5);
}
