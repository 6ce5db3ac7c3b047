/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in libcupti: one source, built as libcupti.so.13, .so.12 and
 * .so.11.8 (SIMCUPTI_API says which release's behaviour and sizes).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simcupti_state.h"
#include "simfault.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    cupti.api = (unsigned)simfault_value("version", SIMCUPTI_API);
    cupti.owner = getpid();
    cupti.attributes[0] = 3200000;
    cupti.attributes[2] = 250;
    cupti.attributes[6] = 3;
    cupti.attributes[ATTRIBUTE_PER_THREAD] = cupti.api >= API_13_0;
    simcupti_buffers_set_api(cupti.api);
}

void simcupti_set_up(void)
{
    pthread_once(&once, set_up);
}

CUptiResult simcupti_result(CUptiResult rc)
{
    if (rc != CUPTI_OK)
        cupti.last_error = rc;
    return rc;
}

/*
 * The interface.
 */
CUptiResult cuptiGetVersion(uint32_t *version)
{
    simcupti_set_up();
    if (!version)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    *version = cupti.api;
    return CUPTI_OK;
}

CUptiResult cuptiGetResultString(CUptiResult rc, const char **text)
{
    switch (rc) {
    case CUPTI_OK:
        *text = "CUPTI_SUCCESS";
        break;
    case CUPTI_NOT_COMPATIBLE:
        *text = "CUPTI_ERROR_NOT_COMPATIBLE";
        break;
    case CUPTI_NOT_INITIALIZED:
        *text = "CUPTI_ERROR_NOT_INITIALIZED";
        break;
    case 35:
        *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
        break;
    case CUPTI_MULTIPLE_SUBSCRIBERS:
        *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
        break;
    default:
        *text = "CUPTI_ERROR_UNKNOWN";
    }
    return CUPTI_OK;
}

CUptiResult cuptiGetErrorMessage(CUptiResult rc, const char **text)
{
    return cuptiGetResultString(rc, text);
}

CUptiResult cuptiGetLastError(void)
{
    CUptiResult rc = cupti.last_error;

    cupti.last_error = CUPTI_OK;
    return rc;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    struct timespec ts;

    simcupti_set_up();
    if (!timestamp)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (cupti.timestamp) {
        *timestamp = cupti.timestamp();
        return CUPTI_OK;
    }
    if (simcupti_find_driver() == 0 && driver.host_now() != 0) {
        *timestamp = (uint64_t)driver.visible(driver.host_now());
        return CUPTI_OK;
    }
    clock_gettime(CLOCK_REALTIME, &ts);
    *timestamp = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return CUPTI_OK;
}

CUptiResult cuptiActivityRegisterCallbacks(simcupti_request_fn *request,
                                           simcupti_complete_fn *complete)
{
    int refused = (int)simfault_value("register", 0);

    simcupti_set_up();
    if (!request || !complete)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (refused || (cupti.foreign && simfault_find("takeover-refuse")))
        return simcupti_result(refused ? refused : CUPTI_MULTIPLE_SUBSCRIBERS);
    simcupti_buffers_set_callbacks(request, complete);
    cupti.registrations++;
    cupti.foreign = 0;
    return CUPTI_OK;
}

/* The code with which SIMGPU_FAULT refuses a kind: enable:CODE[:KIND] */
static CUptiResult refused_kind(unsigned kind)
{
    const struct simfault *f = simfault_find("enable");

    if (cupti.foreign && simfault_find("takeover-refuse"))
        return CUPTI_MULTIPLE_SUBSCRIBERS;
    if (!f)
        return CUPTI_OK;
    if (f->text[0] && (double)atof(f->text) != f->value && (unsigned)atoi(f->text) != kind)
        return CUPTI_OK;
    return (CUptiResult)f->value;
}

CUptiResult cuptiActivityEnable(unsigned kind)
{
    CUptiResult rc;

    simcupti_set_up();
    if (kind == 0 || kind >= KIND_COUNT)
        return simcupti_result(CUPTI_INVALID_KIND);
    if ((rc = refused_kind(kind)) != CUPTI_OK)
        return simcupti_result(rc);
    if ((kind == KIND_KERNEL && cupti.enabled[KIND_CONCURRENT_KERNEL]) ||
        (kind == KIND_CONCURRENT_KERNEL && cupti.enabled[KIND_KERNEL]))
        return simcupti_result(CUPTI_NOT_COMPATIBLE);
    pthread_mutex_lock(&cupti.lock);
    rc = simcupti_attach();
    if (rc == CUPTI_OK) {
        if (!cupti.enabled[kind] && kind == KIND_CONCURRENT_KERNEL)
            simcupti_fault_rearmed();
        cupti.enabled[kind] = 1;
        if (kind == KIND_DEVICE)
            cupti.device_shown = 0;
        if (kind == KIND_RUNTIME)
            memset(cupti.runtime_filter, 0, sizeof(cupti.runtime_filter));
        if (kind == KIND_DRIVER)
            memset(cupti.driver_filter, 0, sizeof(cupti.driver_filter));
    }
    pthread_mutex_unlock(&cupti.lock);
    return simcupti_result(rc);
}

CUptiResult cuptiActivityDisable(unsigned kind)
{
    simcupti_set_up();
    if (kind == 0 || kind >= KIND_COUNT)
        return simcupti_result(CUPTI_INVALID_KIND);
    /* 13.0 GA hangs here; seen by nobody who leaves it alone */
    if (simfault_find("disable-hang") && kind == KIND_CONCURRENT_KERNEL)
        for (;;)
            pause();
    cupti.enabled[kind] = 0;
    return CUPTI_OK;
}

CUptiResult cuptiActivityEnableContext(void *context, unsigned kind)
{
    (void)context;
    return cuptiActivityEnable(kind);
}

CUptiResult cuptiActivityDisableContext(void *context, unsigned kind)
{
    (void)context;
    return cuptiActivityDisable(kind);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    int refused = (int)simfault_value("flush", 0);

    simcupti_set_up();
    if (refused)
        return simcupti_result(refused);
    if (simfault_active("flush-hang", atomic_load(&cupti.records)))
        for (;;)
            pause();
    if (!cupti.attached)
        return simcupti_find_driver() < 0 ? simcupti_result(CUPTI_UNKNOWN) : CUPTI_OK;
    if (driver.torn_down()) {
        const struct simfault *f = simfault_find("torn-down");

        while (f && strcmp(f->text, "hang") == 0)
            pause();
        return simcupti_result(CUPTI_NOT_INITIALIZED);
    }
    if (getpid() != cupti.owner)
        return CUPTI_OK;
    simcupti_buffers_flush(driver.host_now(), flag & 1);
    return CUPTI_OK;
}

CUptiResult cuptiActivityFlushPeriod(uint32_t milliseconds)
{
    (void)milliseconds;
    return simcupti_result(simcupti_find_driver() < 0 ? CUPTI_UNKNOWN : CUPTI_OK);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record)
{
    uint8_t *at;
    unsigned kind, bytes;

    simcupti_set_up();
    if (!buffer || !record)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (!*record) {
        at = buffer;
    } else {
        memcpy(&kind, *record, sizeof(kind));
        bytes = simcupti_record_bytes(kind, cupti.api);
        if (bytes == 0)
            return simcupti_result(CUPTI_INVALID_KIND);
        at = *record + bytes;
    }
    if (at < buffer || at >= buffer + valid)
        return simcupti_result(CUPTI_MAX_LIMIT_REACHED);
    memcpy(&kind, at, sizeof(kind));
    if (simcupti_record_bytes(kind, cupti.api) == 0)
        return simcupti_result(CUPTI_INVALID_KIND);
    *record = at;
    return CUPTI_OK;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
    (void)context;
    (void)stream;
    if (!count)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    *count = simcupti_buffers_take_dropped();
    return CUPTI_OK;
}

static size_t attribute_bytes(unsigned attribute)
{
    return attribute == 5 || attribute == 8 || attribute == ATTRIBUTE_PER_THREAD ? 1
                                                                                 : sizeof(size_t);
}

CUptiResult cuptiActivitySetAttribute(unsigned attribute, size_t *size, void *value)
{
    simcupti_set_up();
    if (!size || !value || attribute >= ATTRIBUTES)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (simcupti_find_driver() < 0)
        return simcupti_result(CUPTI_UNKNOWN);
    if (*size < attribute_bytes(attribute))
        return simcupti_result(CUPTI_SIZE_NOT_SUFFICIENT);
    if (attribute == ATTRIBUTE_PER_THREAD && simcupti_buffers_have_callbacks())
        return simcupti_result(CUPTI_INVALID_OPERATION); /* too late */
    cupti.attributes[attribute] = 0;
    memcpy(&cupti.attributes[attribute], value, attribute_bytes(attribute));
    return CUPTI_OK;
}

CUptiResult cuptiActivityGetAttribute(unsigned attribute, size_t *size, void *value)
{
    simcupti_set_up();
    if (!size || !value || attribute >= ATTRIBUTES)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    if (simcupti_find_driver() < 0)
        return simcupti_result(CUPTI_UNKNOWN);
    if (*size < attribute_bytes(attribute))
        return simcupti_result(CUPTI_SIZE_NOT_SUFFICIENT);
    *size = attribute_bytes(attribute);
    memcpy(value, &cupti.attributes[attribute], *size);
    return CUPTI_OK;
}

static CUptiResult set_filter(uint8_t *filter, uint32_t cbid, uint8_t enable)
{
    CUptiResult rc;

    simcupti_set_up();
    if (cupti.api < 23) /* before 12.5 */
        return simcupti_result(CUPTI_NOT_SUPPORTED);
    if (cbid >= MAX_CBID)
        return simcupti_result(CUPTI_INVALID_PARAMETER);
    pthread_mutex_lock(&cupti.lock);
    rc = simcupti_attach();
    if (rc == CUPTI_OK)
        filter[cbid] = enable != 0;
    pthread_mutex_unlock(&cupti.lock);
    return simcupti_result(rc);
}

CUptiResult cuptiActivityEnableRuntimeApi(uint32_t cbid, uint8_t enable)
{
    return set_filter(cupti.runtime_filter, cbid, enable);
}

CUptiResult cuptiActivityEnableDriverApi(uint32_t cbid, uint8_t enable)
{
    return set_filter(cupti.driver_filter, cbid, enable);
}

CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
    (void)enable;
    return CUPTI_OK;
}

CUptiResult cuptiActivityEnableHWTrace(uint8_t enable)
{
    return simcupti_result(enable ? CUPTI_NOT_SUPPORTED : CUPTI_OK);
}

CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
    (void)enable;
    return CUPTI_OK;
}

CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t enable)
{
    (void)enable;
    return CUPTI_OK;
}

CUptiResult cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
    cupti.timestamp = now;
    return CUPTI_OK;
}

CUptiResult cuptiActivityPushExternalCorrelationId(unsigned kind, uint64_t id)
{
    (void)kind;
    if (simcupti_external_depth == EXTERNAL_DEPTH)
        return simcupti_result(CUPTI_MAX_LIMIT_REACHED);
    simcupti_external_ids[simcupti_external_depth++] = id;
    return CUPTI_OK;
}

CUptiResult cuptiActivityPopExternalCorrelationId(unsigned kind, uint64_t *last)
{
    (void)kind;
    if (simcupti_external_depth == 0)
        return simcupti_result(CUPTI_QUEUE_EMPTY);
    simcupti_external_depth--;
    if (last)
        *last = simcupti_external_ids[simcupti_external_depth];
    return CUPTI_OK;
}

CUptiResult cuptiFinalize(void)
{
    simcupti_set_up();
    pthread_mutex_lock(&cupti.lock);
    simcupti_wipe();
    if (cupti.attached) {
        driver.attach(NULL);
        cupti.attached = 0;
    }
    pthread_mutex_unlock(&cupti.lock);
    return CUPTI_OK;
}
