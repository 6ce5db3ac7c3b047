/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.conf keys, --argus=..., path patterns, node lists, step.conf. */
#include <config.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <argus/step.h>

#include "analyzer/util/stepconf.h"
#include "spank/facts.h"
#include "spank/keys.h"
#include "spank/pattern.h"

static struct argus_keys keys;
static struct argus_request request;
static char said[8192];
static int lines;

static void say(const char *line)
{
    size_t n = strlen(said);

    assert_null(strchr(line, '\n'));
    snprintf(said + n, sizeof(said) - n, "%s\n", line);
    lines++;
}

static int setup(void **unused)
{
    (void)unused;
    argus_keys_defaults(&keys);
    memset(&request, 0, sizeof(request));
    said[0] = '\0';
    lines = 0;
    return 0;
}

static void site(const char *item)
{
    char *argv[1] = {(char *)item};

    argus_keys_plugstack(&keys, 1, argv, say);
}

static void option(const char *argument)
{
    argus_keys_option(&keys, &request, argument, say);
}

static void assert_key(enum argus_key key, const char *value)
{
    assert_string_equal(argus_keys_text(&keys, key), value);
}

static void every_default_is_valid(void **unused)
{
    (void)unused;
    for (int k = 0; k < ARGUS_KEY_COUNT; k++) {
        char item[600];

        snprintf(item, sizeof(item), "%s=%s", argus_keys_name(k), argus_keys_text(&keys, k));
        site(item);
    }
    assert_string_equal(said, "");
    assert_key(ARGUS_KEY_DIR, "%w/argus/%j");
    assert_key(ARGUS_KEY_SPOOL, "/run/argus");
    assert_key(ARGUS_KEY_DRAIN_S, "10");
    assert_key(ARGUS_KEY_DEADLINE_S, "150");
}

/* The manual names every key, and its default. */
static void every_key_is_documented(void **unused)
{
    const char *dir = getenv("ARGUS_SRCDIR");
    char path[1024], name[64], text[32768];
    FILE *f;

    (void)unused;
    snprintf(path, sizeof(path), "%s/doc/argus-plugstack.5", dir ? dir : ".");
    f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    for (int k = 0; k < ARGUS_KEY_COUNT; k++) {
        snprintf(name, sizeof(name), "%s=", argus_keys_name(k));
        if (!strstr(text, name))
            fail_msg("%s is not in %s", name, path);
        if (k != ARGUS_KEY_COLLECTOR && k != ARGUS_KEY_SOURCES &&
            !strstr(text, argus_keys_text(&keys, k)))
            fail_msg("the default of %s is not in %s", name, path);
    }
    assert_non_null(strstr(text, "only="));
    assert_non_null(strstr(text, "not="));
}

static void good_site_values(void **unused)
{
    static const char *const good[] = {
        "default=on",
        "dir=/shared/argus/%u/%N/%A_%a",
        "spool=/dev/shm/argus/%n",
        "mode=full",
        "sources=nccl,stacks",
        "links=on",
        "window=1",
        "keep_mb=0",
        "ring_mb=4096",
        "info=1",
        "critical=2.000",
        "warn=1.5",
        "floor_ms=0.25",
        "min_steps=1",
        "comment=none",
        "drain_s=0",
        "deadline_s=86400",
        "summary=on",
        "live=on",
        "only=user:ann,bob",
        "not=partition:x",
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        site(good[i]);
    assert_string_equal(said, "");
    assert_key(ARGUS_KEY_FLOOR_MS, "0.25");
    assert_int_equal(keys.nrules, 2);
}

static void bad_site_values_keep_the_default(void **unused)
{
    static const char *const bad[] = {
        "default=yes",
        "dir=argus",
        "dir=/a/../b",
        "dir=/a/%x",
        "dir=/a/%",
        "dir=",
        "dir=%u/x",
        "spool=/run/%j",
        "spool=run",
        "collector=%j",
        "mode=Full",
        "sources=",
        "sources=cupti,",
        "sources=nccl,nccl",
        "sources=x",
        "links=1",
        "window=0",
        "window=-1",
        "window=1e3",
        "window= 3",
        "window=0x10",
        "window=1000001",
        "keep_mb=65537",
        "ring_mb=",
        "ring_mb=3.5",
        "info=0.99",
        "info=101",
        "warn=1.",
        "warn=.5",
        "warn=1,1",
        "warn=nan",
        "warn=+1.1",
        "critical=1.2x",
        "floor_ms=-1",
        "floor_ms=.5",
        "comment=all",
        "drain_s=601",
        "deadline_s=99999",
        "summary=64",
        "live=",
        "nonsense=1",
        "=1",
        "window",
        "only=gpu",
        "not=node:a",
        "only=user:",
        "window=99999999999999999999",
        "dir=/a\001b",
    };
    struct argus_keys before = keys;

    (void)unused;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        site(bad[i]);
        if (lines != (int)i + 1)
            fail_msg("%s: %d lines", bad[i], lines);
    }
    assert_memory_equal(&keys, &before, sizeof(keys));
}

static void a_line_names_item_reason_and_value_used(void **unused)
{
    (void)unused;
    site("window=1e3");
    assert_string_equal(said, "argus: plugstack.conf: window=1e3: must be a whole number from 1 "
                              "to 1000000; 64 is used\n");
}

static void severities_must_not_decrease(void **unused)
{
    char *argv[] = {(char *)"info=1.5", (char *)"warn=1.2"};

    (void)unused;
    argus_keys_plugstack(&keys, 2, argv, say);
    assert_int_equal(lines, 1);
    assert_key(ARGUS_KEY_INFO, "1.03");
    assert_key(ARGUS_KEY_WARN, "1.10");
    option("critical=1.05");
    assert_int_equal(lines, 2);
    assert_key(ARGUS_KEY_CRITICAL, "1.20");
}

static void user_options(void **unused)
{
    (void)unused;
    option("full,sources=nccl,nvtx,window=8,links=on,floor_ms=2.5,summary,info=1.01");
    assert_string_equal(said, "");
    assert_true(request.given);
    assert_false(request.off);
    assert_key(ARGUS_KEY_MODE, "full");
    assert_key(ARGUS_KEY_SOURCES, "nccl,nvtx");
    assert_key(ARGUS_KEY_WINDOW, "8");
    assert_key(ARGUS_KEY_SUMMARY, "on");
    option("mode=summary,summary=off");
    assert_key(ARGUS_KEY_MODE, "summary");
    assert_key(ARGUS_KEY_SUMMARY, "off");
    option("summary");
    assert_key(ARGUS_KEY_SUMMARY, "on");
    option("mode=off");
    assert_true(request.off);
    option("on");
    assert_false(request.off);
}

static void users_set_no_paths_and_no_limits(void **unused)
{
    static const char *const theirs[] = {
        "dir=/x",    "spool=/x",     "collector=/x/evil.so", "default=on", "keep_mb=1",
        "ring_mb=1", "min_steps=1",  "comment=none",         "drain_s=60", "deadline_s=1",
        "live=on",   "only=user:me", "not=user:me",
    };
    struct argus_keys before = keys;

    (void)unused;
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
        option(theirs[i]);
        assert_int_equal(lines, (int)i + 1);
    }
    assert_memory_equal(&keys, &before, sizeof(keys));
}

static void hostile_options(void **unused)
{
    char big[5000];

    (void)unused;
    memset(big, 'a', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    option(big);
    assert_int_equal(lines, 1);
    assert_true(strlen(said) < 200);
    option("window=\x1b[31m\n%s%n");
    assert_int_equal(lines, 2);
    assert_null(strchr(said, '\x1b'));
    option(",,,,=,==,");
    option("sources=cupti,cupti,cupti");
    assert_key(ARGUS_KEY_WINDOW, "64");
}

static void rules(void **unused)
{
    char why[300];

    (void)unused;
    assert_true(argus_keys_allowed(&keys, NULL, NULL, NULL, why, sizeof(why)));
    site("only=partition:gpu,big");
    site("not=user:root");
    assert_true(argus_keys_allowed(&keys, "big", "ann", "", why, sizeof(why)));
    assert_false(argus_keys_allowed(&keys, "bi", "ann", "", why, sizeof(why)));
    assert_false(argus_keys_allowed(&keys, NULL, "ann", "", why, sizeof(why)));
    assert_false(argus_keys_allowed(&keys, "gpu", "root", "", why, sizeof(why)));
    assert_string_equal(why, "not=user:root");
}

static void patterns(void **unused)
{
    struct argus_pattern_facts f = {.user = "ann",
                                    .job = "12",
                                    .array_job = "10",
                                    .array_task = "2",
                                    .workdir = "/home/ann/run",
                                    .cluster = "tst"};
    argus_error_t err;
    char out[64];

    (void)unused;
    assert_int_equal(argus_pattern_expand("%w/argus/%j", &f, out, sizeof(out), &err), 0);
    assert_string_equal(out, "/home/ann/run/argus/12");
    assert_int_equal(argus_pattern_expand("/s/%N/%u/%A_%a%%", &f, out, sizeof(out), &err), 0);
    assert_string_equal(out, "/s/tst/ann/10_2%");
    f.workdir = "/";
    assert_int_equal(argus_pattern_expand("%w/argus", &f, out, sizeof(out), &err), 0);
    assert_string_equal(out, "/argus");
    f.workdir = "/home/ann/../bob";
    assert_int_equal(argus_pattern_expand("%w/argus", &f, out, sizeof(out), &err), -1);
    f.workdir = "relative";
    assert_int_equal(argus_pattern_expand("%w/argus", &f, out, sizeof(out), &err), -1);
    f.workdir = "/a\nb";
    assert_int_equal(argus_pattern_expand("%w/argus", &f, out, sizeof(out), &err), -1);
    f.user = "..";
    assert_int_equal(argus_pattern_expand("/s/%u", &f, out, sizeof(out), &err), -1);
    f.user = "a/b";
    assert_int_equal(argus_pattern_expand("/s/%u", &f, out, sizeof(out), &err), -1);
    f.user = "";
    assert_int_equal(argus_pattern_expand("/s/%u", &f, out, sizeof(out), &err), -1);
    f.user = NULL;
    assert_int_equal(argus_pattern_expand("/s/%u", &f, out, sizeof(out), &err), -1);
    f.cluster = ".";
    assert_int_equal(argus_pattern_expand("/s/.%N/x", &f, out, sizeof(out), &err), -1);
    assert_int_equal(argus_pattern_expand("/0123456789012345678901234567890123456789/"
                                          "0123456789012345678901234567890123456789",
                                          &f, out, sizeof(out), &err),
                     -1);
}

static void node_lists(void **unused)
{
    static const struct {
        const char *list, *name;
        long index;
    } cases[] = {
        {"n1", "n1", 0},
        {"n1", "n2", -1},
        {"n[1-4]", "n3", 2},
        {"n[1-4]", "n5", -1},
        {"n[01-12]", "n07", 6},
        {"n[01-12]", "n7", -1},
        {"n[8-11]", "n10", 2},
        {"a,b[1,3-5,9],c", "b9", 5},
        {"a,b[1,3-5,9],c", "c", 6},
        {"r[1-2]-ib", "r2-ib", 1},
        {"r[1-2]-ib", "r2", -1},
        {"r[1-2]n[3-4]", "r1n3", -1},
        {"n[1-", "n1", -1},
        {"n[]", "n", -1},
        {"n[4-1]", "n2", -1},
        {"n[1-99999999]", "n2", -1},
        {"", "n1", -1},
        {"n[1-3],n[7-9]", "n8", 4},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argus_facts_node_index(cases[i].list, cases[i].name) != cases[i].index)
            fail_msg("%s in %s: %ld", cases[i].name, cases[i].list,
                     argus_facts_node_index(cases[i].list, cases[i].name));
    }
}

static void heterogeneous_job(void **unused)
{
    const char *env[] = {"SLURM_HET_SIZE=2",
                         "SLURM_JOB_ID=7",
                         "SLURM_JOB_ID_PACK_GROUP_0=7",
                         "SLURM_JOB_ID_PACK_GROUP_1=8",
                         "SLURM_JOB_NODELIST=r[1-3]",
                         "SLURM_STEP_NODELIST=r[1-3]",
                         "SLURM_STEP_NUM_NODES=3",
                         "SLURM_STEP_NUM_TASKS=5",
                         "SLURM_SUBMIT_DIR=/w",
                         NULL};
    struct argus_facts f = {.slurm_job = 8,
                            .array_job = 8,
                            .array_task = ARGUS_NO_ARRAY,
                            .nnodes = 2,
                            .nodeid = 0,
                            .ntasks = 3,
                            .node = "r2",
                            .env = env};
    argus_error_t err;

    (void)unused;
    assert_int_equal(argus_facts_complete(&f, &keys, &err), 0);
    assert_string_equal(f.job, "7+1");
    assert_string_equal(f.het, "1");
    assert_string_equal(f.dir, "/w/argus/7");
    assert_int_equal(f.nodeid, 1);
    assert_int_equal(f.nnodes, 3);
    assert_int_equal(f.ntasks, 5);
    /* A leader far away is a forged one. */
    env[1] = "SLURM_JOB_ID=1";
    f.slurm_job = 5000;
    assert_int_equal(argus_facts_complete(&f, &keys, &err), 0);
    assert_string_equal(f.job, "5000");
}

/* Recorder, epilog and analyzer read what the plugin writes. */
static void others_read_step_conf(void **unused)
{
    const char *env[] = {"SLURM_SUBMIT_DIR=/w/a b", "SLURM_JOB_NODELIST=n[01-12,15]",
                         "SLURM_STEP_NODELIST=n07", "SLURM_CLUSTER_NAME=tst",
                         "SLURM_RESTART_COUNT=2",   NULL};
    static const char *const extremes[] = {
        "window=1000000", "keep_mb=65536", "ring_mb=4096", "info=1",    "critical=100",
        "warn=100",       "floor_ms=0.25", "min_steps=1",  "drain_s=0", "deadline_s=86400",
        "summary=on",     "live=on",       "comment=none", "mode=full", "sources=stacks",
    };
    struct argus_facts f = {.slurm_job = 4294967293u,
                            .slurm_step = 4294967200u,
                            .array_job = 7,
                            .array_task = 0,
                            .uid = 65534,
                            .gid = 4294967294u,
                            .nodeid = 5,
                            .nnodes = 13,
                            .ntasks = 104,
                            .local_tasks = 8,
                            .slurm_version = "22.05.8",
                            .node = "n07",
                            .env = env};
    struct argus_stepconf conf;
    argus_error_t err;
    char *text;

    (void)unused;
    for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++)
        site(extremes[i]);
    assert_string_equal(said, "");
    assert_int_equal(argus_facts_complete(&f, &keys, &err), 0);
    text = argus_facts_text(&f, &keys, &err);
    assert_non_null(text);
    if (argus_stepconf_parse(text, strlen(text), "step.conf", &conf, &err))
        fail_msg("%s", err.text);
    assert_string_equal(conf.job, "4294967293");
    assert_string_equal(conf.dir, "/w/a b/argus/4294967293-r2");
    assert_string_equal(conf.array_task, "0");
    assert_string_equal(conf.nodes, "n[01-12,15]");
    assert_string_equal(conf.step_nodes, "n07");
    assert_int_equal(conf.slurm_job, 4294967293u);
    assert_int_equal(conf.restart, 2);
    assert_int_equal(conf.nodeid, 5);
    assert_int_equal(conf.ntasks, 104);
    assert_int_equal(conf.local_tasks, 8);
    assert_int_equal(conf.drain_s, 0);
    assert_true(conf.floor_ms == 0.25 && conf.critical == 100);
    assert_string_equal(conf.lazy, "off");
    argus_stepconf_clear(&conf);
    free(text);
}

static void hostile_environment(void **unused)
{
    const char *env[] = {"SLURM_SUBMIT_DIR=/w\nuid=0",
                         "PWD=/home/../etc",
                         "SLURM_CLUSTER_NAME=../../x",
                         "SLURM_JOB_NODELIST=n1\nuid=0",
                         "SLURM_RESTART_COUNT=-1",
                         "SLURM_UMASK=99999",
                         NULL};
    struct argus_facts f = {
        .slurm_job = 8, .array_task = ARGUS_NO_ARRAY, .uid = 65534, .node = "r2", .env = env};
    argus_error_t err;
    char *text;

    (void)unused;
    assert_int_equal(argus_facts_complete(&f, &keys, &err), -1);
    assert_non_null(strstr(err.text, "the name of the working directory has a line break"));
    env[0] = "SLURM_SUBMIT_DIR=/w";
    assert_int_equal(argus_facts_complete(&f, &keys, &err), 0);
    assert_int_equal(f.restart, 0);
    assert_int_equal(f.umask_bits, 0077);
    text = argus_facts_text(&f, &keys, &err);
    assert_non_null(text);
    assert_null(strstr(text, "\nnodes="));
    assert_null(strstr(text, "uid=0"));
    assert_non_null(strstr(text, "\ncluster=-\n"));
    assert_true(strlen(text) < ARGUS_STEP_CONF_MAX);
    free(text);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        T(every_default_is_valid),
        T(every_key_is_documented),
        T(good_site_values),
        T(bad_site_values_keep_the_default),
        T(a_line_names_item_reason_and_value_used),
        T(severities_must_not_decrease),
        T(user_options),
        T(users_set_no_paths_and_no_limits),
        T(hostile_options),
        T(rules),
        T(patterns),
        T(node_lists),
        T(heterogeneous_job),
        T(others_read_step_conf),
        T(hostile_environment),
    };

    return cmocka_run_group_tests_name("spank keys", tests, NULL, NULL);
}
