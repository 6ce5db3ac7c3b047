/* SPDX-License-Identifier: Apache-2.0 */
/* `argus export`: a job for Perfetto or Prometheus. */
#include <config.h>
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
#include "analyzer/report/export.h"

#define NAME "export"
#define RANKS_MAX (1u << 20)

struct arguments {
    const char *format, *what, *output, *step;
    struct argus_export_options options;
    int *ranks;
    int quiet;
};

struct meter {
    time_t started;
    int drawn;
};

static void usage(FILE *out)
{
    fputs("Usage: argus export perfetto|prometheus [OPTION...] DIR|JOBID\n"
          "Writes a job for other tools.\n\n"
          "  perfetto         the kept windows as a trace for ui.perfetto.dev\n"
          "  prometheus       verdicts as metrics for the textfile collector\n\n"
          "  -o, --output FILE  default: standard output\n"
          "  --step ID          perfetto: of this job step; default: the first\n"
          "  --steps A:B        perfetto: training steps A to B; A: and :B are open\n"
          "  --ranks LIST       perfetto: these ranks, as 0,4,8-15\n"
          "  -q, --quiet        no progress\n"
          "  -h, --help         this text\n",
          out);
}

static int number(const char *text, char **end, int *value)
{
    long v;

    errno = 0;
    v = strtol(text, end, 10);
    if (*end == text || errno || v < 0 || v > 1 << 30)
        return -1;
    *value = (int)v;
    return 0;
}

/* "A:B", "A:", ":B", "A" */
static int parse_steps(const char *text, struct argus_export_options *o)
{
    char *end = (char *)text;

    if (*text != ':' && number(text, &end, &o->first_step) != 0)
        return -1;
    if (*end == '\0' && end != text) {
        o->last_step = o->first_step;
        return 0;
    }
    if (*end++ != ':')
        return -1;
    if (*end == '\0')
        return 0;
    if (number(end, &end, &o->last_step) != 0 || *end)
        return -1;
    return o->first_step > o->last_step ? -1 : 0;
}

/* "0,4,8-15" */
static int parse_ranks(const char *text, struct arguments *a)
{
    char *end;
    int first, last;

    for (;;) {
        if (number(text, &end, &first) != 0)
            return -1;
        last = first;
        if (*end == '-' && number(end + 1, &end, &last) != 0)
            return -1;
        if (last < first || (size_t)(last - first) + a->options.n_ranks >= RANKS_MAX)
            return -1;
        for (int r = first; r <= last; r++) {
            int *more = realloc(a->ranks, (a->options.n_ranks + 1) * sizeof(*more));

            if (!more)
                return -1;
            a->ranks = more;
            a->ranks[a->options.n_ranks++] = r;
        }
        if (*end == '\0')
            return 0;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
}

static void show(void *arg, size_t done, size_t total)
{
    struct meter *m = arg;

    if (time(NULL) - m->started < 1)
        return;
    m->drawn = 1;
    fprintf(stderr, "\rargus export: %3zu %%", done * 100 / (total ? total : 1));
    fflush(stderr);
}

/* A timeline that does not open costs its own rank, not the trace of the others. */
static void tell_left_out(const char *text)
{
    argus_cli_error(NAME, "left out: %s", text);
}

/* The step directory to draw. */
static int find_step(const char *dir, const char *step, char **found, argus_error_t *err)
{
    char **steps, wanted[64];
    size_t n;
    int rc = argus_jobdir_steps(dir, &steps, &n, err);

    if (rc != 0)
        return -1;
    *found = NULL;
    snprintf(wanted, sizeof(wanted), "step-%s", step ? step : "");
    for (size_t i = 0; i < n && !*found; i++) {
        const char *base = strrchr(steps[i], '/') ? strrchr(steps[i], '/') + 1 : steps[i];

        if (!step || !strcmp(base, wanted))
            *found = strdup(steps[i]);
    }
    argus_jobdir_free(steps, n);
    return *found ? 0 : argus_error(err, "%s: no step \"%s\"", dir, step ? step : "");
}

static int export_perfetto(struct arguments *a, const char *dir, FILE *out, argus_error_t *err)
{
    struct meter meter = {.started = time(NULL)};
    char *step = NULL;
    int rc;

    if (find_step(dir, a->step, &step, err) != 0)
        return -1;
    a->options.ranks = a->ranks;
    a->options.left_out = tell_left_out;
    if (!a->quiet && isatty(STDERR_FILENO)) {
        a->options.progress = show;
        a->options.progress_arg = &meter;
    }
    rc = argus_export_perfetto(step, &a->options, out, err);
    if (meter.drawn)
        fputs("\r                    \r", stderr);
    free(step);
    return rc;
}

static int export_to(struct arguments *a, const char *dir, FILE *out, argus_error_t *err)
{
    int rc = !strcmp(a->format, "prometheus") ? argus_export_prometheus(dir, out, err)
                                              : export_perfetto(a, dir, out, err);

    if (rc != 0 && ferror(out))
        argus_error_prefix(err, "%s", a->output ? a->output : "standard output");
    return rc;
}

/* The file appears whole: a textfile collector may read at any time. */
static int export_file(struct arguments *a, const char *dir, argus_error_t *err)
{
    char temp[4096];
    mode_t mask = umask(0);
    FILE *out = NULL;
    int fd, rc = -1;

    umask(mask);
    /* A device or a pipe must not be replaced by a file. */
    out = argus_cli_stream(a->output);
    if (out) {
        rc = export_to(a, dir, out, err);
        if (out != stdout && fclose(out) != 0 && rc == 0)
            rc = argus_error(err, "%s: cannot write: %s", a->output, strerror(errno));
        return rc;
    }
    if (snprintf(temp, sizeof(temp), "%s.XXXXXX", a->output) >= (int)sizeof(temp))
        return argus_error(err, "%s: path is too long", a->output);
    fd = mkstemp(temp);
    if (fd < 0)
        return argus_error(err, "%s: cannot create: %s", a->output, strerror(errno));
    if (fchmod(fd, 0666 & ~mask) != 0 || !(out = fdopen(fd, "w"))) {
        argus_error(err, "%s: cannot create: %s", a->output, strerror(errno));
        close(fd);
        goto out;
    }
    rc = export_to(a, dir, out, err);
    if (fclose(out) != 0 && rc == 0)
        rc = argus_error(err, "%s: cannot write: %s", a->output, strerror(errno));
    if (rc == 0 && rename(temp, a->output) != 0)
        rc = argus_error(err, "%s: cannot write: %s", a->output, strerror(errno));
out:
    if (rc != 0)
        unlink(temp);
    return rc;
}

static int parse(int argc, char **argv, struct arguments *a)
{
    enum { STEP = 256, STEPS, RANKS };
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"step", required_argument, NULL, STEP},
                                            {"steps", required_argument, NULL, STEPS},
                                            {"ranks", required_argument, NULL, RANKS},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int c;

    a->options.first_step = a->options.last_step = -1;
    while ((c = getopt_long(argc, argv, "o:qh", options, NULL)) != -1) {
        switch (c) {
        case 'o':
            a->output = optarg;
            break;
        case STEP:
            a->step = optarg;
            break;
        case STEPS:
            if (parse_steps(optarg, &a->options) != 0) {
                argus_cli_error(NAME, "--steps %s: not a range like 10:20", optarg);
                return ARGUS_EXIT_USAGE;
            }
            break;
        case RANKS:
            if (parse_ranks(optarg, a) != 0) {
                argus_cli_error(NAME, "--ranks %s: not a list like 0,4,8-15", optarg);
                return ARGUS_EXIT_USAGE;
            }
            break;
        case 'q':
            a->quiet = 1;
            break;
        case 'h':
            usage(stdout);
            return -1;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    a->format = optind < argc ? argv[optind++] : NULL;
    if (!a->format || (strcmp(a->format, "perfetto") && strcmp(a->format, "prometheus"))) {
        if (a->format)
            argus_cli_error(NAME, "no format \"%s\": perfetto and prometheus are known", a->format);
        else
            argus_cli_error(NAME, "which format: perfetto or prometheus?");
        return ARGUS_EXIT_USAGE;
    }
    if (!strcmp(a->format, "prometheus") &&
        (a->step || a->ranks || a->options.first_step >= 0 || a->options.last_step >= 0)) {
        argus_cli_error(NAME, "--step, --steps and --ranks are for perfetto");
        return ARGUS_EXIT_USAGE;
    }
    if (argus_cli_one_job(NAME, argc - optind))
        return ARGUS_EXIT_USAGE;
    a->what = argv[optind];
    return 0;
}

int argus_cmd_export(int argc, char **argv)
{
    struct arguments a = {0};
    argus_error_t err;
    char *dir = NULL;
    int rc = parse(argc, argv, &a);

    if (rc != 0) {
        free(a.ranks);
        return rc < 0 ? ARGUS_EXIT_OK : rc;
    }
    rc = argus_jobdir_resolve(a.what, &dir, &err);
    if (rc == 0)
        rc = a.output ? export_file(&a, dir, &err) : export_to(&a, dir, stdout, &err);
    free(dir);
    free(a.ranks);
    if (rc != 0) {
        argus_cli_error(NAME, "%s", err.text);
        return ARGUS_EXIT_ERROR;
    }
    return ARGUS_EXIT_OK;
}
