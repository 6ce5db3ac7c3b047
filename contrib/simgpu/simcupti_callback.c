/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in libcupti's other half: subscribers, callbacks, and what things are called. */
#include <string.h>

#include "simcupti_state.h"
#include "simfault.h"

static CUptiResult subscribe(void **subscriber, simcupti_callback_fn *callback, void *userdata,
                             const char *name, char *old, size_t old_size)
{
    CUptiResult rc;

    simcupti_set_up();
    if (!subscriber)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    pthread_mutex_lock(&cupti.lock);
    rc = simcupti_attach();
    if (rc == CUPTI_OK && (cupti.subscriber || simfault_find("subscriber-taken"))) {
        if (old && old_size > 0)
            strncpy(old, cupti.subscriber ? cupti.subscriber_name : "Nsight Systems", old_size - 1),
                old[old_size - 1] = '\0';
        rc = CUPTI_MULTIPLE_SUBSCRIBERS;
    }
    if (rc == CUPTI_OK) {
        cupti.subscriber = userdata ? userdata : &cupti;
        cupti.subscriber_callback = callback;
        memset(cupti.subscriber_name, 0, sizeof(cupti.subscriber_name));
        if (name)
            strncpy(cupti.subscriber_name, name, sizeof(cupti.subscriber_name) - 1);
        *subscriber = &cupti.subscriber;
    }
    pthread_mutex_unlock(&cupti.lock);
    return simcupti_result(rc);
}

CUptiResult cuptiSubscribe(void **subscriber, simcupti_callback_fn *callback, void *userdata)
{
    return subscribe(subscriber, callback, userdata, NULL, NULL, 0);
}

CUptiResult cuptiSubscribe_v2(void **subscriber, simcupti_callback_fn *callback, void *userdata,
                              struct simcupti_subscriber_params *params)
{
    if (!params)
        return cuptiSubscribe(subscriber, callback, userdata);
    return subscribe(subscriber, callback, userdata, params->name, params->old_name,
                     params->old_size);
}

CUptiResult cuptiUnsubscribe(void *subscriber)
{
    if (subscriber != &cupti.subscriber || !cupti.subscriber)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    cupti.subscriber = NULL;
    cupti.subscriber_callback = NULL;
    cupti.subscriber_callbacks = 0;
    return CUPTI_OK;
}

CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t cbid)
{
    (void)domain;
    (void)cbid;
    if (subscriber != &cupti.subscriber || !cupti.subscriber)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    cupti.subscriber_callbacks = enable != 0;
    return CUPTI_OK;
}

CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, int domain)
{
    return cuptiEnableCallback(enable, subscriber, domain, 0);
}

CUptiResult cuptiGetCallbackName(int domain, uint32_t cbid, const char **name)
{
    if (!name)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (domain == 1 && cbid == 307)
        *name = "cuLaunchKernel";
    else if (domain == 1 && cbid == 652)
        *name = "cuLaunchKernelEx";
    else if (domain == 2 && cbid == 211)
        *name = "cudaLaunchKernel_v7000";
    else
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    return CUPTI_OK;
}

CUptiResult cuptiGetDeviceId(void *context, uint32_t *device)
{
    int (*get)(int *);
    int ordinal = 0;

    (void)context;
    *(void **)&get = simcupti_driver_symbol("cuCtxGetDevice");
    if (!get || get(&ordinal) != 0)
        return simcupti_result(CUPTI_NOT_INITIALIZED);
    *device = (uint32_t)ordinal;
    return CUPTI_OK;
}

CUptiResult cuptiGetContextId(void *context, uint32_t *id)
{
    (void)context;
    *id = 1;
    return CUPTI_OK;
}

CUptiResult cuptiGetStreamId(void *context, void *stream, uint32_t *id)
{
    return cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
    (void)context;
    (void)per_thread;
    if (!id)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (simcupti_find_driver() < 0)
        return simcupti_result(CUPTI_NOT_INITIALIZED);
    *id = driver.stream_id((simcu_stream_t)stream);
    return CUPTI_OK;
}

CUptiResult cuptiSetThreadIdType(unsigned type)
{
    cupti.thread_id_type = type;
    return CUPTI_OK;
}

CUptiResult cuptiGetThreadIdType(unsigned *type)
{
    *type = cupti.thread_id_type;
    return CUPTI_OK;
}
