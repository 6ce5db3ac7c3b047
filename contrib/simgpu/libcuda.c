/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in libcuda.so.1: enough of the driver's interface to start a
 * process that believes it has GPUs.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "simcu.h"
#include "simcu_driver.h"
#include "simfault.h"

#define MAX_DEVICES 16

static struct {
    int devices, ordinal, initialised, torn_down;
    char node[64];
} driver = {.devices = 1, .node = "localhost"};

static pthread_once_t init_once = PTHREAD_ONCE_INIT;

static int64_t wall_now(void)
{
    struct timespec ts;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void load_injection(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*entry)(void);
    void *lib;

    if (!path || !*path || strcmp(path, "none") == 0)
        return;
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
    *(void **)&entry = dlsym(lib, "InitializeInjection");
    if (entry)
        entry();
}

static void tear_down(void)
{
    driver.torn_down = 1;
}

int simcu_is_torn_down(void)
{
    return driver.torn_down;
}

static void initialise(void)
{
    const char *ordinal = getenv("SIMGPU_DEVICE");

    if (ordinal)
        driver.ordinal = atoi(ordinal) % MAX_DEVICES;
    if (driver.ordinal >= driver.devices)
        driver.devices = driver.ordinal + 1;
    simcu_set_device(driver.ordinal);
    if (simcu_host_now() == 0)
        simcu_clock_start(wall_now());
    driver.initialised = 1;
    load_injection();
    /* registered after the tool's, so it runs before it */
    if (simfault_find("torn-down"))
        atexit(tear_down);
}

void simcu_configure(const char *node, int ordinal, int devices)
{
    snprintf(driver.node, sizeof(driver.node), "%s", node);
    driver.ordinal = ordinal % MAX_DEVICES;
    driver.devices = devices > MAX_DEVICES ? MAX_DEVICES : devices;
}

int simgpu_is_simulated(void)
{
    return 1;
}

CUresult cuInit(unsigned flags)
{
    if (flags != 0)
        return SIMCU_INVALID_VALUE;
    pthread_once(&init_once, initialise);
    return SIMCU_SUCCESS;
}

static int valid_device(CUdevice device)
{
    return driver.initialised && device >= 0 && device < driver.devices;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return SIMCU_INVALID_VALUE;
    *version = 13000;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    *count = driver.devices;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    if (!valid_device(ordinal))
        return SIMCU_INVALID_DEVICE;
    *device = ordinal;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    if (!name || length <= 0)
        return SIMCU_INVALID_VALUE;
    snprintf(name, (size_t)length, "Argus simulated GPU (not real)");
    return SIMCU_SUCCESS;
}

/* FNV-1a, so that a device has the same uuid in each process of its node. */
static uint64_t hash_node(const char *text, uint64_t h)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
    return h;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    uint64_t words[2];

    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    words[0] = hash_node(driver.node, 0xcbf29ce484222325ULL);
    words[1] = (words[0] ^ 0x5153ULL) * 0x9e3779b97f4a7c15ULL + (uint64_t)device;
    memcpy(uuid->bytes, words, sizeof(words));
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    if (!id || length < 13)
        return SIMCU_INVALID_VALUE;
    snprintf(id, (size_t)length, "0000:%02X:00.0", (unsigned)(0x1b + 0x10 * device) & 0xff);
    return SIMCU_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    switch (attribute) {
    case 1: /* threads a block */
        *value = 1024;
        break;
    case 13: /* clock, kHz */
        *value = 1980000;
        break;
    case 16: /* multiprocessors */
        *value = 132;
        break;
    case 33: /* PCI bus */
        *value = (0x1b + 0x10 * device) & 0xff;
        break;
    case 75: /* compute capability */
        *value = 9;
        break;
    default:
        *value = 0;
    }
    return SIMCU_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!valid_device(device))
        return SIMCU_INVALID_DEVICE;
    *bytes = (size_t)80 << 30;
    return SIMCU_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    return cuDeviceTotalMem_v2(bytes, device);
}

#define CONTEXT ((CUcontext)(void *)&driver)

CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    *context = CONTEXT;
    return SIMCU_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return driver.initialised ? SIMCU_SUCCESS : SIMCU_NOT_INITIALIZED;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    (void)flags;
    return valid_device(device) ? cuCtxGetCurrent(context) : SIMCU_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    return cuCtxCreate_v2(context, 0, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return valid_device(device) ? SIMCU_SUCCESS : SIMCU_INVALID_DEVICE;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    *device = driver.ordinal;
    return SIMCU_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    simcu_synchronize(NULL);
    return SIMCU_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    if (!driver.initialised)
        return SIMCU_NOT_INITIALIZED;
    *stream = (CUstream)simcu_stream_create();
    return *stream ? SIMCU_SUCCESS : SIMCU_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return SIMCU_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    simcu_synchronize((uintptr_t)stream <= 2 ? simcu_stream_default() : (simcu_stream_t)stream);
    return SIMCU_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    static _Atomic uint64_t next = 0x7f0000000000ULL;

    simcu_malloc(bytes, 20000);
    *pointer = atomic_fetch_add(&next, (bytes + 511) & ~(size_t)511);
    return SIMCU_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    (void)pointer;
    simcu_free(0, 20000);
    return SIMCU_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == SIMCU_SUCCESS ? "no error" : "simulated error";
    return SIMCU_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags)
{
    static void *self;
    Dl_info info;
    char name[128];

    (void)version;
    (void)flags;
    if (!self && dladdr((void *)&driver, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    snprintf(name, sizeof(name), "%s_v2", symbol);
    *address = self ? dlsym(self, name) : NULL;
    if (!*address && self)
        *address = dlsym(self, symbol);
    return *address ? SIMCU_SUCCESS : SIMCU_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags,
                             int *status)
{
    CUresult rc = cuGetProcAddress(symbol, address, version, flags);

    if (status)
        *status = rc == SIMCU_SUCCESS ? 0 : 1; /* found, symbol not found */
    return rc;
}
