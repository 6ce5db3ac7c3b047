/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultbench: how often is the verdict right?  Makes jobs with and without
 * faults, has them analysed, scores the answers and, on the same jobs, the
 * rules that others use.
 */
#include <config.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contrib/faultbench/grid.h"

static void run_cell(struct fb_cell *c, const struct fb_options *o, const char *dir)
{
    struct fb_spec healthy = c->spec;
    struct fb_result r = {0}, h = {0};
    char error[600] = "";
    int sick = c->spec.fault.kind != FB_HEALTHY;

    healthy.fault.kind = FB_HEALTHY;
    healthy.times_only = 1;
    c->done = -1;
    if ((sick && fb_run(&healthy, &h) < 0) || fb_run(&c->spec, &r) < 0) {
        fprintf(stderr, "faultbench: %s n=%d %s x%g rank=%d stage=%d onset=%d seed=%llu: not run\n",
                fb_style_name(c->spec.style), c->spec.world, fb_fault_name(c->spec.fault.kind),
                c->spec.fault.magnitude, c->spec.fault.rank, c->spec.fault.stage,
                c->spec.fault.onset, (unsigned long long)c->spec.seed);
        goto out;
    }
    fb_truth_of(&r, sick ? &h : &r, &c->truth);
    if (fb_judge(&r, &c->truth, dir, o->keep, &c->answer, error, sizeof(error)) == 0)
        c->done = 1;
    else
        fprintf(stderr, "faultbench: %s\n", error);
    if (o->rules && c->truth.counts) {
        struct fb_score one;

        memset(&one, 0, sizeof(one));
        fb_score_rules(&one, &r, &c->truth);
        memcpy(c->blame_right, one.rule_right[c->spec.fault.kind], sizeof(c->blame_right));
    }
out:
    fb_result_free(&r);
    fb_result_free(&h);
}

static void describe(const struct fb_cell *c)
{
    const struct fb_spec *s = &c->spec;

    printf("%s n=%d %s x%g rank=%d node=%d stage=%d onset=%d seed=%llu cost=%.3f: %s%s\n",
           fb_style_name(s->style), s->world, fb_fault_name(s->fault.kind), s->fault.magnitude,
           s->fault.rank, s->fault.node, s->fault.stage, s->fault.onset,
           (unsigned long long)s->seed, c->truth.slowdown, argus_verdict_kind_name(c->answer.kind),
           c->truth.rank < 0 && c->truth.node < 0 && c->truth.stage < 0 ? ""
           : c->answer.culprit_right                                    ? " (right culprit)"
                                                                        : " (wrong culprit)");
}

static int wrong(const struct fb_cell *c)
{
    int right = c->answer.kind == c->truth.kind ||
                (c->truth.also >= 0 && (int)c->answer.kind == c->truth.also);

    if (c->spec.fault.kind == FB_HEALTHY || !c->truth.counts)
        return argus_verdict_is_fail_slow(c->answer.kind) && !right;
    return !right || !c->answer.culprit_right;
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* Whoever is free takes the next job: some take a thousand times as long as others. */
static void work_off(struct fb_cell *cells, size_t n, const struct fb_options *o, int worker,
                     atomic_size_t *next)
{
    char dir[4096];
    size_t i;

    snprintf(dir, sizeof(dir), "%s/faultbench-%d-%d", o->dir, (int)getppid(), worker);
    while ((i = atomic_fetch_add(next, 1)) < n) {
        const struct fb_spec *s = &cells[i].spec;

        if (o->keep)
            snprintf(dir, sizeof(dir), "%s/%s-%d-%s-%g-%llu", o->dir, fb_style_name(s->style),
                     s->world, fb_fault_name(s->fault.kind), s->fault.magnitude,
                     (unsigned long long)s->seed);
        run_cell(&cells[i], o, dir);
    }
}

static size_t finished(const struct fb_cell *cells, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        k += cells[i].done != 0;
    return k;
}

static int run_grid(struct fb_cell *cells, size_t n, const struct fb_options *o,
                    atomic_size_t *next)
{
    int failed = 0, left = o->jobs;

    for (int w = 0; w < o->jobs; w++) {
        pid_t pid = fork();

        if (pid == 0) {
            signal(SIGINT, SIG_IGN);
            work_off(cells, n, o, w, next);
            _exit(0);
        }
        if (pid < 0)
            return -1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    while (left > 0) {
        struct timespec pause = {0, 200000000};
        int status;

        if (interrupted)
            atomic_store(next, n); /* what is under way is finished and counted */

        if (waitpid(-1, &status, WNOHANG) > 0) {
            left--;
            failed |= !WIFEXITED(status) || WEXITSTATUS(status);
            continue;
        }
        nanosleep(&pause, NULL);
        if (isatty(2))
            fprintf(stderr, "\r%zu of %zu jobs", finished(cells, n), n);
    }
    if (isatty(2))
        fprintf(stderr, "\r                              \r");
    return failed ? -1 : 0;
}

static const struct option long_options[] = {{"full", no_argument, NULL, 'F'},
                                             {"seeds", required_argument, NULL, 's'},
                                             {"first-seed", required_argument, NULL, 'S'},
                                             {"healthy", required_argument, NULL, 'H'},
                                             {"jobs", required_argument, NULL, 'j'},
                                             {"style", required_argument, NULL, 't'},
                                             {"fault", required_argument, NULL, 'f'},
                                             {"world", required_argument, NULL, 'n'},
                                             {"no-rules", no_argument, NULL, 'r'},
                                             {"events", no_argument, NULL, 'e'},
                                             {"json", required_argument, NULL, 'J'},
                                             {"picture", required_argument, NULL, 'P'},
                                             {"baseline", required_argument, NULL, 'B'},
                                             {"dir", required_argument, NULL, 'd'},
                                             {"only", required_argument, NULL, 'o'},
                                             {"keep", no_argument, NULL, 'k'},
                                             {"verbose", no_argument, NULL, 'v'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static void usage(FILE *out)
{
    fputs("Usage: faultbench [OPTION...]\n"
          "Simulated jobs with known faults: precision and recall of the verdicts.\n\n"
          "  --full             every size from 2 to 64 ranks, some jobs of 256 and 1024\n"
          "                     (default: 4, 8, 16)\n"
          "  --seeds N          jobs a fault, magnitude, topology and size (default 2)\n"
          "  --first-seed N     where the seeds begin (default 1)\n"
          "  --healthy N        healthy jobs a topology and size (default 10)\n"
          "  --only SEED        only the jobs with this seed, as --verbose prints it\n"
          "  --style NAME       only ddp, fsdp, 3d or moe\n"
          "  --fault NAME       only this fault\n"
          "  --world N          only this many ranks\n"
          "  --events           timelines that keep every event (default: summary mode)\n"
          "  --no-rules         do not run the rules of others beside\n"
          "  --jobs N           processes (default 2)\n"
          "  --dir DIR          where the timelines go while they are needed (default /dev/shm, "
          "else /tmp)\n"
          "  --keep             leave them there, a directory a job\n"
          "  --json FILE        the scores as JSON\n"
          "  --picture FILE     recall by magnitude as SVG\n"
          "  --baseline FILE    compare with a recorded --json; exit 1 when a class lost more than "
          "noise\n"
          "  --verbose          list the jobs that went wrong\n",
          out);
}

static int lookup(const char *name, const char *(*names)(int), int n)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(name, names(i)))
            return i;
    }
    return -1;
}

static const char *style_at(int i)
{
    return fb_style_name((enum fb_style)i);
}

static const char *fault_at(int i)
{
    return fb_fault_name((enum fb_fault_kind)i);
}

static int parse(int argc, char **argv, struct fb_options *o)
{
    int c;

    while ((c = getopt_long(argc, argv, "j:vh", long_options, NULL)) != -1) {
        switch (c) {
        case 'F':
            o->full = 1;
            break;
        case 's':
            o->seeds = atoi(optarg);
            break;
        case 'S':
            o->first_seed = strtoull(optarg, NULL, 10);
            break;
        case 'H':
            o->healthy = atoi(optarg);
            break;
        case 'j':
            o->jobs = atoi(optarg) > 0 ? atoi(optarg) : 1;
            break;
        case 't':
            o->style = lookup(optarg, style_at, FB_STYLE_COUNT);
            if (o->style < 0)
                return -1;
            break;
        case 'f':
            o->fault = lookup(optarg, fault_at, FB_FAULT_COUNT);
            if (o->fault < 0)
                return -1;
            break;
        case 'n':
            o->world = atoi(optarg);
            break;
        case 'r':
            o->rules = 0;
            break;
        case 'e':
            o->events = 1;
            break;
        case 'J':
            o->json = optarg;
            break;
        case 'P':
            o->picture = optarg;
            break;
        case 'B':
            o->baseline = optarg;
            break;
        case 'd':
            o->dir = optarg;
            break;
        case 'o':
            o->only = strtoull(optarg, NULL, 10);
            break;
        case 'k':
            o->keep = 1;
            break;
        case 'v':
            o->verbose = 1;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            return -1;
        }
    }
    return optind == argc ? 0 : -1;
}

static int report(struct fb_cell *cells, size_t n, const struct fb_options *o)
{
    struct fb_score *score = calloc(1, sizeof(*score));
    size_t missing = 0;
    int rc = 0;

    if (!score)
        return 1;
    for (size_t i = 0; i < n; i++) {
        int kind = cells[i].spec.fault.kind;

        if (cells[i].done != 1) {
            missing++;
            continue;
        }
        fb_score_add(score, &cells[i].spec, &cells[i].truth, &cells[i].answer);
        if (o->rules && cells[i].truth.counts) {
            score->rule_jobs[kind]++;
            for (int r = 0; r < FB_RULE_COUNT; r++)
                score->rule_right[kind][r] += cells[i].blame_right[r];
        }
        if (o->verbose && wrong(&cells[i]))
            describe(&cells[i]);
    }
    fb_score_print(score, stdout);
    if (missing) {
        fprintf(stderr, "faultbench: %zu of %zu jobs were not judged%s\n", missing, n,
                interrupted ? " (interrupted)" : "");
        rc = 1;
    }
    if (o->json && fb_score_json(score, o->json) < 0) {
        fprintf(stderr, "faultbench: %s: cannot be written\n", o->json);
        rc = 1;
    }
    if (o->picture && fb_score_picture(score, o->picture) < 0) {
        fprintf(stderr, "faultbench: %s: cannot be written\n", o->picture);
        rc = 1;
    }
    if (o->baseline && fb_score_compare(score, o->baseline, stderr) < 0)
        rc = 1;
    free(score);
    return rc;
}

int main(int argc, char **argv)
{
    struct fb_options o = {.seeds = 2,
                           .healthy = 10,
                           .jobs = 2,
                           .rules = 1,
                           .style = -1,
                           .fault = -1,
                           .first_seed = 1};
    struct fb_grid g = {0};
    struct fb_cell *shared;
    atomic_size_t *next;
    size_t size;
    int rc;

    o.dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (parse(argc, argv, &o) < 0) {
        usage(stderr);
        return 2;
    }
    fb_grid_fill(&g, &o);
    if (g.n == 0) {
        fprintf(stderr, "faultbench: no job fits these options\n");
        return 2;
    }
    size = g.n * sizeof(*shared) + sizeof(*next);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "faultbench: %s\n", strerror(errno));
        return 1;
    }
    memcpy(shared, g.v, g.n * sizeof(*shared));
    next = (atomic_size_t *)(void *)(shared + g.n);
    atomic_init(next, 0);
    if (run_grid(shared, g.n, &o, next) < 0)
        fprintf(stderr, "faultbench: a worker failed\n");
    rc = report(shared, g.n, &o);
    munmap(shared, size);
    free(g.v);
    return rc;
}
