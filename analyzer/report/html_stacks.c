/* SPDX-License-Identifier: Apache-2.0 */
/* The culprit's CPU stacks while its GPU starved, as a flame graph: the widest frame is where the time went. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/stacks.h"

#define WIDTH 950
#define ROW 18
#define DEPTH_MAX 40
#define TABLE_ROWS 15

struct frame {
    char *name;
    double samples;
    struct frame *child; /* first */
    struct frame *next;  /* sibling */
};

static void free_frames(struct frame *f)
{
    while (f) {
        struct frame *next = f->next;

        free_frames(f->child);
        free(f->name);
        free(f);
        f = next;
    }
}

static struct frame *child_of(struct frame *parent, const char *name, size_t length)
{
    struct frame *f;

    for (f = parent->child; f; f = f->next)
        if (strlen(f->name) == length && !memcmp(f->name, name, length))
            return f;
    f = calloc(1, sizeof(*f));
    if (!f || !(f->name = strndup(name, length))) {
        free(f);
        return NULL;
    }
    f->next = parent->child;
    parent->child = f;
    return f;
}

/* "outermost;...;innermost" */
static int add_stack(struct frame *root, const char *folded, double samples)
{
    struct frame *at = root;

    root->samples += samples;
    for (int depth = 0; *folded && depth < DEPTH_MAX; depth++) {
        size_t n = strcspn(folded, ";");

        at = child_of(at, folded, n);
        if (!at)
            return -1;
        at->samples += samples;
        folded += n + (folded[n] == ';');
    }
    return 0;
}

static int depth_of(const struct frame *f)
{
    int deepest = 0;

    for (const struct frame *c = f->child; c; c = c->next) {
        int d = 1 + depth_of(c);

        deepest = d > deepest ? d : deepest;
    }
    return deepest;
}

/* Frames keep their colour from picture to picture; light enough for black letters. */
static unsigned frame_colour(const char *name)
{
    static const unsigned palette[] = {0xf6d9a8, 0xf3c58b, 0xf9e3c4, 0xefc9a4, 0xf7d0b0, 0xf2d8b8};
    unsigned hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return palette[hash % (sizeof(palette) / sizeof(palette[0]))];
}

static void draw_frame(struct picture *p, const struct frame *f, double x, double unit, double y)
{
    double w = f->samples * unit;
    char text[160];
    size_t n = 0;

    if (w < 1)
        return;
    picture_box(p, x, y, w - 0.5, ROW - 1, frame_colour(f->name));
    for (const char *c = f->name; *c && n + 1 < sizeof(text); c++)
        text[n++] = *c >= 0x20 && *c < 0x7f ? *c : '?';
    /* About six units a letter; what does not fit is cut, the table has it whole. */
    if (w > 30) {
        size_t fits = (size_t)((w - 8) / 5.8);

        text[n < fits ? n : fits] = '\0';
        picture_label(p, x + 4, y + ROW / 2.0, 1, 10, INK, text);
    }
    for (const struct frame *c = f->child; c; c = c->next) {
        draw_frame(p, c, x, unit, y - ROW);
        x += c->samples * unit;
    }
}

static void stacks_table(struct html *h, const struct argus_stacks *s)
{
    static const char *const head[] = {"stack, outermost first", "samples", "share, %"};

    html_table(h, "Figures", head, 3);
    for (size_t i = 0; i < s->n && i < TABLE_ROWS; i++) {
        html_row(h);
        html_cell(h, s->items[i].folded);
        html_cell_number(h, s->items[i].samples);
        html_cell_number(h, 100 * s->items[i].samples / s->samples);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

static void show(struct html *h, const struct frame *root, const struct argus_stacks *s)
{
    int depth = depth_of(root);
    struct picture p;
    double x = 0;
    char heading[96];

    snprintf(heading, sizeof(heading), "CPU stacks of rank %d", s->rank);
    html_section(h, "stacks", heading,
                 s->starved
                     ? "Samples taken while its GPU had nothing to do; outermost function at "
                       "the bottom, the width is the share of samples."
                     : "Samples of the whole run; outermost function at the bottom, the width is "
                       "the share of samples.");
    picture_begin(&p, WIDTH, depth * ROW + 8, 0);
    for (const struct frame *f = root->child; f; f = f->next) {
        draw_frame(&p, f, x, WIDTH / root->samples, (depth - 1) * ROW + 4);
        x += f->samples * WIDTH / root->samples;
    }
    picture_end(h, &p, "Flame graph of the culprit's CPU stacks.");
    stacks_table(h, s);
    html_section_end(h);
}

void html_stacks(struct html *h)
{
    struct argus_stacks *s = argus_stacks_load(h->m, h->v);
    struct frame root = {0};

    for (size_t i = 0; s && i < s->n; i++)
        if (add_stack(&root, s->items[i].folded, s->items[i].samples) < 0)
            h->failed = 1;
    if (root.child)
        show(h, &root, s);
    free_frames(root.child);
    argus_stacks_destroy(s);
}
