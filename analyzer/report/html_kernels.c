/* SPDX-License-Identifier: Apache-2.0 */
/* Densities of the kernel classes in which the culprit differs most from its peers. */
#include <config.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/report/html.h"
#include "analyzer/report/kernel_modes.h"
#include "analyzer/report/words.h"

#define PEERS 12      /* peers that are read */
#define CANDIDATES 24 /* classes compared: the culprit's costliest */
#define SHOWN 4
#define QUANTILES 64
#define POINTS 200
#define WIDTH 465
#define HEIGHT 190
#define SIGMA_FLOOR 0.004 /* of a drawn curve, in ln(duration) */

struct rank_classes {
    struct argus_kernel_modes *list;
    size_t n;
};

struct compared {
    const struct argus_kernel_modes *own;
    const struct argus_kernel_modes *peer[PEERS];
    size_t n_peers;
    double own_p50, peers_p50;
    double w1;     /* mean over peers, ns */
    double weight; /* what the difference costs: W1 x calls */
};

static size_t choose_peers(const struct argus_model *m, const struct argus_verdict *v,
                           size_t culprit, size_t *peers)
{
    int set = m->ranks[culprit].peers;
    size_t n_all = 0, n = 0, *all = malloc(sizeof(*all) * m->n_ranks);

    for (size_t r = 0; all && r < m->n_ranks; r++) {
        int same = set >= 0 ? m->ranks[r].peers == set : m->ranks[r].pp == m->ranks[culprit].pp;

        if (same && r != culprit && !argus_view_is_culprit(m, v, r))
            all[n_all++] = r;
    }
    for (size_t i = 0; i < n_all && n<PEERS; i += n_all> PEERS ? (n_all + PEERS - 1) / PEERS : 1)
        peers[n++] = all[i];
    free(all);
    return n;
}

static int compare_cost(const void *a, const void *b)
{
    double x = (*(const struct argus_kernel_modes *const *)a)->time;
    double y = (*(const struct argus_kernel_modes *const *)b)->time;

    return x < y ? 1 : x > y ? -1 : 0;
}

static int compare_weight(const void *a, const void *b)
{
    double x = ((const struct compared *)a)->weight, y = ((const struct compared *)b)->weight;

    return x < y ? 1 : x > y ? -1 : 0;
}

static void compare_class(struct compared *c, const struct rank_classes *peers, size_t n_peers)
{
    double own[QUANTILES], other[QUANTILES], medians = 0;

    if (argus_mixture_quantiles(c->own->modes, c->own->n_modes, own, QUANTILES) < 0)
        return;
    c->own_p50 = (own[QUANTILES / 2 - 1] + own[QUANTILES / 2]) / 2;
    for (size_t i = 0; i < n_peers; i++) {
        const struct argus_kernel_modes *k =
            argus_kernel_modes_find(peers[i].list, peers[i].n, c->own->key);

        if (!k || argus_mixture_quantiles(k->modes, k->n_modes, other, QUANTILES) < 0)
            continue;
        c->peer[c->n_peers++] = k;
        c->w1 += argus_w1_quantiles(own, other, QUANTILES);
        medians += (other[QUANTILES / 2 - 1] + other[QUANTILES / 2]) / 2;
    }
    if (c->n_peers) {
        c->w1 /= (double)c->n_peers;
        c->peers_p50 = medians / (double)c->n_peers;
        c->weight = c->w1 * c->own->calls;
    }
}

/* Density in ln(duration) of a mixture of log-normals. */
static double density(const struct argus_kernel_modes *k, double log_x)
{
    double total = 0, f = 0;

    for (size_t i = 0; i < k->n_modes; i++) {
        double mu = log((double)k->modes[i].p50), sigma, z;

        sigma = (log((double)k->modes[i].p99) - mu) / 2.326;
        sigma = sigma > SIGMA_FLOOR ? sigma : SIGMA_FLOOR;
        z = (log_x - mu) / sigma;
        f += (double)k->modes[i].count * exp(-0.5 * z * z) / (sigma * sqrt(2 * M_PI));
        total += (double)k->modes[i].count;
    }
    return total > 0 ? f / total : 0;
}

static void widen(const struct argus_kernel_modes *k, double *low, double *high)
{
    for (size_t i = 0; i < k->n_modes; i++) {
        double mu = log((double)k->modes[i].p50), up = log((double)k->modes[i].p99);

        *low = fmin(*low, mu - (up - mu) * 1.2);
        *high = fmax(*high, up + (up - mu) * 0.4);
    }
}

static void curve(struct picture *p, const double *y, double top, int filled, unsigned rgb)
{
    double bottom = HEIGHT - 34, height = bottom - 34;

    picture_colour(p, rgb);
    cairo_move_to(p->cr, 12, bottom);
    for (int i = 0; i < POINTS; i++)
        cairo_line_to(p->cr, 12 + (WIDTH - 24.0) * i / (POINTS - 1),
                      bottom - height * (top > 0 ? y[i] / top : 0));
    cairo_line_to(p->cr, WIDTH - 12, bottom);
    if (filled) {
        cairo_fill(p->cr);
    } else {
        cairo_set_line_width(p->cr, 2);
        cairo_stroke(p->cr);
    }
}

static void draw_class(struct html *h, const struct compared *c, int culprit)
{
    double low = INFINITY, high = -INFINITY, own[POINTS], peers[POINTS], top = 0;
    char text[128], a[32], b[32];
    struct picture p;

    widen(c->own, &low, &high);
    for (size_t i = 0; i < c->n_peers; i++)
        widen(c->peer[i], &low, &high);
    if (high - low < 0.02) {
        low -= 0.01;
        high += 0.01;
    }
    for (int i = 0; i < POINTS; i++) {
        double log_x = low + (high - low) * i / (POINTS - 1);

        own[i] = density(c->own, log_x);
        peers[i] = 0;
        for (size_t k = 0; k < c->n_peers; k++)
            peers[i] += density(c->peer[k], log_x) / (double)c->n_peers;
        top = fmax(top, fmax(own[i], peers[i]));
    }
    picture_begin(&p, WIDTH, HEIGHT, 0);
    curve(&p, peers, top, 1, 0xb9d3e8);
    curve(&p, own, top, 0, ALERT);
    picture_line(&p, 12, HEIGHT - 34, WIDTH - 12, HEIGHT - 34, 1, FAINT);
    for (int i = 0; i <= 4; i++) {
        argus_words_duration(exp(low + (high - low) * i / 4), text, sizeof(text));
        picture_label(&p, 12 + (WIDTH - 24.0) * i / 4, HEIGHT - 20,
                      i == 0   ? 1
                      : i == 4 ? -1
                               : 0,
                      10, FAINT, text);
    }
    argus_words_duration(c->w1, a, sizeof(a));
    snprintf(text, sizeof(text), "W1 %s (%.*f %% of the peers' median)", a,
             c->w1 < 0.1 * c->peers_p50 ? 1 : 0, 100 * c->w1 / c->peers_p50);
    picture_label(&p, 12, 12, 1, 12, INK, text);
    snprintf(b, sizeof(b), "rank %d", culprit);
    picture_box(&p, WIDTH - 150, 6, 12, 3, ALERT);
    picture_label(&p, WIDTH - 134, 8, 1, 11, INK, b);
    picture_box(&p, WIDTH - 150, 18, 12, 9, 0xb9d3e8);
    snprintf(text, sizeof(text), "%zu peer%s", c->n_peers, c->n_peers == 1 ? "" : "s");
    picture_label(&p, WIDTH - 134, 22, 1, 11, INK, text);
    html_put(h, "<figure><figcaption>");
    html_textf(h, "%.90s%s", c->own->name, strlen(c->own->name) > 90 ? "..." : "");
    html_put(h, "</figcaption>");
    picture_end(h, &p, "Density of the durations of this kernel: the culprit and its peers.");
    html_put(h, "</figure>");
}

static void kernels_table(struct html *h, const struct compared *c, size_t n)
{
    static const char *const head[] = {"kernel",        "grid",  "block", "calls", "its median",
                                       "peers' median", "ratio", "W1",    "peers"};
    char text[64];

    html_table(h, "Figures", head, 9);
    for (size_t i = 0; i < n; i++) {
        const struct argus_kernel_modes *k = c[i].own;

        html_row(h);
        html_cell(h, k->name);
        snprintf(text, sizeof(text), "%u,%u,%u", k->grid[0], k->grid[1], k->grid[2]);
        html_cell(h, text);
        snprintf(text, sizeof(text), "%u,%u,%u", k->block[0], k->block[1], k->block[2]);
        html_cell(h, text);
        html_cell_number(h, k->calls);
        html_cell_duration(h, c[i].own_p50);
        html_cell_duration(h, c[i].peers_p50);
        html_cell_number(h, c[i].own_p50 / c[i].peers_p50);
        html_cell_duration(h, c[i].w1);
        html_cell_number(h, (double)c[i].n_peers);
        html_row_end(h);
    }
    html_table_end(h, 1);
}

static void show(struct html *h, const struct rank_classes *own, const struct rank_classes *peers,
                 size_t n_peers, int culprit)
{
    const struct argus_kernel_modes **costly = malloc(sizeof(*costly) * own->n);
    struct compared *c = calloc(CANDIDATES, sizeof(*c));
    size_t n = own->n < CANDIDATES ? own->n : CANDIDATES, used = 0;
    char text[160];

    if (!costly || !c) {
        h->failed = 1;
        goto out;
    }
    for (size_t i = 0; i < own->n; i++)
        costly[i] = &own->list[i];
    qsort(costly, own->n, sizeof(*costly), compare_cost);
    for (size_t i = 0; i < n; i++) {
        c[used].own = costly[i];
        compare_class(&c[used], peers, n_peers);
        if (c[used].n_peers)
            used++;
        else
            memset(&c[used], 0, sizeof(c[used]));
    }
    if (used == 0)
        goto out;
    qsort(c, used, sizeof(*c), compare_weight);
    snprintf(text, sizeof(text), "Kernels of rank %d against its peers", culprit);
    html_section(h, "kernels", text,
                 "Densities of durations on a logarithmic axis, rebuilt from the clusters that the "
                 "recorder keeps; the classes whose difference costs most. W1 is how far the time "
                 "of a call moved on average.");
    html_put(h, "<div class=\"pair\">");
    for (size_t i = 0; i < used && i < SHOWN; i++)
        draw_class(h, &c[i], culprit);
    html_put(h, "</div>\n");
    kernels_table(h, c, used);
    html_section_end(h);
out:
    free(costly);
    free(c);
}

void html_kernels(struct html *h)
{
    const struct argus_model *m = h->m;
    struct rank_classes own = {NULL, 0}, peers[PEERS] = {{NULL, 0}};
    size_t chosen[PEERS], n_peers, culprit = 0;

    while (culprit < m->n_ranks && !argus_view_is_culprit(m, h->v, culprit))
        culprit++;
    if (culprit == m->n_ranks || h->v->kind == ARGUS_VERDICT_SLOW_LINK)
        return;
    n_peers = choose_peers(m, h->v, culprit, chosen);
    own.list = argus_kernel_modes_load(m, culprit, h->v->onset_step, &own.n);
    for (size_t i = 0; i < n_peers && own.n; i++)
        peers[i].list = argus_kernel_modes_load(m, chosen[i], h->v->onset_step, &peers[i].n);
    if (own.n && n_peers)
        show(h, &own, peers, n_peers, m->ranks[culprit].rank);
    argus_kernel_modes_free(own.list, own.n);
    for (size_t i = 0; i < n_peers; i++)
        argus_kernel_modes_free(peers[i].list, peers[i].n);
}
