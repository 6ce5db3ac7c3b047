/* SPDX-License-Identifier: Apache-2.0 */
/* Counting right and wrong answers; tables, JSON, comparison with a recorded run. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/faultbench/bench.h"
#include "contrib/faultbench/internal.h"

/* The verdict that each fault should get. */
static const enum argus_verdict_kind expected[FB_FAULT_COUNT] = {
    [FB_HEALTHY] = ARGUS_VERDICT_OK,
    [FB_SLOW_GPU] = ARGUS_VERDICT_COMPUTE_STRAGGLER,
    [FB_SLOW_MEMORY] = ARGUS_VERDICT_COMPUTE_STRAGGLER,
    [FB_SLOW_CLASS] = ARGUS_VERDICT_COMPUTE_STRAGGLER,
    [FB_SLOW_NODE_LINK] = ARGUS_VERDICT_SLOW_LINK,
    [FB_SLOW_GPU_LINK] = ARGUS_VERDICT_SLOW_LINK,
    [FB_SLOW_PCIE] = ARGUS_VERDICT_SLOW_LINK,
    [FB_HOST_STALL] = ARGUS_VERDICT_HOST_STALL,
    [FB_HOST_PERIODIC] = ARGUS_VERDICT_HOST_STALL,
    [FB_HOST_ROTATING] = ARGUS_VERDICT_HOST_STALL,
    [FB_DATA_STALL] = ARGUS_VERDICT_DATA_STALL,
    [FB_JIT_STALL] = ARGUS_VERDICT_JIT_STALL,
    [FB_ALLOC_STALL] = ARGUS_VERDICT_ALLOCATOR_STALL,
    [FB_SLOW_STAGE] = ARGUS_VERDICT_PIPELINE_IMBALANCE,
    [FB_WORKLOAD] = ARGUS_VERDICT_WORKLOAD_IMBALANCE,
    [FB_MOE_HOT] = ARGUS_VERDICT_MOE_IMBALANCE,
    [FB_UNIFORM] = ARGUS_VERDICT_UNIFORM_SLOWDOWN,
    [FB_SPLIT] = ARGUS_VERDICT_SPLIT,
};

double fb_mean_step(const struct fb_result *r, int from, int to)
{
    double sum = 0;
    size_t n = 0;

    for (int i = 0; i < r->spec.world; i++) {
        for (int k = from; k < to; k++, n++)
            sum +=
                (double)(r->step_end[i * r->spec.steps + k] - r->step_start[i * r->spec.steps + k]);
    }
    return n ? sum / (double)n : NAN;
}

void fb_truth_of(const struct fb_result *faulty, const struct fb_result *healthy,
                 struct fb_truth *t)
{
    const struct fb_spec *s = &faulty->spec;
    const struct fb_fault *f = &s->fault;
    int from = f->onset > 5 ? f->onset : 5, to = f->end < 0 ? s->steps : f->end;
    double a = fb_mean_step(faulty, from, to), b = fb_mean_step(healthy, from, to);
    int peers = s->tp * s->dp;

    memset(t, 0, sizeof(*t));
    t->kind = expected[f->kind];
    t->also = -1;
    t->rank = t->node = t->stage = -1;
    t->onset = f->onset;
    t->slowdown = a / b;
    t->loss_ms = (a - b) / 1e6;
    t->counts = f->kind == FB_HEALTHY || (t->slowdown >= 1.03 && t->loss_ms >= 1.0);
    if (s->style == FB_MOE)
        peers /= s->ep;
    /* With two or three comparable ranks and no own past, nobody can tell which is wrong. */
    if ((t->kind == ARGUS_VERDICT_COMPUTE_STRAGGLER || f->kind == FB_SLOW_PCIE) && peers <= 3 &&
        f->onset == 0)
        t->also = ARGUS_VERDICT_SPLIT;
    /* One ring of all ranks, slow from its first call: no other group and no past to compare with. */
    if ((f->kind == FB_SLOW_GPU_LINK || f->kind == FB_SLOW_NODE_LINK) && s->style != FB_3D &&
        f->onset == 0) {
        t->counts = 0;
        t->also = ARGUS_VERDICT_UNIFORM_SLOWDOWN;
    }
    if (f->kind == FB_SPLIT && peers < 2)
        t->counts = 0;
    if (t->kind == ARGUS_VERDICT_SLOW_LINK && f->kind == FB_SLOW_NODE_LINK)
        t->node = f->node;
    else if (t->kind == ARGUS_VERDICT_PIPELINE_IMBALANCE)
        t->stage = f->stage;
    else if (f->kind != FB_HEALTHY && f->kind != FB_HOST_ROTATING && f->kind != FB_WORKLOAD &&
             f->kind != FB_MOE_HOT && f->kind != FB_UNIFORM && f->kind != FB_SPLIT)
        t->rank = f->rank;
}

void fb_score_add(struct fb_score *s, const struct fb_spec *spec, const struct fb_truth *t,
                  const struct fb_answer *a)
{
    int k = spec->fault.kind, m;
    int right = a->kind == t->kind || (t->also >= 0 && (int)a->kind == t->also);

    s->seconds += a->seconds;
    s->analyses++;
    if (k == FB_HEALTHY) {
        s->healthy_jobs++;
        s->healthy_blamed += argus_verdict_is_fail_slow(a->kind);
        s->confusion[k][a->kind]++;
        return;
    }
    if (!t->counts) {
        s->below[k]++;
        s->below_blamed[k] += !right && argus_verdict_is_fail_slow(a->kind);
        return;
    }
    for (m = 0; m < s->magnitudes[k] && s->magnitude[k][m] != spec->fault.magnitude; m++)
        ;
    if (m == s->magnitudes[k] && m < FB_MAGNITUDES)
        s->magnitude[k][s->magnitudes[k]++] = spec->fault.magnitude;
    s->jobs[k]++;
    s->confusion[k][a->kind]++;
    if (m < FB_MAGNITUDES)
        s->magnitude_jobs[k][m]++;
    if (!right)
        return;
    s->found[k]++;
    s->culprit[k] += a->culprit_right;
    if (m < FB_MAGNITUDES)
        s->magnitude_found[k][m] += a->culprit_right;
    if (t->onset > 0 && a->onset >= 0) {
        s->onset_error[k] += fabs((double)(a->onset - t->onset));
        s->onset_count[k]++;
    }
}

void fb_score_rules(struct fb_score *s, const struct fb_result *r, const struct fb_truth *t)
{
    int k = r->spec.fault.kind;

    if (!t->counts)
        return;
    s->rule_jobs[k]++;
    for (int rule = 0; rule < FB_RULE_COUNT; rule++) {
        int who = fb_rule_blame(r, (enum fb_rule)rule), right = 0;

        if (who <= FB_BLAME_GROUP(0)) {
            const struct fb_group *g = &r->groups[-10 - who];

            for (int i = 0; i < g->size; i++) {
                right |= (k == FB_SLOW_NODE_LINK || k == FB_SLOW_GPU_LINK) &&
                         (g->ranks[i] == t->rank || fb_node_of(&r->spec, g->ranks[i]) == t->node);
            }
        } else if (t->rank < 0) {
            right = who == FB_BLAME_NOBODY; /* nobody to name, and nobody named */
        } else {
            right = who == t->rank;
        }
        s->rule_right[k][rule] += right;
    }
}

double fb_recall(const struct fb_score *s, enum fb_fault_kind k)
{
    return s->jobs[k] ? (double)s->found[k] / s->jobs[k] : NAN;
}

/* Of all jobs that got this fault's verdict, the share whose fault it fits. */
double fb_precision(const struct fb_score *s, enum fb_fault_kind kind)
{
    int said = 0, right = 0;

    for (int k = 0; k < FB_FAULT_COUNT; k++) {
        said += s->confusion[k][expected[kind]];
        if (expected[k] == expected[kind])
            right += s->confusion[k][expected[kind]];
    }
    return said ? (double)right / said : NAN;
}

static double smallest(const struct fb_score *s, int k)
{
    double best = NAN;

    for (int m = 0; m < s->magnitudes[k]; m++) {
        if (s->magnitude_jobs[k][m] && s->magnitude_found[k][m] >= 0.95 * s->magnitude_jobs[k][m] &&
            !(s->magnitude[k][m] >= best))
            best = s->magnitude[k][m];
    }
    return best;
}

static void number(FILE *out, double v, const char *format)
{
    if (isnan(v))
        fprintf(out, "        -");
    else
        fprintf(out, format, v);
}

void fb_score_print(const struct fb_score *s, FILE *out)
{
    fprintf(out, "simulated jobs; recall and precision of the verdict, culprit: the right rank, "
                 "node or stage\n\n");
    fprintf(out, "%-15s %6s %8s %9s %8s %8s %8s  %s\n", "fault", "jobs", "recall", "precision",
            "culprit", "onset+-", "smallest", "too cheap to count (wrongly blamed)");
    for (int k = 1; k < FB_FAULT_COUNT; k++) {
        if (!s->jobs[k] && !s->below[k])
            continue;
        fprintf(out, "%-15s %6d", fb_fault_name((enum fb_fault_kind)k), s->jobs[k]);
        number(out, fb_recall(s, (enum fb_fault_kind)k), " %8.3f");
        number(out, fb_precision(s, (enum fb_fault_kind)k), "  %8.3f");
        number(out, s->found[k] ? (double)s->culprit[k] / s->found[k] : NAN, " %8.3f");
        number(out, s->onset_count[k] ? s->onset_error[k] / s->onset_count[k] : NAN, " %8.1f");
        number(out, smallest(s, k), " %8.2f");
        fprintf(out, "  %d (%d)\n", s->below[k], s->below_blamed[k]);
    }
    fprintf(out, "\nhealthy jobs: %d, blamed somebody: %d\n", s->healthy_jobs, s->healthy_blamed);
    fprintf(out, "%d analyses, %.3f s each\n\nverdicts given (rows: what was wrong):\n",
            s->analyses, s->analyses ? s->seconds / s->analyses : 0.0);
    for (int k = 0; k < FB_FAULT_COUNT; k++) {
        int any = 0;

        for (int v = 0; v < ARGUS_VERDICT_COUNT; v++)
            any += s->confusion[k][v];
        if (!any)
            continue;
        fprintf(out, "  %-15s", fb_fault_name((enum fb_fault_kind)k));
        for (int v = 0; v < ARGUS_VERDICT_COUNT; v++) {
            if (s->confusion[k][v])
                fprintf(out, " %s %d", argus_verdict_kind_name((enum argus_verdict_kind)v),
                        s->confusion[k][v]);
        }
        fputc('\n', out);
    }
    fprintf(out,
            "\nshare of jobs in which the right rank (or, where there is none, nobody) is "
            "blamed:\n  %-15s %8s",
            "fault", "argus");
    for (int r = 0; r < FB_RULE_COUNT; r++)
        fprintf(out, " %12s", fb_rule_name((enum fb_rule)r));
    fputc('\n', out);
    for (int k = 0; k < FB_FAULT_COUNT; k++) {
        if (!s->rule_jobs[k])
            continue;
        fprintf(out, "  %-15s %8.3f", fb_fault_name((enum fb_fault_kind)k),
                k == FB_HEALTHY
                    ? 1.0 - (double)s->healthy_blamed / (s->healthy_jobs ? s->healthy_jobs : 1)
                    : (double)s->culprit[k] / (s->jobs[k] ? s->jobs[k] : 1));
        for (int r = 0; r < FB_RULE_COUNT; r++)
            fprintf(out, " %12.3f", (double)s->rule_right[k][r] / s->rule_jobs[k]);
        fputc('\n', out);
    }
}

int fb_score_json(const struct fb_score *s, const char *path)
{
    json_t *root = json_object(), *faults = json_object();
    int rc;

    for (int k = 1; k < FB_FAULT_COUNT; k++) {
        json_t *f, *mags;

        if (!s->jobs[k])
            continue;
        mags = json_array();
        for (int m = 0; m < s->magnitudes[k]; m++)
            json_array_append_new(mags, json_pack("{s:f,s:i,s:i}", "magnitude", s->magnitude[k][m],
                                                  "jobs", s->magnitude_jobs[k][m], "found",
                                                  s->magnitude_found[k][m]));
        f = json_pack("{s:i,s:i,s:i,s:f,s:o}", "jobs", s->jobs[k], "found", s->found[k], "culprit",
                      s->culprit[k], "precision", fb_precision(s, (enum fb_fault_kind)k),
                      "magnitudes", mags);
        json_object_set_new(faults, fb_fault_name((enum fb_fault_kind)k), f);
    }
    json_object_set_new(root, "schema", json_string("argus-faultbench/1"));
    json_object_set_new(root, "simulated", json_true());
    json_object_set_new(root, "healthy_jobs", json_integer(s->healthy_jobs));
    json_object_set_new(root, "healthy_blamed", json_integer(s->healthy_blamed));
    json_object_set_new(root, "faults", faults);
    rc = json_dump_file(root, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(root);
    return rc;
}

int fb_score_compare(const struct fb_score *s, const char *baseline, FILE *out)
{
    json_error_t e;
    json_t *root = json_load_file(baseline, 0, &e), *faults;
    int rc = 0;

    if (!root) {
        fprintf(out, "%s: %s\n", baseline, e.text);
        return -1;
    }
    faults = json_object_get(root, "faults");
    for (int k = 1; k < FB_FAULT_COUNT; k++) {
        json_t *f = json_object_get(faults, fb_fault_name((enum fb_fault_kind)k));
        double n = (double)json_integer_value(json_object_get(f, "jobs")), p, now, tolerance;

        if (!f || n < 1 || s->jobs[k] < 1)
            continue;
        p = (double)json_integer_value(json_object_get(f, "culprit")) / n;
        now = (double)s->culprit[k] / s->jobs[k];
        /* Three standard errors of the recorded share, at least one job. */
        tolerance = 3.0 * sqrt(p * (1 - p) / n) + 1.0 / s->jobs[k];
        if (now < p - tolerance) {
            fprintf(out, "%s: %.3f of the jobs right, recorded %.3f\n",
                    fb_fault_name((enum fb_fault_kind)k), now, p);
            rc = -1;
        }
    }
    if (s->healthy_blamed > json_integer_value(json_object_get(root, "healthy_blamed")) + 1) {
        fprintf(out, "healthy jobs: %d of %d blamed\n", s->healthy_blamed, s->healthy_jobs);
        rc = -1;
    }
    json_decref(root);
    return rc;
}
