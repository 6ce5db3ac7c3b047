/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what the epilog reads as root: markers and node lists.
 * Usage: marker_fuzz [SECONDS [SEED]].  Mutates good inputs; best run in a
 * build with --enable-sanitizers.  Exit 1 and the input when a rule is broken:
 *
 *   - a marker that passes has names and paths without blanks, control bytes, "..", '/'
 *     where none belongs, and numbers within their limits
 *   - a node list that passes has at most as many names as were asked for, each valid,
 *     none twice, and expands to itself when written out
 */
#include <config.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/util/hostlist.h"
#include "analyzer/util/stepconf.h"

#define NODES_MAX 300

static const char marker[] =
    "version=1\njob=4711+1\nslurm_job=4712\nstep=batch\nhet=1\narray_job=4700\narray_task=12\n"
    "restart=2\nuser=ann\nuid=1000\ngid=100\ncluster=c1\nnode=n2\nnodeid=1\nnnodes=4\n"
    "nodes=n[1-4]\nstep_nodes=n[2-3]\nntasks=8\nlocal_tasks=2\ndir=/s/a b/4711-r2\n"
    "started=1764636000123456789\nmode=full\nsources=cupti\nwindow=8\ninfo=1.01\nwarn=1.5\n"
    "critical=2\nfloor_ms=0.5\ncomment=admin\ndrain_s=0\ndeadline_s=3\n";

static const char *const lists[] = {"n[1-4]", "n[1-2,7],m[08-10]", "r[1-2]c[0-9]x",
                                    "login,a-b.c_d"};

static const char *const pieces[] = {"=",     "\n",   "job=", "dir=/", "/../", "..",  "999999999",
                                     "[",     "]",    "-",    ",",     "+",    "nan", "n[0-99999]",
                                     "uid=0", "0x10", "e9",   " ",     "\xff", "$",   "step="};

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 33) % n;
}

static size_t mutate(char *s, size_t n, size_t room)
{
    for (uint32_t k = draw(5) + 1; k > 0; k--) {
        size_t at = n ? draw((uint32_t)n) : 0;
        const char *piece = pieces[draw(sizeof(pieces) / sizeof(pieces[0]))];
        size_t m = strlen(piece);

        switch (draw(3)) {
        case 0:
            if (n)
                s[at] = (char)draw(256);
            break;
        case 1:
            m = n - at ? draw((uint32_t)(n - at)) % 24 : 0;
            memmove(s + at, s + at + m, n - at - m);
            n -= m;
            break;
        default:
            if (n + m < room) {
                memmove(s + at + m, s + at, n - at);
                memcpy(s + at, piece, m);
                n += m;
            }
        }
    }
    return n;
}

static void broken(const char *rule, const char *input)
{
    fprintf(stderr, "marker_fuzz: %s: %s\n", rule, input);
    exit(1);
}

static int has(const char *text, const char *bad)
{
    return text[strcspn(text, bad)] != '\0';
}

static void try_marker(const char *s, size_t n)
{
    struct argus_stepconf c;

    if (argus_stepconf_parse(s, n, "marker", &c, NULL) < 0)
        return;
    if (has(c.job, "./ \n") || has(c.step, "./ \n+") || has(c.user, "/ \n=") ||
        has(c.node, "/ \n") || has(c.nodes, "/ \n") || has(c.array_job, "_/ \n+") ||
        has(c.array_task, "_/ \n+[]"))
        broken("a name", s);
    if (has(c.dir, "\n\t\033") || strstr(c.dir, "/../") || (c.dir[0] && c.dir[0] != '/'))
        broken("a path", s);
    if (c.deadline_s < 0 || c.deadline_s > 86400 || c.window < 1 || !(c.warn >= 1 && c.warn <= 100))
        broken("a number", s);
    argus_stepconf_clear(&c);
}

static void try_list(const char *s)
{
    struct argus_hostlist once, twice;
    char *text;

    if (argus_hostlist_expand(s, NODES_MAX, &once, NULL) < 0)
        return;
    if (!once.n || once.n > NODES_MAX)
        broken("number of names", s);
    for (size_t i = 0; i < once.n; i++) {
        if (!argus_host_name_valid(once.names[i]) ||
            argus_hostlist_find(&once, once.names[i]) != (long)i)
            broken("a node name", s);
    }
    text = argus_hostlist_join(&once);
    if (!text || argus_hostlist_expand(text, NODES_MAX, &twice, NULL) < 0 || twice.n != once.n)
        broken("written out", s);
    free(text);
    argus_hostlist_clear(&once);
    argus_hostlist_clear(&twice);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
    unsigned long runs = 0;
    char s[4096];

    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    do {
        size_t n = sizeof(marker) - 1;

        memcpy(s, marker, n);
        n = mutate(s, n, sizeof(s) - 1);
        s[n] = '\0';
        try_marker(s, n);
        n = (size_t)snprintf(s, 64, "%s", lists[draw(sizeof(lists) / sizeof(lists[0]))]);
        n = mutate(s, n, 512);
        s[n] = '\0';
        try_list(s);
        runs++;
    } while (clock() < end);
    printf("marker_fuzz: %lu inputs of each kind, no rule broken\n", runs);
    return 0;
}
