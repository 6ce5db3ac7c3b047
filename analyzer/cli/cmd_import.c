/* SPDX-License-Identifier: Apache-2.0 */
/* `argus import`: recorded traces of other tools to timelines. */
#include <config.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/import/import.h"

struct meter {
    time_t started, shown;
    int on; /* a terminal, and not --quiet */
    int drawn;
};

static void usage(FILE *out)
{
    fputs(
        "Usage: argus import kineto|nsys [OPTION...] FILE... -o DIR\n"
        "Makes timelines of recorded traces, so that `argus analyze DIR` can judge them.\n\n"
        "  kineto           torch.profiler traces (JSON, plain or gzip), one file a rank\n"
        "  nsys             Nsight Systems exports (`nsys export --type sqlite`), plain or gzip\n\n"
        "  -o, --output DIR job directory to make: DIR/step-0/rank-NNNNN.h5, DIR/job.json\n"
        "  -f, --force      replace timelines that exist\n"
        "  -q, --quiet      no progress, no notes\n"
        "  -h, --help       this text\n",
        out);
}

static void show(void *arg, double done)
{
    struct meter *m = arg;
    time_t now = time(NULL);

    if (!m->on || now == m->shown || now - m->started < 1)
        return;
    m->shown = now;
    m->drawn = 1;
    fprintf(stderr, "\rargus import: %3.0f %%", done > 1 ? 100.0 : done * 100);
    fflush(stderr);
}

/* What was not there before goes when nothing came of it; rmdir() spares what holds anything. */
struct made {
    char step[4096];
    int dir_is_new, step_is_new;
};

static void look_before(struct made *m, const char *dir)
{
    m->dir_is_new = access(dir, F_OK) != 0;
    m->step_is_new = snprintf(m->step, sizeof(m->step), "%s/step-0", dir) < (int)sizeof(m->step) &&
                     access(m->step, F_OK) != 0;
}

static void tidy(const struct made *m, const char *dir)
{
    if (m->step_is_new)
        rmdir(m->step);
    if (m->dir_is_new)
        rmdir(dir);
}

static int import_files(const char *kind, const char *const *files, size_t n,
                        const struct import_output *out, int quiet)
{
    struct meter meter = {.started = time(NULL), .on = !quiet && isatty(STDERR_FILENO)};
    struct import_report report;
    struct made made;
    argus_error_t err;
    int rc;

    look_before(&made, out->dir);
    if (!strcmp(kind, "kineto"))
        rc = import_kineto(files, n, out, show, &meter, &report, &err);
    else
        rc = import_nsys(files, n, out, show, &meter, &report, &err);
    if (meter.drawn)
        fputs("\r                    \r", stderr);
    if (rc != 0) {
        argus_cli_error("import", "%s", err.text);
        tidy(&made, out->dir);
        return ARGUS_EXIT_ERROR;
    }
    if (report.note[0] && !quiet)
        argus_cli_error("import", "note: %s", report.note);
    if (report.invalid && !quiet)
        argus_cli_error("import", "note: %llu events with impossible times were left out",
                        (unsigned long long)report.invalid);
    printf("%zu rank%s, %zu GPU kernels, %zu events in %s\n", report.ranks,
           report.ranks == 1 ? "" : "s", report.kernels, report.events, out->dir);
    return ARGUS_EXIT_OK;
}

int argus_cmd_import(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"force", no_argument, NULL, 'f'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct import_output out = {0};
    const char *kind;
    int c, quiet = 0;

    while ((c = getopt_long(argc, argv, "o:fqh", options, NULL)) != -1) {
        switch (c) {
        case 'o':
            out.dir = optarg;
            break;
        case 'f':
            out.replace = 1;
            break;
        case 'q':
            quiet = 1;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    kind = optind < argc ? argv[optind++] : NULL;
    if (!kind || (strcmp(kind, "kineto") && strcmp(kind, "nsys"))) {
        argus_cli_error("import",
                        kind ? "no format \"%s\": kineto and nsys are known"
                             : "what to import: kineto or nsys?",
                        kind ? kind : "");
        return ARGUS_EXIT_USAGE;
    }
    if (optind == argc || !out.dir) {
        argus_cli_error("import", optind == argc ? "no file given" : "no output directory: -o DIR");
        return ARGUS_EXIT_USAGE;
    }
    return import_files(kind, (const char *const *)argv + optind, (size_t)(argc - optind), &out,
                        quiet);
}
