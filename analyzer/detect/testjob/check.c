/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/detect/testjob/check.h"
#include "analyzer/timeline/timeline_io.h"

static char dir[64];

int job_setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/argus-detect-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static void empty_dir(void)
{
    char **paths;
    size_t n;

    if (argus_timeline_list(dir, &paths, &n, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        unlink(paths[i]);
    argus_timeline_list_free(paths, n);
}

int job_teardown(void **state)
{
    (void)state;
    empty_dir();
    return rmdir(dir);
}

struct argus_verdict *job_verdict(const struct job_spec *s)
{
    argus_error_t err = {{0}};
    struct argus_model *m;
    struct argus_verdict *v;

    empty_dir();
    if (job_run(s, dir, &err))
        fail_msg("%s", err.text);
    m = argus_model_load(dir, NULL, &err);
    if (!m)
        fail_msg("%s", err.text);
    v = argus_diagnose(m, &err);
    argus_model_destroy(m);
    if (!v)
        fail_msg("%s", err.text);
    return v;
}

struct argus_model *job_model(const struct job_spec *s)
{
    argus_error_t err = {{0}};
    struct argus_model *m = NULL;

    empty_dir();
    if (job_run(s, dir, &err) || !(m = argus_model_load(dir, NULL, &err)))
        fail_msg("%s", err.text);
    return m;
}

void job_expect(const struct argus_verdict *v, enum argus_verdict_kind kind, int rank)
{
    if (v->kind != kind)
        fail_msg("%s, expected %s: %s", argus_verdict_kind_name(v->kind),
                 argus_verdict_kind_name(kind), v->n_explained ? v->explained[0] : "");
    if (rank >= 0) {
        assert_int_equal(v->n_culprits, 1);
        assert_int_equal(v->culprits[0].rank, rank);
    } else {
        assert_int_equal(v->n_culprits, 0);
    }
}

struct job_fault *job_one(struct job_spec *s, int world, enum job_fault_kind kind, int rank)
{
    struct job_fault *f;

    job_spec_init(s, world);
    f = job_spec_fault(s, kind);
    f->rank = rank;
    return f;
}

void job_check(const struct job_spec *s, enum argus_verdict_kind kind, int rank)
{
    struct argus_verdict *v = job_verdict(s);

    job_expect(v, kind, rank);
    argus_verdict_destroy(v);
}

double job_evidence(const struct argus_verdict *v, const char *signal, double *peers)
{
    for (size_t i = 0; i < v->n_evidence; i++)
        if (!strcmp(v->evidence[i].signal, signal)) {
            *peers = v->evidence[i].peers;
            return v->evidence[i].value;
        }
    fail_msg("no %s", signal);
    return NAN;
}

int job_says(const struct argus_verdict *v, const char *what)
{
    for (size_t i = 0; i < v->n_explained; i++)
        if (strstr(v->explained[i], what))
            return 1;
    return 0;
}
