/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what reads strangers' bytes: the comment parser (run by root in the
 * epilog), the merge into an accounting field, and the reader of verdict.json.
 * Usage: verdict_fuzz [SECONDS [SEED]].  Mutates good inputs; best run in a
 * build with --enable-sanitizers.  Exit 1 and the input when a rule is broken:
 *
 *   - a line that passes is printable, lower case, short and without quotes or '|'
 *   - what merge adds can be found again, and merging twice changes nothing
 *   - a verdict that was read can be written, and reads back the same
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyzer/verdict/build.h"
#include "analyzer/verdict/comment.h"
#include "analyzer/verdict/json.h"

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)(state >> 33) % n;
}

static const char *const seeds[] = {
    "argus:1 compute-straggler critical rank=13 node=n07 gpu=5 slowdown=1.31 since=412 "
    "lost=42.1gpuh conf=0.97 dir=/shared/argus/ann/4711",
    "argus:1 ok ranks=512 steps=1842 step=1930ms",
    "argus:1 insufficient-data ranks=8 steps=3 missing=steps simulated=1 dir=/a%20b",
    "JS1:H4sIAAAA argus:1 slow-link warn rank=1,2+3 node=n2 link=nic peer=n3 oneof=n4,n5 "
    "stage=3 pattern=periodic phase=backward slowdown=1.31 since=4 until=9 conf=0.5 other",
    "{\"schema\":\"argus-verdict/"
    "1\",\"verdict\":\"slow-link\",\"severity\":\"warn\",\"confidence\":"
    "0.5,\"culprits\":[{\"rank\":13,\"node\":\"n07\",\"gpu\":\"G\",\"local_rank\":5}],\"stage\":"
    "null,"
    "\"link\":{\"scope\":\"nic\",\"candidates\":[\"n1\"],\"factor\":3.0,\"rank\":1},\"onset_step\":"
    "4,"
    "\"cost\":{\"gpu_hours\":42.1,\"share\":0.22},\"job\":{\"id\":\"4711\",\"ranks\":512,"
    "\"simulated\":"
    "true},\"topology\":{\"tp\":8,\"source\":\"names\"},\"evidence\":[{\"signal\":\"s\",\"rank\":"
    "13,"
    "\"value\":0.74,\"peers\":1.0,\"unit\":\"ratio\"}],\"findings\":[{\"verdict\":\"host-stall\","
    "\"culprits\":[{\"rank\":0}],\"pattern\":\"periodic\"}],\"explained\":[\"a\"],\"data_quality\":"
    "{\"ranks_missing\":[1],\"dropped\":0,\"notes\":[\"n\"]},\"next\":[\"do\"],\"steps\":[{"
    "\"step\":"
    "\"0\",\"verdict\":\"ok\"}]}",
};
static const char *const pieces[] = {
    "argus:1 ", "=",     "%",       "%41",   ",", "+",  " ",    "99999999999999999999",
    "-1",       "1e999", "null",    "\"",    "{", "[[", "]",    "}",
    "\n",       "true",  "\\u0000", "rank=", ":", "|",  "\xff", "0.1gpuh",
};

static size_t mutate(char *s, size_t n, size_t room)
{
    for (uint32_t k = draw(6) + 1; k > 0; k--) {
        size_t at = n ? draw((uint32_t)n) : 0, m;
        const char *piece;

        switch (draw(4)) {
        case 0:
            if (n)
                s[at] = (char)draw(256);
            break;
        case 1:
            m = n ? draw((uint32_t)(n - at)) % 16 : 0;
            memmove(s + at, s + at + m, n - at - m);
            n -= m;
            break;
        case 2:
            piece = pieces[draw(sizeof(pieces) / sizeof(pieces[0]))];
            m = strlen(piece);
            if (n + m < room) {
                memmove(s + at + m, s + at, n - at);
                memcpy(s + at, piece, m);
                n += m;
            }
            break;
        default:
            m = n ? draw((uint32_t)(n - at)) % 64 : 0;
            if (m && n + m < room) {
                memmove(s + at + m, s + at, n - at);
                n += m;
            }
        }
    }
    s[n] = '\0';
    return n;
}

static void broken(const char *rule, const char *input)
{
    fprintf(stderr, "verdict_fuzz: %s: %s\n", rule, input);
    exit(1);
}

static void try_comment(const char *s)
{
    static const char ours[] = "argus:1 ok ranks=1 steps=2 step=3ms dir=/d";
    char *once, *twice;
    size_t length;

    if (argus_comment_validate(s, NULL) == 0) {
        if (strlen(s) > ARGUS_COMMENT_MAX)
            broken("too long", s);
        for (const char *p = s; *p; p++)
            if (*p < 0x20 || *p > 0x7e || strchr("\"'`|\\$;&<>(){}*?!#", *p) ||
                (*p >= 'A' && *p <= 'Z'))
                broken("byte", s);
    }
    once = argus_comment_merge(s, ours);
    twice = once ? argus_comment_merge(once, ours) : NULL;
    if (!twice || strcmp(once, twice) || !argus_comment_find(once, &length))
        broken("merge", s);
    free(once);
    free(twice);
}

static int try_verdict(const char *s, size_t n)
{
    struct argus_verdict *v = argus_verdict_from_json(s, n, "fuzz", NULL), *back;
    char *text, *again;

    if (!v)
        return 0;
    text = argus_verdict_to_json(v);
    back = text ? argus_verdict_from_json(text, strlen(text), "fuzz", NULL) : NULL;
    again = back ? argus_verdict_to_json(back) : NULL;
    if (!again || strcmp(text, again))
        broken("round trip", s);
    free(text);
    free(again);
    argus_verdict_destroy(back);
    argus_verdict_set(&v->job.dir, "/job");
    text = argus_comment_format(v);
    if (!text || argus_comment_validate(text, NULL) < 0)
        broken("own comment", text ? text : s);
    free(text);
    argus_verdict_destroy(v);
    return 1;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? atof(argv[1]) : 2;
    clock_t begin = clock();
    long runs = 0, verdicts = 0;
    enum { ROOM = 8192 };
    char *s = malloc(ROOM);

    if (!s)
        return 1;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    while ((double)(clock() - begin) / CLOCKS_PER_SEC < limit) {
        const char *seed = seeds[draw(sizeof(seeds) / sizeof(seeds[0]))];
        size_t n = strlen(seed);

        memcpy(s, seed, n + 1);
        n = mutate(s, n, ROOM - 1);
        if (strlen(s) == n)
            try_comment(s);
        verdicts += try_verdict(s, n);
        runs++;
    }
    free(s);
    printf("verdict_fuzz: %ld inputs, %ld verdicts read, no rule broken\n", runs, verdicts);
    return 0;
}
