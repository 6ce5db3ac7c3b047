/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures made of characters. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/strips.h"
#include "analyzer/report/view.h"
#include "analyzer/report/words.h"
#include "analyzer/stats/stats.h"

#define LABEL 18      /* columns of a row's label */
#define WIDE_LABEL 28 /* ... with a group, a function and a size */
#define ROWS 16       /* of a heat strip */
#define WAIT_MIN 0.05 /* a wait scale never ends below: noise must not look like a fault */

/* Marks the onset under a strip whose first cell stands at `left`. */
static void onset_mark(struct argus_page *p, const struct argus_verdict *v, int steps_per_column,
                       int columns, int left)
{
    int at = v->onset_step > 0 ? v->onset_step / steps_per_column : -1;

    if (at < 0 || at >= columns)
        return;
    argus_page_tab(p, left + at);
    argus_page_printf(p, "^ step %d\n", v->onset_step);
}

static void step_strip(struct argus_page *p, const struct argus_verdict *v,
                       const struct argus_model *m)
{
    int columns, bin, width = p->options.columns - LABEL - 2;
    float *times = argus_view_step_times(m, width, &columns, &bin), low = NAN, high = NAN;
    char a[32], b[32], heading[96];

    if (!times)
        return;
    for (int c = 0; c < columns; c++) {
        low = fminf(low, times[c]);
        high = fmaxf(high, times[c]);
    }
    if (!isnan(low)) {
        argus_words_duration(low, a, sizeof(a));
        argus_words_duration(high, b, sizeof(b));
        snprintf(heading, sizeof(heading), "Step time, %s to %s", a, b);
        argus_page_heading(p, heading);
        argus_page_tab(p, LABEL + 2);
        /* A flat series is drawn flat: the scale spans at least a tenth. */
        for (int c = 0; c < columns; c++)
            argus_page_bar(p, (times[c] - low) / fmaxf(high - low, 0.1F * low));
        argus_page_put(p, "\n");
        onset_mark(p, v, bin, columns, LABEL + 2);
    }
    free(times);
}

/* As much of a label as fits, whole words if it has several. */
static int label_length(const char *label, int room)
{
    int n = (int)strlen(label), cut = room;

    if (n <= room)
        return n;
    while (cut > 0 && label[cut] != ' ')
        cut--;
    return cut > 0 ? cut : room;
}

static int label_width(enum argus_view_kind kind)
{
    return kind == ARGUS_VIEW_WORK ? WIDE_LABEL : LABEL;
}

static void row_label(struct argus_page *p, const struct argus_view_row *row,
                      enum argus_view_kind kind)
{
    int room = label_width(kind) - 1;
    char count[24] = "";

    if (row->n_ranks > 1 && kind != ARGUS_VIEW_WORK)
        snprintf(count, sizeof(count), " (%zu)", row->n_ranks);
    /* Where there is room for one of them only, the label matters more than how many it stands for. */
    if ((int)(strlen(row->label) + strlen(count)) > room)
        count[0] = '\0';
    argus_page_put(p, row->culprit ? "> " : "  ");
    if (row->culprit)
        argus_page_ink(p, ARGUS_INK_BOLD);
    argus_page_printf(p, "%.*s%s", label_length(row->label, room - (int)strlen(count)), row->label,
                      count);
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_tab(p, label_width(kind) + 2);
}

/* How a view is shown: what its cells mean, and the least upper end of its scale, below which all is noise. */
static const struct {
    const char *heading;
    double low, least_high;
} looks[] = {
    [ARGUS_VIEW_COMPUTE] = {"Compute against peers, ranks by steps", 1, 1.1},
    [ARGUS_VIEW_WAIT] = {"Waiting for others, ranks by steps", 0, 0.05},
    [ARGUS_VIEW_IDLE] = {"Idle GPU, ranks by steps", 0, 0.1},
    [ARGUS_VIEW_COPY] = {"Time in copies against peers, ranks by steps", 1, 1.5},
    [ARGUS_VIEW_WORK] = {"Transfer time against sibling groups", 1, 1.5},
};

static void heat_strip(struct argus_page *p, const struct argus_verdict *v, struct argus_view *view)
{
    double low, high;

    if (!view)
        return;
    low = looks[view->kind].low;
    high = fmax(view->high, looks[view->kind].least_high);
    argus_page_heading(p, looks[view->kind].heading);
    for (size_t r = 0; r < view->n_rows; r++) {
        row_label(p, &view->rows[r], view->kind);
        for (int c = 0; c < view->n_columns; c++)
            argus_page_shade(p, (view->rows[r].value[c] - low) / (high - low));
        argus_page_put(p, "\n");
    }
    onset_mark(p, v, view->steps_per_column, view->n_columns, label_width(view->kind) + 2);
    argus_page_put(p, "  ");
    argus_page_ink(p, ARGUS_INK_DIM);
    if (low > 0)
        argus_page_printf(p, "1.00x to %.2fx  ", high);
    else
        argus_page_printf(p, "0 to %.0f %% of the step  ", 100 * high);
    for (int k = 0; k < 5; k++)
        argus_page_shade(p, (k + 0.5) / 5);
    argus_page_printf(p, "  a cell is %d step%s", view->steps_per_column,
                      view->steps_per_column == 1 ? "" : "s");
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_put(p, "\n");
    argus_view_destroy(view);
}

/* One character a rank (or a block of ranks): the late one waits least. */
static void wait_strip(struct argus_page *p, const struct argus_model *m)
{
    int width = p->options.columns - LABEL - 2, lines = m->n_ranks <= 256 ? 4 : 1, ok = 0;
    size_t cells = (size_t)(width * lines), block = (m->n_ranks + cells - 1) / cells;
    double *share = malloc(sizeof(*share) * m->n_ranks), high = 0;
    double *steps = malloc(sizeof(*steps) * (size_t)(m->n_steps > 0 ? m->n_steps : 1));

    if (!share || !steps)
        goto out;
    for (size_t r = 0; r < m->n_ranks; r++) {
        size_t n = 0;

        for (int k = 0; k < m->n_steps; k++) {
            float wait = argus_rank_col(&m->ranks[r], ARGUS_COL_WAIT, k);
            float whole = argus_rank_col(&m->ranks[r], ARGUS_COL_DURATION, k);

            if (m->use[k] && whole > 0 && !isnan(wait))
                steps[n++] = wait / whole;
        }
        share[r] = argus_median_inplace(steps, n);
        ok |= !isnan(share[r]);
        high = share[r] > high ? share[r] : high;
    }
    if (!ok)
        goto out;
    high = fmax(high, WAIT_MIN);
    argus_page_heading(p, "Wait by rank (the late one waits least)");
    for (size_t first = 0; first < m->n_ranks; first += (size_t)width * block) {
        size_t end =
            first + (size_t)width * block < m->n_ranks ? first + (size_t)width * block : m->n_ranks;

        argus_page_printf(p, "  %d-%d", m->ranks[first].rank, m->ranks[end - 1].rank);
        argus_page_tab(p, LABEL + 2);
        for (size_t r = first; r < end; r += block) {
            double least = NAN;

            /* Of a block the least counts: a single late rank must not drown. */
            for (size_t i = r; i < r + block && i < end; i++)
                least = fmin(least, share[i]);
            argus_page_bar(p, least / high);
        }
        argus_page_put(p, "\n");
    }
    argus_page_ink(p, ARGUS_INK_DIM);
    argus_page_printf(p, "  0 to %.0f %% of the step", 100 * high);
    if (block > 1)
        argus_page_printf(p, "; a bar is the least of %zu ranks", block);
    argus_page_ink(p, ARGUS_INK_PLAIN);
    argus_page_put(p, "\n");
out:
    free(share);
    free(steps);
}

static void stage_bars(struct argus_page *p, const struct argus_model *m)
{
    size_t n;
    struct argus_view_stage *stages;
    double high = 0;
    char time[32];

    if (m->topology.pp < 2 || !(stages = argus_view_stages(m, &n)))
        return;
    for (size_t i = 0; i < n; i++)
        high = fmax(high, stages[i].step);
    if (high > 0) {
        argus_page_heading(
            p, p->options.utf8
                   ? "Pipeline stages: compute (\xe2\x96\x88), waiting (\xc2\xb7), of a step"
                   : "Pipeline stages: compute (#), waiting (.), of a step");
        for (size_t i = 0; i < n; i++) {
            int width = p->options.columns - LABEL - 22, used;

            argus_page_printf(p, "  stage %-3d (%zu)", stages[i].stage, stages[i].n_ranks);
            argus_page_tab(p, LABEL + 2);
            used = (int)lrint(width * fmin(stages[i].compute / high, 1));
            for (int c = 0; c < used; c++)
                argus_page_put(p, p->options.utf8 ? "\xe2\x96\x88" : "#");
            for (int c = 0; c < (int)lrint(width * stages[i].wait / high) && used < width;
                 c++, used++)
                argus_page_put(p, p->options.utf8 ? "\xc2\xb7" : ".");
            argus_words_duration(stages[i].compute, time, sizeof(time));
            argus_page_printf(p, " compute %s\n", time);
        }
    }
    free(stages);
}

int argus_strips_is_stall(enum argus_verdict_kind kind)
{
    return kind == ARGUS_VERDICT_HOST_STALL || kind == ARGUS_VERDICT_DATA_STALL ||
           kind == ARGUS_VERDICT_JIT_STALL || kind == ARGUS_VERDICT_ALLOCATOR_STALL;
}

void argus_strips(struct argus_page *p, const struct argus_verdict *v, const struct argus_model *m)
{
    int width = p->options.columns - LABEL - 2;

    enum argus_view_kind ranks = argus_words_slow_copies(v)       ? ARGUS_VIEW_COPY
                                 : argus_strips_is_stall(v->kind) ? ARGUS_VIEW_IDLE
                                                                  : ARGUS_VIEW_COMPUTE;

    step_strip(p, v, m);
    if (v->kind == ARGUS_VERDICT_SLOW_LINK && ranks != ARGUS_VIEW_COPY)
        heat_strip(p, v, argus_view_work(m, ROWS / 2, width + LABEL - WIDE_LABEL));
    heat_strip(p, v, argus_view_create(m, v, ranks, ROWS, width));
    wait_strip(p, m);
    stage_bars(p, m);
}
