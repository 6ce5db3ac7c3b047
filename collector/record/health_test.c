/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a stand-in NVML and of a made-up sysfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collector/record/health.h"

static char root[64];
static char library[4096];

static void put(const char *path, const char *text)
{
    char full[512], *slash;
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    const char *build = getenv("ARGUS_BUILDDIR");

    (void)state;
    snprintf(root, sizeof(root), "/tmp/argus-health-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(library, sizeof(library), "%s/.libs/libsimnvml.so", build ? build : ".");
    put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "17\n");
    put("class/infiniband/mlx5_0/ports/1/counters/link_downed", "text\n");
    put("class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "5\n");
    put("class/net/eth0/device/vendor", "0x15b3\n");
    put("class/net/eth0/speed", "25000\n");
    put("class/net/eth0/carrier", "0\n");
    put("class/net/eth0/statistics/rx_errors", "2\n");
    put("class/net/veth9/statistics/rx_errors", "2\n");
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

struct seen {
    int n;
    struct argus_health_value v[1024];
};

static void collect(void *arg, const struct argus_health_value *v)
{
    struct seen *s = arg;

    if (s->n < 1024)
        s->v[s->n++] = *v;
}

static const struct argus_health_value *find(const struct seen *s, const char *metric,
                                             const char *device)
{
    for (int i = 0; i < s->n; i++) {
        if (!strcmp(s->v[i].metric, metric) && !strcmp(s->v[i].device, device))
            return &s->v[i];
    }
    return NULL;
}

static void expect(const struct seen *s, const char *metric, const char *device, double value)
{
    const struct argus_health_value *v = find(s, metric, device);

    if (!v)
        fail_msg("no %s of %s", metric, device);
    if (v->value < value - 1e-6 || v->value > value + 1e-6)
        fail_msg("%s of %s is %g, not %g", metric, device, v->value, value);
}

static void nap(long ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&ts, NULL);
}

/* Limited by a minute, not by how long an answer takes. */
static void await(argus_health_t *h)
{
    for (int i = 0; i < 6000 && !argus_health_answered(h); i++)
        nap(10);
    assert_int_equal(argus_health_answered(h), 1);
}

static void sample(struct seen *s, int times)
{
    argus_health_t *h = argus_health_start(root, library, 10000000);

    memset(s, 0, sizeof(*s));
    assert_non_null(h);
    argus_health_watch(h, "GPU-simulated-1");
    argus_health_watch(h, "GPU-unknown");
    for (int i = 0; i < times; i++) {
        argus_health_ask(h);
        await(h);
    }
    argus_health_take(h, collect, s);
    argus_health_stop(h);
}

static void test_values(void **state)
{
    static struct seen s;
    int twice = 0;

    (void)state;
    setenv("SIMNVML_SM_MHZ", "1200", 1);
    setenv("SIMNVML_XID", "79", 1);
    sample(&s, 30);
    expect(&s, "gpu_clock_sm_mhz", "GPU-simulated-1", 1200);
    expect(&s, "gpu_power_w", "GPU-simulated-1", 612.345);
    expect(&s, "gpu_throttle_hw_thermal", "GPU-simulated-1", 1);
    expect(&s, "gpu_throttle_sw_power_cap", "GPU-simulated-1", 0);
    expect(&s, "gpu_ecc_corrected", "GPU-simulated-1", 3);
    expect(&s, "gpu_nvlinks_active", "GPU-simulated-1", 5);
    expect(&s, "gpu_nvlink_replays", "GPU-simulated-1", 0 + 1 + 2 + 3 + 4 + 5);
    expect(&s, "gpu_xid", "GPU-simulated-1", 79);
    expect(&s, "nic_rate_gbps", "mlx5_0:1", 400);
    expect(&s, "nic_port_active", "mlx5_0:1", 1);
    expect(&s, "nic_symbol_error", "mlx5_0:1", 17);
    expect(&s, "nic_out_of_sequence", "mlx5_0:1", 5);
    expect(&s, "nic_rate_gbps", "eth0", 25);
    expect(&s, "nic_port_active", "eth0", 0);
    assert_null(find(&s, "nic_link_downed", "mlx5_0:1")); /* no number */
    assert_null(find(&s, "nic_rx_errors", "veth9"));      /* no hardware */
    assert_null(find(&s, "gpu_clock_sm_mhz", "GPU-unknown"));
    assert_null(find(&s, "gpu_temperature_c", "GPU-simulated-1")); /* call is missing */
    /* asked thirty times: what did not change came once */
    for (int i = 0; i < s.n; i++)
        twice += !strcmp(s.v[i].metric, "nic_symbol_error");
    assert_int_equal(twice, 1);
}

/* A GPU at 1,980 MHz, whose next sample is due in an hour; the first was asked for and is in `s`. */
static argus_health_t *asked_once(struct seen *s)
{
    argus_health_t *h;

    setenv("SIMNVML_SM_MHZ", "1980", 1);
    h = argus_health_start(root, library, 3600000000000LL);
    assert_non_null(h);
    argus_health_watch(h, "GPU-simulated-1");
    argus_health_ask(h);
    await(h);
    memset(s, 0, sizeof(*s));
    argus_health_take(h, collect, s);
    return h;
}

/* One comes for the asking, whenever the next one is due. */
static void test_asked(void **state)
{
    static struct seen s;
    argus_health_t *h = asked_once(&s);

    (void)state;
    expect(&s, "gpu_clock_sm_mhz", "GPU-simulated-1", 1980);
    setenv("SIMNVML_SM_MHZ", "1200", 1);
    argus_health_ask(h);
    await(h);
    memset(&s, 0, sizeof(s));
    argus_health_take(h, collect, &s);
    expect(&s, "gpu_clock_sm_mhz", "GPU-simulated-1", 1200);
    expect(&s, "gpu_throttle_hw_thermal", "GPU-simulated-1", 1);
    argus_health_stop(h);
}

/* A job of a few seconds, an hour before the period is over: the first ones come sooner. */
static void test_first_ones(void **state)
{
    static struct seen s;
    argus_health_t *h = asked_once(&s);

    (void)state;
    setenv("SIMNVML_SM_MHZ", "1200", 1);
    memset(&s, 0, sizeof(s));
    for (int i = 0; i < 6000 && !find(&s, "gpu_clock_sm_mhz", "GPU-simulated-1"); i++) {
        nap(10);
        argus_health_take(h, collect, &s);
    }
    expect(&s, "gpu_clock_sm_mhz", "GPU-simulated-1", 1200);
    argus_health_stop(h);
}

static void test_nothing_there(void **state)
{
    static struct seen s;
    argus_health_t *h = argus_health_start("/nonexistent", "/nonexistent.so", 10000000);

    (void)state;
    memset(&s, 0, sizeof(s));
    assert_non_null(h);
    argus_health_watch(h, "GPU-simulated-1");
    nap(50);
    argus_health_take(h, collect, &s);
    argus_health_stop(h);
    assert_int_equal(s.n, 0);
}

/* A driver that never answers delays the end for a moment, not for ever. */
static void test_hang(void **state)
{
    argus_health_t *h;
    struct timespec a, b;

    (void)state;
    setenv("SIMNVML_HANG", "1", 1);
    h = argus_health_start(root, library, 10000000);
    argus_health_watch(h, "GPU-simulated-1");
    argus_health_ask(h);
    nap(50);
    assert_int_equal(argus_health_answered(h), 0);
    clock_gettime(CLOCK_MONOTONIC, &a);
    argus_health_stop(h);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(b.tv_sec - a.tv_sec <= 30); /* a busy machine; not for ever */
    unsetenv("SIMNVML_HANG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),     cmocka_unit_test(test_asked),
        cmocka_unit_test(test_first_ones), cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_hang),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
