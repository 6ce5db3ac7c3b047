/* SPDX-License-Identifier: Apache-2.0 */
/* NVML by dlopen: the entry points that are used, with the types of its
 * interface, which only ever grew.  Every call may be missing or refuse. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector/record/health_sources.h"

#define NVML_SUCCESS 0
#define NVML_CLOCK_SM 1
#define NVML_CLOCK_MEM 2
#define NVML_TEMPERATURE_GPU 0
#define NVML_EVENT_XID 0x8ULL
#define NVLINKS_MAX 18u
#define DEVICES_MAX 64

typedef void *device_t;

struct event_data {
    device_t device;
    unsigned long long type;
    unsigned long long data;
    unsigned int gpu_instance, compute_instance;
};

struct argus_nvml {
    void *library;
    int (*shutdown)(void);
    int (*by_uuid)(const char *, device_t *);
    int (*clock)(device_t, int, unsigned *);
    int (*max_clock)(device_t, int, unsigned *);
    int (*reasons)(device_t, unsigned long long *);
    int (*power)(device_t, unsigned *);
    int (*power_limit)(device_t, unsigned *);
    int (*temperature)(device_t, int, unsigned *);
    int (*pcie_generation)(device_t, unsigned *);
    int (*pcie_width)(device_t, unsigned *);
    int (*pcie_max_generation)(device_t, unsigned *);
    int (*pcie_max_width)(device_t, unsigned *);
    int (*pcie_replays)(device_t, unsigned *);
    int (*nvlink_state)(device_t, unsigned, unsigned *);
    int (*nvlink_errors)(device_t, unsigned, int, unsigned long long *);
    int (*ecc)(device_t, int, int, unsigned long long *);
    int (*remapped)(device_t, unsigned *, unsigned *, unsigned *, unsigned *);
    int (*register_events)(device_t, unsigned long long, void *);
    int (*wait_event)(void *, struct event_data *, unsigned);
    void *events;
    struct {
        char uuid[64];
        device_t device;
    } devices[DEVICES_MAX];
    int n_devices;
};

static void resolve(struct argus_nvml *n)
{
    const struct {
        void *place;
        const char *name;
    } table[] = {
        {&n->shutdown, "nvmlShutdown"},
        {&n->by_uuid, "nvmlDeviceGetHandleByUUID"},
        {&n->clock, "nvmlDeviceGetClockInfo"},
        {&n->max_clock, "nvmlDeviceGetMaxClockInfo"},
        {&n->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"},
        {&n->power, "nvmlDeviceGetPowerUsage"},
        {&n->power_limit, "nvmlDeviceGetEnforcedPowerLimit"},
        {&n->temperature, "nvmlDeviceGetTemperature"},
        {&n->pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration"},
        {&n->pcie_width, "nvmlDeviceGetCurrPcieLinkWidth"},
        {&n->pcie_max_generation, "nvmlDeviceGetMaxPcieLinkGeneration"},
        {&n->pcie_max_width, "nvmlDeviceGetMaxPcieLinkWidth"},
        {&n->pcie_replays, "nvmlDeviceGetPcieReplayCounter"},
        {&n->nvlink_state, "nvmlDeviceGetNvLinkState"},
        {&n->nvlink_errors, "nvmlDeviceGetNvLinkErrorCounter"},
        {&n->ecc, "nvmlDeviceGetTotalEccErrors"},
        {&n->remapped, "nvmlDeviceGetRemappedRows"},
        {&n->register_events, "nvmlDeviceRegisterEvents"},
        {&n->wait_event, "nvmlEventSetWait_v2"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        void *symbol = dlsym(n->library, table[i].name);

        memcpy(table[i].place, &symbol, sizeof(symbol));
    }
    if (!n->reasons) { /* its name since 12.2 */
        void *symbol = dlsym(n->library, "nvmlDeviceGetCurrentClocksEventReasons");

        memcpy(&n->reasons, &symbol, sizeof(symbol));
    }
}

argus_nvml_t *argus_nvml_open(const char *library)
{
    struct argus_nvml *n = calloc(1, sizeof(*n));
    int (*init)(void) = NULL, (*create)(void **) = NULL;
    void *symbol;

    if (!n)
        return NULL;
    n->library = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        goto error;
    symbol = dlsym(n->library, "nvmlInit_v2");
    memcpy(&init, &symbol, sizeof(symbol));
    symbol = dlsym(n->library, "nvmlEventSetCreate");
    memcpy(&create, &symbol, sizeof(symbol));
    resolve(n);
    if (!init || !n->by_uuid || init() != NVML_SUCCESS)
        goto error;
    if (!create || !n->register_events || !n->wait_event || create(&n->events) != NVML_SUCCESS)
        n->events = NULL;
    return n;
error:
    if (n->library)
        dlclose(n->library);
    free(n);
    return NULL;
}

void argus_nvml_close(argus_nvml_t *n)
{
    if (!n)
        return;
    if (n->shutdown)
        n->shutdown();
    dlclose(n->library);
    free(n);
}

static device_t find(struct argus_nvml *n, const char *uuid)
{
    device_t device;

    for (int i = 0; i < n->n_devices; i++) {
        if (!strcmp(n->devices[i].uuid, uuid))
            return n->devices[i].device;
    }
    if (n->n_devices == DEVICES_MAX || n->by_uuid(uuid, &device) != NVML_SUCCESS)
        return NULL;
    snprintf(n->devices[n->n_devices].uuid, sizeof(n->devices[0].uuid), "%s", uuid);
    n->devices[n->n_devices++].device = device;
    if (n->events)
        n->register_events(device, NVML_EVENT_XID, n->events);
    return device;
}

static void one(int (*call)(device_t, unsigned *), device_t device, double scale, const char *uuid,
                const char *metric, argus_sample_f f, void *arg)
{
    unsigned v;

    if (call && call(device, &v) == NVML_SUCCESS)
        f(arg, uuid, metric, v * scale);
}

static void typed(int (*call)(device_t, int, unsigned *), int type, device_t device,
                  const char *uuid, const char *metric, argus_sample_f f, void *arg)
{
    unsigned v;

    if (call && call(device, type, &v) == NVML_SUCCESS)
        f(arg, uuid, metric, v);
}

/* Each reason that slows a busy GPU is a metric of its own, 0 or 1. */
static void throttling(struct argus_nvml *n, device_t device, const char *uuid, argus_sample_f f,
                       void *arg)
{
    static const struct {
        unsigned long long bit;
        const char *metric;
    } reasons[] = {
        {0x2, "gpu_throttle_clocks_setting"},  {0x4, "gpu_throttle_sw_power_cap"},
        {0x8, "gpu_throttle_hw_slowdown"},     {0x10, "gpu_throttle_sync_boost"},
        {0x20, "gpu_throttle_sw_thermal"},     {0x40, "gpu_throttle_hw_thermal"},
        {0x80, "gpu_throttle_hw_power_brake"},
    };
    unsigned long long v;

    if (!n->reasons || n->reasons(device, &v) != NVML_SUCCESS)
        return;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        f(arg, uuid, reasons[i].metric, (v & reasons[i].bit) != 0);
}

static void nvlinks(struct argus_nvml *n, device_t device, const char *uuid, argus_sample_f f,
                    void *arg)
{
    static const char *const metrics[] = {"gpu_nvlink_replays", "gpu_nvlink_recoveries",
                                          "gpu_nvlink_crc_flit_errors",
                                          "gpu_nvlink_crc_data_errors"};
    double sums[4] = {0};
    unsigned active = 0, known = 0;

    for (unsigned link = 0; n->nvlink_state && link < NVLINKS_MAX; link++) {
        unsigned state;

        if (n->nvlink_state(device, link, &state) != NVML_SUCCESS)
            continue;
        known++;
        active += state == 1;
        for (int c = 0; n->nvlink_errors && c < 4; c++) {
            unsigned long long v;

            if (n->nvlink_errors(device, link, c, &v) == NVML_SUCCESS)
                sums[c] += (double)v;
        }
    }
    if (!known)
        return;
    f(arg, uuid, "gpu_nvlinks_active", active);
    for (int c = 0; c < 4; c++)
        f(arg, uuid, metrics[c], sums[c]);
}

static void memory_errors(struct argus_nvml *n, device_t device, const char *uuid, argus_sample_f f,
                          void *arg)
{
    unsigned corrected, uncorrected, pending, failed;
    unsigned long long v;

    if (n->ecc && n->ecc(device, 0, 0, &v) == NVML_SUCCESS)
        f(arg, uuid, "gpu_ecc_corrected", (double)v);
    if (n->ecc && n->ecc(device, 1, 0, &v) == NVML_SUCCESS)
        f(arg, uuid, "gpu_ecc_uncorrected", (double)v);
    if (!n->remapped ||
        n->remapped(device, &corrected, &uncorrected, &pending, &failed) != NVML_SUCCESS)
        return;
    f(arg, uuid, "gpu_rows_remapped", (double)corrected + uncorrected);
    f(arg, uuid, "gpu_rows_remap_pending", pending);
    f(arg, uuid, "gpu_rows_remap_failed", failed);
}

void argus_nvml_sample(argus_nvml_t *n, const char *uuid, argus_sample_f f, void *arg)
{
    device_t d = find(n, uuid);

    if (!d)
        return;
    typed(n->clock, NVML_CLOCK_SM, d, uuid, "gpu_clock_sm_mhz", f, arg);
    typed(n->clock, NVML_CLOCK_MEM, d, uuid, "gpu_clock_mem_mhz", f, arg);
    typed(n->max_clock, NVML_CLOCK_SM, d, uuid, "gpu_clock_sm_max_mhz", f, arg);
    throttling(n, d, uuid, f, arg);
    one(n->power, d, 0.001, uuid, "gpu_power_w", f, arg);
    one(n->power_limit, d, 0.001, uuid, "gpu_power_limit_w", f, arg);
    typed(n->temperature, NVML_TEMPERATURE_GPU, d, uuid, "gpu_temperature_c", f, arg);
    one(n->pcie_generation, d, 1, uuid, "gpu_pcie_generation", f, arg);
    one(n->pcie_width, d, 1, uuid, "gpu_pcie_width", f, arg);
    one(n->pcie_max_generation, d, 1, uuid, "gpu_pcie_max_generation", f, arg);
    one(n->pcie_max_width, d, 1, uuid, "gpu_pcie_max_width", f, arg);
    one(n->pcie_replays, d, 1, uuid, "gpu_pcie_replays", f, arg);
    nvlinks(n, d, uuid, f, arg);
    memory_errors(n, d, uuid, f, arg);
}

void argus_nvml_events(argus_nvml_t *n, argus_sample_f f, void *arg)
{
    struct event_data e;

    for (int i = 0; n->events && i < 64; i++) {
        memset(&e, 0, sizeof(e));
        if (n->wait_event(n->events, &e, 0) != NVML_SUCCESS)
            return;
        for (int d = 0; e.type == NVML_EVENT_XID && d < n->n_devices; d++) {
            if (n->devices[d].device == e.device)
                f(arg, n->devices[d].uuid, "gpu_xid", (double)e.data);
        }
    }
}
