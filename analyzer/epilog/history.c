/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/epilog/history.h"

/* A traced job, until all are read: what it says of a node depends on the order. */
struct traced {
    struct argus_blame blame;
    char *nodes;
};

struct argus_history {
    struct traced *jobs;
    size_t n_jobs, room;
    struct argus_node_history **nodes;
    size_t n_nodes;
    void *by_name; /* tsearch() of struct argus_node_history */
    int failed;
};

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct argus_node_history *)a)->name,
                  ((const struct argus_node_history *)b)->name);
}

static struct argus_node_history *get_node(struct argus_history *h, const char *name)
{
    struct argus_node_history key = {.name = (char *)name}, *node, **grown, **found;

    found = tfind(&key, &h->by_name, compare_nodes);
    if (found)
        return *found;
    node = calloc(1, sizeof(*node));
    grown = realloc(h->nodes, (h->n_nodes + 1) * sizeof(*grown));
    if (grown)
        h->nodes = grown;
    if (!node || !grown || !(node->name = strdup(name)) ||
        !tsearch(node, &h->by_name, compare_nodes)) {
        if (node)
            free(node->name);
        free(node);
        h->failed = 1;
        return NULL;
    }
    h->nodes[h->n_nodes++] = node;
    return node;
}

int argus_history_add(const struct argus_job *job, void *arg)
{
    struct argus_history *h = arg;
    char *line = argus_job_line(job);
    struct traced *t;

    if (!line || !job->end)
        goto out;
    if (h->n_jobs == h->room) {
        size_t room = h->room ? 2 * h->room : 64;
        struct traced *grown = realloc(h->jobs, room * sizeof(*grown));

        if (!grown) {
            h->failed = 1;
            goto out;
        }
        h->jobs = grown;
        h->room = room;
    }
    t = &h->jobs[h->n_jobs];
    memset(t, 0, sizeof(*t));
    if (argus_comment_parse(line, &t->blame.comment, NULL) == 0 &&
        (t->nodes = strdup(job->nodes))) {
        snprintf(t->blame.job, sizeof(t->blame.job), "%s", job->id);
        snprintf(t->blame.user, sizeof(t->blame.user), "%s", job->user);
        t->blame.end = job->end;
        h->n_jobs++;
    }
out:
    free(line);
    return h->failed;
}

static int by_end(const void *a, const void *b)
{
    const struct traced *x = a, *y = b;

    if (x->blame.end != y->blame.end)
        return x->blame.end > y->blame.end ? 1 : -1;
    /* Of the same second: by number, so that all who ask name the same job as the last. */
    return strverscmp(x->blame.job, y->blame.job);
}

static int names(const struct argus_comment *c, const char *node)
{
    for (size_t i = 0; i < c->node.n; i++) {
        if (!strcmp(c->node.name[i], node))
            return 1;
    }
    return 0;
}

static void add_partners(struct argus_history *h, struct argus_node_history *node,
                         const struct argus_hostlist *nodes)
{
    for (size_t i = 0; i < nodes->n; i++) {
        long at;
        int *grown;

        if (!strcmp(nodes->names[i], node->name))
            continue;
        at = argus_hostlist_find(&node->partners, nodes->names[i]);
        if (at < 0) {
            grown = realloc(node->partner_jobs, (node->partners.n + 1) * sizeof(*grown));
            if (!grown || argus_hostlist_add(&node->partners, nodes->names[i]) < 0) {
                node->partner_jobs = grown ? grown : node->partner_jobs;
                h->failed = 1;
                return;
            }
            node->partner_jobs = grown;
            at = (long)node->partners.n - 1;
            grown[at] = 0;
        }
        node->partner_jobs[at]++;
    }
}

static void blame(struct argus_history *h, const struct traced *t, const char *name,
                  const struct argus_hostlist *nodes)
{
    struct argus_node_history *node = get_node(h, name);
    struct argus_blame *grown;

    if (!node)
        return;
    grown = realloc(node->blames, (node->n_blames + 1) * sizeof(*grown));
    if (!grown) {
        h->failed = 1;
        return;
    }
    node->blames = grown;
    grown[node->n_blames++] = t->blame;
    node->ok_since = 0;
    add_partners(h, node, nodes);
}

/* Partners: the most frequent first, else in order of appearance. */
static void sort_partners(struct argus_node_history *node)
{
    for (size_t i = 1; i < node->partners.n; i++) {
        char *name = node->partners.names[i];
        int jobs = node->partner_jobs[i];
        size_t k = i;

        for (; k > 0 && node->partner_jobs[k - 1] < jobs; k--) {
            node->partners.names[k] = node->partners.names[k - 1];
            node->partner_jobs[k] = node->partner_jobs[k - 1];
        }
        node->partners.names[k] = name;
        node->partner_jobs[k] = jobs;
    }
}

/*
 * A job's Comment is its user's, who may write a line like ours into it: he names no node that
 * was not his job's, and nothing that is no node.  Of a heterogeneous job the record has one
 * component's nodes only.
 */
static int may_blame(const struct traced *t, const char *name, const struct argus_hostlist *nodes)
{
    return argus_host_name_valid(name) &&
           (strchr(t->blame.job, '+') || argus_hostlist_find(nodes, name) >= 0);
}

/* Job by job in order of time: who is blamed, who has been well since. */
static void digest(struct argus_history *h)
{
    qsort(h->jobs, h->n_jobs, sizeof(*h->jobs), by_end);
    for (size_t i = 0; i < h->n_jobs && !h->failed; i++) {
        const struct traced *t = &h->jobs[i];
        const struct argus_comment *c = &t->blame.comment;
        struct argus_hostlist nodes;

        if (argus_hostlist_expand(t->nodes, ARGUS_HOSTLIST_MAX, &nodes, NULL) < 0)
            continue;
        for (size_t n = 0; n < c->node.n; n++) {
            if (may_blame(t, c->node.name[n], &nodes))
                blame(h, t, c->node.name[n], &nodes);
        }
        for (size_t n = 0; n < nodes.n && c->kind != ARGUS_VERDICT_INSUFFICIENT_DATA; n++) {
            struct argus_node_history key = {.name = nodes.names[n]}, **found;

            found = tfind(&key, &h->by_name, compare_nodes);
            if (found && !names(c, nodes.names[n])) {
                (*found)->last_ok = t->blame.end;
                (*found)->ok_since++;
            }
        }
        argus_hostlist_clear(&nodes);
    }
    for (size_t i = 0; i < h->n_nodes; i++)
        sort_partners(h->nodes[i]);
}

static int worst_first(const void *a, const void *b)
{
    const struct argus_node_history *x = *(struct argus_node_history *const *)a,
                                    *y = *(struct argus_node_history *const *)b;

    if (x->n_blames != y->n_blames)
        return x->n_blames < y->n_blames ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void free_node(void *p)
{
    struct argus_node_history *node = p;

    argus_hostlist_clear(&node->partners);
    free(node->partner_jobs);
    free(node->blames);
    free(node->name);
    free(node);
}

argus_history_t *argus_history_create(void)
{
    return calloc(1, sizeof(struct argus_history));
}

void argus_history_destroy(argus_history_t *h)
{
    if (!h)
        return;
    tdestroy(h->by_name, free_node);
    for (size_t i = 0; i < h->n_jobs; i++)
        free(h->jobs[i].nodes);
    free(h->jobs);
    free(h->nodes);
    free(h);
}

int argus_history_digest(argus_history_t *h, argus_error_t *err)
{
    if (!h->failed)
        digest(h);
    if (h->failed)
        return argus_error(err, "out of memory");
    if (h->n_nodes)
        qsort(h->nodes, h->n_nodes, sizeof(*h->nodes), worst_first);
    return 0;
}

const struct argus_node_history *argus_history_node(const argus_history_t *h, size_t i)
{
    return h->nodes[i];
}

size_t argus_history_nodes(const argus_history_t *h)
{
    return h->n_nodes;
}

size_t argus_history_jobs(const argus_history_t *h)
{
    return h->n_jobs;
}

double argus_history_lost(const struct argus_node_history *node)
{
    double sum = 0;

    for (size_t i = 0; i < node->n_blames; i++) {
        if (isfinite(node->blames[i].comment.gpu_hours))
            sum += node->blames[i].comment.gpu_hours;
    }
    return sum;
}

int argus_history_users(const struct argus_node_history *node)
{
    int n = 0;

    for (size_t i = 0; i < node->n_blames; i++) {
        size_t k = 0;

        while (k < i && strcmp(node->blames[k].user, node->blames[i].user))
            k++;
        n += k == i;
    }
    return n;
}
