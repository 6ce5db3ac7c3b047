/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX the way its header-only client does it: the first call loads the
 * library of NVTX_INJECTION64_PATH, which overwrites the function pointers of
 * the module tables it asks for.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simtrain.h"

#define MODULE_CORE 1
#define MODULE_CORE2 5
#define SLOTS 17
#define PUSH_A 9
#define POP 11

typedef int push_fn(const char *name);
typedef int pop_fn(void);

struct callbacks_table {
    size_t size;
    int (*module_functions)(uint32_t module, void ****table, uint32_t *size);
};

static int no_push(const char *name)
{
    (void)name;
    return 0;
}

static int no_pop(void)
{
    return 0;
}

static push_fn *push = no_push;
static pop_fn *pop = no_pop;
static void *unused[SLOTS];
static void **core[SLOTS + 1], **core2[SLOTS + 1];

static int module_functions(uint32_t module, void ****table, uint32_t *size)
{
    if (module != MODULE_CORE && module != MODULE_CORE2)
        return 0;
    *table = module == MODULE_CORE ? core : core2;
    *size = SLOTS;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct callbacks_table callbacks = {sizeof(callbacks), module_functions};

    return id == 1 ? &callbacks : NULL;
}

void nvtx_open(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*init)(const void *(*)(uint32_t));
    void *lib;

    for (int i = 1; i < SLOTS; i++)
        core[i] = core2[i] = &unused[i];
    core[PUSH_A] = (void **)&push;
    core[POP] = (void **)&pop;
    if (!path || !*path || !(lib = dlopen(path, RTLD_LAZY)))
        return;
    *(void **)&init = dlsym(lib, "InitializeInjectionNvtx2");
    if (init)
        init(export_table);
}

void nvtx_push(const char *name)
{
    push(name);
}

void nvtx_pop(void)
{
    pop();
}
