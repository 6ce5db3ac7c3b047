/* SPDX-License-Identifier: Apache-2.0 */
/* The driver entry points that the stand-in libcuda.so.1 has. */
#ifndef SIMCU_DRIVER_H
#define SIMCU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "simcu.h"

enum {
    SIMCU_SUCCESS = 0,
    SIMCU_INVALID_VALUE = 1,
    SIMCU_OUT_OF_MEMORY = 2,
    SIMCU_NOT_INITIALIZED = 3,
    SIMCU_INVALID_DEVICE = 101,
    SIMCU_NOT_FOUND = 500
};

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct simcu_context *CUcontext;
typedef struct simcu_stream *CUstream;
typedef struct {
    char bytes[16];
} CUuuid;

SIMCU_API CUresult cuInit(unsigned flags);
SIMCU_API CUresult cuDriverGetVersion(int *version);
SIMCU_API CUresult cuDeviceGetCount(int *count);
SIMCU_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
SIMCU_API CUresult cuDeviceGetName(char *name, int length, CUdevice device);
SIMCU_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
SIMCU_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
SIMCU_API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device);
SIMCU_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
SIMCU_API CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device);
SIMCU_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
SIMCU_API CUresult cuCtxGetCurrent(CUcontext *context);
SIMCU_API CUresult cuCtxSetCurrent(CUcontext context);
SIMCU_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
SIMCU_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
SIMCU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
SIMCU_API CUresult cuCtxGetDevice(CUdevice *device);
SIMCU_API CUresult cuCtxSynchronize(void);
SIMCU_API CUresult cuStreamCreate(CUstream *stream, unsigned flags);
SIMCU_API CUresult cuStreamDestroy_v2(CUstream stream);
SIMCU_API CUresult cuStreamSynchronize(CUstream stream);
SIMCU_API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
SIMCU_API CUresult cuMemFree_v2(CUdeviceptr pointer);
SIMCU_API CUresult cuGetErrorString(CUresult error, const char **text);
SIMCU_API CUresult cuGetProcAddress(const char *symbol, void **address, int version,
                                    uint64_t flags);
SIMCU_API CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                       uint64_t flags, int *status);

#endif /* SIMCU_DRIVER_H */
