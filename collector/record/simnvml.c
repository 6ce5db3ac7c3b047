/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVML, for the tests: a simulated GPU "GPU-simulated-1" and those of the stand-in
 * driver, by their UUIDs.  SIMNVML_SM_MHZ is their clock, SIMNVML_SLOW the UUID of one that runs at
 * 1200 MHz because it is hot; SIMNVML_XID an error that is reported once; SIMNVML_HANG makes every
 * question wait for ever. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

#define DEVICES 16
#define UUID_BYTES 64
#define UUID_LENGTH 40 /* GPU-00000000-0000-0000-0000-000000000000 */

static char gpus[DEVICES][UUID_BYTES];
static int reported;

static unsigned number(const char *name, unsigned otherwise)
{
    const char *v = getenv(name);

    return v ? (unsigned)strtoul(v, NULL, 10) : otherwise;
}

static unsigned sm_mhz(const void *device)
{
    const char *slow = getenv("SIMNVML_SLOW");

    return slow && !strcmp(slow, device) ? 1200 : number("SIMNVML_SM_MHZ", 1980);
}

static int known(const void *device)
{
    for (int i = 0; i < DEVICES; i++)
        if (device == gpus[i] && gpus[i][0])
            return 1;
    return 0;
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
    if (strcmp(uuid, "GPU-simulated-1") && strlen(uuid) != UUID_LENGTH)
        return 6;
    for (int i = 0; i < DEVICES; i++) {
        if (gpus[i][0] && strcmp(gpus[i], uuid))
            continue;
        strcpy(gpus[i], uuid);
        *device = gpus[i];
        return 0;
    }
    return 6;
}

API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *v);
API int nvmlDeviceGetClockInfo(void *device, int type, unsigned *v)
{
    *v = type == 1 ? sm_mhz(device) : 2619;
    return known(device) ? 0 : 2;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v);
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *v)
{
    *v = sm_mhz(device) < 1500 ? 0x40 | 0x8 : 0x1;
    return known(device) ? 0 : 2;
}

API int nvmlDeviceGetPowerUsage(void *device, unsigned *v);
API int nvmlDeviceGetPowerUsage(void *device, unsigned *v)
{
    *v = 612345; /* mW */
    return known(device) ? 0 : 2;
}

API int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *v);
API int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *v)
{
    *v = type == 0 && counter == 0 ? 3 : 0;
    return known(device) ? 0 : 2;
}

API int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *v);
API int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *v)
{
    *v = link != 4;
    return known(device) && link < 6 ? 0 : 2;
}

API int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int c, unsigned long long *v);
API int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int c, unsigned long long *v)
{
    *v = c == 0 ? link : 0;
    return known(device) ? 0 : 2;
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
    return known(device) && types == 0x8 && set == &reported ? 0 : 2;
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
    *e = (struct event){.device = gpus[0], .type = 0x8, .data = xid};
    return 0;
}
