/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argus sweep: finish what epilogs could not.  On a node: entries of its
 * queue that nobody works on, and markers of jobs whose epilog never ran.
 * With --accounting, on any host that sees the job directories: jobs that
 * accounting has without a verdict.
 */
#include <config.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/epilog/jobs.h"
#include "analyzer/epilog/spawn.h"
#include "analyzer/epilog/worker.h"
#include "analyzer/util/hostlist.h"
#include "spank/pattern.h"

#define NAME "sweep"
#define DIR_DEFAULT "%w/argus/%j"
#define DIR_LETTERS "ujAaw"
/* Younger jobs are their epilog's. */
#define AGE_DEFAULT_S 900

struct sweep {
    struct argus_worker worker;
    const char *pattern; /* --accounting */
    const char *comment;
    long age_s;
    const char *node;
    long finished, left;
    int quiet;
};

static void log_text(void *arg, int priority, const char *text)
{
    const struct sweep *s = arg;

    if (!s->quiet || priority <= LOG_WARNING)
        argus_cli_error(NAME, "%s", text);
}

static void usage(FILE *out)
{
    fputs("Usage: argus sweep [--spool DIR] [--accounting [--since TIME] [--dir PATTERN]]\n"
          "Finishes jobs whose verdict is not in accounting yet.  Run it as root, from a\n"
          "timer, on every node; with --accounting on one host that sees the job\n"
          "directories.\n\n"
          "  --spool DIR       the plugin's spool, %n is the node (default " ARGUS_SPOOL_DEFAULT
          ")\n"
          "  --accounting      also jobs that accounting has without a verdict\n"
          "  --since TIME      look so far back, as sacct -S takes it (default now-2days)\n"
          "  --age S           leave jobs alone that ended less than S seconds ago\n"
          "                    (default 900)\n"
          "  --dir PATTERN     where their directories are, as in the plugin's dir= but\n"
          "                    without %N: %u %j %A %a %w %% (default " DIR_DEFAULT ")\n"
          "  --comment FIELD   admin, system, comment or none, with --accounting\n"
          "                    (default admin)\n"
          "  --slurm-path LIST directories of sacct and sacctmgr, parted by ':'\n"
          "  --memory MB       address space of an analysis, 0: no limit (default 8192)\n"
          "  -q, --quiet       only what goes wrong\n",
          out);
}

/* ---- the node's own queue ---- */

struct ended {
    const char *raw;
    int64_t end;
};

static int note_end(const struct argus_job *job, void *arg)
{
    struct ended *e = arg;

    if (!strcmp(job->raw, e->raw))
        e->end = job->end;
    return 0;
}

/* Markers whose job ended long ago: its epilog did not run. */
static void take_orphans(struct sweep *s, struct argus_queue *q)
{
    char(*jobs)[ARGUS_QUEUE_NAME_MAX];
    long n = argus_queue_list_jobs(q, &jobs, NULL);

    for (long i = 0; i < n; i++) {
        char leader[24], name[ARGUS_QUEUE_NAME_MAX];
        struct ended e = {leader, 0};
        argus_error_t err;

        snprintf(leader, sizeof(leader), "%.*s", (int)strcspn(jobs[i], "+"), jobs[i]);
        if (argus_jobs_each(&s->worker.slurm, NULL, leader, note_end, &e, NULL) < 0 || !e.end ||
            time(NULL) - e.end < s->age_s)
            continue;
        if (argus_queue_take_name(q, jobs[i], name, &err) < 0)
            argus_cli_error(NAME, "%s", err.text);
    }
    free(jobs);
}

static int sweep_node(struct sweep *s, const char *spool)
{
    char(*names)[ARGUS_QUEUE_NAME_MAX];
    struct argus_queue q;
    argus_error_t err;
    int rc = argus_queue_open(&q, spool, s->node, &err);
    long n;

    if (rc < 0)
        argus_cli_error(NAME, "%s", err.text);
    if (rc <= 0)
        return rc;
    s->worker.queue = &q;
    take_orphans(s, &q);
    n = argus_queue_list(&q, &names, &err);
    if (n < 0)
        argus_cli_error(NAME, "%s", err.text);
    for (long i = 0; i < n; i++) {
        if (argus_worker_run(&s->worker, names[i]))
            s->finished++;
        else
            s->left++;
    }
    free(names);
    argus_queue_close(&q);
    s->worker.queue = NULL;
    return n < 0 ? -1 : 0;
}

/* ---- accounting ---- */

/* The directory of the job's first run, as the plugin makes its name. */
static int expand(const char *pattern, const struct argus_job *job, char *out, size_t size)
{
    const char *task = strchr(job->id, '_');
    char array[32];
    struct argus_pattern_facts facts = {
        .user = job->user,
        .job = job->raw,
        .array_job = array,
        .array_task = task ? task + 1 : "0",
        .workdir = job->workdir,
    };

    snprintf(array, sizeof(array), "%.*s", (int)strcspn(job->id, "_+"), job->id);
    return argus_pattern_expand(pattern, &facts, out, size, NULL);
}

/* The job itself, or the first component of a heterogeneous one: all components share one
 * directory and one verdict, which stand with the first. */
static int is_leader(const struct argus_job *job)
{
    const char *component = strchr(job->id, '+');

    return !component || !strcmp(component, "+0");
}

static int conclude(const struct argus_job *job, void *arg)
{
    struct sweep *s = arg;
    struct argus_stepconf conf;
    struct argus_queue_entry entry = {.lock = -1, .steps = &conf, .n_steps = 1};
    const char *task = strchr(job->id, '_');
    char dir[4096], *text = NULL, *line = argus_job_line(job);
    int length;

    if (line || !job->end || time(NULL) - job->end < s->age_s || !is_leader(job) ||
        expand(s->pattern, job, dir, sizeof(dir)) < 0) {
        free(line);
        return 0;
    }
    length = asprintf(&text,
                      "job=%s%s\nhet=%s\nnode=%s\nuser=%s\nuid=%lu\ngid=%lu\ndir=%s\nnodes=%s\n"
                      "array_job=%.*s\narray_task=%s\ncomment=%s\nstarted=%lld000000000\n",
                      job->raw, strchr(job->id, '+') ? "+0" : "", strchr(job->id, '+') ? "0" : "-",
                      s->node, job->user, (unsigned long)job->uid, (unsigned long)job->gid, dir,
                      job->nodes, task ? (int)strcspn(job->id, "_") : 1, task ? job->id : "-",
                      task ? task + 1 : "-", s->comment, (long long)job->start);
    snprintf(entry.name, sizeof(entry.name), "%s", job->raw);
    /* What does not pass is no job of ours: no nodes, odd names. */
    if (length >= 0 && argus_stepconf_parse(text, (size_t)length, job->raw, &conf, NULL) == 0) {
        if (argus_worker_conclude(&s->worker, &entry))
            s->finished++;
        else
            s->left++;
        argus_stepconf_clear(&conf);
    }
    free(text);
    return 0;
}

/* ---- options ---- */

enum {
    OPT_SPOOL = 256,
    OPT_ACCOUNTING,
    OPT_SINCE,
    OPT_AGE,
    OPT_DIR,
    OPT_COMMENT,
    OPT_PATH,
    OPT_MEMORY,
    OPT_ANALYZE,
    OPT_RECORD
};

static const struct option longs[] = {
    {"spool", required_argument, NULL, OPT_SPOOL},
    {"accounting", no_argument, NULL, OPT_ACCOUNTING},
    {"since", required_argument, NULL, OPT_SINCE},
    {"age", required_argument, NULL, OPT_AGE},
    {"dir", required_argument, NULL, OPT_DIR},
    {"comment", required_argument, NULL, OPT_COMMENT},
    {"slurm-path", required_argument, NULL, OPT_PATH},
    {"memory", required_argument, NULL, OPT_MEMORY},
    {"analyze", required_argument, NULL, OPT_ANALYZE}, /* for tests, as argus-epilog's */
    {"record", required_argument, NULL, OPT_RECORD},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int is_number(const char *text)
{
    return text[0] && strlen(text) < 9 && !text[strspn(text, "0123456789")];
}

/* This node's queue, then, unless `since` is NULL, what accounting knows. */
static int sweep(struct sweep *s, const char *spool, const char *since)
{
    char host[ARGUS_HOST_NAME_MAX + 1];
    argus_error_t err;
    int rc;

    s->node = getenv("SLURMD_NODENAME");
    if (!s->node && gethostname(host, sizeof(host)) == 0) {
        host[sizeof(host) - 1] = '\0';
        host[strcspn(host, ".")] = '\0';
        s->node = host;
    }
    if (!argus_host_name_valid(s->node)) {
        argus_cli_error(NAME, "the name of this node is not known");
        return ARGUS_EXIT_ERROR;
    }
    rc = sweep_node(s, spool);
    if (since && argus_jobs_each(&s->worker.slurm, since, NULL, conclude, s, &err) < 0) {
        argus_cli_error(NAME, "%s", err.text);
        rc = -1;
    }
    if (!s->quiet)
        printf("%ld finished, %ld left for later\n", s->finished, s->left);
    return rc < 0 ? ARGUS_EXIT_ERROR : ARGUS_EXIT_OK;
}

int argus_cmd_sweep(int argc, char **argv)
{
    struct sweep s = {
        .worker = ARGUS_WORKER_DEFAULTS,
        .comment = "admin",
        .age_s = AGE_DEFAULT_S,
        .pattern = DIR_DEFAULT,
    };
    const char *spool = ARGUS_SPOOL_DEFAULT, *since = "now-2days";
    argus_error_t err;
    int c, accounting = 0;

    s.worker.analyze = ARGUS_BINDIR "/argus";
    s.worker.record = ARGUS_PKGLIBEXECDIR "/argus-record";
    s.worker.log = log_text;
    s.worker.log_arg = &s;
    s.worker.post_s = 0;
    s.worker.slurm.slurm_conf = getenv("SLURM_CONF");
    while ((c = getopt_long(argc, argv, "qh", longs, NULL)) != -1) {
        switch (c) {
        case OPT_SPOOL:
            spool = optarg;
            break;
        case OPT_ACCOUNTING:
            accounting = 1;
            break;
        case OPT_SINCE:
            since = optarg;
            break;
        case OPT_DIR:
            s.pattern = optarg;
            break;
        case OPT_AGE:
        case OPT_MEMORY:
            if (!is_number(optarg)) {
                argus_cli_error(NAME, "--%s %s: a number expected", c == OPT_AGE ? "age" : "memory",
                                optarg);
                return ARGUS_EXIT_USAGE;
            }
            if (c == OPT_AGE)
                s.age_s = strtol(optarg, NULL, 10);
            else
                s.worker.memory_mb = (int)strtol(optarg, NULL, 10);
            break;
        case OPT_COMMENT:
            s.comment = optarg;
            break;
        case OPT_PATH:
            s.worker.slurm.path = optarg;
            break;
        case OPT_ANALYZE:
            s.worker.analyze = optarg;
            break;
        case OPT_RECORD:
            s.worker.record = optarg;
            break;
        case 'q':
            s.quiet = 1;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if (optind < argc) {
        argus_cli_error(NAME, "\"%s\": no operand is taken", argv[optind]);
        return ARGUS_EXIT_USAGE;
    }
    if (argus_field_from_name(s.comment) < 0) {
        argus_cli_error(NAME, "--comment %s: admin, system, comment or none expected", s.comment);
        return ARGUS_EXIT_USAGE;
    }
    if (argus_pattern_check(s.pattern, DIR_LETTERS, true, &err) < 0) {
        argus_cli_error(NAME, "--dir %s: %s", s.pattern, err.text);
        return ARGUS_EXIT_USAGE;
    }
    return sweep(&s, spool, accounting ? since : NULL);
}
