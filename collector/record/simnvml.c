/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVML, for the tests: one simulated GPU, "GPU-simulated-1".
 * SIMNVML_SM_MHZ is its clock; SIMNVML_XID an error that it reports once;
 * SIMNVML_HANG makes every question wait for ever. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static int gpu, reported;

static unsigned number(const char *name, unsigned otherwise)
{
    const char *v = getenv(name);

    return v ? (unsigned)strtoul(v, NULL, 10) : otherwise;
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
    return 0;
}

API int nvmlShutdown(void);
API int nvmlShutdown(void)
{
    return 0;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
API int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    while (getenv("SIMNVML_HANG"))
        pause();
    *device = &gpu;
    return strcmp(uuid, "GPU-simulated-1") ? 6 : 0;
}

API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *v);
API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *v)
{
    *v = type == 1 ? number("SIMNVML_SM_MHZ", 1980) : 2619;
    return device == &gpu ? 0 : 2;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v);
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v)
{
    *v = number("SIMNVML_SM_MHZ", 1980) < 1500 ? 0x40 | 0x8 : 0x1;
    return device == &gpu ? 0 : 2;
}

API int nvmlDeviceGetPowerUsage(void *device, unsigned *v);
API int nvmlDeviceGetPowerUsage(void *device, unsigned *v)
{
    *v = 612345; /* mW */
    return device == &gpu ? 0 : 2;
}

API int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *v);
API int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *v)
{
    *v = type == 0 && counter == 0 ? 3 : 0;
    return device == &gpu ? 0 : 2;
}

API int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *v);
API int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *v)
{
    *v = link != 4;
    return device == &gpu && link < 6 ? 0 : 2;
}

API int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int c, unsigned long long *v);
API int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int c, unsigned long long *v)
{
    *v = c == 0 ? link : 0;
    return device == &gpu ? 0 : 2;
}

API int nvmlEventSetCreate(void **set);
API int nvmlEventSetCreate(void **set)
{
    *set = &reported;
    return 0;
}

API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
API int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    return device == &gpu && types == 0x8 && set == &reported ? 0 : 2;
}

struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

API int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms);
API int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms)
{
    unsigned xid = number("SIMNVML_XID", 0);

    if (set != &reported || ms || !xid || reported)
        return 10; /* timeout */
    reported = 1;
    *e = (struct event){.device = &gpu, .type = 0x8, .data = xid};
    return 0;
}
