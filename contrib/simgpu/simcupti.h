/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the stand-in libcupti, by CUPTI's names and signatures. */
#ifndef SIMCUPTI_H
#define SIMCUPTI_H

#include <stddef.h>
#include <stdint.h>

#include "simcu.h"
#include "simcupti_impl.h"

typedef int CUptiResult;

enum {
    CUPTI_OK = 0,
    CUPTI_INVALID_PARAMETER = 1,
    CUPTI_INVALID_OPERATION = 7,
    CUPTI_SIZE_NOT_SUFFICIENT = 10,
    CUPTI_MAX_LIMIT_REACHED = 12,
    CUPTI_NOT_COMPATIBLE = 14,
    CUPTI_NOT_INITIALIZED = 15,
    CUPTI_QUEUE_EMPTY = 18,
    CUPTI_INVALID_KIND = 21,
    CUPTI_NOT_SUPPORTED = 27,
    CUPTI_MULTIPLE_SUBSCRIBERS = 39,
    CUPTI_UNKNOWN = 999
};

struct simcupti_subscriber_params {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
};

typedef void simcupti_callback_fn(void *userdata, int domain, uint32_t cbid, const void *data);

SIMCU_API CUptiResult cuptiGetVersion(uint32_t *version);
SIMCU_API CUptiResult cuptiGetResultString(CUptiResult result, const char **text);
SIMCU_API CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **text);
SIMCU_API CUptiResult cuptiGetLastError(void);
SIMCU_API CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
SIMCU_API CUptiResult cuptiActivityRegisterCallbacks(simcupti_request_fn *request,
                                                     simcupti_complete_fn *complete);
SIMCU_API CUptiResult cuptiActivityEnable(unsigned kind);
SIMCU_API CUptiResult cuptiActivityDisable(unsigned kind);
SIMCU_API CUptiResult cuptiActivityEnableContext(void *context, unsigned kind);
SIMCU_API CUptiResult cuptiActivityDisableContext(void *context, unsigned kind);
SIMCU_API CUptiResult cuptiActivityFlushAll(uint32_t flag);
SIMCU_API CUptiResult cuptiActivityFlushPeriod(uint32_t milliseconds);
SIMCU_API CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);
SIMCU_API CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream,
                                                        size_t *count);
SIMCU_API CUptiResult cuptiActivitySetAttribute(unsigned attribute, size_t *size, void *value);
SIMCU_API CUptiResult cuptiActivityGetAttribute(unsigned attribute, size_t *size, void *value);
SIMCU_API CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable);
SIMCU_API CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable);
SIMCU_API CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable);
SIMCU_API CUptiResult cuptiActivityEnableHWTrace(uint8_t enable);
SIMCU_API CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable);
SIMCU_API CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t enable);
SIMCU_API CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void));
SIMCU_API CUptiResult cuptiActivityPushExternalCorrelationId(unsigned kind, uint64_t id);
SIMCU_API CUptiResult cuptiActivityPopExternalCorrelationId(unsigned kind, uint64_t *last);
SIMCU_API CUptiResult cuptiSubscribe(void **subscriber, simcupti_callback_fn *callback,
                                     void *userdata);
SIMCU_API CUptiResult cuptiSubscribe_v2(void **subscriber, simcupti_callback_fn *callback,
                                        void *userdata, struct simcupti_subscriber_params *params);
SIMCU_API CUptiResult cuptiUnsubscribe(void *subscriber);
SIMCU_API CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, int domain,
                                          uint32_t cbid);
SIMCU_API CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, int domain);
SIMCU_API CUptiResult cuptiGetCallbackName(int domain, uint32_t cbid, const char **name);
SIMCU_API CUptiResult cuptiGetDeviceId(void *context, uint32_t *device);
SIMCU_API CUptiResult cuptiGetContextId(void *context, uint32_t *id);
SIMCU_API CUptiResult cuptiGetStreamId(void *context, void *stream, uint32_t *id);
SIMCU_API CUptiResult cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread,
                                         uint32_t *id);
SIMCU_API CUptiResult cuptiSetThreadIdType(unsigned type);
SIMCU_API CUptiResult cuptiGetThreadIdType(unsigned *type);
SIMCU_API CUptiResult cuptiFinalize(void);

#endif /* SIMCUPTI_H */
