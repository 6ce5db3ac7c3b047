/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder as a process, and the spool: what root does and leaves. */
#include <config.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "spank/test/host.h"

static char text[65536];

static int setup(void **unused)
{
    (void)unused;
    host_setup();
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    host_teardown();
    return 0;
}

static void behave(const char *how)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/behaviour", host.root);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(how, f);
    fclose(f);
}

static void assert_value(const char *name, const char *expected)
{
    const char *value = host_value(text, name);

    assert_non_null(value);
    assert_string_equal(value, expected);
}

static void read_report(void)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/77.0/report", host.spool);
    assert_true(host_read_report(path, text, sizeof(text)));
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void recorder_is_the_user_and_nothing_else(void **unused)
{
    char ids[64];
    int leak = dup2(open("/etc/passwd", O_RDONLY), 57), before;
    sigset_t set, old;
    mode_t mask = umask(0);

    (void)unused;
    assert_int_equal(leak, 57);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGPIPE, SIG_IGN);
    setenv("LD_PRELOAD_", "/tmp/evil.so", 1);
    setenv("HDF5_PLUGIN_PATH", "/tmp", 1);
    before = host_open_files();
    host_start("on");
    read_report();
    snprintf(ids, sizeof(ids), "%u,%u,%u", host.uid, host.uid, host.uid);
    assert_value("uids", ids);
    snprintf(ids, sizeof(ids), "%u,%u,%u", host.gid, host.gid, host.gid);
    assert_value("gids", ids);
    if (!getuid()) {
        assert_value("groups", "54321,65534");
        assert_value("root_again", "0");
    }
    assert_value("fd0", "/dev/null");
    assert_value("fd1", "/dev/null");
    assert_value("fd2", "/dev/null");
    assert_null(strstr(text, "\nfd57="));
    for (int fd = 3; fd < 128; fd++) {
        char name[16];

        snprintf(name, sizeof(name), "fd%d", fd);
        assert_null(host_value(text, name));
    }
    /* All but the one that must not be lost before it is ready. */
    assert_value("blocked", "0");
    assert_value("term_blocked", "1");
    assert_value("ignored", "0");
    assert_value("no_new_privs", "1");
    assert_value("cwd", "/");
    assert_value("umask", "027");
    assert_string_equal(strstr(text, "\nenv_"), "\nenv_PATH=/usr/bin:/bin\nenv_LC_ALL=C\nend=\n");
    assert_int_equal(atol(host_value(text, "ppid")), getpid());
    assert_true(!strcmp(host_value(text, "sid"), strchr(strstr(text, "pid="), '=') + 1) ||
                atol(host_value(text, "sid")) == atol(host_value(text, "pid")));
    host_stop();
    assert_int_equal(host_open_files(), before);
    assert_true(umask(mask) == 0);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(leak);
}

static void stops_at_the_last_task(void **unused)
{
    pid_t pid;

    (void)unused;
    host_start("on");
    pid = host_recorder_pid();
    host_task_exit(0);
    /* The hook of one task twice is not the end of two. */
    host_task_exit(0);
    assert_false(host_gone(pid, 50));
    host_task_exit(1);
    assert_true(host_gone(pid, 0));
    host_exit();
    host_unload();
    assert_false(host_exists("%s/77.0", host.spool));
    /* Reaped, too. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void stops_when_no_task_ever_ran(void **unused)
{
    pid_t pid;

    (void)unused;
    host_start("on");
    pid = host_recorder_pid();
    host_exit();
    assert_true(host_gone(pid, 0));
    host_unload();
}

/* A step shorter than the recorder's start: SIGTERM waits for its handler. */
static void step_shorter_than_the_start(void **unused)
{
    (void)unused;
    behave("leaves");
    host_start("on");
    host_stop();
    assert_true(host_exists("%s/77.0/report", host.spool));
}

static void stubborn_recorder_costs_drain_s(void **unused)
{
    int64_t start;
    pid_t pid;

    (void)unused;
    behave("stubborn");
    host_arg("drain_s=1");
    host_start("on");
    pid = host_recorder_pid();
    start = now_ms();
    host_stop();
    assert_true(now_ms() - start >= 1000);
    assert_true(host_gone(pid, 0));
    assert_string_equal(host.said, "");
}

static void dead_recorder_costs_nothing(void **unused)
{
    (void)unused;
    behave("dies");
    host_arg("drain_s=600");
    host_start("on");
    /* As slurmstepd does, which waits for any child. */
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    alarm(120); /* a stop that waited for it would be longer */
    host_stop();
    alarm(0);
    assert_string_equal(host.said, "");
}

static void missing_recorder_is_one_line(void **unused)
{
    const char *program = getenv("ARGUS_TEST_RECORDER");
    char keep[1024];

    (void)unused;
    snprintf(keep, sizeof(keep), "%s", program);
    setenv("ARGUS_TEST_RECORDER", "/nonexistent/argus-record", 1);
    host_start("on");
    setenv("ARGUS_TEST_RECORDER", keep, 1);
    host_task(0, text, sizeof(text));
    assert_null(host_value(text, "ARGUS_SPOOL"));
    host_stop();
    assert_string_equal(host.said, "argus: n7: /nonexistent/argus-record: starting it: No such "
                                   "file or directory; not traced\n");
    assert_false(host_exists("%s/77.0", host.spool));
    assert_false(host_exists("%s/jobs/77", host.spool));
}

/* The user's directory cannot be written. */
static void not_written(const char *why)
{
    char said[512];

    host_start("on");
    host_task(0, text, sizeof(text));
    assert_null(host_value(text, "ARGUS_SPOOL"));
    assert_null(host_value(text, "CUDA_INJECTION64_PATH"));
    host_stop();
    snprintf(said, sizeof(said), "argus: n7: cannot write %s/nobody/77: %s; not traced\n",
             host.root, why);
    assert_string_equal(host.said, said);
    assert_false(host_exists("%s/77.0", host.spool));
    assert_false(host_exists("%s/jobs/77", host.spool));
}

static void directory_of_somebody_else_is_one_line(void **unused)
{
    char path[256];

    (void)unused;
    if (getuid())
        skip();
    snprintf(path, sizeof(path), "%s/nobody", host.root);
    assert_int_equal(chown(path, 0, 0), 0);
    not_written("Permission denied");
}

static void directory_that_is_a_file_is_one_line(void **unused)
{
    char path[256];

    (void)unused;
    if (getuid())
        skip();
    snprintf(path, sizeof(path), "%s/nobody/77", host.root);
    assert_int_equal(close(creat(path, 0644)), 0);
    not_written("Not a directory");
}

static void rings_stay_for_the_epilog(void **unused)
{
    (void)unused;
    behave("leaves");
    host_start("on");
    assert_true(host_recorder_pid() > 0);
    host_stop();
    assert_true(host_exists("%s/77.0/0-1.ring", host.spool));
    assert_true(host_exists("%s/77.0/step.conf", host.spool));
    assert_true(host_exists("%s/jobs/77/0", host.spool));
}

static void stale_spool_is_replaced(void **unused)
{
    (void)unused;
    behave("leaves");
    host_start("on");
    assert_true(host_recorder_pid() > 0);
    host_stop();
    behave("");
    host_start("on");
    assert_true(host_recorder_pid() > 0);
    assert_false(host_exists("%s/77.0/0-1.ring", host.spool));
    host_stop();
    assert_false(host_exists("%s/77.0", host.spool));
}

static void step_spool_belongs_to_the_user(void **unused)
{
    mode_t mask = umask(0777);
    char path[256];
    struct stat st;

    (void)unused;
    host_load();
    host_init();
    host_option("on");
    host_post_opt();
    umask(mask);
    host_user_init();
    snprintf(path, sizeof(path), "%s/77.0", host.spool);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_uid, host.uid);
    assert_int_equal(st.st_gid, host.gid);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(lstat(host.spool, &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(st.st_mode & 07777, 0755);
    snprintf(path, sizeof(path), "%s/jobs", host.spool);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    host_stop();
}

/* One line, no recorder, no environment. */
static void assert_refused(const char *reason)
{
    host_start("on");
    host_task(0, text, sizeof(text));
    assert_null(host_value(text, "ARGUS_SPOOL"));
    host_stop();
    if (!strstr(host.said, reason))
        fail_msg("said: %s", host.said);
    assert_non_null(strstr(host.said, "; not traced\n"));
    assert_true(waitpid(-1, NULL, WNOHANG) < 0);
}

static void spool_that_is_a_link(void **unused)
{
    (void)unused;
    assert_int_equal(symlink("/tmp", host.spool), 0);
    assert_refused("a directory is needed, not a link or file");
}

static void spool_of_somebody_else(void **unused)
{
    (void)unused;
    if (getuid())
        skip();
    assert_int_equal(mkdir(host.spool, 0755), 0);
    assert_int_equal(chown(host.spool, 12345, 12345), 0);
    assert_refused("belongs to user 12345, not to root");
}

static void spool_open_to_others(void **unused)
{
    (void)unused;
    assert_int_equal(mkdir(host.spool, 0755), 0);
    assert_int_equal(chmod(host.spool, 01777), 0);
    assert_refused("others than root may write there");
}

static void step_spool_that_is_a_link(void **unused)
{
    char link[256], target[256];

    (void)unused;
    snprintf(target, sizeof(target), "%s/precious", host.root);
    snprintf(link, sizeof(link), "%s/77.0", host.spool);
    assert_int_equal(mkdir(host.spool, 0755), 0);
    assert_int_equal(mkdir(target, 0777), 0);
    assert_int_equal(symlink(target, link), 0);
    assert_refused("is in the way and cannot be removed");
    assert_true(host_exists("%s/precious", host.root));
    assert_false(host_exists("%s/precious/step.conf", host.root));
}

/* The user swaps the spool's content for links while the step runs. */
static void links_in_the_spool_are_removed_not_followed(void **unused)
{
    char link[256], target[256];
    struct stat st;

    (void)unused;
    host_start("on");
    assert_true(host_recorder_pid() > 0);
    snprintf(target, sizeof(target), "%s/precious", host.root);
    close(open(target, O_CREAT | O_WRONLY, 0600));
    snprintf(link, sizeof(link), "%s/77.0/step.conf", host.spool);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(target, link), 0);
    host_stop();
    assert_int_equal(stat(target, &st), 0);
    assert_int_equal(st.st_uid, geteuid());
    assert_false(host_exists("%s/77.0", host.spool));
}

static void contained_hooks(void **unused)
{
    pid_t pid;

    (void)unused;
    host_load();
    host_init();
    host_option("on");
    host_post_opt();
    host_user_init_contained();
    pid = host_recorder_pid();
    assert_true(pid > 0);
    /* Its starter is gone and it lives. */
    assert_false(host_gone(pid, 100));
    assert_int_not_equal(atol(host_value(text, "ppid") ? host_value(text, "ppid") : "0"), getpid());
    host_task(0, text, sizeof(text));
    assert_string_equal(host_value(text, "ARGUS_JOB"), "77");
    host_task_exit_contained(0);
    assert_false(host_gone(pid, 0));
    host_task_exit_contained(1);
    assert_true(host_gone(pid, 0));
    host_exit();
    host_unload();
    assert_false(host_exists("%s/77.0", host.spool));
    while (waitpid(-1, NULL, 0) > 0)
        continue;
}

/* slurmstepd is killed: the recorder is told. */
static void death_of_slurmstepd(bool contained)
{
    pid_t stepd = fork(), pid;

    if (stepd == 0) {
        host_load();
        host_init();
        host_option("on");
        host_post_opt();
        if (contained)
            host_user_init_contained();
        else
            host_user_init();
        pause();
        _exit(0);
    }
    pid = host_recorder_pid();
    assert_true(pid > 0);
    assert_false(host_gone(pid, 50));
    kill(stepd, SIGKILL);
    waitpid(stepd, NULL, 0);
    assert_true(host_gone(pid, 3000));
}

static void recorder_outlives_no_slurmstepd(void **unused)
{
    (void)unused;
    death_of_slurmstepd(false);
}

static void nor_a_contained_one(void **unused)
{
    (void)unused;
    death_of_slurmstepd(true);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(recorder_is_the_user_and_nothing_else),
        T(stops_at_the_last_task),
        T(stops_when_no_task_ever_ran),
        T(step_shorter_than_the_start),
        T(stubborn_recorder_costs_drain_s),
        T(dead_recorder_costs_nothing),
        T(missing_recorder_is_one_line),
        T(directory_of_somebody_else_is_one_line),
        T(directory_that_is_a_file_is_one_line),
        T(rings_stay_for_the_epilog),
        T(stale_spool_is_replaced),
        T(step_spool_belongs_to_the_user),
        T(spool_that_is_a_link),
        T(spool_of_somebody_else),
        T(spool_open_to_others),
        T(step_spool_that_is_a_link),
        T(links_in_the_spool_are_removed_not_followed),
        T(contained_hooks),
        T(recorder_outlives_no_slurmstepd),
        T(nor_a_contained_one),
    };

    return cmocka_run_group_tests_name("spank recorder and spool", tests, NULL, NULL);
}
