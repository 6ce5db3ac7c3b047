/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/verdict/build.h"
#include "analyzer/verdict/comment.h"

static void expect(const struct argus_verdict *v, const char *line)
{
    char *text = argus_comment_format(v);
    argus_error_t err = {""};

    assert_non_null(text);
    assert_string_equal(text, line);
    if (argus_comment_validate(text, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    free(text);
}

static void the_lines_of_the_manual(void **state)
{
    struct argus_verdict *v = argus_verdict_create();
    struct argus_link *l;

    (void)state;
    v->kind = ARGUS_VERDICT_COMPUTE_STRAGGLER;
    v->severity = ARGUS_SEVERITY_CRITICAL;
    v->confidence = 0.97;
    v->onset_step = 412;
    v->slowdown = 1.31;
    v->gpu_hours = 42.1;
    argus_verdict_add_culprit(v, 13, 5, "n07", "GPU-abc");
    argus_verdict_set(&v->job.dir, "/shared/argus/ann/4711");
    expect(v, "argus:1 compute-straggler critical rank=13 node=n07 gpu=5 slowdown=1.31 since=412 "
              "lost=42.1gpuh conf=0.97 dir=/shared/argus/ann/4711");

    v->kind = ARGUS_VERDICT_OK;
    v->job.ranks = 512;
    v->job.steps = 1842;
    v->job.step_ms_p50 = 1930.4;
    argus_verdict_set(&v->job.dir, NULL);
    expect(v, "argus:1 ok ranks=512 steps=1842 step=1930ms");

    v->kind = ARGUS_VERDICT_INSUFFICIENT_DATA;
    argus_verdict_set(&v->subkind, "steps");
    v->job.simulated = 1;
    v->job.step_ms_p50 = 9.25;
    expect(v,
           "argus:1 insufficient-data ranks=512 steps=1842 step=9.25ms missing=steps simulated=1");
    argus_verdict_destroy(v);

    v = argus_verdict_create();
    v->kind = ARGUS_VERDICT_SLOW_LINK;
    v->severity = ARGUS_SEVERITY_WARN;
    v->confidence = 0.8;
    v->slowdown = 1.1149;
    v->onset_step = 0;
    v->recovered_step = 96;
    v->gpu_hours = 0.0312;
    l = argus_verdict_set_link(v, "nic");
    argus_verdict_set(&l->node, "n2");
    argus_verdict_set(&l->peer_node, "n3");
    argus_link_add_candidate(l, "n4");
    argus_link_add_candidate(l, "n5");
    expect(v, "argus:1 slow-link warn node=n2 link=nic peer=n3 oneof=n4,n5 slowdown=1.11 since=0 "
              "until=96 lost=0.0312gpuh conf=0.80");
    argus_verdict_destroy(v);

    v = argus_verdict_create();
    v->kind = ARGUS_VERDICT_PIPELINE_IMBALANCE;
    v->severity = ARGUS_SEVERITY_INFO;
    v->stage = 3;
    v->slowdown = 1.22;
    v->confidence = 1;
    argus_verdict_set(&v->pattern, "persistent");
    argus_verdict_set(&v->phase, "forward");
    expect(v, "argus:1 pipeline-imbalance info stage=3 pattern=persistent phase=forward "
              "slowdown=1.22 conf=1.00");
    argus_verdict_destroy(v);
}

static void many_culprits(void **state)
{
    struct argus_verdict *v = argus_verdict_create();
    char *text;

    (void)state;
    v->kind = ARGUS_VERDICT_SPLIT;
    v->severity = ARGUS_SEVERITY_WARN;
    for (int i = 0; i < 5000; i++) {
        char node[32];

        snprintf(node, sizeof(node), "gpu-node-%04d", i / 8);
        argus_verdict_add_culprit(v, i, i % 8, node, NULL);
    }
    text = argus_comment_format(v);
    assert_non_null(strstr(text, " rank=0,1,2,3,4,5,6,7+4992 "));
    assert_non_null(strstr(text, " node=gpu-node-0000,gpu-node-0001,gpu-node-0002+622"));
    assert_int_equal(argus_comment_validate(text, NULL), 0);
    free(text);
    argus_verdict_destroy(v);
}

static void names_that_need_an_escape(void **state)
{
    struct argus_verdict *v = argus_verdict_create();
    struct argus_comment c;
    argus_error_t err = {""};
    char *text;

    (void)state;
    v->kind = ARGUS_VERDICT_HOST_STALL;
    argus_verdict_add_culprit(v, 1, 0, "Node,1+x", NULL);
    argus_verdict_set(&v->job.dir, "/home/Ann Lee/\"a|b\"/50%\xc3\xa9");
    text = argus_comment_format(v);
    assert_non_null(strstr(text, "node=%4eode%2c1%2bx "));
    for (char *p = text; *p; p++)
        assert_true(*p >= 0x20 && *p < 0x7f && !strchr("\"'`|\\", *p) && !(*p >= 'A' && *p <= 'Z'));
    if (argus_comment_parse(text, &c, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    assert_string_equal(c.dir, v->job.dir);
    assert_string_equal(c.node.name[0], "Node,1+x");
    free(text);
    /* A relative directory helps nobody who reads accounting. */
    argus_verdict_set(&v->job.dir, "argus/4711");
    text = argus_comment_format(v);
    assert_null(strstr(text, "dir="));
    free(text);
    argus_verdict_destroy(v);
}

/* For every length of directory: fits, valid, the directory whole or not there. */
static void too_long_is_never_cut(void **state)
{
    char dir[600] = "/";
    int with = 0, without = 0;

    (void)state;
    for (size_t n = 1; n < sizeof(dir) - 1; n++) {
        struct argus_verdict *v = argus_verdict_create();
        struct argus_comment c;
        char *text;

        dir[n] = n % 9 ? 'd' : '/';
        dir[n + 1] = '\0';
        v->kind = ARGUS_VERDICT_HOST_STALL;
        v->severity = ARGUS_SEVERITY_WARN;
        v->onset_step = 10;
        v->recovered_step = 90;
        v->slowdown = 1.2;
        v->confidence = 0.9;
        argus_verdict_set(&v->pattern, "periodic");
        argus_verdict_set(&v->phase, "backward");
        argus_verdict_add_culprit(v, 3, 3, "a-rather-long-host-name.cluster.example.org", NULL);
        argus_verdict_set(&v->job.dir, dir);
        text = argus_comment_format(v);
        assert_true(strlen(text) <= ARGUS_COMMENT_MAX);
        assert_int_equal(argus_comment_parse(text, &c, NULL), 0);
        assert_float_equal(c.slowdown, 1.2, 1e-9);
        if (c.dir[0]) {
            assert_string_equal(c.dir, dir);
            with++;
        } else {
            without++;
        }
        free(text);
        argus_verdict_destroy(v);
    }
    assert_true(with > 100 && without > 300);
}

static void long_host_names(void **state)
{
    struct argus_verdict *v = argus_verdict_create();
    char name[300], *text;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    v->kind = ARGUS_VERDICT_SLOW_LINK;
    argus_verdict_add_culprit(v, 1, 0, name, NULL);
    argus_verdict_set_link(v, name);
    argus_verdict_set(&v->link->peer_node, name + 200);
    argus_verdict_set(&v->job.dir, name);
    text = argus_comment_format(v);
    assert_int_equal(argus_comment_validate(text, NULL), 0);
    free(text);
    argus_verdict_destroy(v);
}

static void parse_takes_it_apart(void **state)
{
    struct argus_comment c;

    (void)state;
    assert_int_equal(
        argus_comment_parse("argus:1 slow-link critical rank=3,9+12 node=n2 link=nic peer=n3 "
                            "oneof=n4,n5+2 slowdown=1.31 since=412 until=500 lost=42.1gpuh "
                            "conf=0.97 simulated=1 dir=/a%20b",
                            &c, NULL),
        0);
    assert_int_equal(c.kind, ARGUS_VERDICT_SLOW_LINK);
    assert_int_equal(c.severity, ARGUS_SEVERITY_CRITICAL);
    assert_int_equal(c.n_rank, 2);
    assert_int_equal(c.rank[1], 9);
    assert_int_equal(c.more_rank, 12);
    assert_string_equal(c.node.name[0], "n2");
    assert_string_equal(c.link, "nic");
    assert_string_equal(c.oneof.name[1], "n5");
    assert_int_equal(c.oneof.more, 2);
    assert_float_equal(c.slowdown, 1.31, 1e-9);
    assert_int_equal(c.since, 412);
    assert_int_equal(c.until, 500);
    assert_float_equal(c.gpu_hours, 42.1, 1e-9);
    assert_int_equal(c.simulated, 1);
    assert_string_equal(c.dir, "/a b");
    assert_int_equal(c.gpu, ARGUS_UNKNOWN);

    assert_int_equal(argus_comment_parse("argus:1 ok ranks=8 steps=50 step=12.25ms", &c, NULL), 0);
    assert_int_equal(c.ranks, 8);
    assert_float_equal(c.step_ms, 12.25, 1e-9);
    assert_true(isnan(c.slowdown));
}

static void hostile_lines_are_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "argus:1",
        "argus:1 ",
        "argus:1 fine",
        "argus:2 ok",
        " argus:1 ok",
        "argus:1  ok",
        "argus:1 ok ",
        "argus:1 ok\n",
        "argus:1 ok ranks=8\nrm -rf",
        "argus:1 ok ranks=8 steps=50 step=12ms extra",
        "argus:1 ok ranks=8 ranks=8",
        "argus:1 ok steps=8 ranks=8",
        "argus:1 ok ranks=",
        "argus:1 ok ranks=08",
        "argus:1 ok ranks=-1",
        "argus:1 ok ranks=99999999999",
        "argus:1 ok ranks=8x",
        "argus:1 ok step=12",
        "argus:1 ok step=1e3ms",
        "argus:1 ok step=.5ms",
        "argus:1 ok dir=relative",
        "argus:1 ok dir=/a|b",
        "argus:1 ok dir=/a'b",
        "argus:1 ok dir=/a\"b",
        "argus:1 ok dir=/a`id`",
        "argus:1 ok dir=/a\\b",
        "argus:1 ok dir=/a$(id)",
        "argus:1 ok dir=/a;b",
        "argus:1 ok dir=/A",
        "argus:1 ok dir=/a%0ab",
        "argus:1 ok dir=/a%00b",
        "argus:1 ok dir=/a%61",
        "argus:1 ok dir=/a%2",
        "argus:1 ok dir=/a%",
        "argus:1 ok dir=/a%4E",
        "argus:1 ok dir=/a\xc3\xa9",
        "argus:1 ok dir=/a ranks=3",
        "argus:1 compute-straggler rank=1",
        "argus:1 compute-straggler fatal rank=1",
        "argus:1 compute-straggler warn rank=1,,2",
        "argus:1 compute-straggler warn rank=1,",
        "argus:1 compute-straggler warn rank=1+0",
        "argus:1 compute-straggler warn rank=1+",
        "argus:1 compute-straggler warn rank=1,2,3,4,5,6,7,8,9",
        "argus:1 compute-straggler warn node=,n1",
        "argus:1 compute-straggler warn conf=1.5",
        "argus:1 compute-straggler warn slowdown=1.23456",
        "argus:1 compute-straggler warn simulated=0",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        argus_error_t err = {""};

        if (argus_comment_validate(lines[i], &err) == 0)
            fail_msg("passed: \"%s\"", lines[i]);
        assert_int_equal(strncmp(err.text, "comment: ", 9), 0);
    }
    char *longest = calloc(1, 100000);
    memset(longest, 'a', 99999);
    memcpy(longest, "argus:1 ok dir=/", 16);
    assert_int_equal(argus_comment_validate(longest, NULL), -1);
    free(longest);
}

static void merge_keeps_what_is_not_ours(void **state)
{
    static const struct {
        const char *before, *after;
    } cases[] = {
#define OURS "argus:1 ok ranks=8 steps=50 step=12ms dir=/j"
        {NULL, OURS},
        {"", OURS},
        {"JS1:H4sIAAAA", "JS1:H4sIAAAA " OURS},
        {"other text ", "other text " OURS},
        {"argus:1 ok ranks=8", OURS},
        {"argus:1 compute-straggler warn rank=3 node=n1 dir=/a/b", OURS},
        {"JS1:x argus:1 ok ranks=8 steps=1 energy=5kj", "JS1:x " OURS " energy=5kj"},
        {"argus:1 ok ranks=8 argus:1 ok ranks=9", OURS},
        {"a argus:1 ok ranks=8 b argus:1 ok ranks=9 c", "a " OURS " b c"},
        {"notargus:1 ok ranks=8", "notargus:1 ok ranks=8 " OURS},
        {"argus:1 whatever", "argus:1 whatever " OURS},
        {"x  two blanks", "x  two blanks " OURS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *merged = argus_comment_merge(cases[i].before, OURS), *again;

        assert_string_equal(merged, cases[i].after);
        again = argus_comment_merge(merged, OURS);
        assert_string_equal(again, merged);
        free(again);
        free(merged);
    }
    static const char *const without[][2] = {{"", ""},
                                             {OURS, ""},
                                             {"theirs", "theirs"},
                                             {"a " OURS, "a"},
                                             {OURS " b", "b"},
                                             {"a " OURS " b", "a b"},
                                             {"a " OURS " b " OURS, "a b"},
                                             {"argus:1 whatever", "argus:1 whatever"}};
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        char *rest = argus_comment_without(without[i][0]);

        assert_string_equal(rest, without[i][1]);
        free(rest);
    }
    size_t length;
    const char *field = "a " OURS " b";
    assert_ptr_equal(argus_comment_find(field, &length), field + 2);
    assert_int_equal(length, strlen(OURS));
    assert_null(argus_comment_find("nothing here", &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lines_of_the_manual),   cmocka_unit_test(many_culprits),
        cmocka_unit_test(names_that_need_an_escape), cmocka_unit_test(too_long_is_never_cut),
        cmocka_unit_test(long_host_names),           cmocka_unit_test(parse_takes_it_apart),
        cmocka_unit_test(hostile_lines_are_refused), cmocka_unit_test(merge_keeps_what_is_not_ours),
    };

    return cmocka_run_group_tests_name("comment", tests, NULL, NULL);
}
