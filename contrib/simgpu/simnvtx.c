/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "simnvtx.h"

#define MODULE_CORE 1
#define MODULE_CORE2 5
#define EXTENSION_PAYLOAD 2

struct callbacks_table {
    size_t size;
    int (*module_functions)(uint32_t module, void ****table, uint32_t *size);
};
struct extension_segment {
    size_t id, slots;
    intptr_t *functions;
};
struct extension_info {
    uint16_t nvtx_version, struct_size, module, compatible;
    size_t segment_count;
    struct extension_segment *segments;
    intptr_t (*export)(uint32_t id);
    const void *info;
};

struct simnvtx simnvtx;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void **core[NVTX_CORE_SLOTS], **core2[NVTX_CORE2_SLOTS];

static int module_functions(uint32_t module, void ****table, uint32_t *size)
{
    if (module != MODULE_CORE && module != MODULE_CORE2)
        return 0;
    *table = module == MODULE_CORE ? core : core2;
    *size = module == MODULE_CORE ? NVTX_CORE_SLOTS : NVTX_CORE2_SLOTS;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct callbacks_table callbacks = {sizeof(callbacks), module_functions};

    return id == 1 ? &callbacks : NULL;
}

static void open_extension(void *lib)
{
    struct extension_segment segment = {0, NVTX_PAYLOAD_SLOTS, simnvtx.payload};
    struct extension_info info = {3,    sizeof(info), EXTENSION_PAYLOAD, 0x0104, 1, &segment,
                                  NULL, NULL};
    int (*init)(struct extension_info *);

    *(void **)&init = dlsym(lib, "InitializeInjectionNvtxExtension");
    if (init)
        init(&info);
}

static void open_once(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*init)(const void *(*)(uint32_t));
    void *lib;

    for (int i = 1; i < NVTX_CORE_SLOTS; i++) {
        core[i] = &simnvtx.core[i];
        core2[i] = &simnvtx.core2[i];
    }
    if (!path || !*path || !(lib = dlopen(path, RTLD_LAZY)))
        return;
    *(void **)&init = dlsym(lib, "InitializeInjectionNvtx2");
    if (init && init(export_table))
        open_extension(lib);
}

void simnvtx_open(void)
{
    pthread_once(&once, open_once);
}
