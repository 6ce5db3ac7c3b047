/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus nodes: which nodes were blamed, how often, in which jobs.  The source
 * is accounting itself: the verdicts in the jobs' comments.
 */
#include <config.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/cli/cli.h"
#include "analyzer/epilog/history.h"

#define NAME "nodes"
#define REPEAT_DEFAULT 2
#define JOBS_SHOWN 5
#define PARTNERS_SHOWN 3

static void usage(FILE *out)
{
    fputs("Usage: argus nodes [--since TIME] [--json FILE|-] [NODE...]\n"
          "Which nodes verdicts blamed, how often, in which jobs; from Slurm's accounting.\n\n"
          "  --since TIME      as sacct -S takes it (default now-30days)\n"
          "  --repeat N        jobs that must blame a node before a drain command is offered\n"
          "                    (default 2)\n"
          "  --json FILE       the same as JSON, - is stdout\n"
          "  --slurm-path LIST directories of sacct, parted by ':'\n",
          out);
}

static void stamp(int64_t t, char *text, size_t size)
{
    struct tm tm;
    time_t when = (time_t)t;

    localtime_r(&when, &tm);
    strftime(text, size, "%Y-%m-%d %H:%M", &tm);
}

/* Jobs of one kind of blame, "3 compute-straggler gpu=5". */
static void print_kinds(const struct argus_node_history *node)
{
    for (size_t i = 0; i < node->n_blames; i++) {
        const struct argus_comment *c = &node->blames[i].comment;
        int n = 0, earlier = 0;

        for (size_t k = 0; k < node->n_blames; k++) {
            const struct argus_comment *d = &node->blames[k].comment;
            int same = d->kind == c->kind && d->gpu == c->gpu && !strcmp(d->link, c->link);

            earlier |= same && k < i;
            n += same;
        }
        if (earlier)
            continue;
        printf("    %d x %s", n, argus_verdict_kind_name(c->kind));
        if (c->gpu != ARGUS_UNKNOWN)
            printf(", gpu %d", c->gpu);
        if (c->link[0])
            printf(", %s", c->link);
        putchar('\n');
    }
}

static void print_advice(const struct argus_node_history *node)
{
    const struct argus_blame *last = &node->blames[node->n_blames - 1];

    printf("    drain    scontrol update nodename=%s state=drain reason=\"argus: %s in %zu jobs, "
           "last %s\"\n",
           node->name, argus_verdict_kind_name(last->comment.kind), node->n_blames, last->job);
    printf("    confirm  srun -N1 -w %s --exclusive --argus YOUR_GEMM_BENCHMARK\n", node->name);
    if (last->comment.kind == ARGUS_VERDICT_SLOW_LINK && node->partners.n)
        printf(
            "    confirm  srun -N2 -w %s,%s --exclusive --argus=links=on all_reduce_perf -b 256M "
            "-e 1G -f 2\n",
            node->name, node->partners.names[0]);
}

static void print_node(const struct argus_node_history *node, size_t repeat)
{
    const struct argus_blame *last = &node->blames[node->n_blames - 1];
    size_t first = node->n_blames > JOBS_SHOWN ? node->n_blames - JOBS_SHOWN : 0;
    char when[32];

    stamp(last->end, when, sizeof(when));
    printf("%s  blamed in %zu job%s of %d user%s, %.1f GPU-hours lost, last %s\n", node->name,
           node->n_blames, node->n_blames == 1 ? "" : "s", argus_history_users(node),
           argus_history_users(node) == 1 ? "" : "s", argus_history_lost(node), when);
    print_kinds(node);
    printf("    jobs    ");
    for (size_t i = first; i < node->n_blames; i++)
        printf(" %s", node->blames[i].job);
    printf("%s\n", first ? " ..." : "");
    if (node->partners.n) {
        printf("    with    ");
        for (size_t i = 0; i < node->partners.n && i < PARTNERS_SHOWN; i++)
            printf(" %s (%d)", node->partners.names[i], node->partner_jobs[i]);
        printf("%s\n", node->partners.n > PARTNERS_SHOWN ? " ..." : "");
    }
    if (node->ok_since) {
        stamp(node->last_ok, when, sizeof(when));
        printf("    not blamed in %d traced job%s since, last %s\n", node->ok_since,
               node->ok_since == 1 ? "" : "s", when);
    } else if (node->n_blames >= repeat) {
        print_advice(node);
    }
}

static json_t *node_json(const struct argus_node_history *node, size_t repeat)
{
    json_t *o = json_object(), *jobs = json_array(), *partners = json_object();
    char drain[512];

    for (size_t i = 0; i < node->n_blames; i++) {
        const struct argus_blame *b = &node->blames[i];

        json_array_append_new(
            jobs,
            json_pack(
                "{s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:o}", "job", b->job, "user", b->user, "end",
                (json_int_t)b->end, "verdict", argus_verdict_kind_name(b->comment.kind), "severity",
                argus_severity_name(b->comment.severity), "gpu",
                b->comment.gpu == ARGUS_UNKNOWN ? json_null() : json_integer(b->comment.gpu),
                "slowdown",
                isfinite(b->comment.slowdown) ? json_real(b->comment.slowdown) : json_null(),
                "gpu_hours",
                isfinite(b->comment.gpu_hours) ? json_real(b->comment.gpu_hours) : json_null()));
    }
    for (size_t i = 0; i < node->partners.n; i++)
        json_object_set_new(partners, node->partners.names[i], json_integer(node->partner_jobs[i]));
    json_object_set_new(o, "node", json_string(node->name));
    json_object_set_new(o, "blamed", json_integer((json_int_t)node->n_blames));
    json_object_set_new(o, "users", json_integer(argus_history_users(node)));
    json_object_set_new(o, "gpu_hours", json_real(argus_history_lost(node)));
    json_object_set_new(o, "ok_since", json_integer(node->ok_since));
    json_object_set_new(o, "jobs", jobs);
    json_object_set_new(o, "partners", partners);
    if (node->n_blames >= repeat && !node->ok_since) {
        const struct argus_blame *last = &node->blames[node->n_blames - 1];

        snprintf(
            drain, sizeof(drain),
            "scontrol update nodename=%s state=drain reason=\"argus: %s in %zu jobs, last %s\"",
            node->name, argus_verdict_kind_name(last->comment.kind), node->n_blames, last->job);
        json_object_set_new(o, "drain", json_string(drain));
    }
    return o;
}

static int wanted(const struct argus_node_history *node, char **list, int n)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(list[i], node->name))
            return 1;
    }
    return n == 0;
}

static int print(const argus_history_t *h, size_t repeat, const char *json, char **list, int n)
{
    json_t *root = json ? json_array() : NULL;
    size_t shown = 0;
    int rc = 0;

    for (size_t i = 0; i < argus_history_nodes(h); i++) {
        const struct argus_node_history *node = argus_history_node(h, i);

        if (!wanted(node, list, n))
            continue;
        shown++;
        if (json)
            json_array_append_new(root, node_json(node, repeat));
        else
            print_node(node, repeat);
    }
    if (!json && !shown)
        printf("no node blamed in %zu traced job%s\n", argus_history_jobs(h),
               argus_history_jobs(h) == 1 ? "" : "s");
    if (json) {
        FILE *f = strcmp(json, "-") ? fopen(json, "w") : stdout;

        if (!f || json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) < 0 ||
            fputc('\n', f) == EOF || (f != stdout && fclose(f) == EOF)) {
            argus_cli_error(NAME, "%s: cannot be written", json);
            rc = -1;
        }
        json_decref(root);
    }
    return rc;
}

enum { OPT_SINCE = 256, OPT_REPEAT, OPT_JSON, OPT_PATH };

int argus_cmd_nodes(int argc, char **argv)
{
    static const struct option longs[] = {
        {"since", required_argument, NULL, OPT_SINCE},
        {"repeat", required_argument, NULL, OPT_REPEAT},
        {"json", required_argument, NULL, OPT_JSON},
        {"slurm-path", required_argument, NULL, OPT_PATH},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct argus_slurm slurm = {.slurm_conf = getenv("SLURM_CONF")};
    const char *since = "now-30days", *json = NULL;
    argus_history_t *h;
    argus_error_t err;
    long repeat = REPEAT_DEFAULT;
    int c, rc;

    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (c) {
        case OPT_SINCE:
            since = optarg;
            break;
        case OPT_REPEAT:
            repeat = strtol(optarg, NULL, 10);
            break;
        case OPT_JSON:
            json = optarg;
            break;
        case OPT_PATH:
            slurm.path = optarg;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (repeat < 1) {
        argus_cli_error(NAME, "--repeat takes a number from 1");
        return ARGUS_EXIT_USAGE;
    }
    h = argus_history_create();
    rc = h ? argus_jobs_each(&slurm, since, NULL, argus_history_add, h, &err)
           : argus_error(&err, "out of memory");
    if (rc == 0)
        rc = argus_history_digest(h, &err);
    if (rc < 0)
        argus_cli_error(NAME, "%s", err.text);
    else
        rc = print(h, (size_t)repeat, json, argv + optind, argc - optind);
    argus_history_destroy(h);
    return rc < 0 ? ARGUS_EXIT_ERROR : ARGUS_EXIT_OK;
}
