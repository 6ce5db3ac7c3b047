/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/build.h"

/* The list with room for, and zeros in, element n; lists grow by doubling at powers of two.  NULL: no memory, the list
 * stays as it was. */
static void *with_room(void *list, size_t n, size_t size)
{
    if ((n & (n - 1)) == 0) {
        size_t room = n ? 2 * n : 1;

        list = room > SIZE_MAX / size ? NULL : realloc(list, room * size);
        if (!list)
            return NULL;
    }
    memset((char *)list + n * size, 0, size);
    return list;
}

static int add_string(char ***list, size_t *n, const char *text)
{
    char *copy = text ? strdup(text) : NULL, **bigger;

    if (!copy)
        return -1;
    bigger = with_room(*list, *n, sizeof(*bigger));
    if (!bigger) {
        free(copy);
        return -1;
    }
    *list = bigger;
    bigger[(*n)++] = copy;
    return 0;
}

static int add_sentence(char ***list, size_t *n, const char *format, va_list ap)
{
    char *text = NULL;
    int rc = -1;

    if (vasprintf(&text, format, ap) < 0)
        return -1;
    rc = add_string(list, n, text);
    free(text);
    return rc;
}

static void free_strings(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

static void free_culprits(struct argus_culprit *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i].node);
        free(list[i].gpu);
    }
    free(list);
}

struct argus_verdict *argus_verdict_create(void)
{
    struct argus_verdict *v = calloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->kind = ARGUS_VERDICT_INSUFFICIENT_DATA;
    v->stage = v->onset_step = v->recovered_step = ARGUS_UNKNOWN;
    v->slowdown = v->gpu_hours = v->share = NAN;
    v->job.step_ms_p50 = v->job.gpu_hours = NAN;
    return v;
}

void argus_verdict_destroy(struct argus_verdict *v)
{
    if (!v)
        return;
    free_culprits(v->culprits, v->n_culprits);
    free(v->phase);
    free(v->pattern);
    free(v->subkind);
    if (v->link) {
        free(v->link->scope);
        free(v->link->node);
        free(v->link->peer_node);
        free(v->link->communicator);
        free_strings(v->link->candidates, v->link->n_candidates);
        free(v->link);
    }
    free(v->job.id);
    free(v->job.step);
    free(v->job.dir);
    free(v->topology.source);
    for (size_t i = 0; i < v->n_evidence; i++) {
        free(v->evidence[i].signal);
        free(v->evidence[i].unit);
        free(v->evidence[i].note);
        free(v->evidence[i].node);
    }
    free(v->evidence);
    for (size_t i = 0; i < v->n_findings; i++) {
        free_culprits(v->findings[i].culprits, v->findings[i].n_culprits);
        free(v->findings[i].pattern);
        free(v->findings[i].subkind);
        free(v->findings[i].text);
    }
    free(v->findings);
    for (size_t i = 0; i < v->n_steps; i++)
        free(v->steps[i].step);
    free(v->steps);
    free_strings(v->explained, v->n_explained);
    free(v->data_quality.ranks_missing);
    free_strings(v->data_quality.nodes_missing, v->data_quality.n_nodes_missing);
    free_strings(v->data_quality.notes, v->data_quality.n_notes);
    free_strings(v->next, v->n_next);
    free(v);
}

int argus_verdict_set(char **member, const char *text)
{
    char *copy = NULL;

    if (text && !(copy = strdup(text)))
        return -1;
    free(*member);
    *member = copy;
    return 0;
}

static struct argus_culprit *add_culprit(struct argus_culprit **list, size_t *n, int rank,
                                         int local_rank, const char *node, const char *gpu)
{
    struct argus_culprit *c = with_room(*list, *n, sizeof(*c));

    if (!c)
        return NULL;
    *list = c;
    c += (*n)++;
    c->rank = rank;
    c->local_rank = local_rank;
    if (argus_verdict_set(&c->node, node) < 0 || argus_verdict_set(&c->gpu, gpu) < 0) {
        free(c->node);
        free(c->gpu);
        --*n;
        return NULL;
    }
    return c;
}

struct argus_culprit *argus_verdict_add_culprit(struct argus_verdict *v, int rank, int local_rank,
                                                const char *node, const char *gpu)
{
    return add_culprit(&v->culprits, &v->n_culprits, rank, local_rank, node, gpu);
}

struct argus_culprit *argus_finding_add_culprit(struct argus_finding *f, int rank, int local_rank,
                                                const char *node, const char *gpu)
{
    return add_culprit(&f->culprits, &f->n_culprits, rank, local_rank, node, gpu);
}

struct argus_link *argus_verdict_set_link(struct argus_verdict *v, const char *scope)
{
    if (!v->link) {
        v->link = calloc(1, sizeof(*v->link));
        if (!v->link)
            return NULL;
        v->link->rank = v->link->peer = ARGUS_UNKNOWN;
        v->link->factor = NAN;
    }
    return argus_verdict_set(&v->link->scope, scope) < 0 ? NULL : v->link;
}

int argus_link_add_candidate(struct argus_link *link, const char *name)
{
    return add_string(&link->candidates, &link->n_candidates, name);
}

struct argus_evidence_line *argus_verdict_add_evidence(struct argus_verdict *v, const char *signal,
                                                       int rank, const char *node, double value,
                                                       double peers, const char *unit,
                                                       const char *note)
{
    struct argus_evidence_line *e = with_room(v->evidence, v->n_evidence, sizeof(*e));

    if (!e)
        return NULL;
    v->evidence = e;
    e += v->n_evidence++;
    e->rank = rank;
    e->value = value;
    e->peers = peers;
    if (argus_verdict_set(&e->signal, signal) < 0 || argus_verdict_set(&e->unit, unit) < 0 ||
        argus_verdict_set(&e->note, note) < 0 || argus_verdict_set(&e->node, node) < 0) {
        free(e->signal);
        free(e->unit);
        free(e->note);
        free(e->node);
        v->n_evidence--;
        return NULL;
    }
    return e;
}

struct argus_finding *argus_verdict_add_finding(struct argus_verdict *v,
                                                enum argus_verdict_kind kind,
                                                enum argus_severity severity)
{
    struct argus_finding *f = with_room(v->findings, v->n_findings, sizeof(*f));

    if (!f)
        return NULL;
    v->findings = f;
    f += v->n_findings++;
    f->kind = kind;
    f->severity = severity;
    f->onset_step = ARGUS_UNKNOWN;
    f->slowdown = 1;
    return f;
}

struct argus_step_line *argus_verdict_add_step(struct argus_verdict *v, const char *step,
                                               enum argus_verdict_kind kind,
                                               enum argus_severity severity, double slowdown,
                                               double gpu_hours)
{
    struct argus_step_line *s = with_room(v->steps, v->n_steps, sizeof(*s));

    if (!s)
        return NULL;
    v->steps = s;
    s += v->n_steps++;
    if (argus_verdict_set(&s->step, step) < 0) {
        v->n_steps--;
        return NULL;
    }
    s->kind = kind;
    s->severity = severity;
    s->slowdown = slowdown;
    s->gpu_hours = gpu_hours;
    return s;
}

int argus_verdict_add_explained(struct argus_verdict *v, const char *format, ...)
{
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = add_sentence(&v->explained, &v->n_explained, format, ap);
    va_end(ap);
    return rc;
}

int argus_verdict_add_note(struct argus_verdict *v, const char *format, ...)
{
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = add_sentence(&v->data_quality.notes, &v->data_quality.n_notes, format, ap);
    va_end(ap);
    return rc;
}

int argus_verdict_add_next(struct argus_verdict *v, const char *format, ...)
{
    va_list ap;
    int rc;

    va_start(ap, format);
    rc = add_sentence(&v->next, &v->n_next, format, ap);
    va_end(ap);
    return rc;
}

int argus_verdict_add_rank_missing(struct argus_verdict *v, int rank)
{
    int *list =
        with_room(v->data_quality.ranks_missing, v->data_quality.n_ranks_missing, sizeof(*list));

    if (!list)
        return -1;
    v->data_quality.ranks_missing = list;
    list[v->data_quality.n_ranks_missing++] = rank;
    return 0;
}

int argus_verdict_add_node_missing(struct argus_verdict *v, const char *node)
{
    return add_string(&v->data_quality.nodes_missing, &v->data_quality.n_nodes_missing, node);
}
