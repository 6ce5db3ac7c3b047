/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus nodes: which nodes were blamed, how often, in which jobs.  The source
 * is accounting itself: the verdicts in the jobs' comments.
 */
#include <config.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/cli/cli.h"
#include "analyzer/epilog/jobs.h"
#include "analyzer/util/hostlist.h"
#include "analyzer/verdict/comment.h"

#define NAME "nodes"
#define REPEAT_DEFAULT 2
#define JOBS_SHOWN 5
#define PARTNERS_SHOWN 3

/* One blame: job, verdict, where. */
struct blame {
    char job[32], user[64];
    struct argus_comment comment;
    int64_t end;
};

struct node {
    char *name;
    struct blame *blames; /* in order of time */
    size_t n_blames;
    int64_t last_ok;                /* the last traced job on it that did not blame it; 0: none */
    int ok_since;                   /* such jobs after the last blame */
    struct argus_hostlist partners; /* nodes of the blamed jobs */
    int *partner_jobs;
};

/* A traced job, until all are read: what it says of a node depends on the order. */
struct traced {
    struct blame blame;
    char *nodes;
};

struct history {
    struct traced *jobs;
    size_t n_jobs, room;
    struct node **nodes;
    size_t n_nodes;
    void *by_name; /* tsearch() of struct node */
    int failed;
};

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

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

static struct node *get_node(struct history *h, const char *name)
{
    struct node key = {.name = (char *)name}, *node, **grown, **found;

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

static int collect(const struct argus_job *job, void *arg)
{
    struct history *h = arg;
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

    return (x->blame.end > y->blame.end) - (x->blame.end < y->blame.end);
}

static int names(const struct argus_comment *c, const char *node)
{
    for (size_t i = 0; i < c->node.n; i++) {
        if (!strcmp(c->node.name[i], node))
            return 1;
    }
    return 0;
}

static void add_partners(struct history *h, struct node *node, const struct argus_hostlist *nodes)
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

static void blame(struct history *h, const struct traced *t, const char *name,
                  const struct argus_hostlist *nodes)
{
    struct node *node = get_node(h, name);
    struct blame *grown;

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
static void sort_partners(struct node *node)
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

/* Job by job in order of time: who is blamed, who has been well since. */
static void digest(struct history *h)
{
    qsort(h->jobs, h->n_jobs, sizeof(*h->jobs), by_end);
    for (size_t i = 0; i < h->n_jobs && !h->failed; i++) {
        const struct traced *t = &h->jobs[i];
        const struct argus_comment *c = &t->blame.comment;
        struct argus_hostlist nodes;

        if (argus_hostlist_expand(t->nodes, ARGUS_HOSTLIST_MAX, &nodes, NULL) < 0)
            continue;
        for (size_t n = 0; n < c->node.n; n++)
            blame(h, t, c->node.name[n], &nodes);
        for (size_t n = 0; n < nodes.n && c->kind != ARGUS_VERDICT_INSUFFICIENT_DATA; n++) {
            struct node key = {.name = nodes.names[n]}, **found;

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
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

    if (x->n_blames != y->n_blames)
        return x->n_blames < y->n_blames ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void free_node(void *p)
{
    struct node *node = p;

    argus_hostlist_clear(&node->partners);
    free(node->partner_jobs);
    free(node->blames);
    free(node->name);
    free(node);
}

static void clear(struct history *h)
{
    tdestroy(h->by_name, free_node);
    for (size_t i = 0; i < h->n_jobs; i++)
        free(h->jobs[i].nodes);
    free(h->jobs);
    free(h->nodes);
}

/* ---- what it comes to ---- */

static double lost(const struct node *node)
{
    double sum = 0;

    for (size_t i = 0; i < node->n_blames; i++) {
        if (isfinite(node->blames[i].comment.gpu_hours))
            sum += node->blames[i].comment.gpu_hours;
    }
    return sum;
}

static int users(const struct node *node)
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

static void stamp(int64_t t, char *text, size_t size)
{
    struct tm tm;
    time_t when = (time_t)t;

    localtime_r(&when, &tm);
    strftime(text, size, "%Y-%m-%d %H:%M", &tm);
}

/* Jobs of one kind of blame, "3 compute-straggler gpu=5". */
static void print_kinds(const struct node *node)
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

static void print_advice(const struct node *node)
{
    const struct blame *last = &node->blames[node->n_blames - 1];

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

static void print_node(const struct node *node, size_t repeat)
{
    const struct blame *last = &node->blames[node->n_blames - 1];
    size_t first = node->n_blames > JOBS_SHOWN ? node->n_blames - JOBS_SHOWN : 0;
    char when[32];

    stamp(last->end, when, sizeof(when));
    printf("%s  blamed in %zu job%s of %d user%s, %.1f GPU-hours lost, last %s\n", node->name,
           node->n_blames, node->n_blames == 1 ? "" : "s", users(node), users(node) == 1 ? "" : "s",
           lost(node), when);
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

static json_t *node_json(const struct node *node, size_t repeat)
{
    json_t *o = json_object(), *jobs = json_array(), *partners = json_object();
    char drain[512];

    for (size_t i = 0; i < node->n_blames; i++) {
        const struct blame *b = &node->blames[i];

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
    json_object_set_new(o, "users", json_integer(users(node)));
    json_object_set_new(o, "gpu_hours", json_real(lost(node)));
    json_object_set_new(o, "ok_since", json_integer(node->ok_since));
    json_object_set_new(o, "jobs", jobs);
    json_object_set_new(o, "partners", partners);
    if (node->n_blames >= repeat && !node->ok_since) {
        const struct blame *last = &node->blames[node->n_blames - 1];

        snprintf(
            drain, sizeof(drain),
            "scontrol update nodename=%s state=drain reason=\"argus: %s in %zu jobs, last %s\"",
            node->name, argus_verdict_kind_name(last->comment.kind), node->n_blames, last->job);
        json_object_set_new(o, "drain", json_string(drain));
    }
    return o;
}

static int wanted(const struct node *node, char **list, int n)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(list[i], node->name))
            return 1;
    }
    return n == 0;
}

static int print(const struct history *h, size_t repeat, const char *json, char **list, int n)
{
    json_t *root = json ? json_array() : NULL;
    size_t shown = 0;
    int rc = 0;

    for (size_t i = 0; i < h->n_nodes; i++) {
        if (!wanted(h->nodes[i], list, n))
            continue;
        shown++;
        if (json)
            json_array_append_new(root, node_json(h->nodes[i], repeat));
        else
            print_node(h->nodes[i], repeat);
    }
    if (!json && !shown)
        printf("no node blamed in %zu traced job%s\n", h->n_jobs, h->n_jobs == 1 ? "" : "s");
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
    struct history h = {0};
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
    rc = argus_jobs_each(&slurm, since, NULL, collect, &h, &err);
    if (rc == 0) {
        digest(&h);
        if (h.failed)
            rc = argus_error(&err, "out of memory");
    }
    if (rc < 0)
        argus_cli_error(NAME, "%s", err.text);
    else if (h.n_nodes)
        qsort(h.nodes, h.n_nodes, sizeof(*h.nodes), worst_first);
    if (rc == 0)
        rc = print(&h, (size_t)repeat, json, argv + optind, argc - optind);
    clear(&h);
    return rc < 0 ? ARGUS_EXIT_ERROR : ARGUS_EXIT_OK;
}
