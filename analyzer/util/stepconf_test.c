/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <fcntl.h>
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

#include "analyzer/util/stepconf.h"
#include "argus/step.h"

static void parse(struct argus_stepconf *conf, const char *text)
{
    argus_error_t err = {""};

    if (argus_stepconf_parse(text, strlen(text), "step.conf", conf, &err) < 0)
        fail_msg("%s", err.text);
}

static void refuses(const char *text, const char *why)
{
    struct argus_stepconf conf;
    argus_error_t err = {""};

    assert_int_equal(argus_stepconf_parse(text, strlen(text), "step.conf", &conf, &err), -1);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    assert_null(conf.text);
}

static void test_everything(void **state)
{
    struct argus_stepconf conf;

    (void)state;
    parse(&conf, "version=1\njob=4711+1\nslurm_job=4712\nstep=batch\nhet=1\narray_job=4700\n"
                 "array_task=12\nrestart=2\nuser=ann\nuid=1000\ngid=100\ncluster=c1\nnode=n2\n"
                 "nodeid=1\nnnodes=4\nnodes=n[1-4]\nstep_nodes=n[2-3]\nntasks=8\nlocal_tasks=2\n"
                 "dir=/s/a b/4711-r2\nstarted=1764636000123456789\nargus=0.1.0\nslurm=22.05.8\n"
                 "default=on\nmode=full\nsources=cupti\nlinks=on\nwindow=8\nkeep_mb=1\nring_mb=4\n"
                 "info=1.01\nwarn=1.5\ncritical=2\nfloor_ms=0.5\nmin_steps=5\ncomment=none\n"
                 "drain_s=0\ndeadline_s=3\nsummary=on\nlive=on\nunheard_of=x\n");
    assert_string_equal(conf.job, "4711+1");
    assert_int_equal(conf.slurm_job, 4712);
    assert_string_equal(conf.step, "batch");
    assert_string_equal(conf.het, "1");
    assert_string_equal(conf.array_job, "4700");
    assert_string_equal(conf.array_task, "12");
    assert_int_equal(conf.restart, 2);
    assert_string_equal(conf.user, "ann");
    assert_int_equal(conf.uid, 1000);
    assert_int_equal(conf.gid, 100);
    assert_string_equal(conf.node, "n2");
    assert_int_equal(conf.nodeid, 1);
    assert_string_equal(conf.nodes, "n[1-4]");
    assert_string_equal(conf.step_nodes, "n[2-3]");
    assert_string_equal(conf.dir, "/s/a b/4711-r2");
    assert_true(conf.started == INT64_C(1764636000123456789));
    assert_string_equal(conf.mode, "full");
    assert_int_equal(conf.window, 8);
    assert_true(conf.critical == 2.0);
    assert_true(conf.floor_ms == 0.5);
    assert_string_equal(conf.comment, "none");
    assert_int_equal(conf.drain_s, 0);
    assert_string_equal(conf.summary, "on");
    assert_string_equal(conf.live, "on");
    argus_stepconf_clear(&conf);
    argus_stepconf_clear(&conf);
}

static void test_defaults(void **state)
{
    struct argus_stepconf conf;

    (void)state;
    parse(&conf, "job=7\n");
    assert_string_equal(conf.step, "0");
    assert_string_equal(conf.array_task, "-");
    assert_string_equal(conf.dir, "");
    assert_int_equal(conf.uid, (uid_t)-1);
    assert_string_equal(conf.mode, "summary");
    assert_string_equal(conf.sources, "cupti,nccl,nvtx,stacks");
    assert_int_equal(conf.window, 64);
    assert_int_equal(conf.ring_mb, 32);
    assert_true(conf.info == 1.03);
    assert_int_equal(conf.deadline_s, 150);
    assert_string_equal(conf.summary, "off");
    assert_string_equal(conf.live, "off");
    argus_stepconf_clear(&conf);
    parse(&conf, "");
    argus_stepconf_clear(&conf);
}

static void test_refused(void **state)
{
    (void)state;
    refuses("version=2\n", "version");
    refuses("summary=64\n", "summary");
    refuses("live=1\n", "live");
    refuses("job\n", "not key=value");
    refuses("=7\n", "not key=value");
    refuses("job=7\njob=8\n", "twice");
    refuses("job=../7\n", "job");
    refuses("job=7+\n", "job");
    refuses("job=+1\n", "job");
    refuses("job=7+1+1\n", "job");
    refuses("job=\n", "job");
    refuses("step=extern\n", "step");
    refuses("step=0/..\n", "step");
    refuses("array_task=1,2\n", "array_task");
    refuses("uid=-1\n", "uid");
    refuses("uid=4294967296\n", "uid");
    refuses("uid=0x0\n", "uid");
    refuses("user=a b\n", "user");
    refuses("node=a/b\n", "node");
    refuses("nodes=n1 n2\n", "nodes");
    refuses("dir=argus\n", "dir");
    refuses("dir=/a/../etc\n", "dir");
    refuses("dir=/a/..\n", "dir");
    refuses("dir=/a\tb\n", "dir");
    refuses("dir=/a\r\n", "dir");
    refuses("started=9999999999999999999\n", "started");
    refuses("warn=nan\n", "warn");
    refuses("warn=1e9\n", "warn");
    refuses("warn=-1\n", "warn");
    refuses("window=0\n", "window");
    refuses("deadline_s=1000000\n", "deadline_s");
    refuses("comment=everywhere\n", "comment");
    refuses("mode=\n", "mode");
}

static void test_sizes(void **state)
{
    struct argus_stepconf conf;
    argus_error_t err = {""};
    char *text = malloc(ARGUS_STEP_CONF_MAX + 2);

    (void)state;
    assert_non_null(text);
    memset(text, '\n', ARGUS_STEP_CONF_MAX + 1);
    assert_int_equal(argus_stepconf_parse(text, ARGUS_STEP_CONF_MAX, "c", &conf, &err), 0);
    argus_stepconf_clear(&conf);
    assert_int_equal(argus_stepconf_parse(text, ARGUS_STEP_CONF_MAX + 1, "c", &conf, &err), -1);
    assert_non_null(strstr(err.text, "longer"));
    assert_int_equal(argus_stepconf_parse("job=1\0job", 9, "c", &conf, &err), -1);
    assert_non_null(strstr(err.text, "NUL"));
    free(text);
}

/* Files that are not what they should be. */
static void test_files(void **state)
{
    char dir[] = "/tmp/argus-stepconf.XXXXXX";
    struct argus_stepconf conf;
    argus_error_t err = {""};
    FILE *f;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    f = fdopen(openat(fd, "good", O_WRONLY | O_CREAT, 0644), "w");
    assert_non_null(f);
    fputs("job=12\n", f);
    fclose(f);
    assert_int_equal(argus_stepconf_read(fd, "good", getuid(), &conf, &err), 0);
    assert_string_equal(conf.job, "12");
    argus_stepconf_clear(&conf);

    assert_int_equal(argus_stepconf_read(fd, "good", getuid() + 1, &conf, &err), -1);
    assert_non_null(strstr(err.text, "could have written"));
    assert_int_equal(fchmodat(fd, "good", 0664, 0), 0);
    assert_int_equal(argus_stepconf_read(fd, "good", getuid(), &conf, &err), -1);
    assert_int_equal(argus_stepconf_read(fd, "good", (uid_t)-1, &conf, &err), 0);
    argus_stepconf_clear(&conf);

    assert_int_equal(symlinkat("good", fd, "link"), 0);
    assert_int_equal(argus_stepconf_read(fd, "link", (uid_t)-1, &conf, &err), -1);
    assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
    assert_int_equal(argus_stepconf_read(fd, "fifo", (uid_t)-1, &conf, &err), -1);
    assert_non_null(strstr(err.text, "regular"));
    assert_int_equal(argus_stepconf_read(fd, "none", (uid_t)-1, &conf, &err), -1);
    assert_non_null(strstr(err.text, "none"));
    unlinkat(fd, "good", 0);
    unlinkat(fd, "link", 0);
    unlinkat(fd, "fifo", 0);
    close(fd);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests_name("stepconf", tests, NULL, NULL);
}
