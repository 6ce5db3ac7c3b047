/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "analyzer/util/replace.h"

#define N_SIGNALS 5

static const int signals[N_SIGNALS] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU};
static char dir[64], path[80];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/argus-replace.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/file", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    rmdir(path);
    return rmdir(dir); /* fails when something else was left */
}

static int entries(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    assert_non_null(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void holds(const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path, "re");

    assert_non_null(f);
    assert_non_null(fgets(got, sizeof(got), f));
    fclose(f);
    assert_string_equal(got, text);
}

static void put(const char *text)
{
    struct argus_replacement r;
    argus_error_t err = {""};

    assert_int_equal(argus_replace_open(&r, path, &err), 0);
    fputs(text, r.out);
    assert_int_equal(argus_replace_finish(&r, NULL, 1, &err), 0);
}

static void test_replaced(void **state)
{
    struct argus_replacement r;
    argus_error_t err = {""};

    (void)state;
    put("old");
    holds("old");
    assert_int_equal(argus_replace_open(&r, path, &err), 0);
    fputs("new", r.out);
    fflush(r.out);
    holds("old");
    assert_int_equal(entries(), 2);
    assert_int_equal(argus_replace_finish(&r, NULL, 0, &err), 0);
    holds("new");
    assert_int_equal(entries(), 1);
}

static void test_not_replaced(void **state)
{
    struct argus_replacement r;
    argus_error_t err = {""};

    (void)state;
    put("old");
    assert_int_equal(argus_replace_open(&r, path, &err), 0);
    assert_int_equal(argus_replace_finish(&r, "no ink", 0, &err), -1);
    assert_non_null(strstr(err.text, "/file: cannot be written: no ink"));
    holds("old");
    assert_int_equal(entries(), 1);
    unlink(path);
    mkdir(path, 0700); /* what no file can replace */
    assert_int_equal(argus_replace_open(&r, path, &err), 0);
    assert_int_equal(argus_replace_finish(&r, NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "Is a directory"));
    assert_int_equal(entries(), 1);
}

/* A process that is told `sig` while it writes; its status. */
static int told(int sig, void (*disposition)(int))
{
    const struct rlimit none = {0, 0};
    struct argus_replacement r;
    argus_error_t err = {""};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        signal(sig, disposition);
        if (argus_replace_open(&r, path, &err))
            _exit(1);
        fputs("half", r.out);
        fflush(r.out);
        raise(sig);
        _exit(argus_replace_finish(&r, NULL, 0, &err) ? 2 : 7);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_signals(void **state)
{
    (void)state;
    put("old");
    for (size_t i = 0; i < N_SIGNALS; i++) {
        int status = told(signals[i], SIG_DFL);

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i]);
        holds("old");
        assert_int_equal(entries(), 1);
    }
}

static void test_ignored_signal(void **state)
{
    int status = told(SIGHUP, SIG_IGN);

    (void)state;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    holds("half");
    assert_int_equal(entries(), 1);
}

/* Nothing of it stays behind in a process that goes on. */
static void test_signals_are_given_back(void **state)
{
    struct argus_replacement r;
    struct sigaction sa;
    argus_error_t err = {""};

    (void)state;
    sigaction(SIGTERM, NULL, &sa);
    assert_ptr_equal(sa.sa_handler, SIG_DFL);
    assert_int_equal(argus_replace_open(&r, path, &err), 0);
    sigaction(SIGTERM, NULL, &sa);
    assert_ptr_not_equal(sa.sa_handler, SIG_DFL);
    assert_int_equal(argus_replace_finish(&r, "no ink", 0, &err), -1);
    sigaction(SIGTERM, NULL, &sa);
    assert_ptr_equal(sa.sa_handler, SIG_DFL);
    assert_int_equal(argus_replace_open(&r, "/nonexistent/dir/file", &err), -1);
    sigaction(SIGTERM, NULL, &sa);
    assert_ptr_equal(sa.sa_handler, SIG_DFL);
}

/* A file beside ours, last written `age` seconds ago.  2147483646 is above every process id. */
static void leave(char *name, size_t size, const char *ending, int age)
{
    struct timespec times[2];
    int fd;

    snprintf(name, size, "%s%s", path, ending);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age;
    times[1] = times[0];
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void test_leftovers(void **state)
{
    const char *others[] = {".0.tmp",
                            ".-7.tmp",
                            ".07.tmp",
                            ".2147483646.tmp.old",
                            ".x.tmp",
                            "s.2147483646.tmp",
                            ".2147483646x.tmp",
                            ".2147483646",
                            ".tmp",
                            ".99999999999999999999.tmp",
                            ".4294967297.tmp"};
    const size_t n = sizeof(others) / sizeof(others[0]);
    char name[sizeof(path) + 40], alive[40], link[sizeof(path) + 40];
    struct stat st;

    (void)state;
    leave(name, sizeof(name), ".2147483646.tmp", 2 * 3600);
    put("new");
    assert_int_equal(entries(), 1);

    leave(name, sizeof(name), ".2147483646.tmp", 60); /* maybe of another node's process */
    put("new");
    assert_int_equal(entries(), 2);
    unlink(name);

    snprintf(alive, sizeof(alive), ".%ld.tmp", (long)getppid());
    leave(name, sizeof(name), alive, 2 * 3600);
    put("new");
    assert_int_equal(entries(), 2);
    unlink(name);

    leave(link, sizeof(link), "-target", 2 * 3600);
    snprintf(name, sizeof(name), "%s.2147483646.tmp", path);
    assert_int_equal(symlink(link, name), 0);
    assert_int_equal(
        utimensat(AT_FDCWD, name, (const struct timespec[2]){{0, 0}, {0, 0}}, AT_SYMLINK_NOFOLLOW),
        0);
    put("new");
    assert_int_equal(lstat(name, &st), 0);
    assert_int_equal(entries(), 3);
    unlink(name);
    unlink(link);

    for (size_t i = 0; i < n; i++)
        leave(name, sizeof(name), others[i], 2 * 3600);
    put("new");
    assert_int_equal(entries(), (int)n + 1);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s%s", path, others[i]);
        assert_int_equal(unlink(name), 0);
    }
}

/* A target without a directory in its name. */
static void test_leftovers_here(void **state)
{
    struct argus_replacement r;
    char name[sizeof(path) + 40], before[4096];
    argus_error_t err = {""};

    (void)state;
    leave(name, sizeof(name), ".2147483646.tmp", 2 * 3600);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(argus_replace_open(&r, "file", &err), 0);
    assert_int_equal(argus_replace_finish(&r, NULL, 0, &err), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(entries(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replaced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_not_replaced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_signals, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_ignored_signal, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_signals_are_given_back, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_leftovers, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_leftovers_here, make_dir, remove_dir),
    };

    /* A test run may be started with some of them ignored. */
    for (size_t i = 0; i < N_SIGNALS; i++)
        signal(signals[i], SIG_DFL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
