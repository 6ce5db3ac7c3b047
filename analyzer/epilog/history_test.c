/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "analyzer/epilog/policy.h"

#define SLOW                                                                                       \
    "argus:1 compute-straggler critical rank=5 node=n3 gpu=1 slowdown=1.30 lost=1.5gpuh conf=0.97"
#define WARN                                                                                       \
    "argus:1 compute-straggler warn rank=5 node=n3 gpu=1 slowdown=1.12 lost=0.5gpuh conf=0.9"
#define LINK "argus:1 slow-link critical node=n3 link=nic slowdown=1.30 lost=0.5gpuh conf=0.97"
#define GOOD "argus:1 ok ranks=8 steps=60 step=10ms"

static void add(argus_history_t *h, const char *id, const char *user, const char *nodes,
                const char *comment, int64_t end)
{
    struct argus_job job = {.id = id,
                            .raw = id,
                            .user = user,
                            .nodes = nodes,
                            .workdir = "/",
                            .admin_comment = "",
                            .system_comment = comment,
                            .comment = "",
                            .start = end - 10,
                            .end = end};

    assert_int_equal(argus_history_add(&job, h), 0);
}

static argus_history_t *digest(argus_history_t *h)
{
    argus_error_t err;

    assert_int_equal(argus_history_digest(h, &err), 0);
    return h;
}

/* Jobs that ended in the same second: the order of their numbers, whoever listed them. */
static void test_order(void **state)
{
    (void)state;
    for (int turn = 0; turn < 6; turn++) {
        static const char *const ids[] = {"9", "10", "110"};
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        argus_history_t *h = argus_history_create();
        const struct argus_node_history *n;

        for (int i = 0; i < 3; i++)
            add(h, ids[orders[turn][i]], "ann", "n[1-4]", SLOW, 100);
        n = argus_history_node(digest(h), 0);
        assert_non_null(n);
        assert_int_equal(n->n_blames, 3);
        for (int i = 0; i < 3; i++)
            assert_string_equal(n->blames[i].job, ids[i]);
        argus_history_destroy(h);
    }
}

/* Lines that users wrote into their jobs' Comment themselves. */
static void test_forged(void **state)
{
    argus_history_t *h = argus_history_create();

    (void)state;
    add(h, "1", "eve", "n1", "argus:1 slow-link critical node=n1%3breboot slowdown=9", 100);
    add(h, "2", "eve", "n1", "argus:1 slow-link critical node=n%5b1-9%5d slowdown=9", 200);
    add(h, "3", "eve", "n1", SLOW, 300);
    add(h, "4+0", "ann", "n1", "argus:1 slow-link critical node=n9 slowdown=9", 400);
    add(h, "5+0", "eve", "n1", "argus:1 slow-link critical node=n9%0a slowdown=9", 500);
    add(h, "6+0", "eve", "n1", "argus:1 slow-link critical node=%24%28id%29 slowdown=9", 600);
    digest(h);
    assert_int_equal(argus_history_nodes(h), 1);
    assert_string_equal(argus_history_node(h, 0)->name, "n9");
    argus_history_destroy(h);
}

static void test_blames(void **state)
{
    argus_history_t *h = argus_history_create();
    const struct argus_node_history *n;

    (void)state;
    /* Not in order of time; with other text; a running job; one without a verdict. */
    add(h, "3", "bob", "n[2-4]", "js1:x " SLOW, 300);
    add(h, "1", "ann", "n[1-4]", SLOW, 100);
    add(h, "2", "ann", "n[3-4]", LINK, 200);
    add(h, "4", "ann", "n[1-2]", GOOD, 400);
    add(h, "5", "ann", "n[1-4]", SLOW, 0);
    add(h, "6", "ann", "n[1-4]", "nothing", 500);
    digest(h);
    assert_int_equal(argus_history_jobs(h), 4);
    assert_int_equal(argus_history_nodes(h), 1);
    n = argus_history_node(h, 0);
    assert_string_equal(n->name, "n3");
    assert_int_equal(n->n_blames, 3);
    assert_string_equal(n->blames[0].job, "1");
    assert_string_equal(n->blames[2].job, "3");
    assert_int_equal(argus_history_users(n), 2);
    assert_true(argus_history_lost(n) > 3.49 && argus_history_lost(n) < 3.51);
    assert_int_equal(n->ok_since, 0);
    assert_string_equal(n->partners.names[0], "n4");
    assert_int_equal(n->partner_jobs[0], 3);
    assert_int_equal(n->partners.n, 3);
    argus_history_destroy(h);
}

static void test_cured(void **state)
{
    argus_history_t *h = argus_history_create();
    const struct argus_node_history *n;

    (void)state;
    add(h, "1", "ann", "n[1-4]", SLOW, 100);
    add(h, "2", "ann", "n[3-4]", GOOD, 200);
    /* Says nothing of anybody. */
    add(h, "3", "ann", "n[3-4]", "argus:1 insufficient-data ranks=8 steps=3 missing=steps", 300);
    digest(h);
    n = argus_history_node(h, 0);
    assert_int_equal(n->ok_since, 1);
    assert_int_equal(n->last_ok, 200);
    argus_history_destroy(h);
}

/* jobs: pairs of user and comment, all on n[1-4] */
static int due(const struct argus_policy *p, size_t n, const char *const jobs[][2])
{
    argus_history_t *h = argus_history_create();
    char id[16];
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "%zu", i + 1);
        add(h, id, jobs[i][0], "n[1-4]", jobs[i][1], 100 + (int64_t)i);
    }
    digest(h);
    for (size_t i = 0; i < argus_history_nodes(h); i++)
        rc |= argus_policy_is_due(p, argus_history_node(h, i));
    argus_history_destroy(h);
    return rc;
}

static void test_due(void **state)
{
    const struct argus_policy p = {.drain_after = 2,
                                   .users = 2,
                                   .days = 14,
                                   .severity = ARGUS_SEVERITY_CRITICAL,
                                   .verdicts = 1u << ARGUS_VERDICT_COMPUTE_STRAGGLER};
    struct argus_policy off = p;
    const char *const two[][2] = {{"ann", SLOW}, {"bob", SLOW}};
    const char *const one_user[][2] = {{"ann", SLOW}, {"ann", SLOW}, {"ann", SLOW}};
    const char *const mild[][2] = {{"ann", SLOW}, {"bob", WARN}};
    const char *const other[][2] = {{"ann", SLOW}, {"bob", LINK}};
    const char *const cured[][2] = {{"ann", SLOW}, {"bob", SLOW}, {"ann", GOOD}};

    (void)state;
    off.drain_after = 0;
    assert_true(due(&p, 2, two));
    assert_false(due(&off, 2, two));
    assert_false(due(&p, 1, two));
    assert_false(due(&p, 3, one_user));
    assert_false(due(&p, 2, mild));
    assert_false(due(&p, 2, other));
    assert_false(due(&p, 3, cured));
}

static int read_policy(const char *text, mode_t mode, struct argus_policy *p)
{
    char path[] = "/tmp/argus-policy.XXXXXX";
    int fd = mkstemp(path), rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    rc = argus_policy_read(path, getuid(), p, NULL);
    unlink(path);
    return rc;
}

static void test_policy_file(void **state)
{
    struct argus_policy p;

    (void)state;
    assert_int_equal(read_policy("# ours\ndrain_after=3 # jobs\nusers=1\n\ndays=7\nseverity=warn\n"
                                 "verdicts=slow-link,host-stall\n",
                                 0644, &p),
                     0);
    assert_int_equal(p.drain_after, 3);
    assert_int_equal(p.users, 1);
    assert_int_equal(p.days, 7);
    assert_int_equal(p.severity, ARGUS_SEVERITY_WARN);
    assert_int_equal(p.verdicts, 1u << ARGUS_VERDICT_SLOW_LINK | 1u << ARGUS_VERDICT_HOST_STALL);
    assert_int_equal(read_policy("", 0644, &p), 0);
    assert_int_equal(p.drain_after, 0);
    assert_int_equal(read_policy("drain_after=3\n", 0664, &p), -1);
    assert_int_equal(read_policy("drain_after=3\ndrain=1\n", 0644, &p), -1);
    assert_int_equal(p.drain_after, 0);
    assert_int_equal(read_policy("drain_after=-1\n", 0644, &p), -1);
    assert_int_equal(read_policy("verdicts=ok\n", 0644, &p), -1);
    assert_int_equal(read_policy("severity=huge\n", 0644, &p), -1);
    assert_int_equal(read_policy("drain_after\n", 0644, &p), -1);
    assert_int_equal(argus_policy_read("/tmp/argus-no-such-policy", getuid(), &p, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_blames),
        cmocka_unit_test(test_cured),       cmocka_unit_test(test_due),
        cmocka_unit_test(test_policy_file), cmocka_unit_test(test_forged),
    };

    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
