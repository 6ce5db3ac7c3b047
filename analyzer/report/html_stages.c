/* SPDX-License-Identifier: Apache-2.0 */
/* What each pipeline stage does with a step. */
#include <config.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"

#define WIDTH 950
#define LEFT 110
#define BAR 22
#define GAP 10

static const struct {
    const char *name;
    unsigned rgb;
} parts[] = {{"compute", 0x0b4f8a},
             {"waiting for others", 0xeea35c},
             {"communication, copies", 0x9fc3de},
             {"idle", 0xd9d9d9}};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

/* What is left of the step: the GPU sends, receives or copies and nothing else. */
static double communication(const struct argus_view_stage *s)
{
    return fmax(s->step - fmax(s->compute, 0) - fmax(s->wait, 0) - fmax(s->idle, 0), 0);
}

static void draw_stage(struct picture *p, const struct argus_view_stage *s, double y, double scale,
                       int culprit)
{
    double part[PARTS] = {s->compute, s->wait, communication(s), s->idle}, x = LEFT;
    char text[64];

    snprintf(text, sizeof(text), "stage %d (%zu)", s->stage, s->n_ranks);
    picture_label(p, LEFT - 8, y + BAR / 2.0, -1, 12, culprit ? ALERT : INK, text);
    for (int i = 0; i < PARTS; i++) {
        double w = isnan(part[i]) ? 0 : part[i] * scale;

        picture_box(p, x, y, w, BAR, parts[i].rgb);
        if (w > 60) {
            argus_words_duration(part[i], text, sizeof(text));
            picture_label(p, x + w / 2, y + BAR / 2.0, 0, 11, i == 0 ? 0xffffff : INK, text);
        }
        x += w;
    }
    if (culprit)
        picture_line(p, LEFT - 4, y, LEFT - 4, y + BAR, 3, ALERT);
}

static void stages_table(struct html *h, const struct argus_view_stage *stages, size_t n)
{
    static const char *const head[] = {"stage",         "ranks", "compute", "waiting",
                                       "communication", "idle",  "step"};

    html_table(h, "Figures", head, 7);
    for (size_t i = 0; i < n; i++) {
        html_row(h);
        html_cell_number(h, stages[i].stage);
        html_cell_number(h, (double)stages[i].n_ranks);
        html_cell_duration(h, stages[i].compute);
        html_cell_duration(h, stages[i].wait);
        html_cell_duration(h, communication(&stages[i]));
        html_cell_duration(h, stages[i].idle);
        html_cell_duration(h, stages[i].step);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

void html_stages(struct html *h)
{
    struct argus_view_stage *stages;
    struct picture p;
    double longest = 0, x = LEFT;
    size_t n;

    if (h->m->topology.pp < 2 || !(stages = argus_view_stages(h->m, &n)))
        return;
    for (size_t i = 0; i < n; i++) {
        double sum = fmax(stages[i].compute, 0) + fmax(stages[i].wait, 0) + fmax(stages[i].idle, 0);

        longest = fmax(longest, fmax(isnan(sum) ? 0 : sum, stages[i].step));
    }
    if (longest > 0) {
        html_section(h, "stages", "Pipeline stages",
                     "The median rank of each stage in the median step. A stage with more compute "
                     "than the others makes them wait: its own bar has the least waiting.");
        picture_begin(&p, WIDTH, 30 + (double)n * (BAR + GAP), 0);
        for (size_t i = 0; i < n; i++)
            draw_stage(&p, &stages[i], 6 + (double)i * (BAR + GAP), (WIDTH - LEFT - 20) / longest,
                       h->v->stage == stages[i].stage);
        for (int i = 0; i < PARTS; i++) {
            double y = 14 + (double)n * (BAR + GAP);

            picture_box(&p, x, y - 5, 10, 10, parts[i].rgb);
            picture_label(&p, x + 16, y, 1, 11, FAINT, parts[i].name);
            x += 165;
        }
        picture_end(h, &p, "A bar for each pipeline stage: compute, waiting, communication, idle.");
        stages_table(h, stages, n);
        html_section_end(h);
    }
    free(stages);
}
