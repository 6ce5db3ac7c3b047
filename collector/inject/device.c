/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPU this is, asked of the driver library that the process has mapped.
 * Never loads it, never initialises it.
 */
#include "collector/inject/inject.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct driver {
    int (*version)(int *version);
    int (*get)(int *device, int ordinal);
    int (*name)(char *name, int length, int device);
    int (*uuid)(unsigned char uuid[16], int device);
    int (*pci)(char *id, int length, int device);
    int (*simulated)(void);
};

static void find(void *library, const char *name, void *slot)
{
    void *address = dlsym(library, name);

    memcpy(slot, &address, sizeof(address));
}

static int driver_find(struct driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    memset(d, 0, sizeof(*d));
    if (!library)
        return -1;
    find(library, "cuDriverGetVersion", &d->version);
    find(library, "cuDeviceGet", &d->get);
    find(library, "cuDeviceGetName", &d->name);
    find(library, "cuDeviceGetUuid_v2", &d->uuid);
    if (!d->uuid)
        find(library, "cuDeviceGetUuid", &d->uuid);
    find(library, "cuDeviceGetPCIBusId", &d->pci);
    find(library, "simgpu_is_simulated", &d->simulated);
    return 0;
}

uint32_t argus_device_driver_version(void)
{
    struct driver d;
    int version = 0;

    if (driver_find(&d) || !d.version || d.version(&version) || version < 0)
        return 0;
    return (uint32_t)version;
}

static void print_uuid(char *to, size_t size, const unsigned char u[16])
{
    snprintf(to, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
             u[14], u[15]);
}

void argus_device_identify(int ordinal)
{
    struct argus_ring_header *h = argus_ring.header;
    unsigned char uuid[16];
    struct driver d;
    int device, version;

    if (driver_find(&d))
        return;
    if (d.simulated && d.simulated())
        h->simulated = 1;
    if (d.version && d.version(&version) == 0)
        h->driver_version = (uint32_t)version;
    if (!d.get || d.get(&device, ordinal))
        return;
    if (d.name && d.name(h->gpu_name, (int)sizeof(h->gpu_name) - 1, device))
        h->gpu_name[0] = '\0';
    if (d.pci && d.pci(h->gpu_pci, (int)sizeof(h->gpu_pci) - 1, device))
        h->gpu_pci[0] = '\0';
    if (d.uuid && d.uuid(uuid, device) == 0)
        print_uuid(h->gpu_uuid, sizeof(h->gpu_uuid), uuid);
    __atomic_store_n(&h->device, ordinal, __ATOMIC_RELEASE);
}
