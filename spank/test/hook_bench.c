/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin adds to a step: the time spent in its hooks, on and off.
 * The recorder is the tests' stand-in; the plugin waits for its exec, not for
 * what comes after.
 */
#include <config.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "spank/test/host.h"

#define ROUNDS 101

enum { LOAD, POST_OPT, USER_INIT, TASK_INIT, TASK_EXIT, EXIT, COUNT };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof(*v), by_value);
    return v[ROUNDS / 2];
}

static void measure(const char *name, const char *option)
{
    static const char *const hooks[] = {
        "init", "init_post_opt", "user_init", "task_init (1 task)", "task_exit (last)", "exit"};
    static double ms[COUNT][ROUNDS];
    double start = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double t[COUNT + 1];

        host_setup();
        t[LOAD] = now_ms();
        host_load();
        host_init();
        host_option(option);
        t[POST_OPT] = now_ms();
        host_post_opt();
        t[USER_INIT] = now_ms();
        host_user_init();
        t[TASK_INIT] = now_ms();
        /* Without the fork that Slurm would do anyway. */
        host_task_here(0);
        t[TASK_EXIT] = now_ms();
        host_task_exit(0);
        host_task_exit(1);
        t[EXIT] = now_ms();
        host_exit();
        t[COUNT] = now_ms();
        host_unload();
        host_teardown();
        for (int k = 0; k < COUNT; k++)
            ms[k][i] = t[k + 1] - t[k];
    }
    for (int k = 0; k < COUNT; k++) {
        double m = median(ms[k]);

        printf("%-10s %-20s %8.3f ms\n", name, hooks[k], m);
        start += k <= TASK_INIT ? m : 0;
    }
    printf("%-10s %-20s %8.3f ms  (budget 5 ms)\n", name, "before the task runs", start);
}

int main(void)
{
    measure("off", "off");
    measure("on", "on");
    return 0;
}
