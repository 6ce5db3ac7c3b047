/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>
#include <dirent.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_replaced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_not_replaced, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_signals, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_ignored_signal, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(test_signals_are_given_back, make_dir, remove_dir),
    };

    /* A test run may be started with some of them ignored. */
    for (size_t i = 0; i < N_SIGNALS; i++)
        signal(signals[i], SIG_DFL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
