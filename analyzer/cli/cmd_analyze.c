/* SPDX-License-Identifier: Apache-2.0 */
/* argus analyze: timelines -> verdict.json. */
#include <config.h>
#include <argus/verdict.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/model/jobdir.h"
#include "analyzer/model/model.h"
#include "analyzer/model/spread.h"
#include "analyzer/report/report.h"
#include "analyzer/util/hostlist.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/comment.h"
#include "analyzer/verdict/json.h"

#define NAME "analyze"

struct options {
    const char *json;
    const char *comment;
    const char *missing_nodes;
    struct argus_model_options model;
    int exit_code, quiet, write, mpi;
};

/* One analysed step. */
struct done {
    char *dir;
    struct argus_verdict *verdict;
    struct argus_model *model; /* of the costliest step so far, for its report; else NULL */
    int slot;                  /* where the model's memory lies in an MPI launch */
};

struct progress {
    time_t shown, began;
    int drawn;
};

static void usage(FILE *out)
{
    fputs("Usage: argus analyze [OPTION...] DIR|JOBID\n"
          "Decides from a job's timelines whether one GPU, link or host made everybody wait.\n\n"
          "DIR is a job directory, one of its step directories, or any directory of timelines.\n"
          "Writes step-*/verdict.json, verdict.json, report.txt and report.html there.\n\n"
          "  --json FILE         also write the verdict there; - is standard output\n"
          "  --comment FILE      write the line for accounting there; - is standard output\n"
          "  --topology LAYOUT   tp=N,pp=N,dp=N,ep=N instead of what the communicators say\n"
          "  --steps A:B         compare steps A to B only\n"
          "  --missing-nodes L   nodes whose data did not arrive\n"
          "  --mpi               split the timelines over the processes of an MPI launch\n"
          "  --exit-code         exit with 3 when the verdict is a fault\n"
          "  --no-write          write no file there\n"
          "  -q, --quiet         no progress, no summary line\n"
          "  -h, --help\n",
          out);
}

static int parse_steps(const char *text, struct argus_model_options *o)
{
    char *end;
    long a = -1, b = -1;

    if (*text != ':') {
        a = strtol(text, &end, 10);
        if (end == text || a < 0 || a > 1 << 30)
            return -1;
        text = end;
    }
    if (*text++ != ':')
        return -1;
    if (*text) {
        b = strtol(text, &end, 10);
        if (end == text || *end || b < 0 || b > 1 << 30 || (a >= 0 && b < a))
            return -1;
    }
    o->first_step = (int)a;
    o->last_step = (int)b;
    return 0;
}

/* One line on a terminal, from the second second on. */
static void show_progress(void *arg, size_t n, size_t total)
{
    struct progress *p = arg;
    time_t now = time(NULL);

    if (now == p->shown || now - p->began < 1)
        return;
    p->shown = now;
    p->drawn = 1;
    fprintf(stderr, "\rargus analyze: %zu of %zu timelines, %zu %%", n, total,
            total ? n * 100 / total : 100);
}

static void end_progress(struct progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", stderr);
    p->drawn = 0;
}

static int write_text(const char *path, const char *text)
{
    FILE *f = !strcmp(path, "-") ? stdout : fopen(path, "w");
    int bad;

    if (!f) {
        argus_cli_error(NAME, "%s: %s", path, strerror(errno));
        return -1;
    }
    bad = fputs(text, f) < 0;
    if (f == stdout ? fflush(f) : fclose(f))
        bad = 1;
    if (bad)
        argus_cli_error(NAME, "%s: %s", path, strerror(errno));
    return bad ? -1 : 0;
}

/* The verdict counts, wherever it can be written: the first file that cannot is told, once. */
static void cannot_write(int *unwritten, const argus_error_t *err)
{
    if (!*unwritten)
        argus_cli_error(NAME, "%s", err->text);
    *unwritten = 1;
}

static int analyze_step(const char *dir, const struct options *o, int slot, struct done *d,
                        int *unwritten)
{
    struct argus_model_options mo = o->model;
    struct progress p = {.began = time(NULL)};
    argus_error_t err = {{0}};
    struct argus_model *m;
    char path[4096];

    if (!o->quiet && isatty(STDERR_FILENO)) {
        mo.progress = show_progress;
        mo.progress_arg = &p;
    }
    mo.slot = d->slot = slot;
    d->model = m = argus_model_load(dir, &mo, &err);
    end_progress(&p);
    if (m)
        d->verdict = argus_diagnose(m, &err);
    if (!d->verdict || !(d->dir = strdup(dir))) {
        argus_model_destroy(m);
        d->model = NULL;
        argus_cli_error(NAME, "%s", err.text[0] ? err.text : "no memory");
        return -1;
    }
    snprintf(path, sizeof(path), "%s/verdict.json", dir);
    if (o->write && argus_verdict_write(d->verdict, path, &err))
        cannot_write(unwritten, &err);
    return 0;
}

/* Costlier step first: a fault before none, then by GPU-hours lost. */
static int costlier(const struct argus_verdict *a, const struct argus_verdict *b)
{
    int fa = argus_verdict_is_fail_slow(a->kind), fb = argus_verdict_is_fail_slow(b->kind);

    if (fa != fb)
        return fa > fb;
    if (fa)
        return a->gpu_hours > b->gpu_hours;
    if ((a->kind == ARGUS_VERDICT_OK) != (b->kind == ARGUS_VERDICT_OK))
        return a->job.gpu_hours > b->job.gpu_hours;
    return a->job.gpu_hours > b->job.gpu_hours;
}

/* Options that no job could make right: told before anything is read. */
static int check_options(const struct options *o)
{
    struct argus_hostlist list = {0};
    struct argus_topology topology;
    argus_error_t err = {{0}};
    int rc = 0;

    if (o->model.topology && argus_topology_parse(o->model.topology, &topology, &err)) {
        argus_cli_error(NAME, "--topology: %s", err.text);
        return -1;
    }
    if (o->missing_nodes && *o->missing_nodes)
        rc = argus_hostlist_expand(o->missing_nodes, ARGUS_HOSTLIST_MAX, &list, &err);
    if (rc)
        argus_cli_error(NAME, "--missing-nodes: %s", err.text);
    argus_hostlist_clear(&list);
    return rc;
}

static int note_missing(struct argus_verdict *v, const char *list)
{
    struct argus_hostlist h = {0};
    argus_error_t err = {{0}};
    int rc = 0;

    if (!list || !*list)
        return 0;
    if (argus_hostlist_expand(list, ARGUS_HOSTLIST_MAX, &h, &err)) {
        argus_cli_error(NAME, "--missing-nodes: %s", err.text);
        return -1;
    }
    for (size_t i = 0; i < h.n && !rc; i++)
        rc = argus_verdict_add_node_missing(v, h.names[i]);
    if (rc)
        argus_cli_error(NAME, "no memory");
    argus_hostlist_clear(&h);
    return rc;
}

static void print_summary(const struct argus_verdict *v, const char *comment)
{
    const char *text = v->n_explained ? v->explained[0] : NULL;

    printf("%s\n", comment);
    if (text && argus_verdict_is_fail_slow(v->kind))
        printf("%s\n", text);
}

static size_t costliest(const struct done *steps, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (costlier(steps[i].verdict, steps[best].verdict))
            best = i;
    return best;
}

/* Where --json and --comment say. */
static int write_asked(const struct options *o, const char *json, const char *comment)
{
    char *line = NULL;
    int rc = 0;

    if (o->json && write_text(o->json, json))
        rc = -1;
    if (o->comment && (asprintf(&line, "%s\n", comment) < 0 || write_text(o->comment, line)))
        rc = -1;
    free(line);
    return rc;
}

/* `unwritten`: a file is missing already, and that has been told. */
static int conclude(const char *dir, struct done *steps, size_t n, const struct options *o,
                    int unwritten)
{
    const struct argus_model *m = steps[costliest(steps, n)].model;
    struct argus_verdict *v = steps[costliest(steps, n)].verdict;
    argus_error_t err = {{0}};
    char *json = NULL, *comment = NULL, path[4096];
    int rc = -1;

    for (size_t i = 0; i < n && n > 1; i++) {
        const struct argus_verdict *s = steps[i].verdict;

        if (!argus_verdict_add_step(v, s->job.step, s->kind, s->severity, s->slowdown,
                                    s->gpu_hours))
            goto no_memory;
    }
    if (argus_verdict_set(&v->job.dir, dir))
        goto no_memory;
    if (note_missing(v, o->missing_nodes))
        goto out;
    json = argus_verdict_to_json(v);
    comment = argus_comment_format(v);
    if (!json || !comment)
        goto no_memory;
    snprintf(path, sizeof(path), "%s/verdict.json", dir);
    if (o->write &&
        (argus_verdict_write(v, path, &err) || (m && argus_report_write(dir, v, m, &err))))
        cannot_write(&unwritten, &err);
    if (write_asked(o, json, comment))
        unwritten = 1;
    if (!o->quiet && !(o->json && !strcmp(o->json, "-")) &&
        !(o->comment && !strcmp(o->comment, "-")))
        print_summary(v, comment);
    if (unwritten)
        goto out;
    rc = o->exit_code && argus_verdict_is_fail_slow(v->kind) ? ARGUS_EXIT_FAIL_SLOW : ARGUS_EXIT_OK;
    goto out;
no_memory:
    argus_cli_error(NAME, "no memory");
out:
    free(json);
    free(comment);
    return rc < 0 ? ARGUS_EXIT_ERROR : rc;
}

static void add_note(void *arg, const char *text)
{
    argus_verdict_add_note(arg, "%s", text);
}

/* Why there are no records, where a recorder knows. */
static void note_standdowns(const char *dir, struct argus_verdict *v)
{
    char path[4096];
    struct dirent *e;
    DIR *d = opendir(dir);

    while (d && (e = readdir(d))) {
        if (!strncmp(e->d_name, "step-", 5) &&
            snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
            argus_standdowns_without_timeline(path, NULL, add_note, v);
    }
    if (d)
        closedir(d);
}

/*
 * A job directory without one timeline: nothing in the job ever made a record.
 * That is an answer, too, not an error.  1 it is such a directory.
 */
static int conclude_empty(const char *dir, const struct options *o, int *rc)
{
    struct done d = {0};
    char *path = NULL, *job = strrchr(dir, '/');

    if (asprintf(&path, "%s/job.json", dir) < 0 || access(path, R_OK)) {
        free(path);
        return 0;
    }
    free(path);
    *rc = ARGUS_EXIT_ERROR;
    d.verdict = argus_verdict_create();
    if (d.verdict && !argus_verdict_set(&d.verdict->job.id, job ? job + 1 : dir) &&
        !argus_verdict_set(&d.verdict->subkind, "timelines") &&
        !argus_verdict_add_note(d.verdict, "no process of the job made a record: no CUDA, no NCCL, "
                                           "or the collector was not loaded")) {
        note_standdowns(dir, d.verdict);
        *rc = conclude(dir, &d, 1, o, 0);
    } else {
        argus_cli_error(NAME, "no memory");
    }
    argus_verdict_destroy(d.verdict);
    return 1;
}

/* Processes of an MPI launch beside the first read their share and hand it over. */
static int read_for_another(char **dirs, size_t n, const struct options *o)
{
    argus_error_t err = {{0}};
    int rc = ARGUS_EXIT_OK;

    for (size_t i = 0; i < n; i++) {
        argus_model_load(dirs[i], &o->model, &err);
        if (err.text[0])
            rc = ARGUS_EXIT_ERROR; /* the first process says what is wrong */
        err.text[0] = '\0';
    }
    return rc;
}

/* At most two models are held: the costliest and the one being made. */
static int free_slot(const struct done *steps, size_t n)
{
    int used = -1;

    for (size_t i = 0; i < n; i++)
        if (steps[i].model)
            used = steps[i].slot;
    return used == 0 ? 1 : 0;
}

static int analyze(const char *where, const struct options *o)
{
    argus_error_t err = {{0}};
    struct done *steps = NULL;
    char *dir = NULL, **dirs = NULL;
    size_t n = 0, good = 0;
    int rc = ARGUS_EXIT_ERROR, bad, unwritten = 0;

    if (argus_jobdir_resolve(where, &dir, &err)) {
        argus_cli_error(NAME, "%s", err.text);
        goto out;
    }
    bad = argus_jobdir_steps(dir, &dirs, &n, &err) != 0;
    bad |= argus_spread_share((int)n) != (int)n;
    if (argus_spread_agree(bad)) {
        if (argus_spread_rank() == 0 && !conclude_empty(dir, o, &rc))
            argus_cli_error(NAME, "%s", err.text);
        goto out;
    }
    steps = calloc(n + 1, sizeof(*steps));
    if (!steps)
        argus_cli_error(NAME, "no memory");
    if (argus_spread_rank() > 0) {
        rc = read_for_another(dirs, n, o);
        goto out;
    }
    for (size_t i = 0; steps && i < n; i++) {
        if (analyze_step(dirs[i], o, free_slot(steps, good), &steps[good], &unwritten))
            continue;
        good++;
        /* One model is held at a time, besides the one that is being made. */
        for (size_t k = 0; k < good; k++) {
            if (k == costliest(steps, good))
                continue;
            argus_model_destroy(steps[k].model);
            steps[k].model = NULL;
        }
    }
    if (good)
        rc = conclude(dir, steps, good, o, unwritten);
    if (good < n && rc == ARGUS_EXIT_OK && !good)
        rc = ARGUS_EXIT_ERROR;
out:
    for (size_t i = 0; steps && i < n; i++) {
        free(steps[i].dir);
        argus_model_destroy(steps[i].model);
        argus_verdict_destroy(steps[i].verdict);
    }
    free(steps);
    argus_jobdir_free(dirs, n);
    free(dir);
    return rc;
}

int argus_cmd_analyze(int argc, char **argv)
{
    enum { JSON = 256, COMMENT, TOPOLOGY, STEPS, MISSING, EXIT_CODE, NO_WRITE, MPI };
    static const struct option longs[] = {{"json", required_argument, NULL, JSON},
                                          {"comment", required_argument, NULL, COMMENT},
                                          {"topology", required_argument, NULL, TOPOLOGY},
                                          {"steps", required_argument, NULL, STEPS},
                                          {"missing-nodes", required_argument, NULL, MISSING},
                                          {"mpi", no_argument, NULL, MPI},
                                          {"exit-code", no_argument, NULL, EXIT_CODE},
                                          {"no-write", no_argument, NULL, NO_WRITE},
                                          {"quiet", no_argument, NULL, 'q'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.write = 1};
    argus_error_t err = {{0}};
    int c;

    argus_model_options_init(&o.model);
    optind = 1;
    while ((c = getopt_long(argc, argv, "qh", longs, NULL)) != -1) {
        switch (c) {
        case JSON:
            o.json = optarg;
            break;
        case COMMENT:
            o.comment = optarg;
            break;
        case TOPOLOGY:
            o.model.topology = optarg;
            break;
        case STEPS:
            if (parse_steps(optarg, &o.model)) {
                argus_cli_error(NAME, "--steps %s: A:B expected, steps from A to B", optarg);
                return ARGUS_EXIT_USAGE;
            }
            break;
        case MISSING:
            o.missing_nodes = optarg;
            break;
        case MPI:
            o.mpi = 1;
            break;
        case EXIT_CODE:
            o.exit_code = 1;
            break;
        case NO_WRITE:
            o.write = 0;
            break;
        case 'q':
            o.quiet = 1;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (argus_cli_one_job(NAME, argc - optind))
        return ARGUS_EXIT_USAGE;
    if (check_options(&o))
        return ARGUS_EXIT_USAGE;
    if (o.mpi && argus_spread_begin(&err)) {
        argus_cli_error(NAME, "--mpi: %s", err.text);
        return ARGUS_EXIT_ERROR;
    }
    c = analyze(argv[optind], &o);
    argus_spread_end();
    return c;
}
