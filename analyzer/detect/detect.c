/* SPDX-License-Identifier: Apache-2.0 */
/* The table of detectors, and evidence. */
#include <config.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/detect/detect.h"

const struct argus_detector argus_detectors[] = {
    {"compute", argus_detect_compute},   {"link", argus_detect_link},
    {"pcie", argus_detect_pcie},         {"host", argus_detect_host},
    {"pipeline", argus_detect_pipeline}, {"workload", argus_detect_workload},
    {"uniform", argus_detect_uniform},   {"distribution", argus_detect_distribution},
};
const size_t argus_detector_count = sizeof(argus_detectors) / sizeof(argus_detectors[0]);

int argus_detect_all(const struct argus_model *m, struct argus_evidence_list *out,
                     argus_error_t *err)
{
    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < argus_detector_count; i++)
        if (argus_detectors[i].detect(m, out))
            return argus_error(err, "detector %s: no memory", argus_detectors[i].name);
    if (argus_evidence_merge(m, out))
        return argus_error(err, "detectors: no memory");
    return 0;
}

void argus_evidence_list_clear(struct argus_evidence_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        struct argus_evidence *e = &list->items[i];

        for (size_t j = 0; j < e->n_lines; j++) {
            free(e->lines[j].signal);
            free(e->lines[j].unit);
            free(e->lines[j].note);
            free(e->lines[j].node);
        }
        if (e->link) {
            for (size_t j = 0; j < e->link->n_candidates; j++)
                free(e->link->candidates[j]);
            free(e->link->candidates);
            free(e->link->scope);
            free(e->link->node);
            free(e->link->peer_node);
            free(e->link->communicator);
            free(e->link);
        }
        free(e->lines);
        free(e->ranks);
        free(e->hit);
        free(e->excess);
        free(e->comm_classes);
        free(e->text);
    }
    free(list->items);
    memset(list, 0, sizeof(*list));
}

struct argus_evidence *argus_evidence_add(struct argus_evidence_list *list, const char *detector,
                                          enum argus_verdict_kind kind)
{
    struct argus_evidence *items = realloc(list->items, (list->n + 1) * sizeof(*items)), *e;

    if (!items)
        return NULL;
    list->items = items;
    e = &items[list->n++];
    memset(e, 0, sizeof(*e));
    e->kind = kind;
    e->detector = detector;
    e->stage = e->onset = e->recovered = ARGUS_UNKNOWN;
    e->persistence = e->agreement = 1;
    e->z = INFINITY;
    return e;
}

int argus_evidence_is_copies(const struct argus_evidence *e)
{
    return !strcmp(e->detector, "pcie");
}

int argus_evidence_rank(struct argus_evidence *e, int rank_index)
{
    int *ranks = realloc(e->ranks, (e->n_ranks + 1) * sizeof(int));

    if (!ranks)
        return -1;
    e->ranks = ranks;
    e->ranks[e->n_ranks++] = rank_index;
    return 0;
}

float *argus_evidence_excess(struct argus_evidence *e, const struct argus_model *m, int rank_index)
{
    size_t steps = (size_t)m->n_steps;
    float *excess;
    int *hit;

    for (size_t i = 0; i < e->n_hit; i++)
        if (e->hit[i] == rank_index)
            return &e->excess[i * steps];
    if (!(hit = realloc(e->hit, (e->n_hit + 1) * sizeof(int))))
        return NULL;
    e->hit = hit;
    if (!(excess = realloc(e->excess, ((e->n_hit + 1) * steps + 1) * sizeof(float))))
        return NULL;
    e->excess = excess;
    memset(&excess[e->n_hit * steps], 0, steps * sizeof(float));
    e->hit[e->n_hit] = rank_index;
    return &e->excess[e->n_hit++ * steps];
}

int argus_evidence_line(struct argus_evidence *e, const struct argus_model *m, int rank_index,
                        const char *signal, double value, double peers, const char *unit,
                        const char *note)
{
    struct argus_evidence_line *lines = realloc(e->lines, (e->n_lines + 1) * sizeof(*lines)), *l;

    if (!lines)
        return -1;
    e->lines = lines;
    l = &lines[e->n_lines];
    memset(l, 0, sizeof(*l));
    l->rank = rank_index >= 0 ? m->ranks[rank_index].rank : ARGUS_UNKNOWN;
    l->value = value;
    l->peers = peers;
    l->signal = strdup(signal);
    l->unit = strdup(unit);
    if (rank_index >= 0)
        l->node = strdup(m->nodes[m->ranks[rank_index].node]);
    if (note)
        l->note = strdup(note);
    e->n_lines++;
    return l->signal && l->unit && (!note || l->note) && (rank_index < 0 || l->node) ? 0 : -1;
}

void argus_evidence_text(struct argus_evidence *e, const char *format, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    free(e->text);
    e->text = strdup(text);
}
