/* SPDX-License-Identifier: Apache-2.0 */
/* argus top: a running job, once a second. */
#include <config.h>
#include <curses.h>
#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/cli/cli.h"
#include "analyzer/cli/top_post.h"
#include "analyzer/model/jobdir.h"
#include "analyzer/report/live.h"
#include "analyzer/report/words.h"

#define NAME "top"
#define ONCE_RANKS 10 /* printed by --once */
#define JSON_RANKS 32

struct options {
    int once, json, post;
    double delay;    /* s */
    double interval; /* s, of --post */
};

static void usage(FILE *out)
{
    fputs(
        "Usage: argus top [OPTION...] DIR|JOBID\n"
        "Follows a running job: step time, the ranks that stand out, what argus suspects.\n"
        "A suspicion is no verdict; argus analyze gives one.  q quits.\n\n"
        "  --once           print once and exit\n"
        "  --json           with --once: as JSON\n"
        "  -d, --delay SEC  seconds between two looks; default 1\n"
        "  --post           show nothing; write the suspicion into the comment of the running job\n"
        "  --interval SEC   with --post: seconds between two looks; default 60\n"
        "  -h, --help\n",
        out);
}

/* Names come from the job: only plain characters reach the terminal. */
static const char *plain(const char *name, char *out, size_t size)
{
    size_t n = 0;

    for (; *name && n + 1 < size; name++)
        out[n++] = *name >= 0x20 && *name < 0x7f ? *name : '?';
    out[n] = '\0';
    return out;
}

static void head_line(const struct argus_live_view *v, char *out, size_t size)
{
    char now[32], usual[32], job[64];

    argus_words_duration(v->step_ms * 1e6, now, sizeof(now));
    argus_words_duration(v->step_ms_p50 * 1e6, usual, sizeof(usual));
    snprintf(out, size, "job %s  step %d  %s (median %s)  ranks %zu of %d%s",
             v->job[0] ? plain(v->job, job, sizeof(job)) : "-", v->last_step, now, usual,
             v->n_ranks, v->world, v->simulated ? "  SIMULATED GPU" : "");
}

static void loss_line(const struct argus_live_view *v, char *out, size_t size)
{
    snprintf(out, size, "dropped %llu  invalid %llu  late %llu  ended %zu",
             (unsigned long long)v->dropped, (unsigned long long)v->invalid,
             (unsigned long long)v->late, v->n_sealed);
}

/* Without why: with it the line is too long for many a terminal. */
static void suspicion_line(const struct argus_live_view *v, char *out, size_t size)
{
    char node[64];

    if (v->suspicion)
        snprintf(out, size, "suspicion: %s, rank %d on %s", v->suspicion, v->ranks[v->suspect].rank,
                 plain(v->ranks[v->suspect].node, node, sizeof(node)));
    else
        snprintf(out, size, "suspicion: none");
}

static void rank_line(const struct argus_live_rank *r, char *out, size_t size)
{
    char node[64], ratio[32] = "-", wait[32] = "-", idle[32] = "-";

    if (!isnan(r->compute_ratio))
        snprintf(ratio, sizeof(ratio), "%.2fx", r->compute_ratio);
    if (!isnan(r->wait_share))
        snprintf(wait, sizeof(wait), "%.0f %%", 100 * r->wait_share);
    if (!isnan(r->idle_share))
        snprintf(idle, sizeof(idle), "%.0f %%", 100 * r->idle_share);
    snprintf(out, size, "%6d %-20.20s %8d %9s %8s %8s %10llu%s", r->rank,
             plain(r->node, node, sizeof(node)), r->last_step, ratio, wait, idle,
             (unsigned long long)r->dropped, r->sealed ? "  ended" : "");
}

static const char table_head[] =
    "  rank node                     step   compute     comm     idle    dropped";

static int print_once(const argus_live_t *l, const struct options *o)
{
    const struct argus_live_view *v = argus_live_view(l);
    char line[512];

    if (o->json) {
        json_t *object = argus_live_to_object(l, JSON_RANKS);
        int bad = !object || json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) ||
                  fputc('\n', stdout) == EOF;

        json_decref(object);
        return bad || fflush(stdout) ? -1 : 0;
    }
    head_line(v, line, sizeof(line));
    puts(line);
    suspicion_line(v, line, sizeof(line));
    printf("%s%s%s\n", line, v->suspicion ? ": " : "", v->suspicion ? v->why : "");
    loss_line(v, line, sizeof(line));
    puts(line);
    puts(table_head);
    for (size_t i = 0; i < v->n_ranks && i < ONCE_RANKS; i++) {
        rank_line(&v->ranks[i], line, sizeof(line));
        puts(line);
    }
    return fflush(stdout) ? -1 : 0;
}

static void draw(const argus_live_t *l)
{
    const struct argus_live_view *v = argus_live_view(l);
    char line[512];
    int rows, columns;

    getmaxyx(stdscr, rows, columns);
    erase();
    head_line(v, line, sizeof(line));
    attron(A_BOLD);
    mvaddnstr(0, 0, line, columns);
    attroff(A_BOLD);
    suspicion_line(v, line, sizeof(line));
    if (v->suspicion)
        attron(A_REVERSE);
    mvaddnstr(1, 0, line, columns);
    if (v->suspicion) {
        attroff(A_REVERSE);
        mvaddnstr(2, 2, v->why, columns > 2 ? columns - 2 : 0);
    }
    loss_line(v, line, sizeof(line));
    mvaddnstr(3, 0, line, columns);
    attron(A_UNDERLINE);
    mvaddnstr(5, 0, table_head, columns);
    attroff(A_UNDERLINE);
    for (int row = 6; row < rows && (size_t)(row - 6) < v->n_ranks; row++) {
        rank_line(&v->ranks[row - 6], line, sizeof(line));
        mvaddnstr(row, 0, line, columns);
    }
    refresh();
}

static int follow(argus_live_t *l, const struct options *o)
{
    argus_error_t err = {{0}};
    SCREEN *screen;
    int key, rc = 0;

    setlocale(LC_CTYPE, "");
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        argus_cli_error(NAME, "this terminal (TERM=%s) cannot be drawn on; use --once",
                        getenv("TERM") ? getenv("TERM") : "");
        return -1;
    }
    cbreak();
    noecho();
    curs_set(0);
    timeout((int)(o->delay * 1000));
    do {
        draw(l);
        key = getch();
        rc = key == 'q' ? 0 : argus_live_refresh(l, &err);
    } while (key != 'q' && rc == 0);
    endwin();
    delscreen(screen);
    if (rc)
        argus_cli_error(NAME, "%s", err.text);
    return rc;
}

static int top(const char *what, const struct options *o)
{
    argus_error_t err = {{0}};
    argus_live_t *l = NULL;
    char *dir = NULL;
    int rc = ARGUS_EXIT_ERROR;

    if (o->post) {
        argus_top_post(what, o->interval);
        return ARGUS_EXIT_OK;
    }
    /* Without a terminal to read from every look would be over at once, and the next begin. */
    if (!o->once && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))) {
        argus_cli_error(NAME, "standard %s is no terminal; use --once",
                        isatty(STDOUT_FILENO) ? "input" : "output");
        return ARGUS_EXIT_USAGE;
    }
    if (argus_jobdir_resolve(what, &dir, &err) < 0 || !(l = argus_live_open(dir, &err)))
        argus_cli_error(NAME, "%s", err.text);
    else if (!o->once)
        rc = follow(l, o) ? ARGUS_EXIT_ERROR : ARGUS_EXIT_OK;
    else if (print_once(l, o) == 0)
        rc = ARGUS_EXIT_OK;
    else
        argus_cli_error(NAME, "standard output: %s", strerror(errno));
    argus_live_close(l);
    free(dir);
    return rc;
}

static int seconds(const char *option, const char *text, double *value)
{
    char *end;

    *value = strtod(text, &end);
    if (end != text && !*end && *value >= 0.1 && *value <= 3600)
        return 0;
    argus_cli_error(NAME, "--%s %s: 0.1 to 3600 seconds expected", option, text);
    return -1;
}

int argus_cmd_top(int argc, char **argv)
{
    enum { ONCE = 256, JSON, POST, INTERVAL };
    static const struct option longs[] = {{"once", no_argument, NULL, ONCE},
                                          {"json", no_argument, NULL, JSON},
                                          {"delay", required_argument, NULL, 'd'},
                                          {"post", no_argument, NULL, POST},
                                          {"interval", required_argument, NULL, INTERVAL},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.delay = 1, .interval = 60};
    int c;

    optind = 1;
    while ((c = getopt_long(argc, argv, "d:h", longs, NULL)) != -1) {
        switch (c) {
        case ONCE:
            o.once = 1;
            break;
        case JSON:
            o.json = 1;
            break;
        case 'd':
            if (seconds("delay", optarg, &o.delay) < 0)
                return ARGUS_EXIT_USAGE;
            break;
        case POST:
            o.post = 1;
            break;
        case INTERVAL:
            if (seconds("interval", optarg, &o.interval) < 0)
                return ARGUS_EXIT_USAGE;
            break;
        case 'h':
            usage(stdout);
            return ARGUS_EXIT_OK;
        default:
            usage(stderr);
            return ARGUS_EXIT_USAGE;
        }
    }
    if ((o.json && !o.once) || (o.post && o.once)) {
        argus_cli_error(NAME,
                        o.json ? "--json needs --once" : "--post and --once exclude each other");
        return ARGUS_EXIT_USAGE;
    }
    if (argus_cli_one_job(NAME, argc - optind))
        return ARGUS_EXIT_USAGE;
    return top(argv[optind], &o);
}
