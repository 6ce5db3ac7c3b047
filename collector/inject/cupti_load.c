/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding libcupti.  Two copies in one process break each other, so the copy
 * that is already mapped comes first, whatever its version; then the one that
 * belongs to the process's own CUDA runtime; then the loader's default; then
 * the toolkit's usual place.
 */
#define _GNU_SOURCE
#include "collector/inject/cupti.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const sonames[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8",
                                      "libcupti.so.11.7", "libcupti.so.11.6", "libcupti.so.11.5",
                                      "libcupti.so.11.4", "libcupti.so.11.3", "libcupti.so.11.2"};
#define SONAMES (sizeof(sonames) / sizeof(sonames[0]))

static void *already_mapped(void)
{
    for (size_t i = 0; i < SONAMES; i++) {
        void *handle = dlopen(sonames[i], RTLD_NOW | RTLD_NOLOAD);

        if (handle) {
            argus_debug("cupti: the process has %s", sonames[i]);
            return handle;
        }
    }
    return NULL;
}

/* Python wheels keep libcudart and libcupti in sibling directories. */
struct runtime_place {
    char directory[PATH_MAX];
    int major;
};

static int runtime_seen(struct dl_phdr_info *info, size_t size, void *data)
{
    struct runtime_place *place = data;
    const char *base = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    size_t n;

    (void)size;
    if (!base || strncmp(base, "/libcudart.so.", 14) != 0)
        return 0;
    n = (size_t)(base - info->dlpi_name);
    if (n >= sizeof(place->directory))
        return 0;
    memcpy(place->directory, info->dlpi_name, n);
    place->directory[n] = '\0';
    place->major = atoi(base + 14);
    return 1;
}

static void *open_in(const char *directory, const char *below, const char *soname)
{
    char path[PATH_MAX];
    void *handle;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s%s", directory, below, soname) >= sizeof(path))
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        argus_debug("cupti: %s", path);
    return handle;
}

static void *beside_runtime(void)
{
    static const char *const below[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/",
                                        "../../../extras/CUPTI/lib64/"};
    struct runtime_place place = {.major = 0};
    void *handle;

    if (!dl_iterate_phdr(runtime_seen, &place))
        return NULL;
    for (size_t i = 0; i < SONAMES; i++) {
        if (atoi(sonames[i] + strlen("libcupti.so.")) != place.major)
            continue;
        for (size_t b = 0; b < sizeof(below) / sizeof(below[0]); b++) {
            handle = open_in(place.directory, below[b], sonames[i]);
            if (handle)
                return handle;
        }
    }
    return NULL;
}

static void *by_search_path(void)
{
    unsigned driver = argus_device_driver_version() / 1000;
    void *handle;

    /* A library newer than the driver would be refused: newest first, but not
     * above the driver's CUDA version. */
    for (size_t i = 0; i < SONAMES; i++) {
        if (driver && (unsigned)atoi(sonames[i] + strlen("libcupti.so.")) > driver)
            continue;
        handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
        if (handle) {
            argus_debug("cupti: %s", sonames[i]);
            return handle;
        }
    }
    return NULL;
}

static void *in_toolkit(void)
{
    const char *prefixes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    static const char *const below[] = {"extras/CUPTI/lib64/", "lib64/", "lib/"};

    for (size_t p = 0; p < sizeof(prefixes) / sizeof(prefixes[0]); p++) {
        for (size_t b = 0; prefixes[p] && b < sizeof(below) / sizeof(below[0]); b++) {
            void *handle = open_in(prefixes[p], below[b], "libcupti.so");

            if (handle)
                return handle;
        }
    }
    return NULL;
}

int argus_cupti_load(struct cupti_calls *calls, enum argus_reason *reason)
{
    const struct {
        const char *name;
        void *slot;
        bool needed;
    } symbols[] = {
        {"cuptiGetVersion", &calls->get_version, true},
        {"cuptiGetTimestamp", &calls->get_timestamp, true},
        {"cuptiActivityRegisterCallbacks", &calls->register_callbacks, true},
        {"cuptiActivityEnable", &calls->enable, true},
        {"cuptiActivityDisable", &calls->disable, true},
        {"cuptiActivityFlushAll", &calls->flush_all, true},
        {"cuptiActivityGetNextRecord", &calls->next_record, true},
        {"cuptiActivityGetNumDroppedRecords", &calls->dropped, false},
        {"cuptiActivitySetAttribute", &calls->set_attribute, true},
        {"cuptiGetStreamIdEx", &calls->stream_id, false},
        {"cuptiActivityEnableRuntimeApi", &calls->enable_runtime_api, false},
        {"cuptiActivityEnableDriverApi", &calls->enable_driver_api, false},
    };
    void *handle = already_mapped();

    memset(calls, 0, sizeof(*calls));
    if (!handle)
        handle = beside_runtime();
    if (!handle)
        handle = by_search_path();
    if (!handle)
        handle = in_toolkit();
    *reason = ARGUS_REASON_NO_LIBRARY;
    if (!handle)
        return -1;
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(handle, symbols[i].name);

        if (!address && symbols[i].needed) {
            argus_debug("cupti: no %s", symbols[i].name);
            *reason = ARGUS_REASON_BAD_VERSION;
            return -1;
        }
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
    return 0;
}
