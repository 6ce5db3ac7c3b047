/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/report/words.h"

#define NAMED 6 /* culprits that are named before "and N more" */

static const char *const meanings[ARGUS_VERDICT_COUNT] = {
    [ARGUS_VERDICT_INSUFFICIENT_DATA] = "The data does not carry a verdict.",
    [ARGUS_VERDICT_OK] = "No rank, link or host holds the others up.",
    [ARGUS_VERDICT_COMPUTE_STRAGGLER] =
        "Its GPU runs the same kernels slower than its peers do, and "
        "everybody waits for it.",
    [ARGUS_VERDICT_SLOW_LINK] = "Data crosses this link slower than it should; no rank is late.",
    [ARGUS_VERDICT_HOST_STALL] = "Its GPU stands idle because the CPU program launches work late.",
    [ARGUS_VERDICT_DATA_STALL] =
        "It waits for input at the start of the step; the others wait for it.",
    [ARGUS_VERDICT_JIT_STALL] = "It compiles or loads kernels while the others wait.",
    [ARGUS_VERDICT_ALLOCATOR_STALL] = "It allocates and frees GPU memory while the others wait.",
    [ARGUS_VERDICT_PIPELINE_IMBALANCE] =
        "All replicas of this pipeline stage have more to do than the "
        "other stages: a matter of the model's cut, not of a machine.",
    [ARGUS_VERDICT_WORKLOAD_IMBALANCE] =
        "Some ranks get more work than others: a matter of the data, "
        "not of a machine.",
    [ARGUS_VERDICT_MOE_IMBALANCE] =
        "Some experts get more tokens than others: a matter of routing, not "
        "of a machine.",
    [ARGUS_VERDICT_UNIFORM_SLOWDOWN] = "All ranks are slow alike: nobody to blame.",
    [ARGUS_VERDICT_SPLIT] =
        "One half is slower than the other; the data cannot say which is normal.",
};

/* Appends; what does not fit is left off whole. */
static void put(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put(char *out, size_t size, const char *format, ...)
{
    size_t at = strlen(out);
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(out + at, size - at, format, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size - at)
        out[at] = '\0';
}

int argus_words_slow_copies(const struct argus_verdict *v)
{
    return v->kind == ARGUS_VERDICT_SLOW_LINK && v->link && v->link->scope &&
           !strcmp(v->link->scope, "pcie");
}

const char *argus_words_meaning(const struct argus_verdict *v)
{
    if (argus_words_slow_copies(v))
        return "Copies between its GPU and the host take longer than those of its peers, and "
               "everybody waits for it.";
    return (unsigned)v->kind < ARGUS_VERDICT_COUNT ? meanings[v->kind] : "";
}

void argus_words_count(long n, const char *thing, char *out, size_t size)
{
    snprintf(out, size, "%ld %s%s", n, thing, n == 1 ? "" : "s");
}

void argus_words_culprits(const struct argus_culprit *list, size_t n, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < n && i < NAMED; i++) {
        const struct argus_culprit *c = &list[i];

        put(out, size, "%s", i ? ", " : "");
        if (c->rank != ARGUS_UNKNOWN)
            put(out, size, "rank %d", c->rank);
        if (c->node && c->node[0])
            put(out, size, c->rank != ARGUS_UNKNOWN ? " on %s" : "node %s", c->node);
        if (c->local_rank != ARGUS_UNKNOWN && n <= 2)
            put(out, size, ", GPU %d", c->local_rank);
        if (c->gpu && c->gpu[0] && n == 1)
            put(out, size, " (%s)", c->gpu);
    }
    if (n > NAMED)
        put(out, size, " and %zu more", n - NAMED);
}

static const char *scope_words(const char *scope)
{
    static const char *const words[][2] = {{"gpu", "GPU link"},        {"pcie", "PCIe link"},
                                           {"nic", "network adapter"}, {"node", "links"},
                                           {"pair", "path"},           {"fabric", "fabric"}};

    for (size_t i = 0; scope && i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(words[i][0], scope))
            return words[i][1];
    return scope ? scope : "a link";
}

static void put_link(const struct argus_link *l, char *out, size_t size)
{
    put(out, size, "%s%s", out[0] ? "; " : "", scope_words(l->scope));
    if (l->node && l->node[0])
        put(out, size, " of %s", l->node);
    if (l->rank != ARGUS_UNKNOWN)
        put(out, size, " (rank %d)", l->rank);
    if (l->peer_node && l->peer_node[0])
        put(out, size, " to %s", l->peer_node);
    else if (l->peer != ARGUS_UNKNOWN)
        put(out, size, " to rank %d", l->peer);
    for (size_t i = 0; i < l->n_candidates && i < NAMED; i++)
        put(out, size, "%s%s", i ? ", " : ", one of ", l->candidates[i]);
    if (l->n_candidates > NAMED)
        put(out, size, " and %zu more", l->n_candidates - NAMED);
    if (isfinite(l->factor))
        put(out, size, ": transfers take %.2fx as long", l->factor);
    if (l->communicator)
        put(out, size, ", seen in %s", l->communicator);
}

/* Does the link say all that the culprits say: one node as a whole? */
static int link_says_it(const struct argus_verdict *v)
{
    for (size_t i = 0; i < v->n_culprits; i++)
        if (v->culprits[i].rank != ARGUS_UNKNOWN || !v->culprits[i].node || !v->link ||
            !v->link->node || strcmp(v->culprits[i].node, v->link->node))
            return 0;
    return 1;
}

void argus_words_who(const struct argus_verdict *v, char *out, size_t size)
{
    out[0] = '\0';
    if (!link_says_it(v))
        argus_words_culprits(v->culprits, v->n_culprits, out, size);
    if (v->stage != ARGUS_UNKNOWN)
        put(out, size, "%spipeline stage %d", out[0] ? "; " : "", v->stage);
    if (v->link)
        put_link(v->link, out, size);
    if (!out[0])
        put(out, size, "nobody");
}

void argus_words_since(const struct argus_verdict *v, char *out, size_t size)
{
    out[0] = '\0';
    if (v->onset_step == ARGUS_UNKNOWN)
        put(out, size, "no onset seen: from the beginning");
    else if (v->onset_step == 0)
        put(out, size, "the first step");
    else
        put(out, size, "step %d", v->onset_step);
    if (v->onset_step != ARGUS_UNKNOWN && v->job.steps > 0)
        put(out, size, " of %d", v->job.steps);
    if (v->recovered_step != ARGUS_UNKNOWN)
        put(out, size, " until step %d", v->recovered_step);
    if (v->pattern)
        put(out, size, ", %s", v->pattern);
    if (v->phase)
        put(out, size, ", in the %s phase", v->phase);
}

void argus_words_cost(const struct argus_verdict *v, char *out, size_t size)
{
    char hours[32];

    out[0] = '\0';
    if (isfinite(v->slowdown))
        put(out, size, "a step takes %.2fx as long", v->slowdown);
    if (isfinite(v->gpu_hours)) {
        argus_words_number(v->gpu_hours, hours, sizeof(hours));
        put(out, size, "%s%s GPU-hours lost", out[0] ? "; " : "", hours);
    }
    if (isfinite(v->share))
        put(out, size, " (%.*f %% of the job's)", v->share < 0.1 ? 1 : 0, 100 * v->share);
    if (!out[0])
        put(out, size, "not known");
}

/* 0: the data do not tell. */
static void put_count(char *out, size_t size, int n)
{
    if (n > 0)
        put(out, size, "%d", n);
    else
        put(out, size, "?");
}

void argus_words_job(const struct argus_verdict *v, char *out, size_t size)
{
    char part[64];

    out[0] = '\0';
    argus_words_count(v->job.ranks, "rank", part, sizeof(part));
    put(out, size, "%s on ", part);
    argus_words_count(v->job.nodes, "node", part, sizeof(part));
    put(out, size, "%s", part);
    if (v->topology.tp > 0 || v->topology.pp > 0 || v->topology.dp > 0) {
        put(out, size, ", TP ");
        put_count(out, size, v->topology.tp);
        put(out, size, " x PP ");
        put_count(out, size, v->topology.pp);
        put(out, size, " x DP ");
        put_count(out, size, v->topology.dp);
        if (v->topology.ep > 1)
            put(out, size, " x EP %d", v->topology.ep);
        if (v->topology.source)
            put(out, size, v->topology.source[0] == 'i' ? " (%s)" : " (from %s)",
                v->topology.source);
    }
    argus_words_count(v->job.steps, "step", part, sizeof(part));
    put(out, size, "; %s", part);
    if (isfinite(v->job.step_ms_p50)) {
        argus_words_duration(v->job.step_ms_p50 * 1e6, part, sizeof(part));
        put(out, size, " of %s", part);
    }
}

void argus_words_duration(double ns, char *out, size_t size)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    size_t k = 0;
    double x;

    if (!isfinite(ns)) {
        snprintf(out, size, "-");
        return;
    }
    while (k < 3 && fabs(ns) < units[k].unit)
        k++;
    x = ns / units[k].unit;
    snprintf(out, size, "%.*f %s", fabs(x) >= 100 ? 0 : fabs(x) >= 10 ? 1 : 2, x, units[k].name);
}

void argus_words_number(double x, char *out, size_t size)
{
    double a = fabs(x);

    if (!isfinite(x))
        snprintf(out, size, "-");
    else if (x == rint(x) && a < 1e9)
        snprintf(out, size, "%.0f", x);
    else if (a >= 1e7 || a < 1e-3)
        snprintf(out, size, "%.3g", x);
    else
        snprintf(out, size, "%.*f", a >= 100 ? 0 : a >= 10 ? 1 : a >= 1 ? 2 : 3, x);
}

int argus_words_is_command(const char *text)
{
    static const char *const commands[] = {"scontrol ", "srun ",  "sbatch ",     "argus ",
                                           "sacct ",    "sinfo ", "nvidia-smi ", "dcgmi "};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (!strncmp(text, commands[i], strlen(commands[i])))
            return 1;
    return 0;
}

/* The sub-kind as it stands in verdict.json and doc/method.md, with what it says; one not known here stands alone. */
static void put_kind(const char *kind, char *out, size_t size)
{
    static const char *const words[][2] = {
        {"clock", "all kernels are slower alike"},
        {"compute-bound", "GEMM and attention alone are slower: power or clock"},
        {"memory", "memory-bound kernels alone are slower"},
        {"one-class", "one or two kernels account for all of it: maybe a shape, not the hardware"},
        {"shared-gpu", "heavy tails: somebody else runs on that GPU"},
        {"cpu-contention", "it visits the ranks of one node by turns"},
        {"gc-like", "it visits the ranks by turns"},
        {"regression", "steps were faster before"},
        {"copy-bound", "half of the step is copies that nothing hides"},
        {"communication-bound", "half of the step is communication that nothing hides"}};

    out[0] = '\0';
    put(out, size, "%s", kind);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (!strcmp(words[i][0], kind))
            put(out, size, ": %s", words[i][1]);
}

void argus_words_facts(const struct argus_verdict *v,
                       void (*line)(void *arg, const char *name, const char *text), void *arg)
{
    char text[2048];

    if (v->subkind && v->kind == ARGUS_VERDICT_INSUFFICIENT_DATA) {
        line(arg, "missing", v->subkind);
    } else if (v->subkind) {
        put_kind(v->subkind, text, sizeof(text));
        line(arg, "kind", text);
    }
    if (argus_verdict_is_fail_slow(v->kind)) {
        argus_words_who(v, text, sizeof(text));
        line(arg, "who", text);
        argus_words_since(v, text, sizeof(text));
        line(arg, "since", text);
        argus_words_cost(v, text, sizeof(text));
        line(arg, "cost", text);
    }
    argus_words_job(v, text, sizeof(text));
    line(arg, "job", text);
}
