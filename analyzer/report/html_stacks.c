/* SPDX-License-Identifier: Apache-2.0 */
/* The culprit's CPU stacks while its GPU starved, as a flame graph: the widest frame is where the time went. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/words.h"
#include "analyzer/timeline/timeline_io.h"

#define WIDTH 950
#define ROW 18
#define DEPTH_MAX 40
#define SAMPLES_MAX 1000000
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
static int add_stack(struct frame *root, const char *folded)
{
    struct frame *at = root;

    root->samples++;
    for (int depth = 0; *folded && depth < DEPTH_MAX; depth++) {
        size_t n = strcspn(folded, ";");

        at = child_of(at, folded, n);
        if (!at)
            return -1;
        at->samples++;
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

/* One line of the table: the innermost frame and how often it was on top. */
struct leaf {
    char *path;
    double samples;
};

static int compare_leaves(const void *a, const void *b)
{
    double x = ((const struct leaf *)a)->samples, y = ((const struct leaf *)b)->samples;

    return x < y ? 1 : x > y ? -1 : 0;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct leaf *)a)->path, ((const struct leaf *)b)->path);
}

static size_t merge_equal(struct leaf *leaves, size_t n)
{
    size_t kept = 0;

    qsort(leaves, n, sizeof(*leaves), compare_paths);
    for (size_t i = 0; i < n; i++) {
        if (kept && !strcmp(leaves[kept - 1].path, leaves[i].path))
            leaves[kept - 1].samples += leaves[i].samples;
        else
            leaves[kept++] = leaves[i];
    }
    qsort(leaves, kept, sizeof(*leaves), compare_leaves);
    return kept;
}

static void stacks_table(struct html *h, const struct leaf *leaves, size_t n, double total)
{
    static const char *const head[] = {"stack, outermost first", "samples", "share, %"};

    html_table(h, "Figures", head, 3);
    for (size_t i = 0; i < n && i < TABLE_ROWS; i++) {
        html_row(h);
        html_cell(h, leaves[i].path);
        html_cell_number(h, leaves[i].samples);
        html_cell_number(h, 100 * leaves[i].samples / total);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

static void show(struct html *h, const struct frame *root, struct leaf *leaves, size_t n, int rank,
                 int starved)
{
    int depth = depth_of(root);
    struct picture p;
    double x = 0;
    char heading[96];

    snprintf(heading, sizeof(heading), "CPU stacks of rank %d", rank);
    html_section(h, "stacks", heading,
                 starved
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
    stacks_table(h, leaves, n, root->samples);
    html_section_end(h);
}

void html_stacks(struct html *h)
{
    const struct argus_model *m = h->m;
    argus_timeline_t *t = NULL;
    struct argus_stack_row *rows = NULL;
    struct frame root = {0};
    struct leaf *leaves = NULL;
    size_t rank = 0, n = 0, used = 0;
    int starved = 0;

    while (rank < m->n_ranks && !argus_view_is_culprit(m, h->v, rank))
        rank++;
    if (rank == m->n_ranks || !m->ranks[rank].path ||
        !(t = argus_timeline_open(m->ranks[rank].path, NULL)))
        return;
    rows = argus_timeline_read_all(t, ARGUS_DS_STACKS, SAMPLES_MAX, &n, NULL);
    for (size_t i = 0; rows && i < n; i++)
        starved |= rows[i].starved != 0;
    leaves = rows && n ? calloc(n, sizeof(*leaves)) : NULL;
    for (size_t i = 0; leaves && i < n; i++) {
        const char *folded = argus_timeline_string(t, rows[i].folded);

        if ((starved && !rows[i].starved) || !folded[0])
            continue;
        leaves[used] = (struct leaf){(char *)folded, 1};
        used++;
        if (add_stack(&root, folded) < 0)
            h->failed = 1;
    }
    if (used && root.child) {
        used = merge_equal(leaves, used);
        show(h, &root, leaves, used, m->ranks[rank].rank, starved);
    }
    free_frames(root.child);
    free(leaves);
    free(rows);
    argus_timeline_close(t);
}
