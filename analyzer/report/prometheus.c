/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's verdict as metrics for node_exporter's textfile collector: base
 * units, one family after the other, no timestamps.
 */
#include <config.h>
#include <argus/verdict.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/model/jobdir.h"
#include "analyzer/model/model.h"
#include "analyzer/report/export.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/json.h"

enum metric {
    JOB_INFO,
    JOB_VERDICT,
    JOB_SLOWDOWN,
    JOB_CONFIDENCE,
    JOB_LOST,
    JOB_RANKS,
    JOB_NODES,
    JOB_STEPS,
    JOB_STEP_DURATION,
    JOB_FINDINGS,
    JOB_MISSING,
    JOB_DROPPED,
    JOB_INVALID,
    NODE_RANKS,
    NODE_BLAMED,
    NODE_COMPUTE,
    NODE_WAIT,
    NODE_IDLE,
    NODE_DROPPED,
    METRICS
};

static const struct {
    const char *name, *type, *help;
} metrics[METRICS] = {
    [JOB_INFO] = {"argus_job_info", "gauge", "What ran; always 1."},
    [JOB_VERDICT] = {"argus_job_verdict_info", "gauge",
                     "What made the step slow, by verdict and severity; always 1."},
    [JOB_SLOWDOWN] = {"argus_job_slowdown_ratio", "gauge",
                      "Step time over step time without the fault."},
    [JOB_CONFIDENCE] = {"argus_job_confidence_ratio", "gauge",
                        "Confidence of the verdict, 0 to 1."},
    [JOB_LOST] = {"argus_job_lost_gpu_seconds", "gauge", "GPU time lost to the fault."},
    [JOB_RANKS] = {"argus_job_ranks", "gauge", "Ranks of the step."},
    [JOB_NODES] = {"argus_job_nodes", "gauge", "Nodes of the step."},
    [JOB_STEPS] = {"argus_job_training_steps", "gauge", "Training steps seen."},
    [JOB_STEP_DURATION] = {"argus_job_training_step_duration_seconds", "gauge",
                           "Median duration of a training step."},
    [JOB_FINDINGS] = {"argus_job_findings", "gauge", "Further faults found."},
    [JOB_MISSING] = {"argus_job_ranks_missing", "gauge", "Ranks without a timeline."},
    [JOB_DROPPED] = {"argus_job_records_dropped", "gauge", "Trace records lost on the way."},
    [JOB_INVALID] = {"argus_job_records_invalid", "gauge", "Trace records with bad times."},
    [NODE_RANKS] = {"argus_node_ranks", "gauge", "Ranks of the step on the node."},
    [NODE_BLAMED] = {"argus_node_blamed", "gauge", "1: the verdict names this node."},
    [NODE_COMPUTE] = {"argus_node_compute_seconds", "gauge",
                      "GPU computation in a training step, median over steps, mean over ranks."},
    [NODE_WAIT] =
        {"argus_node_wait_seconds", "gauge",
         "Waiting for other ranks in a training step, median over steps, mean over ranks."},
    [NODE_IDLE] = {"argus_node_idle_seconds", "gauge",
                   "Idle GPU in a training step, median over steps, mean over ranks."},
    [NODE_DROPPED] = {"argus_node_records_dropped", "gauge",
                      "Trace records lost on the node's ranks."},
};

struct sample {
    enum metric metric;
    char *labels;
    double value;
};

struct exporter {
    struct sample *samples;
    size_t n, size;
    int failed;
};

/* Name and value pairs up to NULL, escaped as the format wants it; malloc'd. */
static char *labels_of(const char *first, va_list ap)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    const char *name = first;

    if (!f)
        return NULL;
    for (; name; name = va_arg(ap, const char *)) {
        const char *value = va_arg(ap, const char *);

        fprintf(f, "%s%s=\"", name == first ? "" : ",", name);
        for (; value && *value; value++) {
            if (*value == '\\' || *value == '"')
                fprintf(f, "\\%c", *value);
            else if (*value == '\n')
                fputs("\\n", f);
            else
                fputc(*value, f);
        }
        fputc('"', f);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void add(struct exporter *x, enum metric metric, double value, const char *label, ...)
{
    va_list ap;
    char *labels;

    if (!isfinite(value))
        return;
    if (x->n == x->size) {
        size_t more = x->size ? x->size * 2 : 64;
        struct sample *p = realloc(x->samples, more * sizeof(*p));

        if (!p) {
            x->failed = 1;
            return;
        }
        x->samples = p;
        x->size = more;
    }
    va_start(ap, label);
    labels = labels_of(label, ap);
    va_end(ap);
    if (!labels)
        x->failed = 1;
    else
        x->samples[x->n++] = (struct sample){metric, labels, value};
}

static void add_verdict(struct exporter *x, const struct argus_verdict *v)
{
    const char *job = v->job.id ? v->job.id : "", *step = v->job.step ? v->job.step : "";

    add(x, JOB_INFO, 1, "job_id", job, "step", step, "simulated",
        v->job.simulated ? "true" : "false", NULL);
    add(x, JOB_VERDICT, 1, "job_id", job, "step", step, "verdict", argus_verdict_kind_name(v->kind),
        "severity", argus_severity_name(v->severity), NULL);
    add(x, JOB_SLOWDOWN, v->slowdown, "job_id", job, "step", step, NULL);
    add(x, JOB_CONFIDENCE, v->confidence, "job_id", job, "step", step, NULL);
    add(x, JOB_LOST, v->gpu_hours * 3600, "job_id", job, "step", step, NULL);
    add(x, JOB_RANKS, v->job.ranks, "job_id", job, "step", step, NULL);
    add(x, JOB_NODES, v->job.nodes, "job_id", job, "step", step, NULL);
    add(x, JOB_STEPS, v->job.steps, "job_id", job, "step", step, NULL);
    add(x, JOB_STEP_DURATION, v->job.step_ms_p50 / 1e3, "job_id", job, "step", step, NULL);
    add(x, JOB_FINDINGS, (double)v->n_findings, "job_id", job, "step", step, NULL);
    add(x, JOB_MISSING, (double)v->data_quality.n_ranks_missing, "job_id", job, "step", step, NULL);
    add(x, JOB_DROPPED, (double)v->data_quality.dropped, "job_id", job, "step", step, NULL);
    add(x, JOB_INVALID, (double)v->data_quality.invalid, "job_id", job, "step", step, NULL);
}

static int blamed(const struct argus_verdict *v, const char *node)
{
    for (size_t i = 0; i < v->n_culprits; i++) {
        if (v->culprits[i].node && !strcmp(v->culprits[i].node, node))
            return 1;
    }
    return v->link && v->link->node && !strcmp(v->link->node, node);
}

/* Mean over the node's ranks, seconds a step; NAN: not known. */
static double node_mean(const struct argus_model *m, size_t node, enum argus_column column)
{
    double sum = 0;
    size_t n = 0;

    for (size_t r = 0; r < m->n_ranks; r++) {
        double value = argus_model_rank_median(m, r, column);

        if ((size_t)m->ranks[r].node == node && isfinite(value)) {
            sum += value;
            n++;
        }
    }
    return n ? sum / (double)n / 1e9 : NAN;
}

static void add_nodes(struct exporter *x, const struct argus_verdict *v,
                      const struct argus_model *m)
{
    const char *job = v->job.id ? v->job.id : "", *step = v->job.step ? v->job.step : "";

    for (size_t i = 0; i < m->n_nodes; i++) {
        const char *node = m->nodes[i];
        double ranks = 0, dropped = 0;

        if (!node || !*node)
            continue; /* a trace that does not tell its host */
        for (size_t r = 0; r < m->n_ranks; r++) {
            if ((size_t)m->ranks[r].node == i) {
                ranks++;
                dropped += (double)m->ranks[r].counters.dropped;
            }
        }
        add(x, NODE_RANKS, ranks, "job_id", job, "step", step, "node", node, NULL);
        add(x, NODE_BLAMED, blamed(v, node), "job_id", job, "step", step, "node", node, NULL);
        add(x, NODE_COMPUTE, node_mean(m, i, ARGUS_COL_COMPUTE), "job_id", job, "step", step,
            "node", node, NULL);
        add(x, NODE_WAIT, node_mean(m, i, ARGUS_COL_WAIT), "job_id", job, "step", step, "node",
            node, NULL);
        add(x, NODE_IDLE, node_mean(m, i, ARGUS_COL_IDLE), "job_id", job, "step", step, "node",
            node, NULL);
        add(x, NODE_DROPPED, dropped, "job_id", job, "step", step, "node", node, NULL);
    }
}

/* The metrics of nodes need the timelines. */
static int add_step(struct exporter *x, const char *dir, int timelines, argus_error_t *err)
{
    struct argus_model_options options;
    struct argus_model *m = NULL;
    struct argus_verdict *v;
    char *path;
    int rc = -1;

    if (asprintf(&path, "%s/verdict.json", dir) < 0)
        return argus_error(err, "%s: out of memory", dir);
    if (access(path, R_OK) != 0) {
        argus_error(err, "%s: %s; run argus analyze first", path,
                    errno == ENOENT ? "no verdict yet" : strerror(errno));
        free(path);
        return -1;
    }
    v = argus_verdict_read(path, err);
    free(path);
    if (!v)
        return -1;
    argus_model_options_init(&options);
    m = timelines ? argus_model_load(dir, &options, err) : NULL;
    if (timelines && !m)
        goto out;
    add_verdict(x, v);
    if (m)
        add_nodes(x, v, m);
    rc = x->failed ? argus_error(err, "%s: out of memory", dir) : 0;
out:
    argus_model_destroy(m);
    argus_verdict_destroy(v);
    return rc;
}

static void print(const struct exporter *x, FILE *out)
{
    for (int metric = 0; metric < METRICS; metric++) {
        int said = 0;

        for (size_t i = 0; i < x->n; i++) {
            if ((int)x->samples[i].metric != metric)
                continue;
            if (!said++)
                fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[metric].name,
                        metrics[metric].help, metrics[metric].name, metrics[metric].type);
            fprintf(out, "%s{%s} %.15g\n", metrics[metric].name, x->samples[i].labels,
                    x->samples[i].value);
        }
    }
}

int argus_export_prometheus(const char *dir, FILE *out, argus_error_t *err)
{
    struct exporter x = {0};
    char **steps = NULL;
    size_t n = 0;
    argus_error_t none;
    int rc = 0;

    if (argus_jobdir_steps(dir, &steps, &n, &none) != 0)
        rc = add_step(&x, dir, 0, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_step(&x, steps[i], 1, err);
    if (rc == 0) {
        print(&x, out);
        if (fflush(out) != 0 || ferror(out))
            rc = argus_error(err, "cannot write the metrics: %s", strerror(errno));
    }
    argus_jobdir_free(steps, n);
    for (size_t i = 0; i < x.n; i++)
        free(x.samples[i].labels);
    free(x.samples);
    return rc;
}
