/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence that belongs together: slow GPUs of one node, halves of several stages. */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"

#define ONSET_NEAR 5
#define EFFECT_NEAR 0.35 /* relative */

static int near(int a, int b)
{
    return (a < 0) == (b < 0) && (a < 0 || abs(a - b) <= ONSET_NEAR);
}

static int share_hits(const struct argus_evidence *a, const struct argus_evidence *b)
{
    for (size_t i = 0; i < a->n_hit; i++)
        for (size_t j = 0; j < b->n_hit; j++)
            if (a->hit[i] == b->hit[j])
                return 1;
    return 0;
}

static int belong(const struct argus_model *m, const struct argus_evidence *a,
                  const struct argus_evidence *b)
{
    if (a->kind != b->kind || !near(a->onset, b->onset) || !near(a->recovered, b->recovered))
        return 0;
    /* ways within the node and out of it that got slower together */
    if (a->kind == ARGUS_VERDICT_SLOW_LINK) /* copies are on a way of their own */
        return a->n_comm_classes && b->n_comm_classes && a->onset > 0 && share_hits(a, b);
    if (a->outside || b->outside)
        return 0;
    if (a->kind == ARGUS_VERDICT_SPLIT)
        return 1;
    if (a->kind != ARGUS_VERDICT_COMPUTE_STRAGGLER || !a->n_ranks || !b->n_ranks)
        return 0;
    return m->ranks[a->ranks[0]].node == m->ranks[b->ranks[0]].node && m->n_nodes > 1 &&
           fabs(a->effect - b->effect) <= EFFECT_NEAR * fmax(a->effect, b->effect);
}

static int take(const struct argus_model *m, struct argus_evidence *into,
                struct argus_evidence *from)
{
    struct argus_evidence_line *lines;
    int *classes;

    for (size_t i = 0; i < from->n_ranks && into->kind != ARGUS_VERDICT_SLOW_LINK; i++)
        if (argus_evidence_rank(into, from->ranks[i]))
            return -1;
    classes = realloc(into->comm_classes,
                      (into->n_comm_classes + from->n_comm_classes + 1) * sizeof(int));
    if (!classes)
        return -1;
    into->comm_classes = classes;
    if (from->n_comm_classes)
        memcpy(classes + into->n_comm_classes, from->comm_classes,
               from->n_comm_classes * sizeof(int));
    into->n_comm_classes += from->n_comm_classes;
    for (size_t h = 0; h < from->n_hit; h++) {
        float *x = argus_evidence_excess(into, m, from->hit[h]);

        if (!x)
            return -1;
        for (int k = 0; k < m->n_steps; k++)
            x[k] += from->excess[h * (size_t)m->n_steps + (size_t)k];
    }
    lines = realloc(into->lines, (into->n_lines + from->n_lines + 1) * sizeof(*lines));
    if (!lines)
        return -1;
    into->lines = lines;
    memcpy(lines + into->n_lines, from->lines, from->n_lines * sizeof(*lines));
    into->n_lines += from->n_lines;
    from->n_lines = 0;
    into->persistence = fmin(into->persistence, from->persistence);
    into->agreement = fmin(into->agreement, from->agreement);
    into->z = fmin(into->z, from->z);
    if (into->subkind && from->subkind && strcmp(into->subkind, from->subkind))
        into->subkind = NULL;
    return 0;
}

/* A merged text names what was merged. */
static void retell(const struct argus_model *m, struct argus_evidence *e)
{
    char who[256] = "";
    size_t on_node = 0;
    int node;

    /* of a link the way within the node says most: its evidence came first and keeps its words */
    if (e->kind == ARGUS_VERDICT_SLOW_LINK)
        return;
    node = m->ranks[e->ranks[0]].node;

    for (size_t i = 0; i < m->n_ranks; i++)
        on_node += m->ranks[i].node == node;
    for (size_t i = 0; i < e->n_ranks; i++) {
        size_t n = strlen(who);

        if (n > 200) {
            snprintf(who + n, sizeof(who) - n, ",...");
            break;
        }
        snprintf(who + n, sizeof(who) - n, "%s%d", n ? "," : "", m->ranks[e->ranks[i]].rank);
    }
    if (e->kind == ARGUS_VERDICT_SPLIT) {
        argus_evidence_text(e,
                            "ranks %s compute about %.1f %% longer than the rest of their stages; "
                            "with as many on either side nothing in the job tells which is wrong",
                            who, 100 * e->effect);
        return;
    }
    e->whole_nodes = e->n_ranks == on_node;
    argus_evidence_text(e,
                        "%s %s on %s compute about %.1f %% longer than their peers for the same "
                        "kernels",
                        e->whole_nodes ? "all ranks" : "ranks", who, m->nodes[node],
                        100 * e->effect);
}

int argus_evidence_merge(const struct argus_model *m, struct argus_evidence_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        int merged = 0;

        for (size_t j = i + 1; j < list->n;) {
            struct argus_evidence_list gone;

            if (!belong(m, &list->items[i], &list->items[j])) {
                j++;
                continue;
            }
            if (take(m, &list->items[i], &list->items[j]))
                return -1;
            merged = 1;
            gone = (struct argus_evidence_list){malloc(sizeof(*gone.items)), 1};
            if (!gone.items)
                return -1;
            gone.items[0] = list->items[j];
            argus_evidence_list_clear(&gone);
            memmove(&list->items[j], &list->items[j + 1],
                    (list->n - j - 1) * sizeof(list->items[0]));
            list->n--;
        }
        if (merged)
            retell(m, &list->items[i]);
    }
    return 0;
}
