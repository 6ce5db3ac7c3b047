/* SPDX-License-Identifier: Apache-2.0 */
/* argus report: a verdict for people, on the terminal or as an HTML file. */
#include <config.h>
#include <argus/verdict.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/model/jobdir.h"
#include "analyzer/model/model.h"
#include "analyzer/report/report.h"
#include "analyzer/verdict/arbiter.h"
#include "analyzer/verdict/build.h"
#include "analyzer/verdict/json.h"

#define NAME "report"

struct options {
    const char *html;
    const char *step;
    int summary;
    struct argus_report_options look;
};

static void usage(FILE *out)
{
    fputs("Usage: argus report [OPTION...] DIR|JOBID\n"
          "Shows the verdict of a job: what was slow, since when, what it cost, and why argus\n"
          "says so.  The job must have been analysed (argus analyze).\n\n"
          "  --html FILE      write one self-contained HTML page there instead; - is\n"
          "                   standard output\n"
          "  --summary        three lines; a step that has no verdict yet is analysed for them\n"
          "  --step ID        of this step; default: the step that cost most\n"
          "  --ascii          plain ASCII pictures\n"
          "  --color WHEN     auto, always or never; default auto: on a terminal, unless\n"
          "                   NO_COLOR is set\n"
          "  -h, --help\n",
          out);
}

static void show_progress(void *arg, size_t done, size_t total)
{
    time_t *began = arg;

    if (time(NULL) - *began < 1)
        return;
    fprintf(stderr, "\rargus report: %zu of %zu timelines", done, total);
}

/* The directory with the timelines of the step that the verdict is of; NULL: none there. */
static char *step_dir(const char *dir, const char *step)
{
    char *path = NULL, **steps = NULL;
    argus_error_t err;
    size_t n = 0;

    if (step && step[0]) {
        if (asprintf(&path, "%s/step-%s", dir, step) < 0)
            return NULL;
        if (access(path, R_OK | X_OK) == 0)
            return path;
        free(path);
        path = NULL;
    }
    if (argus_jobdir_steps(dir, &steps, &n, &err) == 0 && n > 0)
        path = strdup(steps[0]);
    argus_jobdir_free(steps, n);
    return path;
}

static int is_step(const char *dir, const char *step)
{
    char *path = NULL;
    int there = asprintf(&path, "%s/step-%s", dir, step) >= 0 && access(path, F_OK) == 0;

    free(path);
    return there;
}

static struct argus_verdict *read_verdict(const char *dir, const char *step, argus_error_t *err)
{
    struct argus_verdict *v = NULL;
    char *path = NULL;

    if (step ? asprintf(&path, "%s/step-%s/verdict.json", dir, step) < 0
             : asprintf(&path, "%s/verdict.json", dir) < 0) {
        argus_error(err, "%s: no memory", dir);
        return NULL;
    }
    if (step && !is_step(dir, step))
        argus_error(err, "%s: no step \"%s\"", dir, step);
    else if (access(path, F_OK) < 0 && errno == ENOENT)
        argus_error(err, "%s: no verdict yet; `argus analyze %s` makes one", path, dir);
    else
        v = argus_verdict_read(path, err);
    free(path);
    return v;
}

/* Timelines that the verdict had and that cannot be read now: their ranks are in no picture. */
static void tell_of_missing(const struct argus_model *m, const struct argus_verdict *v)
{
    static const char prefix[] = "not readable: ";
    const char *why = "their timelines are gone";

    if (m->n_ranks_missing <= v->data_quality.n_ranks_missing)
        return;
    for (size_t i = m->n_notes; i-- > 0;)
        if (!strncmp(m->notes[i], prefix, sizeof(prefix) - 1))
            why = m->notes[i] + sizeof(prefix) - 1;
    argus_cli_error(NAME, "pictures without %zu of %d ranks: %s", m->n_ranks_missing, m->world,
                    why);
}

/* Pictures need the timelines; without them the verdict alone is shown. */
static struct argus_model *load_model(const char *dir, const struct argus_verdict *v)
{
    struct argus_model_options options;
    struct argus_model *m = NULL;
    time_t began = time(NULL);
    argus_error_t err = {{0}};
    char *where = step_dir(dir, v->job.step), topology[128];

    if (!where)
        return NULL;
    argus_model_options_init(&options);
    if (isatty(STDERR_FILENO)) {
        options.progress = show_progress;
        options.progress_arg = &began;
    }
    /* The layout that the verdict was made with. */
    if (v->topology.source && !strcmp(v->topology.source, "option")) {
        snprintf(topology, sizeof(topology), "tp=%d,pp=%d,dp=%d,ep=%d", v->topology.tp,
                 v->topology.pp, v->topology.dp, v->topology.ep > 0 ? v->topology.ep : 1);
        options.topology = topology;
    }
    m = argus_model_load(where, &options, &err);
    if (options.progress && time(NULL) - began >= 1)
        fputs("\r\033[K", stderr);
    if (!m)
        argus_cli_error(NAME, "no pictures: %s", err.text);
    else
        tell_of_missing(m, v);
    free(where);
    return m;
}

/* To the file; what is no file, such as a device, must not be replaced by one. */
static int write_html(const char *path, const struct argus_verdict *v, const struct argus_model *m,
                      argus_error_t *err)
{
    FILE *out = argus_cli_stream(path);
    int rc;

    if (!out)
        return argus_report_html(path, v, m, err);
    rc = argus_report_html_to(out, v, m, err);
    if (out != stdout && fclose(out) && !rc)
        rc = argus_error(err, "%s", strerror(errno));
    if (rc)
        argus_error_prefix(err, "%s", path);
    return rc;
}

/* The directory of the job that a step's directory belongs to, else `dir` itself; malloc'd. */
static char *job_dir(const char *dir)
{
    const char *name = strrchr(dir, '/');
    char *parent, *whole;

    if (strncmp(name ? name + 1 : dir, "step-", 5))
        return strdup(dir);
    if (!name)
        return realpath(".", NULL);
    parent = name == dir ? strdup("/") : strndup(dir, (size_t)(name - dir));
    whole = parent ? realpath(parent, NULL) : NULL;
    if (!whole)
        return parent;
    free(parent);
    return whole;
}

/* A step is over before its job is: nobody may have analysed it yet, and nothing is written here. */
static int summary(const char *dir, const struct options *o)
{
    struct argus_model_options options;
    argus_error_t err = {{0}};
    struct argus_verdict *v = read_verdict(dir, o->step, &err);
    struct argus_model *m = NULL;
    char *where = v ? NULL : step_dir(dir, o->step), *job = job_dir(dir);
    int rc = ARGUS_EXIT_ERROR;

    if (where) {
        argus_model_options_init(&options);
        if ((m = argus_model_load(where, &options, &err)))
            v = argus_diagnose(m, &err);
    }
    if (!v || !job)
        argus_cli_error(NAME, "%s", v ? "no memory" : err.text);
    else if (argus_report_summary(stdout, v, job) < 0)
        argus_cli_error(NAME, "standard output: %s", strerror(errno));
    else
        rc = ARGUS_EXIT_OK;
    argus_model_destroy(m);
    argus_verdict_destroy(v);
    free(where);
    free(job);
    return rc;
}

static int report(const char *what, const struct options *o)
{
    struct argus_verdict *v = NULL;
    struct argus_model *m = NULL;
    argus_error_t err = {{0}};
    char *dir = NULL;
    int rc = ARGUS_EXIT_ERROR;

    if (o->step && (strchr(o->step, '/') || !o->step[0])) {
        argus_cli_error(NAME, "--step %s: no step of a job", o->step);
        return ARGUS_EXIT_USAGE;
    }
    if (argus_jobdir_resolve(what, &dir, &err) == 0 && o->summary) {
        rc = summary(dir, o);
        goto out;
    }
    if (!dir || !(v = read_verdict(dir, o->step, &err))) {
        argus_cli_error(NAME, "%s", err.text);
        goto out;
    }
    m = load_model(dir, v);
    if (o->html) {
        if (write_html(o->html, v, m, &err) == 0)
            rc = ARGUS_EXIT_OK;
        else
            argus_cli_error(NAME, "%s", err.text);
    } else if (argus_report_text(stdout, v, m, &o->look) == 0) {
        rc = ARGUS_EXIT_OK;
    } else {
        argus_cli_error(NAME, "standard output: %s", strerror(errno));
    }
out:
    argus_model_destroy(m);
    argus_verdict_destroy(v);
    free(dir);
    return rc;
}

int argus_cmd_report(int argc, char **argv)
{
    enum { HTML = 256, STEP, ASCII, COLOR, SUMMARY };
    static const struct option longs[] = {{"html", required_argument, NULL, HTML},
                                          {"step", required_argument, NULL, STEP},
                                          {"ascii", no_argument, NULL, ASCII},
                                          {"color", required_argument, NULL, COLOR},
                                          {"help", no_argument, NULL, 'h'},
                                          {"summary", no_argument, NULL, SUMMARY},
                                          {NULL, 0, NULL, 0}};
    struct options o = {0};
    int c;

    argus_report_options_for(&o.look, stdout);
    optind = 1;
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (c) {
        case HTML:
            o.html = optarg;
            break;
        case STEP:
            o.step = optarg;
            break;
        case SUMMARY:
            o.summary = 1;
            break;
        case ASCII:
            o.look.utf8 = 0;
            break;
        case COLOR:
            if (!strcmp(optarg, "always")) {
                o.look.colour = 1;
            } else if (!strcmp(optarg, "never")) {
                o.look.colour = 0;
            } else if (strcmp(optarg, "auto")) {
                argus_cli_error(NAME, "--color %s: auto, always or never expected", optarg);
                return ARGUS_EXIT_USAGE;
            }
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (o.summary && o.html) {
        argus_cli_error(NAME, "--summary and --html exclude each other");
        return ARGUS_EXIT_USAGE;
    }
    if (argus_cli_one_job(NAME, argc - optind))
        return ARGUS_EXIT_USAGE;
    return report(argv[optind], &o);
}
