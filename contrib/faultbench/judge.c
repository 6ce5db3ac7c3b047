/* SPDX-License-Identifier: Apache-2.0 */
/* One job through the product: timelines, model, verdict; and whether it is right. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/model/model.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"
#include "contrib/faultbench/bench.h"
#include "contrib/faultbench/internal.h"

static void clean(const char *dir)
{
    char path[4352];
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "%s/step-0", dir);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        if (e->d_name[0] != '.' && unlinkat(dirfd(d), e->d_name, 0) < 0)
            break;
    }
    if (d)
        closedir(d);
    rmdir(path);
    rmdir(dir);
}

static int node_is(const char *name, int node)
{
    char expected[32];

    snprintf(expected, sizeof(expected), "n%04d", node);
    return name && !strcmp(name, expected);
}

/* The link's own place, or the short list that holds it. */
static int link_right(const struct fb_result *r, const struct argus_verdict *v,
                      const struct fb_truth *t)
{
    const struct argus_link *l = v->link;
    int node = t->node >= 0 ? t->node : fb_node_of(&r->spec, t->rank);

    if (!l)
        return 0;
    if ((r->spec.fault.kind == FB_SLOW_PCIE) != (l->scope && !strcmp(l->scope, "pcie")))
        return 0;
    if (node_is(l->node, node) || node_is(l->peer_node, node))
        return t->rank < 0 || l->rank < 0 || l->rank == t->rank || l->peer == t->rank;
    for (size_t i = 0; i < l->n_candidates; i++) {
        int rank = -1;

        if (node_is(l->candidates[i], node) ||
            (sscanf(l->candidates[i], "rank %d", &rank) == 1 && rank == t->rank))
            return 1;
    }
    return 0;
}

static int culprit_right(const struct fb_result *r, const struct argus_verdict *v,
                         const struct fb_truth *t)
{
    if (t->also >= 0 && (int)v->kind == t->also)
        return 1;
    if (t->kind == ARGUS_VERDICT_SLOW_LINK)
        return link_right(r, v, t);
    if (t->stage >= 0)
        return v->stage == t->stage;
    if (t->rank < 0)
        return 1;
    return v->n_culprits == 1 && v->culprits[0].rank == t->rank;
}

int fb_judge(const struct fb_result *r, const struct fb_truth *t, const char *dir, int keep,
             struct fb_answer *a, char *error, size_t error_size)
{
    struct argus_model_options opt;
    struct argus_model *m = NULL;
    struct argus_verdict *v = NULL;
    struct timespec begin, end;
    argus_error_t err = {""};
    char path[4352];
    int rc = -1;

    if (fb_emit(r, dir, error, error_size) < 0)
        goto out;
    argus_model_options_init(&opt);
    opt.processes = 1;
    snprintf(path, sizeof(path), "%s/step-0", dir);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    m = argus_model_load(path, &opt, &err);
    v = m ? argus_diagnose(m, &err) : NULL;
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!v) {
        snprintf(error, error_size, "%s", err.text);
        goto out;
    }
    a->kind = v->kind;
    a->onset = v->onset_step;
    a->slowdown = v->slowdown;
    a->culprit_right = culprit_right(r, v, t);
    a->seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    rc = 0;
out:
    argus_verdict_destroy(v);
    argus_model_destroy(m);
    if (!keep)
        clean(dir);
    return rc;
}
